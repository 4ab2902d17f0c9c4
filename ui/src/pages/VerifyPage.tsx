// Checking a bundle from a file, of any run of anybody: nothing of it leaves the browser.
import { useState } from "react";
import { Problem } from "../parts/small";
import { ReportView } from "../run/ReportView";
import type { Report } from "../verify";
import { text } from "../text";

export default function VerifyPage() {
  const [pem, setPem] = useState("");
  const [report, setReport] = useState<Report | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const check = async (file: File | undefined) => {
    if (!file) return;
    setBusy(true);
    setProblem(null);
    try {
      const [bytes, { verify }] = await Promise.all([file.arrayBuffer(), import("../verify")]);
      setReport(await verify(new Uint8Array(bytes), pem.trim() ? [pem] : []));
    } catch (why) {
      setProblem(why);
    }
    setBusy(false);
  };
  return (
    <div className="mx-auto flex w-full max-w-3xl flex-col gap-4 p-4 sm:p-6">
      <h1 className="text-xl font-semibold">{text.nav.verify}</h1>
      <p className="text-dim">{text.evidence.verdictHint}</p>
      <label className="flex flex-col gap-1"><span className="label">PEM</span><textarea className="field mono" rows={4} value={pem} onChange={(e) => setPem(e.target.value)} placeholder="-----BEGIN PUBLIC KEY-----" /><span className="text-xs text-dim">{text.evidence.key}</span></label>
      <label className="card flex flex-col items-center gap-2 border-dashed p-8 text-center"><span className="font-medium">{text.evidence.file}</span><input type="file" name="bundle" accept=".tar,application/x-tar" disabled={busy} onChange={(e) => void check(e.target.files?.[0])} /></label>
      {problem !== null && <Problem why={problem} />}
      {report && <ReportView report={report} />}
    </div>
  );
}
