// The archive of a bundle, strictly: every byte of it is either demanded or part of a file, so that none can be changed
// unseen. The same rules as `norma-verify` has.

export type File = { name: string; bytes: Uint8Array };
const BLOCK = 512;
const ROOT = "bundle/";
const text = new TextEncoder();

/** What is wrong with an archive. */
export class Damage extends Error {}

/** The one header of a regular file of this name and size; none if it does not fit into one. */
function header(name: string, size: number): Uint8Array | null {
  const bytes = text.encode(name);
  let [prefix, rest] = [new Uint8Array(), bytes];
  if (bytes.length > 100) {
    const at = bytes.findIndex((byte, place) => byte === 47 && bytes.length - place - 1 <= 100);
    if (at < 0 || at > 155 || at === bytes.length - 1) return null;
    prefix = bytes.slice(0, at);
    rest = bytes.slice(at + 1);
  }
  const octal = size.toString(8).padStart(11, "0");
  if (octal.length !== 11) return null;
  const block = new Uint8Array(BLOCK);
  const put = (at: number, what: string | Uint8Array) => block.set(typeof what === "string" ? text.encode(what) : what, at);
  put(0, rest);
  put(100, "0000644\0");
  put(108, "0000000\0");
  put(116, "0000000\0");
  put(124, `${octal}\0`);
  put(136, "00000000000\0");
  put(148, "        ");
  put(156, "0");
  put(257, "ustar\x0000");
  put(329, "0000000\0");
  put(337, "0000000\0");
  put(345, prefix);
  const sum = block.reduce((all, byte) => all + byte, 0);
  put(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  return block;
}

function claims(block: Uint8Array): { name: string; size: number } | null {
  const part = (from: number, to: number) => {
    const field = block.subarray(from, to);
    const end = field.indexOf(0);
    return new TextDecoder("utf-8", { fatal: true }).decode(end < 0 ? field : field.subarray(0, end));
  };
  try {
    const [name, prefix, octal] = [part(0, 100), part(345, 500), part(124, 136)];
    if (!/^[0-7]+$/.test(octal)) return null;
    return { name: prefix ? `${prefix}/${name}` : name, size: parseInt(octal, 8) };
  } catch {
    return null;
  }
}

const isZero = (bytes: Uint8Array) => bytes.every((byte) => byte === 0);
/** Bytes decide the order, not letters. */
function before(one: string, other: string): boolean {
  const [a, b] = [text.encode(one), text.encode(other)];
  for (let at = 0; at < Math.min(a.length, b.length); at++) if (a[at] !== b[at]) return a[at]! < b[at]!;
  return a.length < b.length;
}

export function read(archive: Uint8Array): File[] {
  const files: File[] = [];
  const folded = new Set<string>();
  let at = 0;
  let last = "its beginning";
  for (;;) {
    const block = archive.subarray(at, at + BLOCK);
    if (block.length < BLOCK) throw new Damage(`ends too early, in or after ${last}`);
    at += BLOCK;
    if (isZero(block)) break;
    const claimed = claims(block);
    const made = claimed && header(claimed.name, claimed.size);
    if (!claimed || !made) throw new Damage(`what follows ${last} is not the header of a file`);
    const differs = made.findIndex((byte, place) => byte !== block[place]);
    if (differs >= 0) throw new Damage(`the header of ${JSON.stringify(claimed.name)}, after ${last}, differs from the one header of such a file at byte ${differs}`);
    const name = claimed.name.slice(ROOT.length);
    if (!claimed.name.startsWith(ROOT) || name.split("/").some((part) => part === "" || part === "." || part === "..")) throw new Damage(`${JSON.stringify(claimed.name)} is not below ${ROOT}, or not a plain path`);
    if (files.length && !before(last, name)) throw new Damage(`${name} is out of order, or there twice: it follows ${last}`);
    const fold = name.normalize("NFD").toUpperCase().normalize("NFD").toLowerCase().normalize("NFD");
    if (folded.has(fold)) throw new Damage(`${name} is the same file as another one on a disk that ignores case`);
    folded.add(fold);
    last = name;
    const bytes = archive.subarray(at, at + claimed.size);
    const padding = (BLOCK - (claimed.size % BLOCK)) % BLOCK;
    if (at + claimed.size + padding > archive.length) throw new Damage(`ends too early, in or after ${last}`);
    if (!isZero(archive.subarray(at + claimed.size, at + claimed.size + padding))) throw new Damage(`the padding after ${last} is not zero`);
    at += claimed.size + padding;
    files.push({ name, bytes });
  }
  const end = archive.subarray(at, at + BLOCK);
  if (end.length < BLOCK) throw new Damage(`ends too early, in or after ${last}`);
  if (!isZero(end)) throw new Damage(`the padding after ${last} is not zero`);
  if (at + BLOCK < archive.length) throw new Damage(`something follows the end of the archive, after ${last}`);
  return files;
}
