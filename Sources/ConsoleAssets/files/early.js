// Asks for what is shown first while the other modules are still on their way, and so needs next to none of them.

import { readAddress } from "./address.js";

// By address, the answers that nobody has taken yet, and when they were asked for.
const asked = new Map();
const aborter = new AbortController();
// In milliseconds: what was asked for longer ago may be so no more.
const soon = 2000;
// Whatever is asked for and is not answered within this is taken to be unreachable.
export const longestWait = 15000;
// The most purchases that are asked for here.
const mostPurchases = 6;

// What was asked for, once: whoever asks for it next takes it. `null` where nothing was.
export function takeEarly(url) {
  const one = asked.get(url.href);
  asked.delete(url.href);
  return one && performance.now() - one.at < soon ? one.answer : null;
}

// Somebody else may be signed in.
export function forgetEarly() {
  asked.clear();
}

// Nobody is signed in any more: what is under way would be refused.
export function endEarly() {
  asked.clear();
  aborter.abort();
}

async function ask(path, query = {}) {
  aborter.signal.throwIfAborted();
  const url = new URL(path, new URL("./", document.baseURI));
  for (const [name, value] of Object.entries(query)) if (value !== null) url.searchParams.set(name, value);
  const signal = AbortSignal.any([aborter.signal, AbortSignal.timeout(longestWait)]);
  const answer = fetch(url, { credentials: "same-origin", cache: "no-store", redirect: "error", signal });
  asked.set(url.href, { answer, at: performance.now() });
  // The one who takes it reads it as well.
  return (await answer.then((response) => response.clone())).json();
}

async function begin() {
  const { link, customer, view, environment: wanted, at, knownAt } = readAddress();
  // A link makes another session.
  if (link) return;
  const { session } = await ask("console/session");
  const scopes = session?.key.scopes ?? [];
  if (!customer || view || customer === "." || customer === ".." || !["customers:read", "admin"].some((one) => scopes.includes(one))) return;
  const environment = session.key.environment ?? wanted;
  const own = `v1/customers/${encodeURIComponent(customer)}`;
  ask(`${own}/entitlements`, { environment, at: at === null ? null : new Date(at).toISOString(), known_at: knownAt }).catch(() => {});
  const { entitlements } = await ask(`${own}/timeline`, { environment });
  const purchases = new Set(entitlements.flatMap((one) => one.intervals.map((interval) => interval.original_transaction_id)));
  for (const id of [...purchases].filter((one) => one !== null).slice(0, mostPurchases)) {
    ask(`v1/subscriptions/${encodeURIComponent(id)}`, { environment }).catch(() => {});
  }
}

// What fails here fails for whoever takes it, and is said there.
begin().catch(() => {});
