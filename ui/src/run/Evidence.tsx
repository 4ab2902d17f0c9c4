// What is on record of a run and whether it holds: checked here, in this browser, from the bundle itself; or by the
// server, which also judges the run again.
import { useState } from "react";
import { Link } from "wouter";
import { api, type Replay, type Run, type RunView, type Verification } from "../api/client";
import { isOver, money, plain } from "../api/words";
import { Act, Copy, Problem, Said, State } from "../parts/small";
import type { Report } from "../verify";
import { fill, text } from "../text";
import { Checks, ReportView } from "./ReportView";
import { Turns } from "./Turns";

export default function Evidence({ run, view }: { run: Run; view: RunView | undefined }) {
  const [report, setReport] = useState<Report | null>(null);
  const [files, setFiles] = useState<Files>([]);
  const [server, setServer] = useState<Verification | null>(null);
  const [again, setAgain] = useState<Replay | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const check = async () => {
    setProblem(null);
    try {
      const [bundle, { contents, verify }] = await Promise.all([api.bundle(run.slug), import("../verify")]);
      const found = await verify(bundle);
      setReport(found);
      setFiles(found.verified ? contents(bundle) : []);
    } catch (why) {
      setProblem(why);
    }
  };
  const usage = view?.usage;
  return (
    <div className="flex flex-col gap-4 p-4" data-testid="evidence">
      <section className="card flex flex-col gap-3 p-4">
        <h2 className="font-semibold">{text.evidence.verdict}</h2>
        <p className="text-sm text-dim">{text.evidence.verdictHint}</p>
        {isOver(run) ? (
          <div className="flex flex-wrap gap-2">
            <Act className="primary" onClick={check}>{text.evidence.check}</Act>
            <a className="button" href={api.bundleHref(run.slug)} download={`${run.slug}.tar`}>{text.evidence.download}</a>
            <Act onClick={async () => setServer(await api.verify(run.slug))}>{text.evidence.checkServer}</Act>
            <Act onClick={async () => setAgain(await api.replay(run.slug, "rehydrate"))}>{text.evidence.rehydrate}</Act>
            <Act onClick={async () => setAgain(await api.replay(run.slug, "reexec"))}>{text.evidence.reexec}</Act>
          </div>
        ) : <p className="text-sm">{text.evidence.notEnded}</p>}
        {problem !== null && <Problem why={problem} />}
        {report && <ReportView report={report} />}
        {files.length > 0 && <Contents files={files} />}
        {server && <div data-testid="server-report"><h3 className="label mb-1">{text.evidence.server}</h3><State state={server.verified ? "succeeded" : "failed"} word={server.verified ? text.evidence.good : text.evidence.bad} /><Checks checks={server.checks} /></div>}
        {again && <Replayed report={again} />}
      </section>
      {view && (
        <section className="card p-4">
          <h2 className="mb-2 font-semibold">{text.evidence.title}</h2>
          <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 text-sm">
            <Row name={text.evidence.base} value={view.base} />
            {view.result && <Row name={text.evidence.result} value={view.result} />}
            {view.landed && <Row name={text.evidence.landed} value={`${view.landed} ${view.landing?.target ?? ""}`} />}
            <Row name={text.evidence.sandbox} value={view.sandbox} />
            <Row name={text.evidence.receipts} value={view.receipts?.join("\n") || "—"} />
            <Row name={text.evidence.usage} value={usage ? `${fill(text.evidence.tokens, { input: usage.input_tokens, output: usage.output_tokens })}${money(usage.cost_micro_usd) ? ` · ${money(usage.cost_micro_usd)}` : ""}` : text.money.none} />
            <Row name={text.inspector.path} value={view.run_dir} />
          </dl>
          <div className="mt-3 flex flex-wrap gap-2"><Copy value={`norma verify ${run.slug}`} /><Copy value={`norma export ${run.slug}`} /></div>
        </section>
      )}
      <Turns run={run} />
      {view && <ReadModels view={view} />}
    </div>
  );
}

/** Views of the contract for people. They say themselves what counts, and there is nothing here to switch. */
function ReadModels({ view }: { view: RunView }) {
  const all = { role_binding_read_model: view.role_binding_read_model, workflow_case_read_model: view.workflow_case_read_model };
  const found = Object.entries(all).flatMap(([name, model]) => (model ? [{ name, model }] : []));
  if (found.length === 0) return null;
  return (
    <section className="card p-4" data-testid="read-models">
      <h2 className="font-semibold">{text.evidence.read}</h2>
      {found.map(({ name, model }) => (
        <div key={name} className="mt-1 text-sm">
          <p className="text-dim">{fill(text.evidence.readHint, { name, authority: `execution_authority = ${model.execution_authority}` })}</p>
          <Said mono className="mt-1 max-h-72 overflow-auto rounded bg-sunk p-2">{JSON.stringify(model, null, 1)}</Said>
        </div>
      ))}
    </section>
  );
}

type Files = { path: string; sha256: string; bytes: Uint8Array }[];

/** The files of a bundle that was checked: what was asked, the sandbox that held, commands, receipts, reports. */
function Contents({ files }: { files: Files }) {
  const [open, setOpen] = useState<string | null>(null);
  return (
    <details data-testid="contents">
      <summary className="label cursor-pointer">{text.evidence.contents} · {files.length}</summary>
      <ul className="mt-1 max-h-96 overflow-y-auto rounded border border-line" tabIndex={0}>
        {files.map((file) => (
          <li key={file.path} className="border-b border-line px-2 py-1 text-xs">
            <button className="mono flex w-full gap-2 text-left" aria-expanded={open === file.path} onClick={() => setOpen(open === file.path ? null : file.path)}><span className="clip grow">{plain(file.path)}</span><span className="text-dim">{file.bytes.length}</span><span className="text-dim max-sm:hidden" title={file.sha256}>{file.sha256.slice(0, 12)}</span></button>
            {open === file.path && <Said mono className="mt-1 rounded bg-sunk p-2">{new TextDecoder().decode(file.bytes) || "(empty)"}</Said>}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Row({ name, value }: { name: string; value: string }) {
  return <><dt className="text-dim">{name}</dt><dd className="mono said">{plain(value)}</dd></>;
}

/** What came of judging a run again, check by check; or the run that carries it out again, which lands nothing. */
function Replayed({ report: { mode, status, path, report, run } }: { report: Replay }) {
  const checks = (report?.checks ?? []).map((it) => ({ name: `${it.name} · ${it.compared}`, problems: it.differences.map((found) => JSON.stringify(found)) }));
  return (
    <div data-testid="replay" role="status">
      <h3 className="label mb-1">{text.evidence.replayed} · {mode}</h3>
      {run && <p className="text-sm">{text.evidence.replayedAs} <Link className="mono underline" href={`/run/${run.slug}`}>{run.slug}</Link></p>}
      {status && <State state={status === "pass" ? "succeeded" : "failed"} word={status} />}
      <Checks checks={checks} />
      {path && <p className="mt-1 text-sm text-dim">{text.evidence.keptIn} <span className="mono said">{plain(path)}</span></p>}
    </div>
  );
}
