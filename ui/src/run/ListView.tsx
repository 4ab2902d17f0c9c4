// The same agents as a table: for screen readers, for phones, and for whoever reads faster than they look.
import type { Change, Run } from "../api/client";
import { plain } from "../api/words";
import type { Selection } from "../pages/RunPage";
import { Ago, Empty, Gates, State } from "../parts/small";
import { text } from "../text";
import { changesByNode, who } from "./NodeCard";

export function ListView({ run, changes, selection, select }: { run: Run; changes: readonly Change[]; selection: Selection; select: (it: Selection) => void }) {
  const nodes = Object.values(run.nodes);
  if (nodes.length === 0) return <Empty title={text.empty.nodes}><p>{text.empty.nodesNext}</p></Empty>;
  const made = changesByNode(run, changes);
  const label = (id: string) => run.nodes[id]?.label ?? id;
  return (
    <div className="flex flex-col gap-4 overflow-auto p-4" data-testid="list">
      <ul className="card divide-y divide-line">
        {nodes.map((node) => {
          const edges = Object.values(run.edges).filter((edge) => edge.from === node.id);
          return (
            <li key={node.id}>
              <button className={`flex w-full flex-col gap-1 px-3 py-2 text-left hover:bg-sunk ${selection?.id === node.id ? "bg-accent-soft" : ""}`} onClick={() => select({ kind: "node", id: node.id })} data-node={node.label}>
                <span className="flex w-full flex-wrap items-center gap-2">
                  <State state={node.status} /><span className="font-semibold said">{plain(node.label)}</span>
                  <span className="text-xs text-dim">{node.roleTemplate} · {who(node)}</span>
                  <span className="ml-auto text-xs text-dim"><Ago at={node.lastActivityAt} /></span>
                </span>
                <span className="said line-clamp-2 text-sm">{plain(node.summary)}</span>
                <span className="flex flex-wrap items-center gap-2"><Gates gates={made.get(node.id)?.gates} />{edges.length > 0 && <span className="text-xs text-dim">→ {edges.map((edge) => plain(label(edge.to))).join(", ")}</span>}</span>
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}
