// Receives Rightful's webhooks and keeps what each customer is entitled to. Node 20 or later; nothing to install.
//
//   WEBHOOK_SECRET=whsec_… RIGHTFUL_URL=https://… RIGHTFUL_KEY=… node receiver.mjs 8000
//
// The key needs the scope customers:read. Put a proxy that speaks TLS before it.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { isDeepStrictEqual } from "node:util";

const LARGEST = 8 << 20; // bytes of a message
const TOLERANCE = 300; // seconds
const { WEBHOOK_SECRET, RIGHTFUL_URL, RIGHTFUL_KEY } = process.env;
const key = Buffer.from(WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");

// In place of a table of your database, by customer and environment: { endpoint, sequence, held }. What was forgotten at the end
// of the process is read again, because to an empty table every message comes after a hole.
const customers = new Map();
// Messages of one customer are taken one after the other.
const turns = new Map();

function isSigned(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures } = headers;
  if (!id || !signatures || !/^\d+$/.test(timestamp ?? "")) return false;
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE) return false;
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
  // While a secret is rolled there are two.
  return signatures.split(" ").some((signature) => {
    const [version, value] = signature.split(",");
    const code = Buffer.from(value ?? "", "base64");
    return version === "v1" && code.length === expected.length && timingSafeEqual(code, expected);
  });
}

async function entitlementsNow(customer, environment) {
  const url = `${RIGHTFUL_URL}/v1/customers/${encodeURIComponent(customer)}/entitlements?environment=${environment}`;
  const answer = await fetch(url, {
    headers: { Authorization: `Bearer ${RIGHTFUL_KEY}` },
    signal: AbortSignal.timeout(5000),
  });
  if (!answer.ok) throw new Error(`${url} was answered ${answer.status}`);
  return (await answer.json()).entitlements;
}

async function take({ customer_id: customer, environment, endpoint, sequence, before, after, forgotten }) {
  const name = `${customer} ${environment}`;
  const known = customers.get(name) ?? { endpoint, sequence: 0, held: [] };
  const isSame = endpoint === known.endpoint;
  if (isSame && sequence === known.sequence && isDeepStrictEqual(after, known.held)) return; // It came before.
  const isNext = isSame && sequence === known.sequence + 1 && isDeepStrictEqual(before, known.held) && !forgotten;
  // Whatever is not the next one tells that something was missed, came late, or began anew: so what holds now is read.
  const held = isNext ? after : await entitlementsNow(customer, environment);
  if (forgotten && held.length === 0) customers.delete(name);
  else customers.set(name, { endpoint, sequence, held });
  const open = held.filter((entitlement) => entitlement.gives_access).map((entitlement) => entitlement.id);
  console.log(`${name} ${sequence} ${isNext ? "kept" : "read"}: ${open.sort().join(" ")}`);
}

async function takeInTurn(change) {
  const name = `${change.customer_id} ${change.environment}`;
  const turn = (turns.get(name) ?? Promise.resolve()).catch(() => {}).then(() => take(change));
  turns.set(name, turn);
  try {
    await turn;
  } finally {
    if (turns.get(name) === turn) turns.delete(name);
  }
}

async function receive(request) {
  if (request.method !== "POST") return 405;
  const parts = [];
  let size = 0;
  for await (const part of request) {
    if ((size += part.length) > LARGEST) return 413;
    parts.push(part);
  }
  const body = Buffer.concat(parts); // byte for byte as it was signed
  if (!isSigned(request.headers, body)) return 400;
  const message = JSON.parse(body);
  if (message.type === "entitlements.changed") await takeInTurn(message.data);
  return 204;
}

createServer(async (request, response) => {
  try {
    response.writeHead(await receive(request)).end();
  } catch (error) {
    console.error("not kept, and sent again:", error);
    response.writeHead(500).end();
  }
}).listen(Number(process.argv[2]), "127.0.0.1");
