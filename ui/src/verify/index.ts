// Checks a bundle in the browser, trusting nothing but the file and a key: archive, index, files, log chain, evidence,
// signatures and seal, in the order in which one builds on the other, with the words of `norma-verify`. What that checks
// beyond this is listed in `text.evidence.uncheckedList`, and never shown as checked.
import { Damage, read, type File } from "./archive";
import { derived, fields, hex } from "./blake3";
import { open, readKey, sha256, type Key, type Statement } from "./signature";

export type Check = { name: string; problems: string[] };
export type Report = { runId: string; verified: boolean; events: number; files: number; bytes: number; signedBy: string[]; trusted: boolean; checks: Check[] };
type Listed = { path: string; at?: string; size: number; blake3: string; sha256: string };
type Index = { schema: string; run_id: string; files: Listed[] };
type Log = { events: Line[]; head: string };
type Line = { seq: number; prev: string; type: string; runId: string; run_id: string; payload: Record<string, unknown> };

export const ROSTER = ["container", "index", "files", "chain", "evidence", "signatures", "seal"] as const;
const utf8 = new TextDecoder("utf-8", { fatal: true });
const encode = (it: string) => new TextEncoder().encode(it);
const unhex = (it: string) => Uint8Array.from(it.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** A number of 64 bits, the smallest byte first. */
function little(value: number): Uint8Array {
  const out = new Uint8Array(8);
  new DataView(out.buffer).setBigUint64(0, BigInt(value), true);
  return out;
}

function joined(...parts: Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, it) => sum + it.length, 0));
  parts.reduce((at, it) => (out.set(it, at), at + it.length), 0);
  return out;
}

/** What is in a bundle, file by file, with the digest that its index gives: to be read only after it was checked. */
export function contents(archive: Uint8Array): { path: string; sha256: string; bytes: Uint8Array }[] {
  const files = read(archive);
  const listed = files.find((it) => it.name === "index.json");
  const digests = new Map((listed ? (JSON.parse(utf8.decode(listed.bytes)) as Index).files : []).map((it) => [it.at ?? it.path, it]));
  return files.map((it) => ({ path: digests.get(it.name)?.path ?? it.name, sha256: digests.get(it.name)?.sha256 ?? "", bytes: it.bytes }));
}

/** Checks a bundle. With no key given, those that come with it are used, and the report says that they are not trusted. */
export async function verify(archive: Uint8Array, pems: readonly string[] = []): Promise<Report> {
  const report: Report = { runId: "", verified: false, events: 0, files: 0, bytes: 0, signedBy: [], trusted: pems.length > 0, checks: [] };
  const note = (problems: string[]) => void report.checks.push({ name: ROSTER[report.checks.length]!, problems });
  try {
    const trusted = await Promise.all(pems.map(readKey));
    await judge(archive, trusted, report, note);
  } catch (why) {
    note([why instanceof Error ? why.message : String(why)]);
  }
  const unmet = report.checks.at(-1)?.name ?? ROSTER[0];
  for (const name of ROSTER.slice(report.checks.length)) report.checks.push({ name, problems: [`not looked at: ${unmet} has to hold first`] });
  report.verified = report.checks.every((it) => it.problems.length === 0);
  return report;
}

async function judge(archive: Uint8Array, trusted: Key[], report: Report, note: (problems: string[]) => void) {
  let files: File[];
  try {
    files = read(archive);
  } catch (why) {
    if (why instanceof Damage) return note([why.message]);
    throw why;
  }
  note([]);
  report.files = files.length;
  report.bytes = files.reduce((sum, it) => sum + it.bytes.length, 0);
  const there = new Map(files.map((it) => [it.name, it.bytes]));
  const bytes = there.get("index.json");
  if (!bytes) return note(["index.json is missing"]);
  let index: Index;
  try {
    index = JSON.parse(utf8.decode(bytes)) as Index;
  } catch (why) {
    return note([`index.json cannot be read: ${why instanceof Error ? why.message : ""}`]);
  }
  note(await indexProblems(index, there));
  report.runId = index.run_id;
  note(await fileProblems(index, there));
  const [log, problems] = chain(there.get("run/events.jsonl"), index.run_id);
  note(problems);
  report.events = log.events.length;
  note(evidence(index, log));
  const { said, signers, problems: unsigned } = await signatures(index, there, trusted);
  note(unsigned);
  report.signedBy = signers;
  note(await seal(index, log, there, said.get("run/seal.dsse.json")));
}

const isSorted = (files: Listed[]) => files.every((it, at) => at === 0 || compare(files[at - 1]!.path, it.path) < 0);
function compare(one: string, other: string): number {
  const [a, b] = [encode(one), encode(other)];
  for (let at = 0; at < Math.min(a.length, b.length); at++) if (a[at] !== b[at]) return a[at]! - b[at]!;
  return a.length - b.length;
}

async function indexProblems(index: Index, there: Map<string, Uint8Array>): Promise<string[]> {
  const problems: string[] = [];
  if (index.schema !== "bundle_index.v1") problems.push("index.json is not one of version 1");
  if (!isSorted(index.files)) problems.push("index.json is not sorted, or names a file twice");
  const left = new Set([...there.keys()].filter((name) => name !== "index.json" && name !== "index.dsse.json"));
  for (const file of index.files) {
    if (file.at !== undefined && file.at !== `aside/${await sha256(encode(file.path))}`) problems.push(`${file.path} lies where it must not, says index.json`);
    if (!left.delete(file.at ?? file.path)) problems.push(`${file.path} is missing`);
  }
  left.forEach((name) => problems.push(`${name} was added`));
  return problems;
}

async function fileProblems(index: Index, there: Map<string, Uint8Array>): Promise<string[]> {
  const problems: string[] = [];
  for (const file of index.files) {
    const bytes = there.get(file.at ?? file.path);
    if (!bytes) continue;
    const same = bytes.length === file.size && hex(derived("norma artifact v1", bytes)) === file.blake3 && (await sha256(bytes)) === file.sha256;
    if (!same) problems.push(`${file.path} differs from index.json`);
  }
  return problems;
}

/** The lines of the log, each hashed again over its number, the digest before it and its bytes. */
function chain(bytes: Uint8Array | undefined, slug: string): [Log, string[]] {
  const log: Log = { events: [], head: "" };
  if (!bytes) return [log, ["run/events.jsonl is missing"]];
  const problems: string[] = [];
  if (bytes.at(-1) !== 10) problems.push("run/events.jsonl does not end with a whole line");
  let [from, seq] = [0, 1];
  while (from < bytes.length) {
    const found = bytes.indexOf(10, from);
    const to = found < 0 ? bytes.length : found;
    const text = bytes.subarray(from, to);
    const why = take(log, seq, text, slug);
    if (why) {
      problems.push(`run/events.jsonl, event ${seq}: ${why}`);
      break;
    }
    from = to + 1;
    seq += 1;
  }
  if (log.events.length === 0 && problems.length === 0) problems.push("there are no events");
  return [log, problems];
}

function take(log: Log, seq: number, text: Uint8Array, slug: string): string | null {
  let line: Line;
  try {
    line = JSON.parse(utf8.decode(text)) as Line;
  } catch {
    return "is not JSON";
  }
  const first = log.events[0] ?? line;
  if (line.seq !== seq || line.run_id !== slug || line.runId !== first.runId) return "is out of its place";
  const contract = typeof line.payload?.contract_digest === "string" ? line.payload.contract_digest : "00".repeat(32);
  const before = seq === 1 ? hex(derived("norma log v1", fields(encode(line.runId), unhex(contract)))) : log.head;
  if (line.prev !== before) return "does not follow the line before";
  log.head = hex(derived("norma event v1", joined(little(seq), unhex(before), fields(text))));
  log.events.push(line);
  return null;
}

/** The digest of a list of files, in its order, with paths below a directory. */
function listing(files: Listed[], dir: string): string {
  return hex(derived("norma manifest v1", joined(...files.map((it) => fields(encode(it.path.slice(dir.length)), little(it.size), unhex(it.blake3), unhex(it.sha256))))));
}

const ANCHORS: Record<string, (payload: Record<string, unknown>) => string> = {
  step_committed: (it) => String(it.dir),
  patch_applied: (it) => `changes/${String(it.change).padStart(3, "0")}`,
  change_dropped: (it) => `changes/${String(it.change).padStart(3, "0")}`,
  item_ended: (it) => `changes/${String(it.change).padStart(3, "0")}`,
  reconciled_step: (it) => String(it.dir),
  line_moved: (it) => `conflict-${String(it.conflict).padStart(3, "0")}`,
};

/** Every directory that the chain vouches for holds exactly the files it was recorded with. */
function evidence(index: Index, log: Log): string[] {
  const problems: string[] = [];
  for (const { type, payload, seq } of log.events) {
    const dirOf = ANCHORS[type];
    if (!dirOf) continue;
    const dir = `run/${dirOf(payload)}/`;
    const listed = index.files.filter((it) => it.path.startsWith(dir) && (type === "reconciled_step" || it.path !== `${dir}manifest.json`));
    if (listing(listed, dir) !== payload.evidence) problems.push(`${dir.slice(0, -1)} holds other files than event ${seq} vouches for`);
  }
  return problems;
}

async function signatures(index: Index, there: Map<string, Uint8Array>, trusted: Key[]) {
  const problems: string[] = [];
  const said = new Map<string, Statement>();
  const signers = new Set<string>();
  const own: Key[] = [];
  for (const [name, bytes] of there) {
    if (!name.startsWith("keys/") || !name.endsWith(".pem")) continue;
    const key = await readKey(utf8.decode(bytes)).catch((why: Error) => void problems.push(`${name} ${why.message}`));
    if (!key) continue;
    if (`keys/${key.id}.pem` === name) own.push(key);
    else problems.push(`${name} is key ${key.id}`);
  }
  const keys = trusted.length ? trusted : own;
  for (const [name, bytes] of there) {
    if (!name.endsWith(".dsse.json")) continue;
    try {
      const opened = await open(bytes, keys);
      said.set(name, opened.said);
      signers.add(opened.signer);
    } catch (why) {
      problems.push(`${name} ${why instanceof Error ? why.message : ""}`);
    }
  }
  const vouched = said.get("index.dsse.json");
  const bytes = there.get("index.json")!;
  const subject = vouched?.subject[0];
  if (!vouched) problems.push("index.json is not signed: index.dsse.json is missing, or its signature does not hold");
  else if (vouched.predicateType !== "urn:norma:bundle:v1" || vouched.subject.length !== 1 || subject?.name !== "index.json" || subject.digest.sha256 !== (await sha256(bytes)) || subject.digest.normaBlake3 !== hex(derived("norma artifact v1", bytes)) || vouched.predicate.run_id !== index.run_id) {
    problems.push("index.dsse.json vouches for another index.json");
  }
  return { said, signers: [...signers].sort(), problems };
}

/** The seal is that of this manifest, this log and these files. */
async function seal(index: Index, log: Log, there: Map<string, Uint8Array>, said: Statement | undefined): Promise<string[]> {
  const at = "run/seal.dsse.json";
  if (!said) return [`${at} is missing, or its signature does not hold`];
  if (said.predicateType !== "urn:norma:run-seal:v1") return [`${at} is not the seal of a run`];
  const manifest = there.get("run/manifest.json") ?? new Uint8Array();
  const listed = index.files.filter((it) => it.path.startsWith("run/") && it.path !== "run/manifest.json" && it.path !== at);
  const subject = said.subject[0];
  const same = subject?.name === "manifest.json" && subject.digest.sha256 === (await sha256(manifest)) && subject.digest.normaBlake3 === hex(derived("norma artifact v1", manifest));
  const { run_id, contract, events, head, files } = said.predicate;
  const all: [boolean, string][] = [
    [same, "vouches for another manifest.json"],
    [run_id === index.run_id, "is that of another run"],
    [contract === log.events[0]?.payload.contract_digest, "vouches for another contract"],
    [events === log.events.length && head === log.head, "vouches for another log"],
    [files === listing(listed, "run/"), "vouches for other files"],
  ];
  return all.flatMap(([holds, what]) => (holds ? [] : [`${at} ${what}`]));
}
