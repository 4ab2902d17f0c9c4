// Beside the list, on a wide screen: what needs somebody, and what happened last.
import { Link } from "wouter";
import type { Run } from "../api/client";
import { useApprovals, useRuns, useView } from "../api/hooks";
import { GROUPS, groupOf, isOver, plain, shownState, titleOf } from "../api/words";
import { Empty, State } from "../parts/small";
import { ApprovalCard } from "./Approvals";
import { text } from "../text";

export default function Home() {
  const { data } = useRuns();
  const { data: approvals = [] } = useApprovals();
  if (!data) return null;
  if (data.runs.length === 0) {
    return (
      <Empty title={text.empty.runs}>
        <p>{text.empty.runsNext}</p>
        <Link href="/new" className="button primary mt-3">{text.nav.new}</Link>
      </Empty>
    );
  }
  const counts = GROUPS.map((group) => [group, data.runs.filter((run) => groupOf(run, approvals) === group).length] as const);
  return (
    <div className="mx-auto flex w-full max-w-4xl flex-col gap-6 p-6">
      <h1 className="text-xl font-semibold">{approvals.length ? text.groups.needs : text.empty.approvals}</h1>
      <ul className="grid grid-cols-3 gap-2 xl:grid-cols-6">
        {counts.map(([group, count]) => (
          <li key={group}>
            <Link href={`/?in=${group}`} className="card flex flex-col p-3 hover:bg-sunk">
              <span className="text-2xl font-semibold">{count}</span>
              <span className="text-xs text-dim">{text.groups[group]}</span>
            </Link>
          </li>
        ))}
      </ul>
      {approvals.map((approval) => <ApprovalCard key={approval.approvalId} approval={approval} />)}
      <section>
        <h2 className="label mb-2">{text.nav.latest}</h2>
        <ul className="card divide-y divide-line">
          {data.runs.slice(0, 8).map((run) => (
            <li key={run.slug}><Latest run={run} needs={groupOf(run, approvals) === "needs"} /></li>
          ))}
        </ul>
      </section>
    </div>
  );
}

function Latest({ run, needs }: { run: Run; needs: boolean }) {
  const { data: view } = useView(run.slug, isOver(run) ? run.updatedAt : undefined);
  return (
    <Link href={`/run/${run.slug}`} className="flex items-center gap-3 px-3 py-2 hover:bg-sunk">
      <State state={shownState(run, needs, view)} />
      <span className="clip grow">{titleOf(run)}</span>
      <span className="clip hidden max-w-[40%] text-xs text-dim md:inline">{plain(run.message ?? "")}</span>
    </Link>
  );
}
