// From a run to words: which group it is in, what happened, whether anything is unsafe, and what to do next. Only from
// what the log says; nothing here looks at a clock to guess a state.
import { fill, text } from "../text";
import type { Approval, Run, RunView } from "./client";

export type Group = "needs" | "running" | "paused" | "queued" | "landed" | "failed";
export const GROUPS: readonly Group[] = ["needs", "running", "paused", "queued", "landed", "failed"];

export function groupOf(run: Run, approvals: readonly Approval[]): Group {
  const asked = approvals.some((it) => it.runId === run.id || it.run_id === run.slug);
  switch (run.state) {
    case "waiting":
      return "needs";
    case "running":
      return asked ? "needs" : "running";
    case "paused":
      return asked ? "needs" : "paused";
    case "queued":
      return "queued";
    case "succeeded":
      return "landed";
    default:
      return "failed";
  }
}

export type Tone = "good" | "warn" | "bad" | "info" | "dim";
export function toneOf(state: string): Tone {
  switch (state) {
    case "succeeded":
    case "landed":
      return "good";
    case "running":
      return "info";
    case "waiting":
    case "paused":
    case "blocked":
      return "warn";
    case "failed":
    case "denied":
    case "timed_out":
    case "stopped":
      return "bad";
    default:
      return "dim";
  }
}

export const isOver = (run: Run) => !["queued", "running", "waiting", "paused"].includes(run.state);

const short = (id: string) => id.slice(0, 10);

export type Situation = { what: string; why?: string; safe: string; next: string };

export function situation(run: Run, view: RunView | undefined, asked = 0): Situation {
  const why = run.state === "succeeded" ? undefined : run.message ?? undefined;
  if (asked > 0 && !isOver(run)) return { what: text.what.waiting, why, safe: text.safe.working, next: text.next.waiting };
  const landing = view?.landing;
  const confined = view ? (view.sandbox === "none" ? text.safe.none : fill(text.safe.sandbox, { sandbox: view.sandbox })) : "";
  if (run.state === "succeeded") {
    const tests = view?.tests;
    const told = tests?.ran ? fill(tests.commands.length === 1 ? text.safe.test : text.safe.tests, { n: tests.commands.length }) : view ? text.safe.noTests : "";
    if (view?.landed && landing) {
      const branch = landing.target.replace(/^refs\/heads\//, "");
      const what = fill(text.what.landed, { branch, from: landing.from ? short(landing.from) : "∅", to: short(view.landed) });
      return { what, safe: [text.safe.landed, told, confined].filter(Boolean).join(" "), next: text.next.landed };
    }
    const isEmpty = view && !view.result;
    const safe = [text.safe.unchanged, told, confined].filter(Boolean).join(" ");
    return { what: isEmpty ? text.what.passedEmpty : text.what.passed, safe, next: isEmpty ? text.next.passedEmpty : text.next.passed };
  }
  if (run.state === "running" || run.state === "queued") {
    const next = run.state === "queued" ? text.next.queued : run.workflow === "graph" ? text.next.talk : text.next.running;
    return { what: text.what[run.state], why, safe: text.safe.working, next };
  }
  const words: Record<string, string> = text.what;
  const next = run.state === "paused" ? text.next.paused : run.state === "canceled" ? text.next.canceled : run.state === "waiting" ? text.next.waiting : text.next.ended;
  return { what: words[run.state] ?? run.state, why, safe: [text.safe.unchanged, confined].filter(Boolean).join(" "), next };
}

/** A span of time as people say it. */
export function span(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min`;
  const h = Math.floor(m / 60);
  if (h < 48) return `${h} h ${m % 60 ? `${m % 60} min` : ""}`.trim();
  return `${Math.floor(h / 24)} days`;
}

export function money(micro: number | null | undefined): string | null {
  return micro === null || micro === undefined ? null : `$${(micro / 1e6).toFixed(micro < 10_000 ? 4 : 2)}`;
}

/** Control characters of terminals and of text direction, made visible: what an agent says is read, never obeyed. */
export function plain(said: string): string {
  return said.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** What a run is called where there is one line for it. */
export const titleOf = (run: Run) => plain(run.goal || `${run.workflow} ${run.slug.slice(-6)}`);

/** The state that is shown: what needs somebody, and what has landed, is said as that. */
export const shownState = (run: Run, needs: boolean, view: { landed?: string | null } | undefined) => (needs ? "waiting" : run.state === "succeeded" && view?.landed ? "landed" : run.state);
