// Envelopes (DSSE) and the keys that they are signed with: ECDSA P-256 over SHA-256, checked by the browser itself.
import { hex } from "./blake3";

export type Statement = { _type: string; subject: { name: string; digest: Record<string, string> }[]; predicateType: string; predicate: Record<string, unknown> };
export type Key = { id: string; key: CryptoKey };

const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const utf8 = new TextDecoder("utf-8", { fatal: true });

export const sha256 = async (bytes: Uint8Array): Promise<string> => hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as BufferSource)));

function base64(given: string): Uint8Array {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(given)) throw new Error("is not standard base64 with padding");
  const bytes = Uint8Array.from(atob(given), (c) => c.charCodeAt(0));
  // The spare bits of the last group are zero, so that there is one spelling.
  if (btoa(String.fromCharCode(...bytes.subarray(-3 * 1000))) !== given.slice(-Math.ceil(Math.min(bytes.length, 3000) / 3) * 4) && bytes.length <= 3000) throw new Error("is not standard base64 with padding");
  return bytes;
}

/** A public key as `openssl` and `norma keys export` write it. */
export async function readKey(pem: string): Promise<Key> {
  const found = /^-----BEGIN PUBLIC KEY-----\s*([A-Za-z0-9+/=\s]+?)\s*-----END PUBLIC KEY-----\s*$/.exec(pem.trim());
  if (!found) throw new Error("is not a public key in PEM");
  const der = base64(found[1]!.replace(/\s/g, ""));
  const key = await crypto.subtle.importKey("spki", der as BufferSource, { name: "ECDSA", namedCurve: "P-256" }, false, ["verify"]);
  return { id: await sha256(der), key };
}

/** The two numbers of a signature in DER, as the browser wants them. */
function rawSignature(der: Uint8Array): Uint8Array {
  const wrong = () => new Error("its signature is not ECDSA in DER");
  if (der[0] !== 0x30 || der[1] !== der.length - 2) throw wrong();
  const out = new Uint8Array(64);
  let at = 2;
  for (const place of [0, 32]) {
    const length = der[at + 1] ?? 0;
    if (der[at] !== 2 || length === 0 || length > 33 || at + 2 + length > der.length) throw wrong();
    const number = der.subarray(at + 2, at + 2 + length);
    if (number[0]! & 0x80 || (length > 1 && number[0] === 0 && !(number[1]! & 0x80))) throw wrong();
    const trimmed = number[0] === 0 ? number.subarray(1) : number;
    if (trimmed.length > 32) throw wrong();
    out.set(trimmed, place + 32 - trimmed.length);
    at += 2 + length;
  }
  if (at !== der.length) throw wrong();
  return out;
}

const isOnly = (value: Record<string, unknown>, names: string[]) => Object.keys(value).length === names.length && names.every((name) => name in value);

/** What an envelope says and who signed it, if one of these keys did. */
export async function open(bytes: Uint8Array, keys: readonly Key[]): Promise<{ said: Statement; signer: string }> {
  const envelope = JSON.parse(utf8.decode(bytes)) as { payloadType: string; payload: string; signatures: { keyid: string; sig: string }[] };
  if (!isOnly(envelope, ["payloadType", "payload", "signatures"])) throw new Error("is not an envelope");
  if (envelope.payloadType !== PAYLOAD_TYPE) throw new Error(`carries ${JSON.stringify(envelope.payloadType)}, not ${PAYLOAD_TYPE}`);
  const [signature] = envelope.signatures;
  if (envelope.signatures.length !== 1 || !signature || !isOnly(signature, ["keyid", "sig"])) throw new Error(`has ${envelope.signatures.length} signatures, not one`);
  const payload = base64(envelope.payload);
  const raw = rawSignature(base64(signature.sig));
  const head = new TextEncoder().encode(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${payload.length} `);
  const signed = new Uint8Array(head.length + payload.length);
  signed.set(head);
  signed.set(payload, head.length);
  for (const { id, key } of keys) {
    if (!(await crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, key, raw as BufferSource, signed as BufferSource))) continue;
    if (id !== signature.keyid) throw new Error(`is signed by key ${id} and says that it was ${JSON.stringify(signature.keyid)}`);
    const said = JSON.parse(utf8.decode(payload)) as Statement;
    if (said._type !== "https://in-toto.io/Statement/v1") throw new Error("is not a statement");
    return { said, signer: id };
  }
  throw new Error("is not signed by any of the keys");
}
