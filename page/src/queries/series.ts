// From the changes of an answer to what a plot shows: values of a column over time.
import type { Row, Value } from "../api/types";
import { shown } from "../lib/format";
import { numberOf } from "../lib/time";
import type { PlotKind, Values } from "../lib/plot";

export type Measure = "sum" | "avg" | "min" | "max" | "count";
export const MEASURES: readonly Measure[] = ["avg", "sum", "min", "max", "count"];

export interface Wanted {
  column: string; // "" counts rows
  by: string; // a column whose values are lines of their own, or ""
  measure: Measure;
  kind: PlotKind;
  isStream: boolean;
}

export interface Plotted {
  times: number[];
  series: { name: string; values: Values }[];
  left: number; // how many series are not shown
}

export const MOST_SERIES = 10;

/** The rows that hold for a series: values and how many there are of each. */
class Held {
  private readonly copies = new Map<number, number>();
  rows = 0;
  sum = 0;

  add(value: number, weight: number): void {
    this.rows += weight;
    this.sum += value * weight;
    const copies = (this.copies.get(value) ?? 0) + weight;
    if (copies) this.copies.set(value, copies);
    else this.copies.delete(value);
  }

  measured(measure: Measure): number | null {
    if (measure === "count") return this.rows;
    if (this.rows <= 0) return null;
    if (measure === "sum") return this.sum;
    if (measure === "avg") return this.sum / this.rows;
    const values = [...this.copies.keys()];
    return measure === "min" ? Math.min(...values) : Math.max(...values);
  }
}

/** The changes must be all there are since the answer was empty, or begin with the rows that held. */
export function plotted(changes: readonly Row[], wanted: Wanted): Plotted {
  const names = chosen(changes, wanted.by);
  const index = new Map(names.shown.map((name, at) => [name, at]));
  return wanted.kind === "scatter" ? points(changes, wanted, index, names.left) : lines(changes, wanted, index, names.left);
}

/** The series with the most changes. */
function chosen(changes: readonly Row[], by: string): { shown: string[]; left: number } {
  const sizes = new Map<string, number>();
  for (const row of changes) {
    const name = by ? shown(row[by]) : "";
    sizes.set(name, (sizes.get(name) ?? 0) + 1);
  }
  const all = [...sizes].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return { shown: all.slice(0, MOST_SERIES).sort(), left: Math.max(0, all.length - MOST_SERIES) };
}

function valueOf(row: Row, column: string): number | null {
  if (!column) return 0;
  const value: Value = row[column] ?? null;
  if (value === null || typeof value === "boolean") return null;
  const number = Number(value);
  return Number.isFinite(number) ? number : null;
}

function lines(changes: readonly Row[], wanted: Wanted, index: Map<string, number>, left: number): Plotted {
  const series = [...index.keys()].map((name) => ({ name: name || wanted.column || "rows", values: [] as Values }));
  let held = series.map(() => new Held());
  const measure = wanted.column ? wanted.measure : "count";
  const times: number[] = [];
  const close = () => {
    held.forEach((each, at) => series[at]!.values.push(each.measured(measure)));
    if (wanted.isStream) held = series.map(() => new Held()); // an element holds for its instant only
  };
  for (const row of changes) {
    const time = numberOf(row._ts as number | string);
    if (times.length && time !== times.at(-1)) close();
    if (time !== times.at(-1)) times.push(time);
    const at = index.get(wanted.by ? shown(row[wanted.by]) : "");
    const value = valueOf(row, wanted.column);
    if (at !== undefined && value !== null) held[at]!.add(value, Number(row._weight));
  }
  if (times.length) close();
  return { times, series, left };
}

/** Every row that comes is a point; rows of one instant are further points at it. */
function points(changes: readonly Row[], wanted: Wanted, index: Map<string, number>, left: number): Plotted {
  const series = [...index.keys()].map((name) => ({ name: name || wanted.column || "rows", values: [] as Values }));
  const times: number[] = [];
  for (const row of changes) {
    const at = index.get(wanted.by ? shown(row[wanted.by]) : "");
    const value = valueOf(row, wanted.column);
    if (at === undefined || value === null || Number(row._weight) <= 0) continue;
    times.push(numberOf(row._ts as number | string));
    series.forEach((each, other) => each.values.push(other === at ? value : null));
  }
  return { times, series, left };
}
