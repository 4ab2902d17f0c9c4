// The server's API as the page uses it. Types are those of openapi.json; an error is what the server said of it, with
// what to do next, and never a bare number.
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Run = Schemas["RunGraph"];
export type Node = Schemas["Node"];
export type Edge = Schemas["Edge"];
export type Artifact = Schemas["Artifact"];
export type RunView = Schemas["RunView"];
export type Preview = Schemas["ContractPreview"];
/** The document refers to the form of an approval, and its generator of types drops what stands beside a reference. */
type Named<E> = E extends { type: string } ? E : E & { type: "approval.requested" };
export type StreamEvent = Named<Schemas["StreamEvent"]>;
export type Envelope = Schemas["Envelope"];
export type Usage = Schemas["Usage"];

/** A gate's answer about a change. */
export type GateResult = { gate: string; passed: boolean; findings?: string[] };

/** A change as it was judged: an entry of `/changes`. */
export type Change = {
  change: number;
  patch: string;
  added?: number;
  removed?: number;
  seq?: number;
  at?: string;
  status?: string;
  reason?: string;
  message?: string;
  gates?: GateResult[];
  lands?: boolean;
  commit?: string;
  files?: string[];
  receipt?: { id: string; hash: string };
  trees?: { before: string; after: string };
  tests?: { status?: string; tests_changed?: string[]; commands?: TestCommand[] };
  comments?: Comment[];
  conflicts?: Conflict[];
};
/** What somebody said about a line of a change; it is on record. */
export type Comment = { id: string; change: number; path: string; line: number; side?: "old" | "new"; text: string; by: string; at: string; sent?: { node: string } | { run: string } };
/** What two sides made of the same lines. */
export type Conflict = { path: string; why: string; parts: { line: number; base: string; ours: string; theirs: string }[] };
/** A turn as its evidence has it: what held the agent, what it started and reached, and every call of its model. */
export type Turn = {
  index: number;
  role: string;
  dir: string;
  nodeId?: string;
  sandbox?: Record<string, unknown>;
  exchanges: { seq: number; model?: string; path: string; status?: number; usage?: Usage; problem?: string }[];
  more_exchanges?: number;
};
export type TestCommand = { name: string; argv: string[]; status: string; exit_code?: number | null; duration_ms?: number };
export type Changes = { runId: string; patch: string; changes: Change[] };

/** Something that waits for a person. */
export type Approval = {
  approvalId: string;
  id: string;
  run_id: string;
  runId: string;
  nodeId?: string;
  state: string;
  reasons: string[];
  tool?: { id: string; name: string; args: Record<string, unknown> };
  context?: string;
  createdAt: string;
  expiresAt: string;
  alike?: string[];
};

/** What came of judging a run again: a report, or the run that carries it out again. */
export type Replay = { run_id: string; mode: string; status?: string; path?: string; report?: ReplayReport; run?: Run };
export type ReplayReport = { status: string; checks: { name: string; compared: number; differences: unknown[]; notes?: string[] }[] };

export type Verification = { run_id: string; verified: boolean; events: number; files: number; checks: { name: string; problems: string[] }[] };

/** What the server refused, in its words. */
export class Refused extends Error {
  readonly status: number;
  readonly details: { violations?: { pointer: string; message: string }[]; causes?: string[] };
  constructor(status: number, message: string, details: Refused["details"]) {
    super(message);
    this.status = status;
    this.details = details;
  }
}

/** The server could not be reached. */
export class Unreachable extends Error {}

type Listener = (reachable: boolean) => void;
const listeners = new Set<Listener>();
/** Tells whether the last request reached the server. */
export function onReach(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

async function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { method, credentials: "same-origin", signal: signal ?? null };
  if (body !== undefined) {
    init.headers = { "Content-Type": "application/json" };
    init.body = JSON.stringify(body);
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (why) {
    if (signal?.aborted) throw why;
    listeners.forEach((tell) => tell(false));
    throw new Unreachable("the server cannot be reached");
  }
  listeners.forEach((tell) => tell(true));
  if (response.ok) return response;
  const said = (await response.json().catch(() => ({}))) as { error?: string; details?: Refused["details"] };
  throw new Refused(response.status, said.error ?? `the server answered ${response.status}`, said.details ?? {});
}

async function json<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return (await send(method, path, body, signal)).json() as Promise<T>;
}

const at = (id: string, rest = "") => `/api/runs/${encodeURIComponent(id)}${rest}`;

export const api = {
  runs: (cursor?: string) => json<{ runs: Run[]; next: string | null }>("GET", `/api/runs?limit=100${cursor ? `&cursor=${cursor}` : ""}`),
  run: (id: string) => json<{ run: Run }>("GET", at(id)).then(({ run }) => run),
  runAt: (id: string, seq: number, signal: AbortSignal) => json<{ run: Run }>("GET", at(id, `?at=${seq}`), undefined, signal).then(({ run }) => run),
  view: (id: string) => json<RunView>("GET", at(id, "?view=norma")),
  events: (id: string, since = 0, limit = 5000) => json<{ events: StreamEvent[]; next: number | null }>("GET", at(id, `/events?since=${since}&limit=${limit}`)),
  changes: (id: string) => json<Changes>("GET", at(id, "/changes")),
  /** The same without patches, for lists. */
  brief: (id: string) => json<{ changes: Omit<Change, "patch">[] }>("GET", at(id, "/changes?brief=1")).then(({ changes }) => changes),
  verify: (id: string) => json<Verification>("GET", at(id, "/verify")),
  bundle: async (id: string) => new Uint8Array(await (await send("GET", at(id, "/bundle"))).arrayBuffer()),
  artifact: (id: string, artifact: string) =>
    json<{ artifact: Artifact; content: string; encoding?: string; truncated?: boolean }>("GET", at(id, `/artifacts/${encodeURIComponent(artifact)}`)),
  artifactHref: (id: string, artifact: string) => at(id, `/artifacts/${encodeURIComponent(artifact)}?download=1`),
  bundleHref: (id: string) => at(id, "/bundle"),
  approvals: () => json<{ approvals: Approval[] }>("GET", "/api/approvals").then(({ approvals }) => approvals),
  resolve: (id: string, resolution: Record<string, unknown>) => json("POST", `/api/approvals/${encodeURIComponent(id)}/resolve`, { resolution }),
  /** Answers what a plan waits for. */
  answer: (id: string, event: { event: string; choice: string; nodeId?: string }) => json("POST", `/runs/${encodeURIComponent(id)}/events`, event),
  start: (body: Record<string, unknown>) => json<Preview | { run: Run }>("POST", "/api/runs", body),
  patchRun: (id: string, patch: Record<string, unknown>) => json<{ run: Run }>("PATCH", at(id), { patch }),
  act: (id: string, verb: "land" | "undo" | "cancel" | "resume", body?: Record<string, unknown>) => json<{ message?: string }>("POST", at(id, `/${verb}`), body ?? {}),
  replay: (id: string, mode: "rehydrate" | "reexec") => json<Replay>("POST", at(id, "/replay"), { mode }),
  fork: (id: string, seq: number) => json<{ run: Run }>("POST", at(id, "/fork"), { seq }).then(({ run }) => run),
  turns: (id: string) => json<{ turns: Turn[]; left_out: number }>("GET", at(id, "/turns")),
  comment: (id: string, change: number, comment: { path: string; line: number; side: "old" | "new"; text: string }) => json("POST", at(id, `/changes/${change}/comments`), comment),
  /** A file as it was before a change. */
  fileBefore: (id: string, change: number, path: string) => json<{ text: string }>("GET", at(id, `/changes/${change}/file?path=${encodeURIComponent(path)}`)).then(({ text }) => text),
  withdraw: (id: string, change: number, comment: string) => json("DELETE", at(id, `/changes/${change}/comments/${comment}`)),
  sendBack: (id: string, change: number, body: { agent?: string; yes?: boolean; yes_wide?: boolean }) => json<Preview | { run: Run } | { messageId: string }>("POST", at(id, `/changes/${change}/send-back`), body),
  remove: (id: string) => json("DELETE", at(id)),
  addNode: (id: string, node: Record<string, unknown>) => json<{ node: Node }>("POST", at(id, "/nodes"), { node }),
  patchNode: (id: string, node: string, patch: Record<string, unknown>) => json<{ node: Node }>("PATCH", at(id, `/nodes/${node}`), { patch }),
  removeNode: (id: string, node: string) => json("DELETE", at(id, `/nodes/${node}`)),
  node: (id: string, node: string, verb: "reset" | "interrupt" | "stop" | "start") => json("POST", at(id, `/nodes/${node}/${verb}`), {}),
  setEdge: (id: string, edge: Record<string, unknown>) => json<{ edge: Edge }>("POST", at(id, "/edges"), { edge }),
  removeEdge: (id: string, edge: string) => json("DELETE", at(id, `/edges/${edge}`)),
  chat: (id: string, body: { nodeId?: string; content: string; interrupt?: boolean }) => json("POST", at(id, "/chat"), body),
  templates: () => json<{ templates: { name: string; source?: string }[] }>("GET", "/api/templates").then(({ templates }) => templates),
  /** What the page itself is, by the tag that the server gives it: another tag is another program. */
  version: async () => {
    const answer = await fetch("/a/index.js", { method: "GET", cache: "no-cache", credentials: "same-origin" });
    return answer.headers.get("etag") ?? "";
  },
};
