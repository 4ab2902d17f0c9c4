// Where agents are drawn unless somebody put them elsewhere: those that are connected from left to right, and groups that
// have nothing to do with each other side by side, so that the whole has about the form of a screen.
import dagre from "@dagrejs/dagre";
import type { Edge, Run } from "../api/client";

export type Place = { x: number; y: number };
export type Places = Record<string, Place>;
type Group = { ids: string[]; edges: Edge[] };
type Box = { places: Places; width: number; height: number };

const WIDTH = 240;
const HEIGHT = 118;
const GAP = 40;
/** How much wider than high a screen is. */
const FORM = 1.6;

/** The agents that are connected with each other, over however many edges. */
function groups(run: Run): Group[] {
  const root = new Map(Object.keys(run.nodes).map((id) => [id, id]));
  const find = (id: string): string => {
    let at = id;
    while (root.get(at) !== at) at = root.get(at)!;
    root.set(id, at);
    return at;
  };
  const edges = Object.values(run.edges).filter((it) => root.has(it.from) && root.has(it.to));
  edges.forEach((it) => root.set(find(it.from), find(it.to)));
  const found = new Map<string, Group>();
  for (const id of root.keys()) {
    const at = find(id);
    const group = found.get(at) ?? { ids: [], edges: [] };
    found.set(at, group);
    group.ids.push(id);
  }
  edges.forEach((it) => found.get(find(it.from))!.edges.push(it));
  return [...found.values()];
}

function layered({ ids, edges }: Group): Box {
  if (ids.length === 1) return { places: { [ids[0]!]: { x: 0, y: 0 } }, width: WIDTH, height: HEIGHT };
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 36, ranksep: 90 });
  graph.setDefaultEdgeLabel(() => ({}));
  ids.forEach((id) => graph.setNode(id, { width: WIDTH, height: HEIGHT }));
  edges.forEach((edge) => graph.setEdge(edge.from, edge.to));
  dagre.layout(graph);
  const { width = WIDTH, height = HEIGHT } = graph.graph() as { width?: number; height?: number };
  const place = (id: string) => { const at = graph.node(id) as Place; return { x: at.x - WIDTH / 2, y: at.y - HEIGHT / 2 }; };
  return { places: Object.fromEntries(ids.map((id) => [id, place(id)])), width, height };
}

export function arrange(run: Run): Places {
  const boxes = groups(run).map(layered);
  const area = boxes.reduce((sum, box) => sum + (box.width + GAP) * (box.height + GAP), 0);
  // A few groups are below each other, as they are read; many are in rows.
  const across = boxes.length > 3 ? Math.max(Math.sqrt(area * FORM), ...boxes.map((box) => box.width)) : 0;
  const places: Places = {};
  let [x, y, high] = [0, 0, 0];
  for (const box of boxes) {
    if (x > 0 && x + box.width > across) [x, y, high] = [0, y + high + GAP, 0];
    for (const [id, at] of Object.entries(box.places)) places[id] = { x: x + at.x, y: y + at.y };
    x += box.width + GAP;
    high = Math.max(high, box.height);
  }
  return places;
}
