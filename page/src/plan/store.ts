// The shared plan as it is now: its shape, where it is drawn, and the numbers of its operators, each a signal of its own,
// so that what has not moved is not drawn again.
import { batch, type Signal, signal } from "@preact/signals";
import { get, ServiceError } from "../api/http";
import type { ErrorFields, Plan, PlanEdge, PlanEvent, PlanNode, PlanNumbers } from "../api/types";
import { watchPlan } from "../session";
import { edgeKey, folded } from "./folding";
import { arrange, type Layout } from "./layout";

export interface Drawn {
  /** What is drawn. */
  plan: Plan;
  /** With all operators. */
  whole: Plan;
  layout: Layout;
  inputs: Map<string, string[]>;
  outputs: Map<string, string[]>;
}

export const drawn = signal<Drawn | null>(null);
/** Whether projections are drawn, too. */
export const everything = signal(false);
export const problem = signal<ErrorFields | null>(null);
const numbers = new Map<string, Signal<PlanNumbers>>();
const rates = new Map<string, Signal<number | null>>();

const narrow = matchMedia("(max-width: 700px)");
const PAUSE = 1000; // milliseconds between two readings of the whole plan
let shape = "";
let version: number | null = null; // of the plan that was read last
let reading = false;
let wanted = false;

export function numbersOf(node: PlanNode): Signal<PlanNumbers> {
  let found = numbers.get(node.id);
  if (!found) numbers.set(node.id, (found = signal<PlanNumbers>(node)));
  return found;
}

export function rateOf(edge: PlanEdge): Signal<number | null> {
  const key = edge.rated ?? edgeKey(edge);
  let found = rates.get(key);
  if (!found) rates.set(key, (found = signal<number | null>(edge.rate ?? null)));
  return found;
}

/** Reads the plan, and draws it anew where it is another one. */
export async function readPlan(): Promise<void> {
  if (reading) return void (wanted = true);
  reading = true;
  try {
    do {
      wanted = false;
      await take(await get<Plan>("v1/plan"));
      problem.value = null;
      if (wanted) await new Promise((resolve) => setTimeout(resolve, PAUSE));
    } while (wanted);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    if (error.status !== 0 && error.status !== 401) problem.value = error.fields;
  } finally {
    reading = false;
  }
}

/** Where rows go, it need not be said that they are also waited for. */
function withoutDoubles(plan: Plan): Plan {
  const carrying = new Set(plan.edges.filter((edge) => !edge.awaited).map(edgeKey));
  const edges = plan.edges.filter((edge) => !edge.awaited || !carrying.has(edgeKey(edge)));
  return { ...plan, edges };
}

/** A part of the plan, drawn by itself; its operators have the numbers of the whole. */
export async function drawPart(found: Plan): Promise<Drawn> {
  const whole = withoutDoubles(found);
  const plan = everything.value ? whole : folded(whole);
  return { plan, whole, layout: await arrange(plan, narrow.matches ? "TB" : "LR"), ...neighbours(plan) };
}

async function take(found: Plan): Promise<void> {
  const whole = withoutDoubles(found);
  const plan = everything.value ? whole : folded(whole);
  version = plan.version ?? null;
  const direction = narrow.matches ? "TB" : "LR";
  const now = JSON.stringify([direction, plan.nodes.map(({ id, label }) => [id, label]), plan.edges.map(edgeKey)]);
  if (now !== shape || !drawn.value) {
    const layout = await arrange(plan, direction);
    shape = now;
    batch(() => {
      update(whole);
      drawn.value = { plan, whole, layout, ...neighbours(plan) };
    });
  } else {
    update(whole);
  }
}

function update(plan: Plan): void {
  batch(() => {
    const nodes = new Set(plan.nodes.map(({ id }) => id));
    for (const id of numbers.keys()) if (!nodes.has(id)) numbers.delete(id);
    for (const node of plan.nodes) numbersOf(node).value = { ...node };
    const edges = new Set(plan.edges.map(edgeKey));
    for (const key of rates.keys()) if (!edges.has(key)) rates.delete(key);
    for (const edge of plan.edges) rateOf(edge).value = edge.rate ?? null;
  });
}

function neighbours(plan: Plan): { inputs: Map<string, string[]>; outputs: Map<string, string[]> } {
  const inputs = new Map<string, string[]>();
  const outputs = new Map<string, string[]>();
  for (const { from, to } of plan.edges) {
    inputs.set(to, [...(inputs.get(to) ?? []), from]);
    outputs.set(from, [...(outputs.get(from) ?? []), to]);
  }
  return { inputs, outputs };
}

function moved(event: PlanEvent): void {
  batch(() => {
    for (const [id, changed] of Object.entries(event.nodes ?? {})) {
      const known = numbers.get(id);
      if (known) known.value = { ...known.peek(), ...changed };
    }
    for (const [key, changed] of Object.entries(event.edges ?? {})) {
      const known = rates.get(key);
      if (known && changed.rate !== undefined) known.value = changed.rate;
    }
  });
  if (event.structure || (event.version !== undefined && event.version !== version)) void readPlan();
}

/** Follows the plan while somebody looks at it. */
export function followPlan(): () => void {
  void readPlan();
  const turned = () => void readPlan();
  narrow.addEventListener("change", turned);
  let wasEverything = everything.peek();
  const unfold = everything.subscribe((is) => {
    if (is !== wasEverything) void readPlan();
    wasEverything = is;
  });
  const end = watchPlan(moved);
  return () => {
    end();
    unfold();
    narrow.removeEventListener("change", turned);
  };
}
