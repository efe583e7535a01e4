// Layers of the plan, worked out beside the page so that nothing stutters meanwhile.
import { graphlib, layout } from "@dagrejs/dagre";
import type { Layout, LayoutTask } from "./layout";

self.onmessage = ({ data }: MessageEvent<LayoutTask>) => {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: data.direction, nodesep: 16, ranksep: 50, edgesep: 10, marginx: 24, marginy: 24 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of data.nodes) graph.setNode(node.id, { width: node.width, height: node.height });
  data.edges.forEach(({ from, to }, index) => graph.setEdge(from, to, {}, String(index)));
  layout(graph);
  const found: Layout = { width: 0, height: 0, nodes: {}, edges: [] };
  const size = graph.graph() as { width?: number; height?: number };
  found.width = Math.ceil(size.width ?? 0);
  found.height = Math.ceil(size.height ?? 0);
  for (const node of data.nodes) {
    const placed = graph.node(node.id) as { x: number; y: number };
    found.nodes[node.id] = { x: Math.round(placed.x - node.width / 2), y: Math.round(placed.y - node.height / 2) };
  }
  data.edges.forEach(({ from, to }, index) => {
    const edge = graph.edge(from, to, String(index)) as { points: { x: number; y: number }[] };
    found.edges.push(edge.points);
  });
  self.postMessage(found);
};
