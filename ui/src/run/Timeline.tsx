// What happened, in its order: turns as bars over the time of the run, and below them every event, the newest first, as
// far as it is kept here.
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useMemo, useRef, useState } from "react";
import type { Run, RunView, StreamEvent } from "../api/client";
import { plain, span, toneOf } from "../api/words";
import { Empty, Said, State } from "../parts/small";
import { fill, text } from "../text";

const BARS = { good: "bg-good", warn: "bg-warn", bad: "bg-bad", info: "bg-info", dim: "bg-dim" } as const;

export default memo(function Timeline({ run, view, told, since }: { run: Run; view: RunView | undefined; told: readonly StreamEvent[]; since: number }) {
  const [open, setOpen] = useState<string | null>(null);
  const events = useMemo(() => [...told].reverse(), [told]);
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: events.length, getScrollElement: () => box.current, estimateSize: () => 32, overscan: 12, getItemKey: (at) => events[at]!.id });
  const steps = view?.steps ?? [];
  const names = useMemo(() => new Map(Object.values(run.artifacts).flatMap((it) => (it.step && run.nodes[it.nodeId] ? [[it.step, run.nodes[it.nodeId]!.label] as const] : []))), [run.artifacts, run.nodes]);
  const start = Date.parse(run.createdAt);
  const end = Math.max(Date.parse(run.updatedAt), ...steps.map((it) => Date.parse(it.ended_at ?? run.updatedAt)), start + 1);
  return (
    <div className="flex min-h-0 grow flex-col gap-4 p-4" data-testid="timeline">
      {steps.length > 0 && (
        <section aria-label={text.evidence.steps} className="max-h-[40%] overflow-y-auto" tabIndex={0}>
          <table className="w-full table-fixed text-sm">
            <caption className="sr-only">{text.evidence.steps}</caption>
            <colgroup><col className="w-36" /><col /><col className="w-64 max-sm:w-28" /></colgroup>
            <tbody>
              {steps.slice(-200).map((step) => {
                const from = Date.parse(step.started_at);
                const to = Date.parse(step.ended_at ?? run.updatedAt);
                const state = step.status === "ok" ? "succeeded" : step.ended_at ? "failed" : "running";
                return (
                  <tr key={step.index} className="h-7">
                    <th scope="row" className="clip pr-2 text-left font-normal">{step.index} {plain(names.get(step.index) ?? step.role)}</th>
                    <td><div className="relative h-3 rounded bg-sunk"><div className={`absolute h-3 min-w-1 rounded ${BARS[toneOf(state)]}`} style={{ left: `${Math.min(99, (100 * (from - start)) / (end - start))}%`, width: `${Math.max(0.5, Math.min(100, (100 * (to - from)) / (end - start)))}%` }} /></div></td>
                    <td className="clip pl-2 text-xs text-dim">{to - from < 1000 ? `${to - from} ms` : span(to - from)} · {plain(step.summary ?? step.status)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </section>
      )}
      {since > 0 && <p className="text-xs text-dim">{fill(text.empty.earlier, { seq: since, run: run.slug })}</p>}
      {events.length === 0 && since === 0 && <Empty title={text.empty.events} />}
      <div ref={box} className="card min-h-60 grow basis-0 overflow-y-auto" tabIndex={0} role="region" aria-label={text.evidence.events}>
        <ol style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {virtual.getVirtualItems().map((item) => {
            const event = events[item.index]!;
            const nodeId = "nodeId" in event ? event.nodeId : undefined;
            return (
              <li key={item.key} ref={virtual.measureElement} data-index={item.index} style={{ position: "absolute", insetInline: 0, top: 0, transform: `translateY(${item.start}px)` }} className="border-b border-line px-2 py-1 text-xs">
                <button className="flex w-full items-baseline gap-2 text-left" aria-expanded={open === event.id} onClick={() => setOpen(open === event.id ? null : event.id)}>
                  <span className="mono w-12 shrink-0 text-dim">{event.seq}</span>
                  <span className="mono w-40 shrink-0 clip">{event.type}</span>
                  {event.type === "gate.failed" && <State state="failed" word={event.gate} />}
                  <span className="clip grow">{nodeId ? `${plain(run.nodes[nodeId]?.label ?? "")} ` : ""}{plain(brief(event))}</span>
                  <time className="mono shrink-0 text-dim" dateTime={event.ts}>{event.ts.slice(11, 19)}</time>
                </button>
                {open === event.id && <Said mono className="mt-1 rounded bg-sunk p-2">{JSON.stringify(event, null, 1)}</Said>}
              </li>
            );
          })}
        </ol>
      </div>
    </div>
  );
});

function brief(event: StreamEvent): string {
  switch (event.type) {
    case "message.user": return event.message.content.slice(0, 200);
    case "message.assistant.final": return event.content.slice(0, 200);
    case "handoff.sent": return event.envelope.payload.message.slice(0, 200);
    case "gate.failed": return event.findings.join(" · ").slice(0, 200);
    case "run.phase": return `${event.previousPhase} → ${event.phase}`;
    case "tool.started": case "tool.proposed": return event.tool.name;
    case "tool.completed": return event.result.ok ? "ok" : event.error?.message ?? "failed";
    case "approval.requested": return event.context ?? event.tool.name;
    case "approval.resolved": return `${event.resolution.status}${event.resolution.by ? ` by ${event.resolution.by}` : ""}`;
    case "run.stalled": return event.evidence.summaries.join(" · ").slice(0, 200);
    default: return "";
  }
}
