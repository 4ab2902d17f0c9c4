// Every run, grouped by what it means for whoever looks: what needs them first. Filter and selection are in the address,
// so that a link shows what was seen.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";
import { Link, useLocation, useSearch } from "wouter";
import type { Approval, Run } from "../api/client";
import { useApprovals, useBrief, useRuns, useView } from "../api/hooks";
import { GROUPS, groupOf, isOver, money, plain, shownState, span, titleOf, type Group } from "../api/words";
import { fill, text } from "../text";
import { Empty, Lights, Problem, State, useNow } from "./small";
import { isTyping } from "./Shell";

type Row = { kind: "group"; group: Group; count: number } | { kind: "run"; run: Run; group: Group };

const NONE: never[] = [];

function rowsOf(runs: readonly Run[], approvals: readonly Approval[], filter: string, only: string): Row[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (run: Run) => {
    const agents = Object.values(run.nodes).map((node) => `${node.provider} ${node.agent ?? ""} ${node.label}`);
    const hay = `${run.goal} ${run.slug} ${run.state} ${run.workflow} ${agents.join(" ")}`.toLowerCase();
    return words.every((word) => hay.includes(word));
  };
  const by = new Map<Group, Run[]>(GROUPS.map((group) => [group, []]));
  for (const run of runs) if (matches(run)) by.get(groupOf(run, approvals))!.push(run);
  return GROUPS.filter((group) => !only || only === group).flatMap((group) => {
    const found = by.get(group)!;
    if (found.length === 0) return [];
    return [{ kind: "group", group, count: found.length } as Row, ...found.map((run) => ({ kind: "run", run, group }) as Row)];
  });
}

export function RunList() {
  const [location, navigate] = useLocation();
  const search = new URLSearchParams(useSearch());
  const filter = search.get("q") ?? "";
  const only = search.get("in") ?? "";
  const { data, error, refetch } = useRuns();
  const { data: approvals = NONE } = useApprovals();
  const rows = useMemo(() => rowsOf(data?.runs ?? NONE, approvals, filter, only), [data, approvals, filter, only]);
  const selected = location.startsWith("/run/") ? location.split("/")[2] : undefined;
  const set = (name: string, value: string) => {
    if (value) search.set(name, value);
    else search.delete(name);
    const query = search.toString();
    navigate(location + (query ? `?${query}` : ""), { replace: true });
  };
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (isTyping(event) || event.ctrlKey || event.metaKey || (event.key !== "j" && event.key !== "k")) return;
      const runs = rows.flatMap((row) => (row.kind === "run" ? [row.run] : []));
      const at = runs.findIndex((run) => run.slug === selected);
      const next = runs[event.key === "j" ? at + 1 : Math.max(0, at - 1)];
      if (next) navigate(`/run/${next.slug}${window.location.search}`);
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [rows, selected, navigate]);
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: (at) => (rows[at]?.kind === "group" ? 34 : 74), overscan: 8, getItemKey: (at) => { const row = rows[at]!; return row.kind === "group" ? row.group : row.run.slug; } });
  const has = (data?.runs.length ?? 0) > 0;
  return (
    <>
      <div className="flex flex-col gap-2 border-b border-line p-2">
        <input id="filter" type="search" className="field" placeholder={text.filters.placeholder} aria-label={text.filters.placeholder} value={filter} onChange={(e) => set("q", e.target.value)} onKeyDown={(e) => e.key === "Escape" && (e.currentTarget.blur(), set("q", ""))} />
        <select className="field" aria-label={text.filters.show} value={only} onChange={(e) => set("in", e.target.value)}>
          <option value="">{text.filters.all}</option>
          {GROUPS.map((group) => <option key={group} value={group}>{text.groups[group]}</option>)}
        </select>
      </div>
      {error && <div className="p-2"><Problem why={error} again={() => void refetch()} /></div>}
      <div ref={box} className="min-h-0 grow overflow-y-auto" data-testid="runs" tabIndex={-1}>
        {data && !has && (
          <Empty title={text.empty.runs}>
            <p>{text.empty.runsNext}</p>
            <Link href="/new" className="button primary mt-3">{text.nav.new}</Link>
          </Empty>
        )}
        {data && has && rows.length === 0 && <Empty title={text.empty.found} />}
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index]!;
            return (
              <div key={item.key} style={{ position: "absolute", insetInline: 0, top: 0, height: item.size, transform: `translateY(${item.start}px)` }}>
                {row.kind === "group" ? (
                  <h2 className="label flex items-center justify-between px-3 pt-3 pb-1"><span>{text.groups[row.group]}</span><span>{row.count}</span></h2>
                ) : (
                  <RunRow run={row.run} selected={row.run.slug === selected} needs={row.group === "needs"} />
                )}
              </div>
            );
          })}
        </div>
      </div>
    </>
  );
}

function RunRow({ run, selected, needs }: { run: Run; selected: boolean; needs: boolean }) {
  const search = useSearch();
  const { data: view } = useView(run.slug, isOver(run) ? run.updatedAt : undefined);
  const now = useNow(isOver(run) ? 60_000 : 1000);
  const nodes = Object.values(run.nodes);
  const agent = [...new Set(nodes.map((node) => (node.provider === "custom" ? node.agent ?? "agent" : node.provider)))].join(", ");
  const took = span((isOver(run) ? Date.parse(run.updatedAt) : now) - Date.parse(run.createdAt));
  const { data: changes } = useBrief(run.slug, run.updatedAt, Object.values(run.artifacts).some((it) => it.change));
  const last = changes?.at(-1);
  const files = new Set(Object.values(run.artifacts).flatMap((it) => (it.kind === "diff" ? it.metadata?.filesChanged ?? [] : []))).size;
  const cost = money(view?.usage?.cost_micro_usd);
  return (
    <Link href={`/run/${run.slug}${search ? `?${search}` : ""}`} data-run={run.slug} aria-current={selected ? "true" : undefined} className={`mx-1 flex h-[70px] flex-col justify-center gap-0.5 rounded-md px-2 ${selected ? "bg-accent-soft" : "hover:bg-sunk"}`}>
      <span className="flex items-center gap-2"><span className="clip font-medium">{titleOf(run)}</span><Lights gates={last?.gates} /></span>
      <span className="flex items-center gap-2 text-xs text-dim">
        <State state={shownState(run, needs, view)} />
        <span className="clip">{[plain(agent), took, files ? fill(files > 1 ? text.filters.files : text.filters.file, { n: files }) : "", last ? `+${last.added ?? 0} −${last.removed ?? 0}` : "", cost].filter(Boolean).join(" · ")}</span>
      </span>
    </Link>
  );
}
