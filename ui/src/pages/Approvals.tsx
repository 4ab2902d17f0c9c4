// What runs wait for a person to allow: exactly what is asked, why, how long it can still be answered, and what an answer
// covers. Works with a thumb as well as with keys.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api, type Approval, type Run, type StreamEvent } from "../api/client";
import { useApprovals, useRuns } from "../api/hooks";
import { plain, span } from "../api/words";
import { Act, Empty, Problem, Said, useNow } from "../parts/small";
import { fill, text } from "../text";

export default function Approvals() {
  const { data, error, refetch } = useApprovals();
  const [asks, setAsks] = useState(() => "Notification" in window && Notification.permission === "default");
  const seen = new Set<string>();
  const groups = (data ?? []).filter((it) => !seen.has(it.approvalId) && (it.alike ?? [it.approvalId]).forEach((id) => seen.add(id)) === undefined);
  return (
    <div className="mx-auto flex w-full max-w-3xl flex-col gap-4 p-4 sm:p-6">
      <div className="flex items-center justify-between">
        <h1 className="text-xl font-semibold">{text.approvals.title}</h1>
        {asks && <button className="button small" onClick={() => void Notification.requestPermission().then(() => setAsks(false))}>{text.approvals.notify}</button>}
      </div>
      {error && <Problem why={error} again={() => void refetch()} />}
      {data?.length === 0 && <Empty title={text.empty.approvals}><p>{text.empty.approvalsNext}</p></Empty>}
      {groups.map((approval) => <ApprovalCard key={approval.approvalId} approval={approval} />)}
    </div>
  );
}

/** A question of a plan: one of its choices, or an approval, is what it goes on by. */
export type Asked = Extract<StreamEvent, { type: "question.asked" }>;

/** What was asked and not answered yet. */
export function openQuestions(told: readonly StreamEvent[]): Asked[] {
  const answered = new Set(told.flatMap((it) => (it.type === "question.answered" ? [it.questionId] : [])));
  return told.filter((it): it is Asked => it.type === "question.asked" && !answered.has(it.questionId));
}

export function QuestionCard({ run, asked }: { run: Run; asked: Asked }) {
  const choices = asked.choices.length ? asked.choices : ["approve", "reject"];
  return (
    <article className="card flex flex-col gap-3 p-4" data-question={asked.questionId} aria-label={text.questions.title}>
      <h2 className="font-semibold">{text.questions[asked.kind === "decision" ? "decision" : "approval"]} · {plain(run.nodes[asked.nodeId]?.label ?? asked.questionId)}</h2>
      {asked.reasons.length > 0 && <ul className="text-sm text-dim">{asked.reasons.map((it, at) => <li key={at} className="said">{plain(it)}</li>)}</ul>}
      <div className="flex flex-wrap gap-2">{choices.map((choice, at) => <Act key={choice} className={at === 0 ? "primary" : ""} onClick={() => api.answer(run.slug, { event: asked.kind, choice, nodeId: run.nodes[asked.nodeId]?.label ?? asked.questionId })}>{plain(choice)}</Act>)}</div>
    </article>
  );
}

const isCommand = (args: Record<string, unknown>): args is { cmd: string; argv?: string[]; cwd?: string } => typeof args.cmd === "string";

export function ApprovalCard({ approval }: { approval: Approval }) {
  const now = useNow();
  const queries = useQueryClient();
  const { data: runs } = useRuns();
  const [mode, setMode] = useState<"ask" | "modify" | "deny">("ask");
  const args = approval.tool?.args ?? {};
  const command = isCommand(args) ? args : null;
  const [cmd, setCmd] = useState(command?.cmd ?? "");
  const [reason, setReason] = useState("");
  const alike = approval.alike?.length ? approval.alike : [approval.approvalId];
  const run = runs?.runs.find((it) => it.id === approval.runId);
  const node = approval.nodeId ? run?.nodes[approval.nodeId] : undefined;
  const answer = (status: string, more: Record<string, unknown> = {}) => async () => {
    const resolution = { status, ...(reason.trim() ? { reason: reason.trim() } : {}), ...more };
    for (const id of alike) await api.resolve(id, resolution);
    await queries.invalidateQueries({ queryKey: ["approvals"] });
    await queries.invalidateQueries({ queryKey: ["runs"] });
  };
  // What is shown above already is not said again.
  const said = approval.context ? approval.context.split("\n") : approval.reasons;
  const told = said.filter((it) => !(command && it.startsWith("command: ")) && !(node && it.startsWith("node: ")) && !/^(turn|step): /.test(it));
  const reasons = told.length ? told : said;
  const diff = typeof args.diff === "string" ? args.diff : typeof args.patch === "string" ? args.patch : null;
  const rest = Object.entries(args).filter(([name]) => !["cmd", "argv", "cwd", "diff", "patch"].includes(name));
  return (
    <article className="card flex flex-col gap-3 p-4" data-approval={approval.approvalId} aria-label={`${approval.tool?.name ?? "approval"} ${node?.label ?? ""}`}>
      <header className="flex flex-wrap items-baseline justify-between gap-2">
        <h2 className="min-w-0 font-semibold">
          <Link href={`/run/${approval.run_id}`} className="link said">{plain(run?.goal || (run ? `${run.workflow} ${run.slug.slice(-6)}` : approval.run_id))}</Link>
          {node && <span className="text-dim"> · {plain(node.label)}</span>}
        </h2>
        <span className="text-xs text-dim">{fill(text.approvals.age, { age: span(now - Date.parse(approval.createdAt)) })} · {fill(text.approvals.deadline, { left: span(Date.parse(approval.expiresAt) - now) })}</span>
      </header>
      {alike.length > 1 && <p className="chip self-start">{fill(text.approvals.alike, { n: alike.length })}</p>}
      {command && (
        <div>
          <p className="label">{text.approvals.command}</p>
          <pre className="said mono mt-1 max-h-60 overflow-auto rounded-md bg-sunk p-2" tabIndex={0} aria-label={text.approvals.command}>{plain(command.argv ? command.argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word))).join(" ") : command.cmd)}</pre>
          {command.cwd && <p className="mono mt-1 text-dim said">{text.approvals.cwd} {plain(command.cwd)}</p>}
        </div>
      )}
      {diff !== null && (
        <div>
          <p className="label">{text.approvals.change}</p>
          <pre className="said mono mt-1 max-h-72 overflow-auto rounded-md bg-sunk p-2" tabIndex={0} aria-label={text.approvals.change}>{plain(diff.slice(0, 20_000))}</pre>
        </div>
      )}
      {rest.length > 0 && !command && (
        <dl className="grid grid-cols-[auto_1fr] gap-x-3 text-sm">
          {rest.map(([name, value]) => <div key={name} className="contents"><dt className="text-dim">{name}</dt><dd className="min-w-0"><Said mono>{typeof value === "string" ? value : JSON.stringify(value)}</Said></dd></div>)}
        </dl>
      )}
      <div>
        <p className="label">{text.approvals.why}</p>
        <ul className="mt-1 text-sm">{reasons.map((it, at) => <li key={at} className="said">{plain(it.replace(/^reason: /, ""))}</li>)}</ul>
      </div>
      {mode === "modify" && (
        <label className="flex flex-col gap-1 text-sm">{text.approvals.modify}
          <textarea className="field mono" rows={2} value={cmd} onChange={(e) => setCmd(e.target.value)} autoFocus />
        </label>
      )}
      {mode !== "ask" && (
        <label className="flex flex-col gap-1 text-sm">{text.approvals.reason}
          <input className="field" value={reason} onChange={(e) => setReason(e.target.value)} autoFocus={mode === "deny"} />
        </label>
      )}
      <p className="text-xs text-dim">{text.approvals.covers}</p>
      <div className="flex flex-wrap gap-2">
        {mode === "ask" && <>
          <Act className="primary" onClick={answer("approved", { scope: "once" })}>{text.approvals.once}</Act>
          <Act onClick={answer("approved", { scope: "contract" })}>{text.approvals.contract}</Act>
          {command && <button className="button" onClick={() => setMode("modify")}>{text.approvals.modify}…</button>}
          <button className="button danger" onClick={() => setMode("deny")}>{text.approvals.deny}…</button>
        </>}
        {mode === "modify" && <Act className="primary" disabled={!cmd.trim()} onClick={answer("modified", { modifiedArgs: { cmd } })}>{text.approvals.sendModified}</Act>}
        {mode === "deny" && <Act className="danger" onClick={answer("denied")}>{text.approvals.denyNow}</Act>}
        {mode !== "ask" && <button className="button" onClick={() => setMode("ask")}>{text.confirm.no}</button>}
      </div>
    </article>
  );
}
