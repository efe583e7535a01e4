// The shared plan as a graph: sources on the left, answers on the right.
import { useComputed } from "@preact/signals";
import type { JSX } from "preact";
import { memo } from "../lib/memo";
import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import type { PlanEdge, PlanNode } from "../api/types";
import { bytes, compact, milliseconds, rate } from "../lib/format";
import { Canvas, type Part } from "./canvas";
import { curve, type Direction, HEIGHT, type Layout, type Point, WIDTH } from "./layout";
import { edgeKey } from "./folding";
import { Legend } from "./legend";
import { type Drawn, numbersOf, rateOf } from "./store";

export interface GraphProps {
  drawn: Drawn;
  chosen: string | null;
  /** The operators of a query's path; null where no query is chosen. */
  path: Set<string> | null;
  /** Is it a part that should be in sight as a whole? */
  isPart: boolean;
  choose: (id: string | null) => void;
}

export function Graph({ drawn, chosen, path, isPart, choose }: GraphProps): JSX.Element {
  const { plan, layout } = drawn;
  const [stop, setStop] = useState<string | null>(null); // the operator that Tab leads to
  const here = useRef<SVGGElement>(null);
  const known = layout.nodes;
  const first = stop !== null && known[stop] ? stop : (plan.nodes[0]?.id ?? null);
  const edges = useMemo(() => plan.edges.filter(({ from, to }) => known[from] && known[to]), [plan, layout]);

  const moveTo = (id: string | undefined) => {
    if (!id) return;
    setStop(id);
    here.current?.querySelector<SVGGElement>(`[data-node="${CSS.escape(id)}"]`)?.focus();
  };
  const pressed = (event: KeyboardEvent) => {
    const id = (event.target as Element).closest<SVGGElement>("[data-node]")?.dataset.node;
    if (!id) return;
    const next = neighbour(event.key, id, drawn);
    if (next !== undefined) {
      event.preventDefault();
      moveTo(next ?? undefined);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(id === chosen ? null : id);
    } else if (event.key === "Escape") choose(null);
  };
  const clicked = useCallback(
    (event: MouseEvent) => {
      const id = (event.target as Element).closest<SVGGElement>("[data-node]")?.dataset.node ?? null;
      if (id) setStop(id);
      choose(id);
    },
    [choose],
  );
  return (
    <Canvas width={layout.width} height={layout.height} label="Shared plan" part={extent(isPart ? new Set(Object.keys(known)) : path, layout)} legend={<Legend />}>
      <g ref={here} class={path ? "has-path" : ""} onKeyDown={pressed} onClick={clicked}>
        {edges.map((edge, index) => (
          <Edge
            key={edgeKey(edge)}
            edge={edge}
            points={layout.edges[index]!}
            direction={layout.direction}
            isAlone={drawn.inputs.get(edge.to)?.length === 1}
            lit={path !== null && path.has(edge.from) && path.has(edge.to)}
          />
        ))}
        {plan.nodes.map((node) => (
          <Operator
            key={node.id}
            node={node}
            at={known[node.id]!}
            chosen={node.id === chosen}
            lit={path !== null && path.has(node.id)}
            isStop={node.id === first}
          />
        ))}
      </g>
    </Canvas>
  );
}

/** Where the operators of a path lie. */
function extent(path: Set<string> | null, layout: Layout): Part | null {
  const points = [...(path ?? [])].flatMap((id) => layout.nodes[id] ?? []);
  if (!points.length) return null;
  const left = Math.min(...points.map(({ x }) => x));
  const top = Math.min(...points.map(({ y }) => y));
  const width = Math.max(...points.map(({ x }) => x)) + WIDTH - left;
  const height = Math.max(...points.map(({ y }) => y)) + HEIGHT - top;
  return { left, top, width, height };
}

/** The operator that an arrow key leads to; undefined for other keys. */
function neighbour(key: string, id: string, { plan, layout, inputs, outputs }: Drawn): string | null | undefined {
  if (key === "ArrowLeft") return inputs.get(id)?.[0] ?? null;
  if (key === "ArrowRight") return outputs.get(id)?.[0] ?? null;
  if (key === "Home") return plan.nodes[0]?.id ?? null;
  if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
  const from = layout.nodes[id]!;
  const sign = key === "ArrowDown" ? 1 : -1;
  let best: string | null = null;
  let least = Infinity;
  for (const [other, at] of Object.entries(layout.nodes)) {
    const along = (at.y - from.y) * sign;
    if (along <= 0) continue;
    const far = along + 3 * Math.abs(at.x - from.x);
    if (far < least) (least = far), (best = other);
  }
  return best;
}

interface EdgeProps {
  edge: PlanEdge;
  points: Point[];
  direction: Direction;
  /** Is it the only one of the operator that it leads to? */
  isAlone: boolean;
  lit: boolean;
}

const Edge = memo(function Edge({ edge, points, direction, isAlone, lit }: EdgeProps): JSX.Element {
  const speed = rateOf(edge);
  const flow = useComputed(() => (speed.value ? Math.max(0, Math.min(5, Math.floor(Math.log10(speed.value)) + 1)) : 0));
  const text = useComputed(() => (speed.value ? rate(speed.value) : ""));
  const said = labelPlace(points, direction, isAlone);
  const pattern = (edge.pattern ?? "").toLowerCase();
  return (
    <g class={`edge flow-${flow.value} pattern-${pattern || "none"}${edge.awaited ? " awaited" : ""}${lit ? " lit" : ""}`} aria-hidden="true">
      <path d={curve(points, direction)} />
      <text x={said.x} y={said.y} text-anchor={direction === "LR" && isAlone ? "end" : "middle"}>
        {text}
      </text>
      {edge.pattern ? <title>{`${edge.pattern}: ${PATTERNS[edge.pattern] ?? ""}`}</title> : null}
    </g>
  );
});

/** In front of the operator that the rows go to: where edges leave, they lie too close to one another. Where several
 * arrive, on the way there. */
function labelPlace(points: readonly Point[], direction: Direction, isAlone: boolean): Point {
  const end = points.at(-1)!;
  if (!isAlone) {
    const from = points.length === 3 ? points[0]! : points.at(-2)!;
    return { x: (from.x + end.x) / 2, y: (from.y + end.y) / 2 - 4 };
  }
  return direction === "LR" ? { x: end.x - 7, y: end.y - 5 } : { x: end.x, y: end.y - 9 };
}

export const PATTERNS: Record<string, string> = {
  MONOTONIC: "rows come and never leave",
  WEAKEST: "rows leave in the order they came",
  WEAK: "rows leave at an instant known when they come",
  STRICT: "rows may leave at any time",
};

const HEATS = [0, 0.03, 0.08, 0.16, 0.3]; // of all time: how hot an operator looks

interface OperatorProps {
  node: PlanNode;
  at: Point;
  chosen: boolean;
  lit: boolean;
  isStop: boolean;
}

const Operator = memo(function Operator({ node, at, chosen, lit, isStop }: OperatorProps): JSX.Element {
  const numbers = numbersOf(node);
  const line = useComputed(() => {
    const { rate: speed, ms, state_bytes: size } = numbers.value;
    const parts = [
      speed ? rate(speed) : null,
      ms ? milliseconds(ms) : null,
      size ? bytes(size) : null,
    ].filter((each) => each !== null);
    return parts.join("  ·  ");
  });
  const heat = useComputed(() => HEATS.findLastIndex((least) => (numbers.value.share ?? 0) >= least));
  const bar = useComputed(() => Math.round((numbers.value.share ?? 0) * (WIDTH - 18)));
  const shared = useComputed(() => numbers.value.queries ?? 0);
  const shownLabel = clipped(withoutKind(node), WIDTH - 30);
  const users = useComputed(() => (shared.value > 1 ? `${compact(shared.value)} queries` : ""));
  return (
    <g
      class={`node kind-${kindClass(node.kind)}${node.state === "failed" ? " failed" : ""} heat-${heat.value}${chosen ? " chosen" : ""}${lit ? " lit" : ""}`}
      transform={`translate(${at.x} ${at.y})`}
      data-node={node.id}
      role="button"
      tabindex={isStop ? 0 : -1}
      aria-pressed={chosen}
    >
      <title>{`${node.kind}: ${node.label}`}</title>
      <rect class="body" width={WIDTH} height={HEIGHT} rx="9" />
      <rect class="strip" width="4" height={HEIGHT - 18} x="7" y="9" rx="2" />
      <text class="kind" x="19" y="19">
        {node.kind}
      </text>
      <text class="label" x="19" y="36">
        {shownLabel}
      </text>
      <text class="numbers" x="19" y="52">
        {line}
      </text>
      <text class="shared" x={WIDTH - 11} y="19" text-anchor="end">
        {users}
      </text>
      <rect class="heat" x="9" y={HEIGHT - 4} height="3" width={bar} rx="1.5" />
    </g>
  );
});

/** The kind stands above the label already. */
function withoutKind({ kind, label }: PlanNode): string {
  const short = label.toLowerCase().startsWith(`${kind} `) ? label.slice(kind.length + 1) : label;
  return short
    .replace(/^\((.*)\)$/, "$1")
    .replace(/^key (.+) computing (.+)$/, "$2 by $1")
    .replace(/^computing /, "")
    .replace(/ HALF OPEN\]/, "]"); // the panel has all of it
}

const ruler = document.createElement("canvas").getContext("2d");

/** As much of a label as has room. */
function clipped(text: string, width: number): string {
  if (!ruler) return text;
  ruler.font = "600 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Roboto, sans-serif"; // that of .node .label
  if (ruler.measureText(text).width <= width) return text;
  let length = text.length - 1;
  while (length > 1 && ruler.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length).trimEnd()}…`;
}

const FAMILIES: Record<string, string> = { stem: "join", distinct: "set", order: "set", selection: "filter", eddy: "filter", matches: "filter", table: "source" };

export function kindClass(kind: string): string {
  const plain = kind.toLowerCase().replace(/[^a-z]+/g, "-");
  return FAMILIES[plain] ?? plain;
}
