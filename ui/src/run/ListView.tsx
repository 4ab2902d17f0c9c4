// The same agents as a table: for screen readers, for phones, and for whoever reads faster than they look.
import { memo, useMemo } from "react";
import type { Change, Node, Run } from "../api/client";
import { plain } from "../api/words";
import type { Selection } from "../pages/RunPage";
import { Ago, Empty, Gates, State } from "../parts/small";
import { text } from "../text";
import { changesByNode, who } from "./NodeCard";

/** From how many agents on those that are far from the screen are not laid out. */
const MANY = 50;

type Select = (it: Selection) => void;

/** One agent. A row that has not changed is not drawn again. */
const Row = memo(function Row({ node, change, to, selected, select }: { node: Node; change: Change | undefined; to: string; selected: boolean; select: Select }) {
  return (
    <li>
      <button className={`flex w-full flex-col gap-1 px-3 py-2 text-left hover:bg-sunk ${selected ? "bg-accent-soft" : ""}`} onClick={() => select({ kind: "node", id: node.id })} data-node={node.label}>
        <span className="flex w-full flex-wrap items-center gap-2">
          <State state={node.status} /><span className="font-semibold said">{plain(node.label)}</span>
          <span className="text-xs text-dim">{node.roleTemplate} · {who(node)}</span>
          <span className="ml-auto text-xs text-dim"><Ago at={node.lastActivityAt} /></span>
        </span>
        <span className="said line-clamp-2 text-sm">{plain(node.summary)}</span>
        <span className="flex flex-wrap items-center gap-2"><Gates gates={change?.gates} />{to && <span className="text-xs text-dim">→ {to}</span>}</span>
      </button>
    </li>
  );
});

export const ListView = memo(function ListView({ run, changes, selection, select }: { run: Run; changes: readonly Change[]; selection: Selection; select: Select }) {
  const nodes = Object.values(run.nodes);
  const made = useMemo(() => changesByNode(run, changes), [run.artifacts, changes]);
  const to = useMemo(() => {
    const all = new Map<string, string[]>();
    for (const edge of Object.values(run.edges)) all.set(edge.from, [...(all.get(edge.from) ?? []), plain(run.nodes[edge.to]?.label ?? edge.to)]);
    return all;
  }, [run.edges, run.nodes]);
  if (nodes.length === 0) return <Empty title={text.empty.nodes}><p>{text.empty.nodesNext}</p></Empty>;
  return (
    <div className="flex flex-col gap-4 overflow-auto p-4" data-testid="list">
      <ul className={`card divide-y divide-line ${nodes.length > MANY ? "many" : ""}`}>
        {nodes.map((node) => <Row key={node.id} node={node} change={made.get(node.id)} to={(to.get(node.id) ?? []).join(", ")} selected={selection?.id === node.id} select={select} />)}
      </ul>
    </div>
  );
});
