// What is drawn of a customer: a lane for each entitlement, and beneath it the purchases and grants that give it.

import { get, path } from "./api.js";
import { millis } from "./time.js";
import { words } from "./words.js";

const hour = 3600000;
const day = 24 * hour;
const mostPurchases = 40;
// Of purchases that decide nothing so many are read in any case.
const mostOthers = 10;
// All grants can be taken back; of so many it is drawn when they were.
const mostGrants = 40;

// `whose` says of a purchase whose it is, where it is not the customer's.
export function lanesOf({ document, purchases, others, grants: all }, now, whose) {
  const grants = all?.slice(-mostGrants);
  const lanes = document.entitlements.map((one) => {
    const stretches = one.intervals.map((interval) => ({
      name: one.id, state: interval.state, from: millis(interval.from), until: millis(interval.until),
      positions: interval.positions, isExpected: millis(interval.from) > now,
      called: interval.source === "grant" && interval.state === "active" ? "granted" : interval.state,
      detail: words.carriedBy(interval.product_id, words.sources[interval.source], interval.original_transaction_id),
    }));
    const ids = [...new Set(one.intervals.map((each) => each.original_transaction_id))]
      .filter((id) => id !== null || !grants);
    return {
      id: one.id, stretches,
      purchases: [...ids.flatMap((id) => purchaseLanes(id, purchases, stretches, one, now, whose)), ...granted(one.id, grants ?? [], now)],
    };
  });
  const unheard = [...others].filter(([, purchase]) => purchase).flatMap(([id]) => purchaseLanes(id, others, [], null, now, whose));
  return unheard.length === 0 ? lanes : [...lanes, { id: words.otherPurchases, stretches: [], purchases: unheard }];
}

function granted(entitlement, grants, now) {
  return grants.filter((grant) => grant.facts.entitlement === entitlement).map(({ facts, from, until, positions }) => {
    const name = `${words.sources.grant}: ${facts.reason}`;
    return { name, stretches: [
      { name, state: "active", called: "granted", from, until, positions, isExpected: from > now, detail: `${facts.grant_id}.` },
    ] };
  });
}

function purchaseLanes(id, purchases, stretches, one, now, whose) {
  if (id === null) {
    const granted = stretches.filter((_, index) =>
      one.intervals[index].source === "grant" && one.intervals[index].state === "active");
    return granted.length === 0 ? [] : [{ name: words.sources.grant, stretches: granted }];
  }
  const purchase = purchases.get(id);
  if (!purchase) return [];
  const products = [...new Set(purchase.periods.map((period) => period.product_id))];
  const name = [whose(purchase), products.at(-1) ?? "", id].filter((text) => text !== null).join(" · ");
  return [{ name, stretches: purchase.periods.flatMap((period) => {
    const shared = { name: id, positions: period.positions, detail: words.period(period, endingOf(period, purchase, now)) };
    const [from, until, revoked] = [period.starts_at, period.ends_at, period.revoked_at].map(millis);
    const paid = { ...shared, state: "active", from, until, isExpected: from > now };
    const expiry = millis(period.expires_at);
    const isCut = revoked !== null && period.ended_by === "revocation" && (expiry === null || expiry > revoked);
    return isCut ? [paid, { ...shared, state: "revoked", from: revoked, until: expiry, isExpected: false }] : [paid];
  }) }];
}

// How everything reads over time, with the purchases that carry it.
export async function readTimeline({ customer, environment }, knownAt, signal) {
  const query = { environment, known_at: knownAt };
  const document = await get(`v1/customers/${path(customer)}/timeline`, query, signal);
  const intervals = document.entitlements.flatMap((one) => one.intervals).filter((one) => one.original_transaction_id !== null);
  // The newest first: it is the one that somebody writes about.
  intervals.sort((one, other) => millis(other.from) - millis(one.from));
  const ids = [...new Set(intervals.map((one) => one.original_transaction_id))];
  const purchases = new Map();
  const waiting = ids.slice(0, mostPurchases);
  const work = async () => {
    for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
      purchases.set(id, await get(`v1/subscriptions/${path(id)}`, query, signal));
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  return { document, ids, purchases, others: new Map(), grants: null, unread: ids.length - purchases.size };
}

// Purchases that decide nothing stand in no timeline, and grants in none but those that decide: the events name them. Answers
// whether there is anything more to be drawn.
export async function readOthers(then, history, query) {
  const { ids, purchases, others, grants } = then;
  // The newest first: it is the one that somebody writes about.
  const named = new Set(history.known().map((event) => event.original).filter(Boolean).reverse());
  const unheard = [...named].filter((id) => !purchases.has(id) && !others.has(id) && !ids.includes(id));
  const left = unheard.slice(0, Math.max(mostPurchases - purchases.size - others.size, mostOthers - others.size, 0));
  then.unread = ids.length - purchases.size + unheard.length - left.length;
  const orders = history.orders();
  if (left.length === 0 && grants?.orders === orders.length) return false;
  const found = await Promise.all(left.map((id) => get(`v1/subscriptions/${path(id)}`, query).catch(() => null)));
  // In their own order, not in that of the answers: what has no period is offered so.
  left.forEach((id, index) => others.set(id, found[index]));
  then.grants = grantsOf(orders);
  return true;
}

// The grants of a customer, by the events of these and of their revocations.
function grantsOf(orders) {
  const revoked = new Map(orders.filter((event) => event.type === "grant_revoked").map((event) => [event.facts.grant_id, event]));
  const grants = orders.filter((event) => event.type === "granted").map(({ facts, recordedAt: from, position }) => {
    const end = revoked.get(facts.grant_id);
    const ends = [millis(facts.until ?? null), end ? end.recordedAt : null].filter((ms) => ms !== null);
    return {
      facts, from, until: ends.length > 0 ? Math.min(...ends) : null, isRevoked: end !== undefined,
      positions: [position, ...(end ? [end.position] : [])],
    };
  }).filter((grant) => grant.until === null || grant.until > grant.from);
  return Object.assign(grants, { orders: orders.length });
}

// Purchases that are paid for at an instant and decide nothing: somebody who asks about a charge means them. They are those
// of the ids that are the customer.
export function paidBeside(held, { purchases, others }, ids, at) {
  const deciding = held.entitlements.filter((one) => one.gives_access).map((one) => one.original_transaction_id);
  return [...purchases, ...others].filter(([id, purchase]) => purchase && !deciding.includes(id)).map(([id, purchase]) => ({
    id, purchase, period: purchase.periods.find((one) => millis(one.starts_at) <= at && (millis(one.ends_at) ?? Infinity) > at
      && ids.includes(one.customer_id) && one.ownership !== "family_shared"),
  })).filter(({ period }) => period);
}

// How a period ends: one that is renewed does not run out.
function endingOf({ ended_by: ending, ends_at: end }, purchase, now) {
  const { periods, will_renew: renews } = purchase;
  if (ending !== "expiry") return ending;
  const ends = millis(end);
  if (periods.some((one) => millis(one.starts_at) >= ends && millis(one.starts_at) <= ends + hour)) return "renewed";
  if (ends <= now) return "ran_out";
  return purchase.paused ? "paused" : !renews ? ending : purchase.awaits_consent ? "awaits_consent" : purchase.renews_as ? "renews_as" : "renews";
}

// How many grants are not drawn.
export const undrawn = ({ grants }) => Math.max((grants?.length ?? 0) - mostGrants, 0);

// When an entitlement reads otherwise, in order.
export function boundaries(document) {
  const all = document.entitlements.flatMap((one) =>
    one.intervals.flatMap((interval) => [millis(interval.from), millis(interval.until)])).filter((ms) => ms !== null);
  return [...new Set(all)].sort((one, other) => one - other);
}

export function purchaseEnds({ purchases }) {
  return [...purchases.values()].flatMap((one) => one.periods.flatMap((period) =>
    [period.starts_at, period.ends_at, period.expires_at].map(millis))).filter((ms) => ms !== null);
}

// For who may not read events: those that a timeline rests on.
export function citedStops(all) {
  const positions = all ? all.document.entitlements.flatMap((one) => one.intervals.flatMap((each) => each.positions)) : [];
  return [...new Set(positions)].sort((one, other) => one - other)
    .map((position) => ({ position, type: null, recordedAt: null }));
}

// Whose a purchase is: `null` where it is nobody's, or one of which there is no period.
export const ownerOf = (purchase) => purchase?.periods.at(-1)?.customer_id ?? null;

// A little before the first change, and a little after the last and the present.
export function span(instants, now) {
  const from = instants.length > 0 ? instants.reduce((least, one) => Math.min(least, one), now) : now - 30 * day;
  const until = instants.reduce((most, one) => Math.max(most, one), now);
  const margin = Math.max((until - from) * 0.04, day);
  return [from - margin, until + margin];
}
