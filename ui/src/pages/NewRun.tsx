// Starting a run: a sentence becomes a contract that is shown in six lines before anything happens; or a contract from a
// file; or an empty graph. What the server refuses is shown at its place.
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { useLocation, useSearch } from "wouter";
import { api, Refused, type Preview, type Run } from "../api/client";
import { Contract } from "../parts/Contract";
import { Act, Problem } from "../parts/small";
import { fill, text } from "../text";

const lines = (given: string) => given.split("\n").map((it) => it.trim()).filter(Boolean);

export default function NewRun() {
  const given = new URLSearchParams(useSearch());
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [form, setForm] = useState({ sentence: given.get("sentence") ?? "", agent: given.get("agent") ?? "", allow: given.get("allow") ?? "", test: given.get("test") ?? "", budget: "", criteria: "" });
  const [preview, setPreview] = useState<Preview | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [wide, setWide] = useState(false);
  const result = useRef<HTMLElement>(null);
  useEffect(() => { if (preview) result.current?.focus(); }, [preview]);
  const set = (name: keyof typeof form) => (e: { target: { value: string } }) => {
    setForm({ ...form, [name]: e.target.value });
    setPreview(null);
    setWide(false);
  };
  const body = () => {
    const allow = form.allow.split(/\s+/).filter(Boolean);
    const made: Record<string, unknown> = { sentence: form.sentence.trim() };
    if (form.agent.trim()) made.agent = form.agent.trim();
    if (allow.length) made.allow = allow;
    if (lines(form.test).length) made.test = lines(form.test);
    if (lines(form.criteria).length) made.acceptance_criteria = lines(form.criteria);
    if (form.budget.trim()) made.budget = form.budget.trim().split(/\s+/);
    return made;
  };
  const opened = async (run: Run) => {
    await queries.invalidateQueries({ queryKey: ["runs"] });
    navigate(`/run/${run.slug}`);
  };
  const show = async () => {
    setProblem(null);
    try {
      const answer = await api.start(body());
      if ("run" in answer) await opened(answer.run);
      else setPreview(answer);
    } catch (why) {
      setPreview(null);
      setProblem(why);
    }
  };
  const run = async () => {
    setProblem(null);
    try {
      const answer = await api.start({ ...body(), yes: true, ...(wide || preview?.needs_approval.length ? { yes_wide: true } : {}) });
      if ("run" in answer) await opened(answer.run);
    } catch (why) {
      setProblem(why);
      if (why instanceof Refused && why.status === 409) setWide(true);
    }
  };
  return (
    <div className="mx-auto flex w-full max-w-3xl flex-col gap-5 p-4 sm:p-6">
      <h1 className="text-xl font-semibold">{text.start.title}</h1>
      <form className="flex flex-col gap-3" onSubmit={(e) => { e.preventDefault(); void show(); }}>
        <label className="flex flex-col gap-1"><span className="label">{text.start.sentence}</span>
          <textarea className="field text-base" rows={2} autoFocus required placeholder={text.start.placeholder} value={form.sentence} onChange={set("sentence")} onKeyDown={(e) => { if (e.key === "Enter" && !e.shiftKey) { e.preventDefault(); e.currentTarget.form?.requestSubmit(); } }} />
        </label>
        <details open={!!(form.allow || form.test || form.agent)}>
          <summary className="cursor-pointer text-sm text-accent">{text.start.edit}</summary>
          <div className="mt-2 grid gap-3 sm:grid-cols-2">
            <Field label={text.start.agent} hint={text.start.agentHint}><input className="field" value={form.agent} onChange={set("agent")} name="agent" /></Field>
            <Field label={text.start.allow} hint={text.start.allowHint}><input className="field mono" value={form.allow} onChange={set("allow")} name="allow" /></Field>
            <Field label={text.start.test} hint={text.start.testHint}><textarea className="field mono" rows={2} value={form.test} onChange={set("test")} name="test" /></Field>
            <Field label={text.start.criteria} hint={text.start.criteriaHint}><textarea className="field" rows={2} value={form.criteria} onChange={set("criteria")} name="criteria" /></Field>
            <Field label={text.start.budget} hint={text.start.budgetHint}><input className="field mono" value={form.budget} onChange={set("budget")} name="budget" /></Field>
          </div>
        </details>
        <div><button type="submit" className={`button ${preview ? "" : "primary"}`} disabled={!form.sentence.trim()}>{text.start.preview}</button></div>
      </form>
      {problem !== null && <Problem why={problem} />}
      {preview && (
        <section ref={result} tabIndex={-1} className="card p-4" aria-label={text.start.contract}>
          <Contract preview={preview} />
          <div className="mt-3 flex gap-2"><Act className="primary" onClick={run}>{wide || preview.needs_approval.length ? text.start.runWide : text.start.run}</Act></div>
        </section>
      )}
      <OtherWays opened={opened} />
    </div>
  );
}

function Field({ label, hint, children }: { label: string; hint: string; children: ReactNode }) {
  return <label className="flex flex-col gap-1"><span className="label">{label}</span>{children}<span className="text-xs text-dim">{hint}</span></label>;
}

function OtherWays({ opened }: { opened: (run: Run) => Promise<void> }) {
  const [source, setSource] = useState("");
  const start = async (body: Record<string, unknown>) => {
    const answer = await api.start(body);
    if ("run" in answer) await opened(answer.run);
  };
  const fromText = async () => {
    let read: unknown;
    try {
      read = JSON.parse(source);
    } catch (why) {
      throw new Error(fill(text.start.notJson, { why: why instanceof Error ? why.message : "" }));
    }
    await start(Array.isArray(read) ? { batch: read } : { contract: read });
  };
  return (
    <section className="flex flex-col gap-3 border-t border-line pt-4">
      <h2 className="label">{text.start.other}</h2>
      <div className="card flex flex-wrap items-center justify-between gap-3 p-3">
        <div><p className="font-medium">{text.start.graph}</p><p className="text-sm text-dim">{text.start.graphHint}</p></div>
        <Act onClick={() => start({})}>{text.start.startGraph}</Act>
      </div>
      <details className="card p-3">
        <summary className="cursor-pointer font-medium">{text.start.file}</summary>
        <p className="my-2 text-sm text-dim">{text.start.fileHint}</p>
        <input type="file" accept="application/json,.json" aria-label={text.start.file} className="mb-2 block text-sm" onChange={(e) => void e.target.files?.[0]?.text().then(setSource)} />
        <textarea className="field mono" rows={6} aria-label={text.start.fileHint} value={source} onChange={(e) => setSource(e.target.value)} />
        <div className="mt-2"><Act onClick={fromText} disabled={!source.trim()}>{text.start.startFile}</Act></div>
      </details>
    </section>
  );
}
