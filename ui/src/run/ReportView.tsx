// What came of checking a bundle: each check by its name, what is wrong in words, and what was not looked at.
import { plain } from "../api/words";
import { Copy, State } from "../parts/small";
import type { Report } from "../verify";
import { text } from "../text";

export function Checks({ checks }: { checks: readonly { name: string; problems: string[] }[] }) {
  return (
    <ul className="mt-2 grid gap-x-4 text-sm sm:grid-cols-2">
      {checks.map((it) => (
        <li key={it.name} className={it.problems.length ? "text-bad" : ""}>
          <span aria-hidden>{it.problems.length ? "✕" : "✓"}</span> <span className="font-medium">{it.name}</span><span className="sr-only">{it.problems.length ? " does not hold" : " holds"}</span>
          {it.problems.length > 0 && <ul className="pl-5">{it.problems.slice(0, 20).map((what, at) => <li key={at} className="said">{plain(what)}</li>)}</ul>}
        </li>
      ))}
    </ul>
  );
}

export function ReportView({ report }: { report: Report }) {
  return (
    <div className="rounded-md border border-line p-3" data-testid="report" data-verified={report.verified} role="status">
      <p className="flex flex-wrap items-center gap-2"><State state={report.verified ? "succeeded" : "failed"} word={report.verified ? text.evidence.good : text.evidence.bad} /><span className="mono">{report.runId}</span><span className="text-sm text-dim">{report.files} files · {report.bytes.toLocaleString("en")} bytes · {report.events} events</span></p>
      <Checks checks={report.checks} />
      {report.signedBy.length > 0 && <p className="mt-2 text-sm">{text.evidence.by} <span className="mono said">{report.signedBy.join(", ")}</span>{!report.trusted && <span className="text-warn"> ({text.evidence.untrusted})</span>}</p>}
      <div className="mt-3 text-sm text-dim"><p className="label">{text.evidence.unchecked}</p><ul className="list-disc pl-5">{text.evidence.uncheckedList.map((it) => <li key={it}>{it}</li>)}</ul><p className="mt-1">{text.evidence.uncheckedNext} <Copy value="norma-verify --trust KEYS bundle.tar" /></p></div>
    </div>
  );
}
