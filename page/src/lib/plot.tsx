// Plots by uPlot, in the colours of the page.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { isDark } from "../session";
import { compact } from "./format";

export type PlotKind = "line" | "bar" | "scatter";
export type Values = (number | null)[];

export interface PlotProps {
  label: string;
  kind: PlotKind;
  times: number[];
  isTime: boolean;
  series: { name: string; values: Values }[];
  height?: number;
  /** Values hold until the next one. */
  steps?: boolean;
  range?: [number, number];
  legend?: boolean;
  /** Instants of data are in UTC, as everywhere; what happens now is told in the time of who looks. */
  utc?: boolean;
}

/** Colours that are told apart also by those who see few of them, light and dark. */
export const COLOURS = {
  light: ["#1f6f9f", "#c2571a", "#2f7d4f", "#8a4fa8", "#9a7b0a", "#b23a5a", "#3b5bb5", "#5d6b76", "#0e8a8a", "#7a4b2a"],
  dark: ["#6cb6e6", "#f0955a", "#6fc58f", "#c79be0", "#e0c04a", "#ef8aa6", "#93a9f0", "#aab6c0", "#5fd0d0", "#d0a27c"],
};

const LONG = 40; // characters of a series' name

export function colour(index: number): string {
  const all = isDark.value ? COLOURS.dark : COLOURS.light;
  return all[index % all.length]!;
}

function styled(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function Plot(props: PlotProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = isDark.value;
  const shape = JSON.stringify([props.kind, props.isTime, props.steps, props.series.map(({ name }) => name), dark, props.height, props.range]);
  const data = [props.times, ...props.series.map(({ values }) => values)] as uPlot.AlignedData;
  useEffect(() => {
    const place = box.current!;
    const made = new uPlot(options(props, place.clientWidth), data, place);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: props.height ?? 300 }));
    watch.observe(place);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [props.times, props.series]);
  return <div class="plot" ref={box} role="img" aria-label={props.label} />;
}

function options({ kind, isTime, series, height = 300, steps, range, legend = true, utc = false }: PlotProps, width: number): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: styled("--muted"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: styled("--line"), width: 1 },
    ticks: { stroke: styled("--line"), width: 1 },
  };
  return {
    width,
    height,
    ms: 1,
    ...(utc ? { tzDate: (time: number) => uPlot.tzDate(new Date(time), "Etc/UTC") } : {}),
    legend: { show: legend && series.length > 1, live: true },
    cursor: { drag: { x: true, y: false }, points: { size: 7 } },
    scales: { x: { time: isTime }, y: range ? { range } : {} },
    axes: [isTime ? { ...axis, values: (_, splits, __, ___, step) => splits.map((time) => clock(time, step, utc)) } : axis, { ...axis, size: 58, values: (_, all) => all.map((value) => compact(value)) }],
    series: [{ label: isTime ? "time" : "instant", value: isTime ? "{HH}:{mm}:{ss}" : (_, value) => (value === null ? "" : String(value)) }, ...series.map(({ name }, index) => drawnSeries(kind, name, index, steps))],
  };
}

/** As much of an instant as the marks of an axis differ in. */
function clock(time: number, step: number, utc: boolean): string {
  const date = new Date(utc ? time : time - new Date(time).getTimezoneOffset() * 60_000);
  const [day, hours] = date.toISOString().split("T") as [string, string];
  if (step >= 86_400_000) return day;
  return hours.slice(0, step >= 60_000 ? 5 : step >= 1000 ? 8 : 12);
}

function drawnSeries(kind: PlotKind, name: string, index: number, steps = false): uPlot.Series {
  const label = name.length > LONG ? `${name.slice(0, LONG)}…` : name;
  return { label, value: (_, value) => (value === null || value === undefined ? "" : compact(value)), ...drawing(kind, index, steps) };
}

function drawing(kind: PlotKind, index: number, steps: boolean): Partial<uPlot.Series> {
  const stroke = colour(index);
  if (kind === "scatter") return { stroke, paths: () => null, points: { show: true, size: 5, fill: stroke } };
  if (kind === "bar") return { stroke, fill: `${stroke}99`, paths: uPlot.paths.bars!({ size: [0.8, 40] }), points: { show: false } };
  const paths = steps ? uPlot.paths.stepped!({ align: 1 }) : uPlot.paths.linear!();
  return { stroke, width: 1.75, paths, points: { show: false }, spanGaps: false };
}
