// Layers of the plan, worked out beside the page so that nothing stutters meanwhile.
import { graphlib, layout } from "@dagrejs/dagre";
import type { Layout, LayoutTask } from "./layout";

self.onmessage = ({ data }: MessageEvent<LayoutTask>) => {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: data.direction, nodesep: 18, ranksep: data.direction === "LR" ? 58 : 44, edgesep: 12, marginx: 24, marginy: 24 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of data.nodes) graph.setNode(node.id, { width: node.width, height: node.height });
  data.edges.forEach(({ from, to }, index) => graph.setEdge(from, to, {}, String(index)));
  layout(graph);
  const found: Layout = { direction: data.direction, width: 0, height: 0, nodes: {}, edges: [] };
  const size = graph.graph() as { width?: number; height?: number };
  found.width = Math.ceil(size.width ?? 0);
  found.height = Math.ceil(size.height ?? 0);
  for (const node of data.nodes) {
    const placed = graph.node(node.id) as { x: number; y: number };
    found.nodes[node.id] = { x: Math.round(placed.x - node.width / 2), y: Math.round(placed.y - node.height / 2) };
  }
  /** Where edges leave an operator or arrive at it: in the middle of a side. */
  const port = (id: string, leaves: boolean) => {
    const { x, y, width, height } = graph.node(id) as { x: number; y: number; width: number; height: number };
    const sign = leaves ? 1 : -1;
    return data.direction === "LR" ? { x: x + (sign * width) / 2, y } : { x, y: y + (sign * height) / 2 };
  };
  data.edges.forEach(({ from, to }, index) => {
    const edge = graph.edge(from, to, String(index)) as { points: { x: number; y: number }[] };
    found.edges.push([port(from, true), ...edge.points.slice(1, -1), port(to, false)]);
  });
  self.postMessage(found);
};
