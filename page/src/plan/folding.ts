// A plan without its projections, which say little: edges lead past them. One that takes much of the time stays.
import type { Plan, PlanEdge } from "../api/types";

const HOT = 0.05; // of the time

export function edgeKey(edge: { from: string; to: string }): string {
  return `${edge.from}>${edge.to}`;
}

/** The projections that can be left out: rows come to them by one edge, and go on. */
function foldable(plan: Plan): Map<string, PlanEdge> {
  const inputs = new Map<string, PlanEdge[]>();
  for (const edge of plan.edges) inputs.set(edge.to, [...(inputs.get(edge.to) ?? []), edge]);
  const going = new Set(plan.edges.filter((edge) => !edge.awaited).map((edge) => edge.from));
  const found = new Map<string, PlanEdge>();
  for (const { id, kind, share, state } of plan.nodes) {
    const [input, ...more] = inputs.get(id) ?? [];
    if (kind === "project" && input && !more.length && !input.awaited && going.has(id) && (share ?? 0) < HOT && state !== "failed")
      found.set(id, input);
  }
  return found;
}

export function folded(plan: Plan): Plan {
  const left = foldable(plan);
  if (!left.size) return plan;
  const edges = new Map<string, PlanEdge>();
  for (const edge of plan.edges) {
    if (left.has(edge.to)) continue;
    let { from } = edge;
    for (let input = left.get(from); input; input = left.get(from)) from = input.from;
    const past = { ...edge, from, rated: edgeKey(edge) };
    if (!edges.has(edgeKey(past)) || !past.awaited) edges.set(edgeKey(past), past);
  }
  return { ...plan, nodes: plan.nodes.filter(({ id }) => !left.has(id)), edges: [...edges.values()] };
}
