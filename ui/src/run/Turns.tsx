// What each turn was held to, from its evidence: the sandbox that was asked for and the one that held, what was started and
// which rule refused it, what was reached, and each call of the model with its tokens and its cost.
import type { Run, Turn } from "../api/client";
import { useTurns } from "../api/hooks";
import { money, plain } from "../api/words";
import { Problem, Said } from "../parts/small";
import { fill, text } from "../text";

type Attempt = { host: string; port: number; verdict: "allowed" | { unreachable: string } | { refused: string } };
type Report = { network?: Attempt[]; network_dropped?: number; commands?: { direct: number; all: number; first: string[]; refused: { command: string; reason: string }[] }; exhausted?: string[] };
type Policy = { level?: string; network?: unknown; write?: unknown[]; read?: unknown[]; limits?: Record<string, unknown> };
type Effective = { level?: string; no_new_privileges?: boolean; seccomp_mode?: number; capabilities?: number; landlock_abi?: number; memory_by?: string; pids_by?: string };

export function Turns({ run }: { run: Run }) {
  const { data, error } = useTurns(run.slug, run.updatedAt);
  if (error) return <Problem why={error} />;
  if (!data) return <p className="text-sm text-dim" aria-busy="true">…</p>;
  if (data.turns.length === 0) return null;
  const names = new Map(Object.values(run.artifacts).flatMap((it) => (it.step && run.nodes[it.nodeId] ? [[it.step, run.nodes[it.nodeId]!.label] as const] : [])));
  return (
    <section className="card p-4" data-testid="turns">
      <h2 className="font-semibold">{text.evidence.turns}</h2>
      <p className="mb-2 text-sm text-dim">{text.evidence.turnsHint}</p>
      {data.left_out > 0 && <p className="text-sm text-dim">{fill(text.evidence.moreTurns, { n: data.left_out })}</p>}
      <ul className="divide-y divide-line">{data.turns.map((turn) => <li key={turn.index} className="py-2"><OneTurn turn={turn} name={names.get(turn.index) ?? turn.role} /></li>)}</ul>
    </section>
  );
}

function OneTurn({ turn, name }: { turn: Turn; name: string }) {
  const backend = String(turn.sandbox?.backend ?? "none");
  const policy = (turn.sandbox?.policy ?? turn.sandbox?.asked ?? {}) as Policy;
  const held = (turn.sandbox?.effective ?? {}) as Effective;
  const report = (turn.sandbox?.report ?? {}) as Report;
  const refused = report.commands?.refused ?? [];
  const network = report.network ?? [];
  return (
    <div className="grid gap-x-6 gap-y-2 text-sm md:grid-cols-[8rem_1fr_1fr]">
      <p className="font-medium said">{turn.index} {plain(name)}</p>
      <div className="min-w-0">
        <h3 className="label">{text.evidence.sandbox}</h3>
        <p>{text.evidence.asked}: <span className="mono">{backend}{policy.level ? ` · ${plain(policy.level)}` : ""}</span></p>
        <p>{text.evidence.effective}: <span className="mono said">{walls(backend, held)}</span></p>
        <details><summary className="cursor-pointer text-xs text-accent">sandbox.json</summary><Said mono className="mt-1 max-h-72 overflow-auto rounded bg-sunk p-2">{JSON.stringify(turn.sandbox ?? {}, null, 1)}</Said></details>
      </div>
      <div className="flex min-w-0 flex-col gap-2">
        <div>
          <h3 className="label">{text.evidence.commands}{report.commands?.direct ? ` · ${report.commands.direct}` : ""}</h3>
          {(report.commands?.first.length ?? 0) + refused.length === 0 && <p className="text-dim">{text.evidence.noCommands}</p>}
          <ul className="mono max-h-40 overflow-y-auto" tabIndex={0} aria-label={text.evidence.commands}>
            {report.commands?.first.map((it, at) => <li key={at} className="said">✓ {plain(it)}</li>)}
            {refused.map((it, at) => <li key={`no ${at}`} className="said text-bad">✕ {plain(it.command)} <span className="font-sans">{text.evidence.refused}: {plain(it.reason)}</span></li>)}
          </ul>
        </div>
        <div>
          <h3 className="label">{text.evidence.network}</h3>
          {network.length === 0 && <p className="text-dim">{text.evidence.noNetwork}</p>}
          <ul className="mono">{network.map((it, at) => <li key={at} className={`said ${isRefused(it) ? "text-bad" : ""}`}>{isRefused(it) ? "✕" : "✓"} {plain(it.host)}:{it.port} <span className="font-sans">{verdict(it)}</span></li>)}</ul>
        </div>
        <div>
          <h3 className="label">{text.evidence.exchanges}{turn.exchanges.length ? ` · ${turn.exchanges.length + (turn.more_exchanges ?? 0)}` : ""}</h3>
          {turn.exchanges.length === 0 && <p className="text-dim">{text.evidence.noExchanges}</p>}
          <ul>{turn.exchanges.map((it) => <li key={it.seq} className="said">{it.seq} · {plain(it.model ?? it.path)} · {it.status ?? "—"}{it.usage ? ` · ${fill(text.evidence.tokens, { input: it.usage.input_tokens, output: it.usage.output_tokens })}` : ""}{money(it.usage?.cost_micro_usd) ? ` · ${money(it.usage?.cost_micro_usd)}` : ""}{it.problem ? ` · ${plain(it.problem)}` : ""}</li>)}</ul>
        </div>
      </div>
    </div>
  );
}

const isRefused = (it: Attempt) => typeof it.verdict === "object" && "refused" in it.verdict;

function verdict({ verdict: it }: Attempt): string {
  if (typeof it === "string") return text.evidence.allowed;
  return "refused" in it ? `${text.evidence.refused}: ${plain(it.refused)}` : plain(it.unreachable);
}

/** The walls that were read back from inside, in a line. */
function walls(backend: string, it: Effective): string {
  if (backend !== "native" && it.level === undefined) return backend === "none" ? text.safe.none : text.evidence.same;
  const all = [it.level && `level ${it.level}`, it.landlock_abi && `Landlock ${it.landlock_abi}`, it.seccomp_mode === 2 && "seccomp", it.no_new_privileges && "no new privileges", it.capabilities === 0 && "no capabilities", it.memory_by && `memory by ${it.memory_by}`, it.pids_by && `processes by ${it.pids_by}`];
  return plain(all.filter(Boolean).join(" · "));
}
