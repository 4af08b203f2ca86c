// Checks, in the browser, that an event stands in the log: its leaf, the path to the root of a checkpoint, and the signature
// under that.

import { get } from "./api.js";
import { screenWords } from "./screenwords.js";

const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hex = (data) => [...data].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

async function sha256(...parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
}

const node = (left, right) => sha256(Uint8Array.of(1), left, right);

// The root to which a leaf's path leads (RFC 9162, section 2.1.3.2); `null` where the path has another length.
export async function rootOf(leaf, position, size, path) {
  let [index, last, root] = [BigInt(position) - 1n, BigInt(size) - 1n, leaf];
  for (const hash of path) {
    if (last === 0n) return null;
    if ((index & 1n) === 1n || index === last) {
      root = await node(hash, root);
      while ((index & 1n) === 0n && index !== 0n) {
        index >>= 1n;
        last >>= 1n;
      }
    } else {
      root = await node(root, hash);
    }
    index >>= 1n;
    last >>= 1n;
  }
  return last === 0n ? root : null;
}

export function readCheckpoint(text) {
  const end = text.indexOf("\n\n");
  const [origin, size, root] = text.slice(0, end).split("\n");
  const signature = text.slice(end + 2).split("\n")[0].split(" ");
  return {
    origin, size: Number(size), root: fromBase64(root), signed: new TextEncoder().encode(text.slice(0, end + 1)),
    signature: fromBase64(signature[2]).slice(4),
  };
}

async function isSigned(checkpoint, key) {
  const material = fromBase64(key.trim().split("+").slice(2).join("+")).slice(1);
  const verifier = await crypto.subtle.importKey("raw", material, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "Ed25519" }, verifier, checkpoint.signature, checkpoint.signed);
}

// What was checked, as sentences: `{ok, text}` each; it ends at the first that fails.
export async function checkInclusion(event) {
  if (!globalThis.crypto?.subtle) return [{ ok: false, text: screenWords.proof.needsSecureContext }];
  const checkpoint = readCheckpoint(await get("v1/ledger/checkpoint"));
  if (checkpoint.size < event.position) return [{ ok: false, text: screenWords.proof.tooYoung }];
  const proof = await get(`v1/events/${event.position}/proof`, { size: checkpoint.size });
  const leaf = await sha256(Uint8Array.of(0), bytes(event.hash));
  if (hex(leaf) !== proof.leaf_hash) return [{ ok: false, text: screenWords.proof.otherLeaf }];
  const steps = [{ ok: true, text: screenWords.proof.leaf(event.position) }];
  const root = await rootOf(leaf, event.position, checkpoint.size, proof.hashes.map(bytes));
  if (root === null || hex(root) !== hex(checkpoint.root)) return [...steps, { ok: false, text: screenWords.proof.otherRoot }];
  steps.push({ ok: true, text: screenWords.proof.root(proof.hashes.length, checkpoint.size) });
  let signed = null;
  try {
    signed = await isSigned(checkpoint, await get(".well-known/rightful-log-key"));
  } catch {
    // This browser has no Ed25519.
  }
  if (signed === null) steps.push({ ok: null, text: screenWords.proof.noEd25519 });
  else steps.push({ ok: signed, text: signed ? screenWords.proof.signed(checkpoint.origin) : screenWords.proof.badSignature });
  return steps;
}
