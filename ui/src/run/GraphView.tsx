// The graph: every agent of a run with its state and gates, edges with what was last handed over them. Agents are laid
// out from left to right; where somebody drags one, it stays, for everybody who looks. Everything that is done with the mouse can
// be done with keys: agents are buttons in reading order, and the inspector connects and removes them.
import "@xyflow/react/dist/style.css";
import dagre from "@dagrejs/dagre";
import { Background, Controls, Handle, MarkerType, MiniMap, Position, ReactFlow, ReactFlowProvider, useReactFlow, type Connection, type Edge as FlowEdge, type Node as FlowNode, type NodeChange, type NodeProps, type Viewport } from "@xyflow/react";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, Refused, type Change, type Edge, type Node, type Run, type StreamEvent } from "../api/client";
import { useTurns } from "../api/hooks";
import { plain } from "../api/words";
import type { Selection } from "../pages/RunPage";
import { isTyping } from "../parts/Shell";
import { Empty, Problem } from "../parts/small";
import { text } from "../text";
import { AddAgent } from "./AddAgent";
import { changesByNode, NodeCard, sharesByNode, type Share } from "./NodeCard";

type Place = { x: number; y: number };
type Places = Record<string, Place>;
type Card = FlowNode<{ node: Node; change: Change | undefined; draft: string | undefined; share: Share | undefined }, "agent">;

const ORIGIN: Place = { x: 0, y: 0 };
const WIDTH = 240;
const HEIGHT = 118;

/** Where agents are, unless somebody put them elsewhere. */
function arrange(run: Run): Places {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 36, ranksep: 90 });
  graph.setDefaultEdgeLabel(() => ({}));
  const ids = Object.keys(run.nodes);
  ids.forEach((id) => graph.setNode(id, { width: WIDTH, height: HEIGHT }));
  Object.values(run.edges).forEach((edge) => run.nodes[edge.from] && run.nodes[edge.to] && graph.setEdge(edge.from, edge.to));
  dagre.layout(graph);
  const places: Places = {};
  ids.forEach((id) => {
    const at = graph.node(id) as Place;
    places[id] = { x: at.x - WIDTH / 2, y: at.y - HEIGHT / 2 };
  });
  // Without an edge all of them are in one column, which is no use for many.
  if (Object.keys(run.edges).length === 0 && ids.length > 3) {
    const across = Math.ceil(Math.sqrt(ids.length * 1.5));
    ids.forEach((id, at) => (places[id] = { x: (at % across) * (WIDTH + 40), y: Math.floor(at / across) * (HEIGHT + 36) }));
  }
  return places;
}

const AgentNode = memo(function AgentNode({ data, selected }: NodeProps<Card>) {
  return (
    <>
      <Handle type="target" position={Position.Left} className="!size-3 !border-2 !border-panel !bg-accent" />
      <NodeCard node={data.node} change={data.change} draft={data.draft} share={data.share} selected={selected} />
      <Handle type="source" position={Position.Right} className="!size-3 !border-2 !border-panel !bg-accent" />
    </>
  );
});
const TYPES = { agent: AgentNode };
const ARROW = { type: MarkerType.ArrowClosed, color: "var(--dim)" } as const;
const EDGE_TEXT = { fill: "var(--ink)", fontSize: 11 };
const EDGE_GROUND = { fill: "var(--panel)" };

type Moved = { afresh?: boolean; positions?: Places; viewport?: Viewport };
/** How long moves are gathered before they are kept. */
const GATHER_MS = 400;

/** Keeps where things are, a moment after they were moved last. Whoever may only look moves them for themselves. */
function useKeeping(id: string, fail: (why: unknown) => void): (moved: Moved) => void {
  const waiting = useRef<Moved>({});
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  return useCallback((moved: Moved) => {
    const { positions, ...rest } = waiting.current;
    waiting.current = { ...rest, ...moved, positions: moved.afresh ? {} : { ...positions, ...moved.positions } };
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      const layout = waiting.current;
      waiting.current = {};
      api.patchRun(id, { layout }).catch((why) => { if (!(why instanceof Refused && why.status === 403)) fail(why); });
    }, GATHER_MS);
  }, [id]);
}

type Props = { run: Run; told: readonly StreamEvent[]; drafts: Readonly<Record<string, string>>; changes: readonly Change[]; selection: Selection; select: (it: Selection) => void; editable: boolean };

export default function GraphView(props: Props) {
  return <ReactFlowProvider><Canvas {...props} /></ReactFlowProvider>;
}

function Canvas({ run, told, drafts, changes, selection, select, editable }: Props) {
  const flow = useReactFlow();
  const [moved, setMoved] = useState<Places>(() => run.layout?.positions ?? {});
  const [adding, setAdding] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const keep = useKeeping(run.slug, setProblem);
  const shape = `${Object.keys(run.nodes).sort().join()}|${Object.values(run.edges).map((it) => it.from + it.to).sort().join()}`;
  const places = useMemo(() => arrange(run), [shape]);
  const made = useMemo(() => changesByNode(run, changes), [run.artifacts, changes]);
  const { data: turns } = useTurns(run.slug, String(Object.keys(run.artifacts).length));
  const shares = useMemo(() => sharesByNode(turns?.turns ?? []), [turns]);
  const cards = useRef(new Map<string, Card>());
  const nodes = useMemo<Card[]>(() => Object.values(run.nodes).map((node) => {
    const data = { node, change: made.get(node.id), draft: drafts[node.id], share: shares.get(node.id) };
    const position = moved[node.id] ?? places[node.id] ?? ORIGIN;
    const selected = selection?.id === node.id;
    // A card that has not changed stays the same object, so that it is not drawn again: there may be hundreds.
    const before = cards.current.get(node.id);
    if (before && before.selected === selected && before.position === position && before.data.node === node && before.data.change === data.change && before.data.draft === data.draft && before.data.share?.tokens === data.share?.tokens && before.data.share?.allTokens === data.share?.allTokens) return before;
    const card: Card = { id: node.id, type: "agent", position, selected, data, ariaLabel: plain(`${node.label}, ${node.roleTemplate}, ${node.status}`) };
    cards.current.set(node.id, card);
    return card;
  }), [run.nodes, places, moved, selection, made, drafts, shares]);
  const recent = useMemo(() => new Set(told.slice(-40).flatMap((event) => (event.type === "handoff.sent" ? [`${event.envelope.fromNodeId} ${event.envelope.toNodeId}`] : []))), [told]);
  const drawn = useRef(new Map<string, { of: Edge; words: string; edge: FlowEdge }>());
  const edges = useMemo<FlowEdge[]>(() => Object.values(run.edges).map((of) => {
    const selected = selection?.id === of.id;
    const animated = run.nodes[of.to]?.status === "running" && recent.has(`${of.from} ${of.to}`);
    const label = plain(`${run.nodes[of.from]?.label} to ${run.nodes[of.to]?.label}, ${of.type}`);
    // Like cards: one that has not changed is not drawn again.
    const before = drawn.current.get(of.id);
    const words = `${selected} ${animated} ${label}`;
    if (before && before.of === of && before.words === words) return before.edge;
    const edge: FlowEdge = {
      id: of.id, source: of.from, target: of.to, label: plain(of.label), selected, animated, ariaLabel: label,
      markerEnd: ARROW, ...(of.bidirectional ? { markerStart: ARROW } : {}),
      style: { stroke: selected ? "var(--accent)" : "var(--dim)", strokeDasharray: of.type === "report" ? "5 4" : undefined }, labelStyle: EDGE_TEXT, labelBgStyle: EDGE_GROUND,
    };
    drawn.current.set(of.id, { of, words, edge });
    return edge;
  }), [run.edges, run.nodes, selection, recent]);
  const afresh = () => {
    setMoved({});
    keep({ afresh: true });
  };
  const move = useCallback((all: NodeChange<Card>[]) => {
    const next = { ...moved };
    let isMoved = false;
    for (const change of all) if (change.type === "position" && change.position) { next[change.id] = change.position; isMoved = true; }
    if (isMoved) setMoved(next);
  }, [moved]);
  const drop = (_: unknown, __: unknown, all: Card[]) => keep({ positions: Object.fromEntries(all.map((it) => [it.id, it.position])) });
  const seen = (event: unknown, { x, y, zoom }: Viewport) => { if (event) keep({ viewport: { x, y, zoom } }); };
  const first = useRef(run.layout?.viewport);
  const attempt = (doing: Promise<unknown>) => void doing.then(() => setProblem(null), setProblem);
  const connect = ({ source, target }: Connection) => source && target && attempt(api.setEdge(run.slug, { from: source, to: target }));
  useEffect(() => {
    // What somebody looked at last is where the next one begins, until there is more to see.
    if (first.current) void flow.setViewport(first.current);
    else void flow.fitView({ padding: 0.15, maxZoom: 1 });
    first.current = undefined;
  }, [shape]);
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.key === "Escape") return select(null);
      if (isTyping(event) || !editable) return;
      if (event.shiftKey && event.key === "N") { event.preventDefault(); setAdding(true); }
      if ((event.key === "Delete" || event.key === "Backspace") && selection) {
        attempt(selection.kind === "node" ? api.removeNode(run.slug, selection.id) : api.removeEdge(run.slug, selection.id));
        select(null);
      }
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [editable, selection, run.slug]);
  return (
    <div className="relative min-h-0 grow" data-testid="graph">
      <ReactFlow<Card> nodes={nodes} edges={edges} nodeTypes={TYPES} onNodesChange={move} onNodeDragStop={drop} onMoveEnd={seen} onConnect={connect} nodesConnectable={editable} deleteKeyCode={null} elementsSelectable nodesFocusable edgesFocusable minZoom={0.1} proOptions={{ hideAttribution: true }} onlyRenderVisibleElements={nodes.length > 60}
        onNodeClick={(_, node) => select({ kind: "node", id: node.id })} onEdgeClick={(_, edge) => select({ kind: "edge", id: edge.id })} onPaneClick={() => select(null)}
        onKeyDown={(event) => {
          const at = (event.target as HTMLElement).closest<HTMLElement>(".react-flow__node, .react-flow__edge");
          const id = at?.dataset.id;
          if (id && (event.key === "Enter" || event.key === " ")) select({ kind: at.classList.contains("react-flow__node") ? "node" : "edge", id });
        }}
        onPaneContextMenu={(event) => { event.preventDefault(); if (editable) setAdding(true); }} >
        <Background color="var(--line)" gap={24} />
        <Controls showInteractive={false} />
        {nodes.length > 8 && <MiniMap pannable zoomable ariaLabel={text.graph.minimap} nodeColor="var(--dim)" maskColor="color-mix(in srgb, var(--sunk) 70%, transparent)" bgColor="var(--panel)" />}
      </ReactFlow>
      <div className="absolute top-2 left-2 flex flex-wrap gap-2">
        {editable && <button className="button small" onClick={() => setAdding(true)}>+ {text.graph.add}</button>}
        {Object.keys(moved).length > 0 && <button className="button small" onClick={afresh}>{text.graph.relayout}</button>}
      </div>
      {problem !== null && <div className="absolute right-2 bottom-2 max-w-sm"><Problem why={problem} /></div>}
      {nodes.length === 0 && <div className="pointer-events-none absolute inset-0"><Empty title={text.empty.nodes}><p>{editable ? text.empty.nodesNext : ""}</p></Empty></div>}
      {adding && <AddAgent run={run} close={() => setAdding(false)} />}
    </div>
  );
}
