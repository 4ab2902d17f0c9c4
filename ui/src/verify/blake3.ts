// BLAKE3 in plain TypeScript, for checking what norma hashed: the plain mode and the mode that derives a key from a
// context, which is how norma keeps digests for one purpose from passing for another's.

const IV = new Uint32Array([0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19]);
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const CHUNK_START = 1;
const CHUNK_END = 2;
const PARENT = 4;
const ROOT = 8;
const DERIVE_CONTEXT = 32;
const DERIVE_MATERIAL = 64;
const CHUNK = 1024;
const BLOCK = 64;

/** The order of message words in each of the seven rounds. */
const SCHEDULE = (() => {
  let order = Array.from({ length: 16 }, (_, at) => at);
  const rounds = [];
  for (let round = 0; round < 7; round++) {
    rounds.push(Uint8Array.from(order));
    order = PERMUTATION.map((at) => order[at]!);
  }
  return rounds;
})();

const state = new Uint32Array(16);

function mix(a: number, b: number, c: number, d: number, x: number, y: number) {
  const s = state;
  let r: number;
  s[a] = s[a]! + s[b]! + x;
  r = s[d]! ^ s[a]!;
  s[d] = (r >>> 16) | (r << 16);
  s[c] = s[c]! + s[d]!;
  r = s[b]! ^ s[c]!;
  s[b] = (r >>> 12) | (r << 20);
  s[a] = s[a]! + s[b]! + y;
  r = s[d]! ^ s[a]!;
  s[d] = (r >>> 8) | (r << 24);
  s[c] = s[c]! + s[d]!;
  r = s[b]! ^ s[c]!;
  s[b] = (r >>> 7) | (r << 25);
}

/** One block into a chaining value. */
function compress(cv: Uint32Array, block: Uint32Array, counter: number, length: number, flags: number): Uint32Array {
  state.set(cv.subarray(0, 8));
  state.set(IV.subarray(0, 4), 8);
  state[12] = counter >>> 0;
  state[13] = Math.floor(counter / 2 ** 32);
  state[14] = length;
  state[15] = flags;
  for (const at of SCHEDULE) {
    mix(0, 4, 8, 12, block[at[0]!]!, block[at[1]!]!);
    mix(1, 5, 9, 13, block[at[2]!]!, block[at[3]!]!);
    mix(2, 6, 10, 14, block[at[4]!]!, block[at[5]!]!);
    mix(3, 7, 11, 15, block[at[6]!]!, block[at[7]!]!);
    mix(0, 5, 10, 15, block[at[8]!]!, block[at[9]!]!);
    mix(1, 6, 11, 12, block[at[10]!]!, block[at[11]!]!);
    mix(2, 7, 8, 13, block[at[12]!]!, block[at[13]!]!);
    mix(3, 4, 9, 14, block[at[14]!]!, block[at[15]!]!);
  }
  const out = new Uint32Array(8);
  for (let at = 0; at < 8; at++) out[at] = state[at]! ^ state[at + 8]!;
  return out;
}

function words(bytes: Uint8Array): Uint32Array {
  const out = new Uint32Array(16);
  for (let at = 0; at < bytes.length; at++) out[at >> 2] = out[at >> 2]! | (bytes[at]! << (8 * (at & 3)));
  return out;
}

/** What a node of the tree would be, before it is known whether it is the root. */
type Output = { cv: Uint32Array; block: Uint32Array; counter: number; length: number; flags: number };
const chaining = (it: Output) => compress(it.cv, it.block, it.counter, it.length, it.flags);

function chunk(key: Uint32Array, bytes: Uint8Array, counter: number, flags: number): Output {
  let cv = key;
  const blocks = Math.max(1, Math.ceil(bytes.length / BLOCK));
  for (let at = 0; ; at++) {
    const part = bytes.subarray(at * BLOCK, (at + 1) * BLOCK);
    const how = flags | (at === 0 ? CHUNK_START : 0) | (at === blocks - 1 ? CHUNK_END : 0);
    if (at === blocks - 1) return { cv, block: words(part), counter, length: part.length, flags: how };
    cv = compress(cv, words(part), counter, part.length, how);
  }
}

function parent(key: Uint32Array, left: Uint32Array, right: Uint32Array, flags: number): Output {
  const block = new Uint32Array(16);
  block.set(left);
  block.set(right, 8);
  return { cv: key, block, counter: 0, length: BLOCK, flags: flags | PARENT };
}

function hash(key: Uint32Array, bytes: Uint8Array, flags: number): Uint8Array {
  const stack: Uint32Array[] = [];
  const chunks = Math.max(1, Math.ceil(bytes.length / CHUNK));
  let last = chunk(key, bytes.subarray((chunks - 1) * CHUNK), chunks - 1, flags);
  for (let at = 0; at < chunks - 1; at++) {
    let cv = chaining(chunk(key, bytes.subarray(at * CHUNK, (at + 1) * CHUNK), at, flags));
    // Whole subtrees are joined as soon as there are two of the same size.
    for (let count = at + 1; (count & 1) === 0; count >>= 1) cv = chaining(parent(key, stack.pop()!, cv, flags));
    stack.push(cv);
  }
  while (stack.length) last = parent(key, stack.pop()!, chaining(last), flags);
  const root = compress(last.cv, last.block, last.counter, last.length, last.flags | ROOT);
  const out = new Uint8Array(32);
  root.forEach((word, at) => new DataView(out.buffer).setUint32(at * 4, word, true));
  return out;
}

export const blake3 = (bytes: Uint8Array): Uint8Array => hash(IV, bytes, 0);

const contexts = new Map<string, Uint32Array>();

/** BLAKE3 under a key that follows from what the digest is for. */
export function derived(context: string, bytes: Uint8Array): Uint8Array {
  let key = contexts.get(context);
  if (!key) {
    key = words(hash(IV, new TextEncoder().encode(context), DERIVE_CONTEXT)).slice(0, 8);
    contexts.set(context, key);
  }
  return hash(key, bytes, DERIVE_MATERIAL);
}

export const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Fields that are hashed together: each with its length before it. */
export function fields(...all: Uint8Array[]): Uint8Array {
  const out = new Uint8Array(all.reduce((sum, it) => sum + 4 + it.length, 0));
  let at = 0;
  for (const it of all) {
    new DataView(out.buffer).setUint32(at, it.length, true);
    out.set(it, at + 4);
    at += 4 + it.length;
  }
  return out;
}
