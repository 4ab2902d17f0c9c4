// One run: what happened, is it safe, what next, on top; below it the same run as a graph, a list, a timeline, a review
// or its evidence. The slider shows the whole page as it was after any event of the log.
import { useQueryClient } from "@tanstack/react-query";
import { lazy, startTransition, Suspense, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { api, type Approval, type Change, type Run } from "../api/client";
import { useApprovals, useChanges, useLanding, useRunAt, useView } from "../api/hooks";
import { useLiveRun, type Live } from "../api/live";
import { isOver, money, plain, shownState, situation, span, titleOf } from "../api/words";
import { Act, Copy, Empty, Gates, Problem, State, useNarrow, useNow } from "../parts/small";
import { Banner, isTyping } from "../parts/Shell";
import { fill, text } from "../text";
import { Inspector } from "../run/Inspector";
import { ListView } from "../run/ListView";
import { ApprovalCard, openQuestions, QuestionCard } from "./Approvals";

const GraphView = lazy(() => import("../run/GraphView"));
const Timeline = lazy(() => import("../run/Timeline"));
const Review = lazy(() => import("../run/Review"));
const Evidence = lazy(() => import("../run/Evidence"));

const VIEWS = ["graph", "list", "timeline", "review", "evidence"] as const;
type View = (typeof VIEWS)[number];
export type Selection = { kind: "node" | "edge"; id: string } | null;

export default function RunPage({ id, view }: { id: string; view: string }) {
  const live = useLiveRun(id);
  const [, navigate] = useLocation();
  const isNarrow = useNarrow();
  // A graph needs room: on a phone the same agents are a list.
  const shown: View = VIEWS.find((it) => it === view) ?? (isNarrow ? "list" : "graph");
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      const to = VIEWS.find((it) => it[0] === event.key);
      if (to) navigate(`/run/${id}/${to}`);
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [id, navigate]);
  if (live.link === "missing") return <Empty title={text.empty.gone}><p>{text.empty.goneNext}</p></Empty>;
  if (live.link === "logged-out" && !live.run) return <Empty title={text.link.loggedOut} />;
  if (live.problem) return <div className="p-6"><Problem why={live.problem} /></div>;
  if (!live.run) return <div className="p-6 text-dim" aria-busy="true">…</div>;
  return <Loaded live={live} now={live.run} view={shown} />;
}

const NOTHING: Readonly<Record<string, string>> = {};
const NO_CHANGES: readonly Change[] = [];

function Loaded({ live, now, view }: { live: Live; now: Run; view: View }) {
  const [at, setAt] = useState<number | null>(null);
  const [selection, setSelection] = useState<Selection>(null);
  const past = useRunAt(now.id, at);
  const run = at === null ? now : past.data ?? now;
  const told = useMemo(() => (at === null ? live.told : live.told.filter((event) => (event.seq ?? 0) <= at)), [at, live.told]);
  const { data: view0 } = useView(now.slug, now.updatedAt);
  const { data: approvals = [] } = useApprovals();
  const mine = approvals.filter((it) => it.runId === now.id);
  const hasChange = useMemo(() => Object.values(now.artifacts).some((it) => it.change), [now.artifacts]);
  const { data: changes, isPlaceholderData } = useChanges(now.slug, now.updatedAt, hasChange);
  // What is on its way is not said to be missing.
  const gates = hasChange && (changes === undefined || isPlaceholderData) ? <span aria-busy="true" /> : <Gates gates={changes?.changes.at(-1)?.gates} />;
  const drawn = useDrawn(view);
  const drafts = at === null ? live.drafts : NOTHING;
  const list = changes?.changes ?? NO_CHANGES;
  const questions = useMemo(() => openQuestions(live.told), [live.told]);
  const stalled = useMemo(() => told.findLast((event) => event.type === "run.stalled"), [told]);
  const selectedNode = selection?.kind === "node" ? run.nodes[selection.id] : undefined;
  const selectedEdge = selection?.kind === "edge" ? run.edges[selection.id] : undefined;
  return (
    <div className="flex min-h-full grow flex-col">
      <LinkBanner live={live} />
      <Head run={run} view={view0} approvals={mine} gates={gates} past={at !== null} reviewed={view === "review"} />
      {at === null && run.state === "paused" && stalled?.type === "run.stalled" && (
        <div className="mx-4 mb-3 rounded-md border border-warn bg-warn-soft p-3 text-sm text-warn" role="alert" data-testid="stall">
          <strong>{text.stall.title}</strong>
          <p>{text.stall.next}</p>
          {stalled.evidence.summaries.length > 0 && <p className="mt-1 said">{text.stall.said}: {plain(stalled.evidence.summaries.join(" · ").slice(0, 500))}</p>}
          {stalled.evidence.verificationFailure && <p className="said">{plain(stalled.evidence.verificationFailure)}</p>}
        </div>
      )}
      {at === null && !isOver(run) && questions.length > 0 && <div className="mx-4 mb-3 flex flex-col gap-2">{questions.map((it) => <QuestionCard key={it.questionId} run={now} asked={it} />)}</div>}
      {at === null && mine.length > 0 && <div className="mx-4 mb-3 flex flex-col gap-2">{mine.map((it) => <ApprovalCard key={it.approvalId} approval={it} />)}</div>}
      <div className="flex flex-wrap items-center gap-x-4 gap-y-1 border-y border-line bg-panel px-4">
        <nav aria-label={text.run.views} className="flex gap-1 overflow-x-auto overflow-y-hidden">
          {VIEWS.map((it) => (
            <Link key={it} href={`/run/${now.slug}/${it}`} aria-current={it === view ? "page" : undefined} className={`border-b-2 px-2.5 py-2 text-sm max-sm:px-1.5 ${it === view ? "border-accent font-medium text-accent" : "border-transparent text-dim hover:text-ink"}`}>{text.run[it]}</Link>
          ))}
        </nav>
        <TimeSlider id={now.slug} seq={live.seq} at={at} set={setAt} forks={canFork(now)} />
      </div>
      <div className="flex min-h-0 grow flex-col lg:flex-row">
        <div className={`relative flex min-h-[26rem] lg:min-h-[34rem] min-w-0 grow flex-col ${selection ? "max-lg:hidden" : ""}`}>
          <Suspense fallback={<div className="p-4 text-dim" aria-busy="true">…</div>}>
            {drawn.has("graph") && <Pane on={view === "graph"} show={(active) => <GraphView run={run} told={told} drafts={drafts} changes={list} selection={selection} select={setSelection} active={active} editable={at === null && run.workflow === "graph" && !isOver(run)} />} />}
            {drawn.has("list") && <Pane on={view === "list"} show={() => <ListView run={run} changes={list} selection={selection} select={setSelection} />} />}
          </Suspense>
          <Suspense fallback={view === "timeline" && <div className="p-4 text-dim" aria-busy="true">…</div>}>
            {drawn.has("timeline") && <Pane on={view === "timeline"} show={() => <Timeline run={run} view={view0} told={told} since={live.since} />} />}
          </Suspense>
          <Suspense fallback={<div className="p-4 text-dim" aria-busy="true">…</div>}>
            {view === "review" && <Review run={run} view={view0} changes={changes} live={at === null} />}
            {view === "evidence" && <Evidence run={now} view={view0} />}
          </Suspense>
        </div>
        {(selectedNode || selectedEdge) && (view === "graph" || view === "list") && (
          <Inspector run={run} told={told} drafts={drafts} node={selectedNode} edge={selectedEdge} changes={list} close={() => setSelection(null)} live={at === null && !isOver(run)} />
        )}
      </div>
    </div>
  );
}

/** Views that are drawn: those that were looked at, and soon those that may be next, while nobody waits for them. */
function useDrawn(view: View): ReadonlySet<View> {
  const [drawn, setDrawn] = useState<ReadonlySet<View>>(() => new Set([view]));
  if (!drawn.has(view)) setDrawn(new Set([...drawn, view]));
  useEffect(() => {
    const timer = setTimeout(() => startTransition(() => setDrawn((before) => new Set([...before, "list", "timeline"]))), AHEAD_MS);
    return () => clearTimeout(timer);
  }, []);
  return drawn;
}

/** How long after a run is opened its other views are drawn ahead. */
const AHEAD_MS = 600;

/** A view that stays drawn while another one is looked at, as it was then: there may be hundreds of agents in it. */
function Pane({ on, show }: { on: boolean; show: (active: boolean) => ReactNode }) {
  const shown = useRef<ReactNode>(null);
  const wasOn = useRef<boolean | null>(null);
  // It is told once that nobody looks at it any more, and nothing after that.
  if (on || wasOn.current !== false) shown.current = show(on);
  wasOn.current = on;
  return <div className={`flex min-h-0 grow flex-col ${on ? "" : "pane-off"}`}>{shown.current}</div>;
}

function LinkBanner({ live }: { live: Live }) {
  const [dismissed, setDismissed] = useState<number | null>(null);
  if (live.link === "logged-out") return <Banner tone="warn">{text.link.loggedOut}</Banner>;
  if (live.link === "lost") return <Banner tone="warn">{fill(text.link.lost, { seq: live.seq })}</Banner>;
  if (live.caughtUpFrom !== null && dismissed !== live.caughtUpFrom) {
    return <Banner tone="good">{fill(text.link.caughtUp, { seq: live.caughtUpFrom })} <button className="button small" onClick={() => setDismissed(live.caughtUpFrom)}>{text.link.dismiss}</button></Banner>;
  }
  return null;
}

function Head({ run, view, approvals, gates, past, reviewed }: { run: Run; view: Parameters<typeof situation>[1]; approvals: Approval[]; gates: ReactNode; past: boolean; reviewed: boolean }) {
  const { what, why, safe, next } = situation(run, view, past ? 0 : approvals.length);
  const clock = useNow(isOver(run) ? 60_000 : 1000);
  const took = span((isOver(run) ? Date.parse(run.updatedAt) : clock) - Date.parse(run.createdAt));
  const state = shownState(run, approvals.length > 0 && !isOver(run), view);
  const cost = money(view?.usage?.cost_micro_usd);
  const tokens = view?.usage ? `${((view.usage.input_tokens ?? 0) + (view.usage.output_tokens ?? 0)).toLocaleString("en")} tokens` : null;
  return (
    <header className="flex flex-col gap-3 p-4">
      <div className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <h1 className="said text-lg font-semibold">{titleOf(run)}</h1>
          <p className="mt-1 flex flex-wrap items-center gap-2 text-xs text-dim">
            <State state={state} />
            <span>{[run.workflow, `${text.run.phase.toLowerCase()} ${run.phase}`, took, tokens, cost].filter(Boolean).join(" · ")}</span>
            <span className="mono">{run.slug}</span>
            {view?.parent && <span>{text.run.forkedFrom} <Link className="mono underline" href={`/run/${view.parent}`}>{view.parent}</Link></span>}
          </p>
        </div>
        {!past && <Copy value={`norma show ${run.slug}`} />}
      </div>
      <div className="grid gap-x-6 gap-y-3 text-sm md:grid-cols-3" data-testid="situation">
        <div className="min-w-0"><h2 className="label">{text.heads.what}</h2><p>{what}</p>{why && <p className="said text-dim">{plain(why)}</p>}</div>
        <div className="min-w-0"><h2 className="label">{text.heads.safe}</h2><p>{safe}</p><div className="mt-1">{gates}</div></div>
        {!past && <div className="min-w-0"><h2 className="label">{text.heads.next}</h2><p className="mb-1.5">{next}</p><Controls run={run} view={view} reviewed={reviewed} /></div>}
      </div>
    </header>
  );
}

function Controls({ run, view, reviewed }: { run: Run; view: Parameters<typeof situation>[1]; reviewed: boolean }) {
  const id = run.slug;
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const landing = useLanding(id);
  const fork = useFork(id);
  const isGraph = run.workflow === "graph";
  return (
    <div className="flex flex-wrap items-start gap-2">
      {isGraph && !isOver(run) && (
        <>
          <Act className="small" title={text.run.modeHint} onClick={() => api.patchRun(id, { mode: run.mode === "AUTO" ? "INTERACTIVE" : "AUTO" })}>{text.run.mode}: {run.mode === "AUTO" ? text.run.auto : text.run.interactive}</Act>
          <Act className="small" title={text.run.doesHint} onClick={() => api.patchRun(id, { globalMode: run.globalMode === "PLANNING" ? "IMPLEMENTATION" : "PLANNING" })}>{text.run.does}: {run.globalMode === "PLANNING" ? text.run.planning : text.run.implementation}</Act>
        </>
      )}
      {(run.state === "running" || run.state === "waiting" || run.state === "queued") && <Act className="small" onClick={() => api.patchRun(id, { status: "paused" })}>{text.run.pause}</Act>}
      {run.state === "paused" && <Act className="small primary" onClick={() => api.patchRun(id, { status: "running" })}>{text.run.resume}</Act>}
      {isGraph && run.state === "running" && <Act className="small" onClick={() => api.patchRun(id, { status: "completed" })}>{text.run.done}</Act>}
      {run.state === "succeeded" && view?.result && !view.landed && <Act className="small primary" onClick={landing("land")}>{text.run.land}</Act>}
      {run.state === "succeeded" && view?.landed && <Act className="small" confirm={text.confirm.undo} onClick={landing("undo")}>{text.run.undo}</Act>}
      {isOver(run) && !reviewed && Object.values(run.artifacts).some((it) => it.change) && <Link className="button small primary" href={`/run/${id}/review`}>{text.next.review}</Link>}
      {!isOver(run) && <Act className="small danger" confirm={text.confirm.cancel} onClick={() => api.act(id, "cancel")}>{text.run.cancel}</Act>}
      {isOver(run) && run.state !== "succeeded" && canFork(run) && <Act className="small" title={text.run.retryHint} onClick={() => fork(1)}>{text.run.retry}</Act>}
      {isOver(run) && run.state !== "succeeded" && run.state !== "canceled" && <Copy value={`norma why ${id}`} />}
      {isOver(run) && <Act className="small danger" confirm={text.confirm.remove} onClick={async () => { await api.remove(id); await queries.invalidateQueries({ queryKey: ["runs"] }); navigate("/"); }}>{text.run.remove}</Act>}
    </div>
  );
}

/** Plans and pipelines write their own contracts on the way, so there is no event to start another one from. */
const canFork = (run: Run) => run.workflow !== "intent" && run.workflow !== "pipeline";

/** Starts a run from an event of this one, and shows it. */
function useFork(id: string) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  return async (seq: number) => {
    const child = await api.fork(id, seq);
    await queries.invalidateQueries({ queryKey: ["runs"] });
    navigate(`/run/${child.slug}`);
  };
}

function TimeSlider({ id, seq, at, set, forks }: { id: string; seq: number; at: number | null; set: (seq: number | null) => void; forks: boolean }) {
  const fork = useFork(id);
  if (seq < 2) return null;
  return (
    <div className="ml-auto flex flex-wrap items-center gap-2 py-1 text-xs text-dim">
      <label className="flex items-center gap-2">{text.run.time}
        <input type="range" min={1} max={seq} value={at ?? seq} aria-valuetext={fill(text.run.at, { seq: at ?? seq, last: seq })} onChange={(e) => { const next = Number(e.target.value); set(next >= seq ? null : next); }} className="w-32 accent-[var(--accent)]" />
      </label>
      <span data-testid="at">{at === null ? fill(text.run.event, { seq }) : fill(text.run.at, { seq: at, last: seq })}</span>
      {at !== null && forks && <Act className="small" title={text.run.forkHint} onClick={() => fork(at)}>{text.run.fork}</Act>}
      {at !== null && <button className="button small" onClick={() => set(null)}>{text.run.now}</button>}
    </div>
  );
}
