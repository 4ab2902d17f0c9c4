// One change at a time, as it was judged: what the gates and tests found, its files and lines, which of them somebody has
// looked at, and comments that are on record and go back to the agent, or as a fix under a contract of its own.
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { api, type Change, type Changes, type Comment, type Conflict, type Preview, type Run, type RunView } from "../api/client";
import { useLanding } from "../api/hooks";
import { isOver, plain } from "../api/words";
import { Contract } from "../parts/Contract";
import { Act, Empty, Gates, State } from "../parts/small";
import { isTyping } from "../parts/Shell";
import { fill, text } from "../text";
import { counts, DiffFiles, getChangeKey, nameOf, parse, placeOf, type Picked } from "./DiffFiles";

const store = (key: string) => ({
  get: () => new Set<string>(JSON.parse(sessionStorage.getItem(key) ?? "[]") as string[]),
  set: (all: Set<string>) => sessionStorage.setItem(key, JSON.stringify([...all])),
});

export default function Review({ run, view, changes, live }: { run: Run; view: RunView | undefined; changes: Changes | undefined; live: boolean }) {
  const search = new URLSearchParams(useSearch());
  const [location, navigate] = useLocation();
  const all = changes?.changes ?? [];
  const asked = Number(search.get("change") ?? 0);
  const change: Change | undefined = all.find((it) => it.change === asked) ?? all.at(-1);
  const isWhole = search.get("change") === "all";
  if (!changes || !change) return <Empty title={text.empty.changes}><p>{text.empty.changesNext}</p></Empty>;
  return (
    <div className="flex min-h-0 grow flex-col" data-testid="review">
      {all.length > 1 && (
        <div className="flex flex-wrap items-center gap-1 border-b border-line px-4 py-2">
          {all.slice(-40).map((it) => <button key={it.change} className={`button small ${!isWhole && it.change === change.change ? "primary" : ""}`} onClick={() => navigate(`${location}?change=${it.change}`)}>{it.change}<span aria-hidden>{it.status === "success" ? " ✓" : " ✕"}</span></button>)}
          <button className={`button small ${isWhole ? "primary" : ""}`} onClick={() => navigate(`${location}?change=all`)}>{text.review.whole}</button>
        </div>
      )}
      <OneChange key={isWhole ? "all" : change.change} run={run} view={view} live={live} change={isWhole ? { change: 0, patch: changes.patch } : change} />
    </div>
  );
}

function OneChange({ run, view, change, live }: { run: Run; view: RunView | undefined; change: Change; live: boolean }) {
  const [split, setSplit] = useState(() => window.innerWidth >= 1200);
  const files = useMemo(() => parse(change.patch), [change.patch]);
  const kept = useMemo(() => store(`norma.viewed.${run.id}.${change.change}`), [run.id, change.change]);
  const [viewed, setViewed] = useState(kept.get);
  const [picked, setPicked] = useState<Picked | null>(null);
  const comments = change.comments ?? [];
  const queries = useQueryClient();
  // Comments are beside the run's log, so nothing tells that they were made.
  const again = () => queries.invalidateQueries({ queryKey: ["changes", run.slug] });
  const [at, setAt] = useState(0);
  const toggle = (name: string) => {
    const next = new Set(viewed);
    if (!next.delete(name)) next.add(name);
    setViewed(next);
    kept.set(next);
  };
  const go = (to: number) => {
    const next = Math.max(0, Math.min(files.length - 1, to));
    setAt(next);
    document.getElementById(`file-${nameOf(files[next]!)}`)?.scrollIntoView({ block: "start" });
  };
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (isTyping(event) || event.ctrlKey || event.metaKey || !files.length) return;
      if (event.key === "]") go(at + 1);
      if (event.key === "[") go(at - 1);
      if (event.key === "v") toggle(nameOf(files[at]!));
      if (event.key === "s") setSplit((it) => !it);
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  });
  const widgets = (file: string) => {
    const shown: Record<string, React.ReactNode[]> = {};
    const lines = keysOf(files.find((it) => nameOf(it) === file));
    for (const it of comments.filter((it) => it.path === file)) {
      const key = lines.get(`${it.side ?? "new"} ${it.line}`);
      if (key) (shown[key] ??= []).push(<Remark key={it.id} run={run} comment={it} withdraw={live && !it.sent ? async () => { await api.withdraw(run.slug, it.change, it.id); await again(); } : undefined} />);
    }
    if (picked?.file === file) (shown[picked.key] ??= []).push(<Writer key="new" add={async (said) => { await api.comment(run.slug, change.change, { path: picked.file, line: picked.line, side: picked.side, text: said }); setPicked(null); await again(); }} close={() => setPicked(null)} />);
    return Object.fromEntries(Object.entries(shown).map(([key, all]) => [key, <div key={key}>{all}</div>]));
  };
  const before = useCallback((path: string) => api.fileBefore(run.slug, change.change, path), [run.slug, change.change]);
  const unsent = comments.filter((it) => !it.sent);
  return (
    <div className="flex min-h-0 grow flex-col lg:flex-row">
      <div className="flex w-full shrink-0 flex-col gap-3 border-line p-4 lg:w-72 lg:border-r">
        {change.change > 0 && <Judged change={change} />}
        {live && <Decide run={run} view={view} />}
        {live && unsent.length > 0 && <SendBack run={run} change={change} comments={unsent} sent={again} />}
        <nav aria-label={text.review.files}>
          <h3 className="label mb-1">{text.review.files} · {fill(text.review.viewedOf, { n: files.filter((it) => viewed.has(nameOf(it))).length, all: files.length })}</h3>
          <ul className="max-h-72 overflow-y-auto lg:max-h-none" data-testid="files">
            {files.map((file, index) => {
              const { added, removed } = counts(file);
              return <li key={nameOf(file)}><button className={`mono flex w-full gap-1 rounded px-1 py-0.5 text-left ${at === index ? "bg-accent-soft" : "hover:bg-sunk"}`} onClick={() => go(index)}><span aria-hidden>{viewed.has(nameOf(file)) ? "✓" : "·"}</span><span className="clip grow">{plain(nameOf(file))}</span><span className="text-good">+{added}</span><span className="text-bad">−{removed}</span></button></li>;
            })}
          </ul>
        </nav>
      </div>
      <div className="min-w-0 grow p-4">
        <div className="mb-2 flex items-center gap-2">
          <button className={`button small ${split ? "primary" : ""}`} aria-pressed={split} onClick={() => setSplit(true)}>{text.review.split}</button>
          <button className={`button small ${split ? "" : "primary"}`} aria-pressed={!split} onClick={() => setSplit(false)}>{text.review.unified}</button>
          <span className="text-xs text-dim max-sm:hidden">{text.review.hint}</span>
        </div>
        {(change.conflicts?.length ?? 0) > 0 && <Conflicts all={change.conflicts!} />}
        <DiffFiles patch={change.patch} split={split} widgets={widgets} before={before} {...(live && change.change > 0 ? { pick: setPicked } : {})} header={(file) => <label className="flex items-center gap-1 text-xs"><input type="checkbox" checked={viewed.has(nameOf(file))} onChange={() => toggle(nameOf(file))} />{text.review.viewed}</label>} />
      </div>
    </div>
  );
}

function Judged({ change }: { change: Change }) {
  const findings = (change.gates ?? []).flatMap((gate) => (gate.findings ?? []).map((it) => `${gate.gate}: ${it}`));
  const isGood = change.status === "success";
  return (
    <section className="flex flex-col gap-2 text-sm">
      <h2 className="flex items-center gap-2 font-semibold">{fill(text.review.title, { n: change.change })} <State state={isGood ? "succeeded" : change.status === "denied" ? "denied" : "failed"} word={change.status} /></h2>
      <p className="text-dim">{change.lands ? text.review.landed : text.review.dropped}</p>
      <Gates gates={change.gates} />
      {(change.tests?.tests_changed?.length ?? 0) > 0 && <p className="chip self-start bg-warn-soft text-warn">! {text.review.tests}: {change.tests!.tests_changed!.map(plain).join(", ")}</p>}
      {findings.length > 0 && <div><h3 className="label">{text.review.findings}</h3><ul className="rounded-md bg-bad-soft p-2 text-bad">{findings.map((it, at) => <li key={at} className="said">{plain(it)}</li>)}</ul></div>}
      {change.tests?.commands && <div><h3 className="label">{text.review.commands}</h3><ul>{change.tests.commands.map((it) => <li key={it.name} className="mono said">{it.status === "PASS" ? "✓" : "✕"} {plain(it.argv.join(" "))} <span className="text-dim">{it.duration_ms !== undefined ? `${it.duration_ms} ms` : ""}</span></li>)}</ul></div>}
      {change.receipt && <p className="mono said text-dim">{text.review.receipt} {change.receipt.id}</p>}
    </section>
  );
}

/** What somebody said of a line, and what became of it. */
function Remark({ run, comment, withdraw }: { run: Run; comment: Comment; withdraw: (() => Promise<void>) | undefined }) {
  const { sent } = comment;
  const state = !sent ? text.review.open : "node" in sent ? fill(text.review.sentNode, { name: plain(run.nodes[sent.node]?.label ?? sent.node) }) : text.review.sentRun;
  return (
    <div className="m-2 rounded-md border border-accent bg-panel p-2 font-sans text-sm" data-comment={comment.id}>
      <p className="said" dir="auto">{plain(comment.text)}</p>
      <p className="mt-1 flex flex-wrap items-center gap-2 text-xs text-dim">
        <span>{fill(text.review.by, { by: plain(comment.by), state })}</span>
        {sent && "run" in sent && <Link className="mono underline" href={`/run/${sent.run}`}>{sent.run}</Link>}
        {withdraw && <Act className="small" onClick={withdraw}>{text.inspector.remove}</Act>}
      </p>
    </div>
  );
}

/** The lines of a file by the side and number that a comment names. */
function keysOf(file: ReturnType<typeof parse>[number] | undefined): Map<string, string> {
  const keys = new Map<string, string>();
  for (const change of file?.hunks.flatMap((it) => it.changes) ?? []) keys.set(placeOf(change), getChangeKey(change));
  return keys;
}

/** What both sides made of the same lines. */
function Conflicts({ all }: { all: readonly Conflict[] }) {
  return (
    <section className="mb-4 rounded-md border border-warn p-3 text-sm" data-testid="conflicts" aria-label={text.review.conflict}>
      <h3 className="font-semibold text-warn">! {text.review.conflict} · {all.length}</h3>
      <p className="text-dim">{text.review.conflictHint}</p>
      {all.map((it) => (
        <div key={it.path} className="mt-2">
          <p className="mono said">{plain(it.path)} <span className="text-dim">{plain(it.why)}</span></p>
          {it.parts.map((part) => (
            <div key={part.line} className="mt-1 grid gap-2 md:grid-cols-3">
              {([[text.review.before, part.base], [text.review.ours, part.ours], [text.review.theirs, part.theirs]] as const).map(([name, lines]) => (
                <div key={name} className="min-w-0"><p className="label">{name} · {part.line}</p><pre className="mono said rounded bg-sunk p-2" tabIndex={0}>{plain(lines) || " "}</pre></div>
              ))}
            </div>
          ))}
        </div>
      ))}
    </section>
  );
}

/** What can be decided about the run whose change this is: land it, or drop it. Sending it back needs a comment. */
function Decide({ run, view }: { run: Run; view: RunView | undefined }) {
  const landing = useLanding(run.slug);
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const branch = view?.landing?.target.replace("refs/heads/", "") ?? "";
  const canLand = run.state === "succeeded" && !!view?.result && !view.landed;
  const said = !isOver(run) ? text.review.decideLive : view?.landed ? fill(text.review.decideLanded, { branch }) : canLand ? text.review.decidePassed : text.review.decideFailed;
  const remove = async () => { await api.remove(run.slug); await queries.invalidateQueries({ queryKey: ["runs"] }); navigate("/"); };
  return (
    <section className="flex flex-col gap-2 text-sm" aria-label={text.review.decide} data-testid="decide">
      <h3 className="label">{text.review.decide}</h3>
      <p>{said}</p>
      <div className="flex flex-wrap gap-2">
        {canLand && <Act className="small primary" onClick={landing("land")}>{text.run.land}</Act>}
        {!isOver(run) && <Act className="small danger" confirm={text.confirm.cancel} onClick={() => api.act(run.slug, "cancel")}>{text.review.dropCancel}</Act>}
        {isOver(run) && view?.landed && <Act className="small danger" confirm={text.confirm.undo} onClick={landing("undo")}>{text.review.dropUndo}</Act>}
        {isOver(run) && !view?.landed && <Act className="small danger" confirm={text.review.confirmDrop} onClick={remove}>{text.review.drop}</Act>}
      </div>
    </section>
  );
}

function Writer({ add, close }: { add: (said: string) => Promise<void>; close: () => void }) {
  const [said, setSaid] = useState("");
  const put = () => (said.trim() ? add(said.trim()) : Promise.resolve());
  return (
    <div className="m-2 flex flex-col gap-2 rounded-md border border-accent bg-panel p-2 font-sans" onKeyDown={(e) => e.key === "Escape" && close()}>
      <textarea className="field" rows={2} autoFocus maxLength={4000} aria-label={text.review.placeholder} placeholder={text.review.placeholder} value={said} onChange={(e) => setSaid(e.target.value)} />
      <div className="flex gap-2"><Act className="primary small" onClick={put}>{text.review.add}</Act><button type="button" className="button small" onClick={close}>{text.confirm.no}</button></div>
    </div>
  );
}

/** Comments go to the agent that made the change while its graph lives; else they become a run that may change only the files
 *  that they are about, under the same tests, and whose contract is shown before it starts. */
function SendBack({ run, change, comments, sent }: { run: Run; change: Change; comments: Comment[]; sent: () => Promise<void> }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [preview, setPreview] = useState<Preview | null>(null);
  const [agent, setAgent] = useState("");
  const node = Object.values(run.artifacts).find((it) => it.change === change.change)?.nodeId;
  const canTell = run.workflow === "graph" && !isOver(run) && !!node && !!run.nodes[node];
  const send = async (yes: boolean) => {
    const body = { ...(agent.trim() ? { agent: agent.trim() } : {}), ...(yes ? { yes, ...(preview?.needs_approval.length ? { yes_wide: true } : {}) } : {}) };
    const answer = await api.sendBack(run.slug, change.change, body);
    if ("contract" in answer) return setPreview(answer);
    await sent();
    if (!("run" in answer)) return;
    await queries.invalidateQueries({ queryKey: ["runs"] });
    navigate(`/run/${answer.run.slug}`);
  };
  return (
    <section className="flex flex-col gap-2 rounded-md border border-accent p-2 text-sm" data-testid="comments">
      <h3 className="label">{text.review.comments} · {comments.length}</h3>
      <ul className="mono max-h-32 overflow-y-auto" tabIndex={0}>{comments.map((it) => <li key={it.id} className="said">{plain(`${it.path}:${it.line}: ${it.text}`)}</li>)}</ul>
      {canTell && <Act className="primary small" onClick={() => send(true)}>{text.review.sendNode}</Act>}
      {!canTell && (
        <>
          <label className="flex flex-col gap-1"><span className="label">{text.review.fixAgent}</span><input className="field" name="fixer" value={agent} placeholder={preview?.agent.name ?? text.review.fixer} onChange={(e) => { setAgent(e.target.value); setPreview(null); }} /></label>
          {preview && <div className="card p-2" aria-label={text.review.fixAs} role="group"><Contract preview={preview} /></div>}
          {preview ? <Act className="primary small" onClick={() => send(true)}>{preview.needs_approval.length ? text.start.runWide : text.start.run}</Act> : <Act className="primary small" onClick={() => send(false)}>{text.review.send}</Act>}
        </>
      )}
    </section>
  );
}
