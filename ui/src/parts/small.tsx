// The small things that every page is made of: state words, gate lights, what agents say, times, errors, confirmations.
import { useEffect, useRef, useState, useSyncExternalStore, type ReactNode } from "react";
import { Refused, type GateResult } from "../api/client";
import { plain, span, toneOf, type Tone } from "../api/words";
import { fill, text } from "../text";

const TONES: Record<Tone, string> = {
  good: "bg-good-soft text-good", warn: "bg-warn-soft text-warn", bad: "bg-bad-soft text-bad", info: "bg-info-soft text-info", dim: "bg-sunk text-dim",
};
/** Shapes beside the colours, for whoever does not see these. */
const SIGNS: Record<Tone, string> = { good: "✓", warn: "!", bad: "✕", info: "●", dim: "○" };

const WORDS: Record<string, string> = { ...text.node, ...text.state };

export function State({ state, word, className = "" }: { state: string; word?: string; className?: string }) {
  const tone = toneOf(state);
  return (
    <span className={`chip ${TONES[tone]} ${className}`} data-state={state}>
      <span aria-hidden className={state === "running" ? "alive" : ""}>{SIGNS[tone]}</span>
      {word ?? WORDS[state] ?? state}
    </span>
  );
}

/** The gates of a change, one light each. */
export function Gates({ gates }: { gates: readonly GateResult[] | undefined }) {
  if (!gates?.length) return <span className="text-xs text-dim">{text.gates.none}</span>;
  return (
    <ul className="flex flex-wrap items-center gap-1" aria-label={text.gates.title}>
      {gates.map((gate) => (
        <li key={gate.gate} className={`chip ${gate.passed ? TONES.good : TONES.bad}`} title={`${gate.gate}: ${gate.passed ? text.gates.passed : text.gates.failed}`}>
          <span aria-hidden>{gate.passed ? "✓" : "✕"}</span>
          <span>{gate.gate}</span>
          <span className="sr-only">{gate.passed ? text.gates.passed : text.gates.failed}</span>
        </li>
      ))}
    </ul>
  );
}

/** The same without their names, where there is little room. */
export function Lights({ gates }: { gates: readonly GateResult[] | undefined }) {
  if (!gates?.length) return null;
  return (
    <span className="ml-auto flex shrink-0 gap-0.5">
      {gates.map((gate) => {
        const word = `${gate.gate} ${gate.passed ? text.gates.passed : text.gates.failed}`;
        return <span key={gate.gate} role="img" aria-label={word} title={word} className={`grid size-3.5 place-items-center rounded-sm text-[9px] font-bold ${gate.passed ? TONES.good : TONES.bad}`}>{gate.passed ? "✓" : "✕"}</span>;
      })}
    </span>
  );
}

/** How much of a text is put on the page at once. */
const SHOWN_MAX = 20_000;

/** Text of somebody else: shown as it is, with control characters made visible, and cut where it is endless. */
export function Said({ children, mono, className = "" }: { children: string; mono?: boolean; className?: string }) {
  const [whole, setWhole] = useState(false);
  const isCut = !whole && children.length > SHOWN_MAX;
  return (
    <div className={className}>
      <div className={`said ${mono ? "mono" : ""}`} dir="auto">{plain(isCut ? children.slice(0, SHOWN_MAX) : children)}</div>
      {isCut && children.length <= 50 * SHOWN_MAX && (
        <button className="button small mt-1" onClick={() => setWhole(true)}>{fill(text.said.all, { n: children.length.toLocaleString("en") })}</button>
      )}
      {isCut && children.length > 50 * SHOWN_MAX && <p className="text-xs text-dim">{fill(text.said.cut, { n: children.length.toLocaleString("en") })}</p>}
    </div>
  );
}

/** One clock for everybody who wants to know the time as often: there may be hundreds of them on a page. */
class Clock {
  private now = Date.now();
  private timer: ReturnType<typeof setInterval> | undefined;
  private listeners = new Set<() => void>();
  private readonly every: number;
  constructor(every: number) {
    this.every = every;
  }
  get = () => this.now;
  subscribe = (listener: () => void) => {
    if (this.listeners.size === 0) {
      this.now = Date.now();
      this.timer = setInterval(() => {
        this.now = Date.now();
        this.listeners.forEach((tell) => tell());
      }, this.every);
    }
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) clearInterval(this.timer);
    };
  };
}
const CLOCKS = new Map<number, Clock>();

/** The time now, so often. */
export function useNow(every = 1000): number {
  const clock = CLOCKS.get(every) ?? new Clock(every);
  CLOCKS.set(every, clock);
  return useSyncExternalStore(clock.subscribe, clock.get);
}

const NARROW = matchMedia("(max-width: 639px)");
const onNarrow = (tell: () => void) => {
  NARROW.addEventListener("change", tell);
  return () => NARROW.removeEventListener("change", tell);
};

/** Whether the screen is a phone's, also after it was turned or the window was resized. */
export const useNarrow = () => useSyncExternalStore(onNarrow, () => NARROW.matches);

export function Ago({ at }: { at: string }) {
  const now = useNow(5000);
  return <time dateTime={at} title={at}>{fill(text.said.ago, { span: span(now - Date.parse(at)) })}</time>;
}

/** What went wrong and what to do about it. */
export function Problem({ why, again }: { why: unknown; again?: () => void }) {
  const message = why instanceof Error ? why.message : String(why);
  const details = why instanceof Refused ? [...(why.details.violations ?? []).map((it) => `${it.pointer || "/"}: ${it.message}`), ...(why.details.causes ?? [])] : [];
  return (
    <div role="alert" className="rounded-md border border-bad bg-bad-soft p-3 text-sm text-bad">
      <p className="font-medium said">{plain(message)}</p>
      {details.length > 0 && <ul className="mt-1 list-disc pl-5">{details.map((it) => <li key={it} className="said">{plain(it)}</li>)}</ul>}
      {again && <button className="button small mt-2" onClick={again}>{text.errors.retry}</button>}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="flex flex-col items-center gap-2 px-6 py-14 text-center">
      <p className="text-base font-semibold">{title}</p>
      {children && <div className="max-w-md text-dim">{children}</div>}
    </div>
  );
}

/** A button that does something and says how that went. */
export function Act({ children, onClick, className = "", confirm, disabled, title }: { children: ReactNode; onClick: () => Promise<unknown>; className?: string; confirm?: string; disabled?: boolean; title?: string }) {
  const [state, setState] = useState<"idle" | "asked" | "busy">("idle");
  const [problem, setProblem] = useState<unknown>(null);
  const yes = useRef<HTMLButtonElement>(null);
  useEffect(() => { if (state === "asked") yes.current?.focus(); }, [state]);
  const go = () => {
    setState("busy");
    setProblem(null);
    onClick().then(() => setState("idle"), (why) => { setProblem(why); setState("idle"); });
  };
  return (
    <span className="inline-flex flex-col items-start gap-1">
      {state === "asked" && confirm ? (
        <span className="inline-flex flex-wrap items-center gap-2 rounded-md border border-line bg-panel px-2 py-1 text-sm" role="group" aria-label={confirm} onKeyDown={(e) => e.key === "Escape" && setState("idle")}>
          <span>{confirm}</span>
          <button ref={yes} className="button small danger" onClick={go}>{text.confirm.yes}</button>
          <button className="button small" onClick={() => setState("idle")}>{text.confirm.no}</button>
        </span>
      ) : (
        <button className={`button ${className}`} disabled={disabled || state === "busy"} title={title} aria-busy={state === "busy"} onClick={() => (confirm ? setState("asked") : go())}>{children}</button>
      )}
      {problem !== null && <Problem why={problem} />}
    </span>
  );
}

export function Copy({ value, children }: { value: string; children?: ReactNode }) {
  const [done, setDone] = useState(false);
  return (
    <button className="button small mono" title={fill(text.said.copy, { value })} onClick={() => void navigator.clipboard?.writeText(value).then(() => { setDone(true); setTimeout(() => setDone(false), 1500); }, () => {})}>
      {done ? text.said.copied : children ?? value}
    </button>
  );
}
