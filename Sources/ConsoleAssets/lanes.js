// What is drawn of a customer: a lane for each entitlement, and beneath it the purchases and grants that give it.

import { millis } from "./time.js";
import { words } from "./words.js";

const day = 86400000;

export function lanesOf({ document, purchases, others, grants }, now) {
  const lanes = document.entitlements.map((one) => {
    const stretches = one.intervals.map((interval) => ({
      name: one.id, state: interval.state, from: millis(interval.from), until: millis(interval.until),
      positions: interval.positions, isExpected: millis(interval.from) > now,
      detail: words.carriedBy(interval.product_id, words.sources[interval.source], interval.original_transaction_id),
    }));
    const ids = [...new Set(one.intervals.map((each) => each.original_transaction_id))]
      .filter((id) => id !== null || !grants);
    return {
      id: one.id, stretches,
      purchases: [...ids.flatMap((id) => purchaseLanes(id, purchases, stretches, one, now)), ...granted(one.id, grants ?? [], now)],
    };
  });
  const unheard = [...others].filter(([, purchase]) => purchase).flatMap(([id]) => purchaseLanes(id, others, [], null, now));
  return unheard.length === 0 ? lanes : [...lanes, { id: words.otherPurchases, stretches: [], purchases: unheard }];
}

function granted(entitlement, grants, now) {
  return grants.filter((grant) => grant.facts.entitlement === entitlement).map(({ facts, from, until, positions }) => {
    const name = `${words.sources.grant}: ${facts.reason}`;
    return { name, stretches: [
      { name, state: "active", from, until, positions, isExpected: from > now, detail: `${facts.grant_id}.` },
    ] };
  });
}

function purchaseLanes(id, purchases, stretches, one, now) {
  if (id === null) {
    const granted = stretches.filter((_, index) =>
      one.intervals[index].source === "grant" && one.intervals[index].state === "active");
    return granted.length === 0 ? [] : [{ name: words.sources.grant, stretches: granted }];
  }
  const purchase = purchases.get(id);
  if (!purchase) return [];
  const products = [...new Set(purchase.periods.map((period) => period.product_id))];
  const name = `${products.at(-1) ?? ""} · ${id}`;
  return [{ name, stretches: purchase.periods.flatMap((period) => {
    const shared = { name: id, positions: period.positions, detail: words.period(period) };
    const [from, until, revoked] = [period.starts_at, period.ends_at, period.revoked_at].map(millis);
    const paid = { ...shared, state: "active", from, until, isExpected: from > now };
    const expiry = millis(period.expires_at);
    const isCut = revoked !== null && period.ended_by === "revocation" && (expiry === null || expiry > revoked);
    return isCut ? [paid, { ...shared, state: "revoked", from: revoked, until: expiry, isExpected: false }] : [paid];
  }) }];
}

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

// A little before the first change, and a little after the last and the present.
export function span(instants, now) {
  const from = instants.length > 0 ? instants.reduce((least, one) => Math.min(least, one), now) : now - 30 * day;
  const until = instants.reduce((most, one) => Math.max(most, one), now);
  const margin = Math.max((until - from) * 0.04, day);
  return [from - margin, until + margin];
}
