// The graph: every agent of a run with its state and gates, edges with what was last handed over them. Agents are laid
// out from left to right; where somebody drags one, it stays, for everybody who looks. Everything that is done with the mouse can
// be done with keys: agents are buttons in reading order, and the inspector connects and removes them.
import "@xyflow/react/dist/style.css";
import { Background, Controls, Handle, MarkerType, MiniMap, Position, ReactFlow, ReactFlowProvider, useReactFlow, useStore, type Connection, type Edge as FlowEdge, type Node as FlowNode, type NodeChange, type NodeProps, type ReactFlowState, type Viewport } from "@xyflow/react";
import { memo, useCallback, useEffect, useMemo, useRef, useState, type KeyboardEvent as ReactKeyboardEvent } from "react";
import { api, Refused, type Change, type Edge, type Node, type Run, type StreamEvent } from "../api/client";
import { useTurns } from "../api/hooks";
import { plain } from "../api/words";
import type { Selection } from "../pages/RunPage";
import { isTyping } from "../parts/Shell";
import { Empty, Problem } from "../parts/small";
import { text } from "../text";
import { AddAgent } from "./AddAgent";
import { changesByNode, FarCard, NodeCard, sharesByNode, type Share } from "./NodeCard";
import { arrange, type Place, type Places } from "./arrange";

type Card = FlowNode<{ node: Node; change: Change | undefined; draft: string | undefined; share: Share | undefined }, "agent">;

const ORIGIN: Place = { x: 0, y: 0 };
/** Below this nobody can read a card, so that it has only what can be seen from afar. */
const FAR_ZOOM = 0.4;
const isFar = (state: ReactFlowState) => state.transform[2] < FAR_ZOOM;
const AgentNode = memo(function AgentNode({ data, selected }: NodeProps<Card>) {
  const far = useStore(isFar);
  return (
    <>
      <Handle type="target" position={Position.Left} className="!size-3 !border-2 !border-panel !bg-accent" />
      {far ? <FarCard node={data.node} selected={selected} /> : <NodeCard node={data.node} change={data.change} draft={data.draft} share={data.share} selected={selected} />}
      <Handle type="source" position={Position.Right} className="!size-3 !border-2 !border-panel !bg-accent" />
    </>
  );
});
const TYPES = { agent: AgentNode };
const ARROW = { type: MarkerType.ArrowClosed, color: "var(--dim)" } as const;
const PRO = { hideAttribution: true };
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

type Props = { run: Run; told: readonly StreamEvent[]; drafts: Readonly<Record<string, string>>; changes: readonly Change[]; selection: Selection; select: (it: Selection) => void; editable: boolean; active: boolean };

export default memo(function GraphView(props: Props) {
  return <ReactFlowProvider><Canvas {...props} /></ReactFlowProvider>;
});

function Canvas({ run, told, drafts, changes, selection, select, editable, active }: Props) {
  const flow = useReactFlow();
  const [moved, setMoved] = useState<Places>(() => run.layout?.positions ?? {});
  const [adding, setAdding] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const keep = useKeeping(run.slug, setProblem);
  const far = useStore(isFar);
  const ids = useMemo(() => Object.keys(run.nodes).sort().join(), [run.nodes]);
  const lines = useMemo(() => Object.values(run.edges).map((it) => it.from + it.to).sort().join(), [run.edges]);
  const shape = `${ids}|${lines}`;
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
    const words = `${selected} ${animated} ${far} ${label}`;
    if (before && before.of === of && before.words === words) return before.edge;
    const edge: FlowEdge = {
      id: of.id, source: of.from, target: of.to, label: far ? undefined : plain(of.label) || undefined, selected, animated, ariaLabel: label,
      markerEnd: ARROW, ...(of.bidirectional ? { markerStart: ARROW } : {}),
      style: { stroke: selected ? "var(--accent)" : "var(--dim)", strokeDasharray: of.type === "report" ? "5 4" : undefined }, labelStyle: EDGE_TEXT, labelBgStyle: EDGE_GROUND,
    };
    drawn.current.set(of.id, { of, words, edge });
    return edge;
  }), [run.edges, run.nodes, selection, recent, far]);
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
  // What is given to the canvas stays the same: another function would draw every agent and every edge again.
  const drop = useCallback((_: unknown, __: unknown, all: Card[]) => keep({ positions: Object.fromEntries(all.map((it) => [it.id, it.position])) }), [keep]);
  const seen = useCallback((event: unknown, { x, y, zoom }: Viewport) => { if (event) keep({ viewport: { x, y, zoom } }); }, [keep]);
  const onNode = useCallback((_: unknown, { id }: Card) => select({ kind: "node", id }), [select]);
  const onEdge = useCallback((_: unknown, { id }: FlowEdge) => select({ kind: "edge", id }), [select]);
  const onPane = useCallback(() => select(null), [select]);
  const onKey = useCallback((event: ReactKeyboardEvent) => {
    const at = (event.target as HTMLElement).closest<HTMLElement>(".react-flow__node, .react-flow__edge");
    const id = at?.dataset.id;
    if (id && (event.key === "Enter" || event.key === " ")) select({ kind: at.classList.contains("react-flow__node") ? "node" : "edge", id });
  }, [select]);
  const onMenu = useCallback((event: { preventDefault(): void }) => { event.preventDefault(); if (editable) setAdding(true); }, [editable]);
  const first = useRef(run.layout?.viewport);
  const attempt = useCallback((doing: Promise<unknown>) => void doing.then(() => setProblem(null), setProblem), []);
  const connect = useCallback(({ source, target }: Connection) => { if (source && target) attempt(api.setEdge(run.slug, { from: source, to: target })); }, [attempt, run.slug]);
  useEffect(() => {
    // What somebody looked at last is where the next one begins, until there is more to see.
    if (first.current) void flow.setViewport(first.current);
    else void flow.fitView({ padding: 0.15, maxZoom: 1 });
    first.current = undefined;
  }, [shape]);
  useEffect(() => {
    if (!active) return;
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
  }, [active, editable, selection, run.slug]);
  return (
    <div className="relative min-h-0 grow" data-testid="graph">
      <ReactFlow<Card> nodes={nodes} edges={edges} nodeTypes={TYPES} onNodesChange={move} onNodeDragStop={drop} onMoveEnd={seen} onConnect={connect} nodesConnectable={editable} deleteKeyCode={null} elementsSelectable={false} nodesFocusable edgesFocusable minZoom={0.1} proOptions={PRO} onlyRenderVisibleElements={nodes.length > 60}
        onNodeClick={onNode} onEdgeClick={onEdge} onPaneClick={onPane} onKeyDown={onKey} onPaneContextMenu={onMenu}>
        {!far && <Background color="var(--line)" gap={24} />}
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
