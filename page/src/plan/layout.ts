// Where the operators of a plan are drawn.
import type { Plan } from "../api/types";

export const WIDTH = 194;
export const HEIGHT = 62;

export type Direction = "LR" | "TB";

export interface Point {
  x: number;
  y: number;
}

export interface LayoutTask {
  direction: Direction;
  nodes: { id: string; width: number; height: number }[];
  edges: { from: string; to: string }[];
}

export interface Layout {
  direction: Direction;
  width: number;
  height: number;
  nodes: Record<string, Point>;
  edges: Point[][];
}

let worker: Worker | null = null;
let last: Promise<unknown> = Promise.resolve();

/** The places of all operators; one layout after the other. */
export function arrange(plan: Plan, direction: Direction): Promise<Layout> {
  const known = new Set(plan.nodes.map((node) => node.id));
  const task: LayoutTask = {
    direction,
    nodes: plan.nodes.map(({ id }) => ({ id, width: WIDTH, height: HEIGHT })),
    edges: plan.edges.filter(({ from, to }) => known.has(from) && known.has(to)).map(({ from, to }) => ({ from, to })),
  };
  const done = last.then(() => asked(task));
  last = done.catch(() => undefined);
  return done;
}

function asked(task: LayoutTask): Promise<Layout> {
  worker ??= new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module", name: "layout" });
  const working = worker;
  return new Promise((resolve, reject) => {
    working.onmessage = ({ data }: MessageEvent<Layout>) => resolve(data);
    working.onerror = (event) => reject(new Error(event.message));
    working.postMessage(task);
  });
}

/** A smooth line through the points of an edge, which leaves and arrives along the direction of the plan. */
export function curve(points: readonly Point[], direction: Direction): string {
  const [first, ...rest] = points.length === 3 ? [points[0]!, points[2]!] : points; // to the next layer in one sweep
  if (!first) return "";
  let path = `M${round(first.x)} ${round(first.y)}`;
  let from = first;
  for (const to of rest) {
    const middle = direction === "LR" ? round((from.x + to.x) / 2) : round((from.y + to.y) / 2);
    const [one, other] = direction === "LR" ? [`${middle} ${round(from.y)}`, `${middle} ${round(to.y)}`] : [`${round(from.x)} ${middle}`, `${round(to.x)} ${middle}`];
    path += `C${one} ${other} ${round(to.x)} ${round(to.y)}`;
    from = to;
  }
  return path;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
