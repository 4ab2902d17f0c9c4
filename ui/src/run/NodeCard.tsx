// An agent at a glance: who it is, what it does, whether it is there, and what the gates said of what it made.
import type { Change, Node, Run, Turn } from "../api/client";
import { money, plain } from "../api/words";
import { Lights, State } from "../parts/small";
import { fill, text } from "../text";

/** The last change of each node. */
export function changesByNode(run: Run, changes: readonly Change[]): Map<string, Change> {
  const last = new Map<string, number>();
  for (const it of Object.values(run.artifacts)) if (it.change && it.change > (last.get(it.nodeId) ?? 0)) last.set(it.nodeId, it.change);
  const byNumber = new Map(changes.map((it) => [it.change, it]));
  return new Map([...last].flatMap(([node, number]) => { const found = byNumber.get(number); return found ? [[node, found] as const] : []; }));
}

export function who(node: Node): string {
  const agent = node.provider === "custom" ? node.agent ?? "agent" : node.provider;
  return plain(node.model ? `${agent} · ${node.model}` : agent);
}

const DOTS = { connected: ["bg-good", "connected"], idle: ["bg-dim", "idle"], disconnected: ["bg-line", "disconnected"] } as const;

/** What the models of one agent used, beside what all of them did. */
export type Share = { cost: number; allCost: number; tokens: number; allTokens: number };

/** What each agent's models used so far, by what its turns have on record. */
export function sharesByNode(turns: readonly Turn[]): Map<string, Share> {
  const shares = new Map<string, Share>();
  let [allCost, allTokens] = [0, 0];
  for (const { nodeId, exchanges } of turns) {
    for (const { usage } of exchanges) {
      if (!usage) continue;
      const [cost, tokens] = [usage.cost_micro_usd ?? 0, (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0)];
      allCost += cost;
      allTokens += tokens;
      const before = nodeId ? shares.get(nodeId) : undefined;
      if (nodeId) shares.set(nodeId, { cost: (before?.cost ?? 0) + cost, tokens: (before?.tokens ?? 0) + tokens, allCost: 0, allTokens: 0 });
    }
  }
  return new Map([...shares].map(([id, share]) => [id, { ...share, allCost, allTokens }]));
}

/** How much of the run's cost is this agent's; of its tokens, where nobody knows what they cost. */
function CostBar({ share }: { share: Share }) {
  const hasCost = share.allCost > 0;
  const [own, all] = hasCost ? [share.cost, share.allCost] : [share.tokens, share.allTokens];
  if (all === 0) return null;
  const word = hasCost ? fill(text.money.share, { cost: money(own) ?? "", all: money(all) ?? "" }) : fill(text.money.tokens, { n: own.toLocaleString("en"), all: all.toLocaleString("en") });
  return (
    <div className="mt-1.5 h-1 rounded bg-sunk" title={word} data-testid="cost">
      <div className="h-1 rounded bg-accent" style={{ width: `${Math.round((100 * own) / all)}%` }} /><span className="sr-only">{word}</span>
    </div>
  );
}

const BORDERS: Partial<Record<Node["status"], string>> = { running: "border-info", blocked: "border-warn", failed: "border-bad" };
const frame = (node: Node, selected: boolean) => `card w-60 p-2.5 text-left ${selected ? "ring-2 ring-accent" : ""} ${BORDERS[node.status] ?? ""}`;

/** The same from afar, where small letters cannot be read: who it is and how it is. */
export function FarCard({ node, selected }: { node: Node; selected: boolean }) {
  return (
    <div className={`${frame(node, selected)} flex h-[118px] flex-col justify-center gap-2`} data-node={node.label}>
      <span className="clip text-3xl font-semibold">{plain(node.label)}</span>
      {node.status !== "idle" && <State state={node.status} word={text.node[node.status]} className="self-start !text-2xl" />}
    </div>
  );
}

export function NodeCard({ node, change, draft, share, selected }: { node: Node; change: Change | undefined; draft?: string; share?: Share | undefined; selected: boolean }) {
  const [dot, word] = DOTS[node.connection?.status ?? "disconnected"];
  const streaming = node.connection?.streaming || !!draft;
  return (
    <div className={frame(node, selected)} data-node={node.label}>
      <div className="flex items-center gap-2">
        <span className={`size-2 shrink-0 rounded-full ${dot} ${streaming ? "alive" : ""}`} title={word}><span className="sr-only">{word}</span></span>
        <span className="clip grow font-semibold">{plain(node.label)}</span>
        <State state={node.status} word={text.node[node.status]} />
      </div>
      <p className="clip mt-0.5 text-xs text-dim">{node.roleTemplate} · {who(node)}</p>
      <p className="said mt-1 line-clamp-2 min-h-8 text-xs">{plain((draft ? draft.slice(-120) : node.summary) || " ")}</p>
      <div className="mt-1.5 flex items-center justify-between gap-1">
        <span><Lights gates={change?.gates} /></span>
        {!!node.inboxCount && <span className="chip">{fill(text.inspector.inbox, { n: node.inboxCount })}</span>}
      </div>
      {share && <CostBar share={share} />}
    </div>
  );
}
