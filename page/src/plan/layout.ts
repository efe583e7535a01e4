// Where the operators of a plan are drawn.
import type { Plan } from "../api/types";

export const WIDTH = 188;
export const HEIGHT = 56;

export interface Point {
  x: number;
  y: number;
}

export interface LayoutTask {
  direction: "LR" | "TB";
  nodes: { id: string; width: number; height: number }[];
  edges: { from: string; to: string }[];
}

export interface Layout {
  width: number;
  height: number;
  nodes: Record<string, Point>;
  edges: Point[][];
}

let worker: Worker | null = null;
let last: Promise<unknown> = Promise.resolve();

/** The places of all operators; one layout after the other. */
export function arrange(plan: Plan, direction: "LR" | "TB"): Promise<Layout> {
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

/** A smooth line through the points of an edge. */
export function curve(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${round(first.x)} ${round(first.y)}`;
  for (let index = 0; index < rest.length - 1; index++) {
    const here = rest[index]!;
    const next = rest[index + 1]!;
    const end = index === rest.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += `Q${round(here.x)} ${round(here.y)} ${round(end.x)} ${round(end.y)}`;
  }
  if (rest.length === 1) path += `L${round(rest[0]!.x)} ${round(rest[0]!.y)}`;
  return path;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
