// What a support person can read out, of one entitlement at an instant.

import { timeText, millis } from "./time.js";
import { words } from "./words.js";

// Those of which the same is to be said, together. `tell` answers how access goes on, how it is renewed, and how it was lost; it
// is left out of what is only foreseen.
export function grouped(entitlements, tell) {
  const groups = new Map();
  for (const one of entitlements) {
    const key = sentence({ ...one, id: "" }, "…", tell?.(one)) + one.state + one.gives_access;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()];
}

// What is said of those of which the same is to be said.
export function groupSentence(group, tell) {
  const names = group.map((one) => one.id);
  return sentence(group[0], group[0].gives_access ? words.and(names) : words.or(names), tell?.(group[0]));
}

const mostLosses = 6;
const say = words.sentences;
const text = (ms) => (ms === null ? null : timeText(ms));

// How access goes on from an instant, by the intervals of the timeline: until when what gives it then does, and what is next.
// `paid` and `trial` are what the purchase says.
export function courseOf({ id, original_transaction_id: original, offer }, { document, purchases }, at) {
  const intervals = document.entitlements.find((one) => one.id === id)?.intervals ?? [];
  const index = intervals.findIndex((one) => millis(one.from) <= at && (millis(one.until) ?? Infinity) > at);
  if (index < 0 || !intervals[index].gives_access) return null;
  const later = intervals.slice(index + 1);
  const stop = later.findIndex((one) => !one.gives_access);
  const next = (stop < 0 ? later : later.slice(0, stop)).map((one) => ({
    state: one.state, until: millis(one.until), by: say.by[one.state] ?? one.product_id ?? say.by.grant,
  }));
  const until = millis(intervals[index].until);
  const periods = (purchases.get(original)?.periods ?? []).filter((one) => millis(one.starts_at) < (until ?? Infinity))
    .sort((one, other) => millis(one.starts_at) - millis(other.starts_at));
  const current = periods.findLast((one) => millis(one.starts_at) <= at);
  const trial = offer?.discount === "free_trial" && current ? Math.min(millis(current.expires_at), until ?? Infinity) : null;
  // After the trial the same purchase goes on, in the same interval.
  const paid = millis(periods.at(-1)?.expires_at ?? null);
  if (trial !== null && current !== periods.at(-1)) {
    // While a renewal is waited for, access lasts longer than what is paid for.
    const end = paid !== null && paid < (until ?? Infinity) ? paid : until;
    next.unshift({ state: "active", until: end, by: periods.at(-1).product_id });
  }
  return { until, next, trial, paid, isTrialLast: current === periods.at(-1) };
}

// By the time of each loss: what was held then, and the instant before. What is in `read` is not asked for again.
export async function lossesOf({ entitlements }, read, ask, knownAt) {
  const times = [...new Set(entitlements.filter((one) => !one.gives_access).map((one) => one.since))].slice(0, mostLosses);
  const key = (time) => `${knownAt} ${time}`;
  await Promise.all(times.filter((time) => !read.has(key(time))).map(async (time) => {
    read.set(key(time), await Promise.all([time, new Date(millis(time) - 1).toISOString()].map(ask)));
  }));
  return new Map(times.map((time) => [time, read.get(key(time))]));
}

// What it was lost by: of the reading of the first instant without access, where that is of what gave access before.
export function lossOf({ id }, [then, before]) {
  const [lost, last] = [then, before].map((held) => held.entitlements.find((one) => one.id === id));
  if (!lost || !last?.gives_access) return lost?.reason.code;
  const isSame = lost.original_transaction_id === last.original_transaction_id
    // A grant is known by its event.
    && (lost.original_transaction_id !== null || lost.reason.positions.some((one) => last.reason.positions.includes(one)));
  return isSame ? lost.reason.code : "other";
}

// By the reason, not by the state alone: what is read out to a customer has to be what happened.
function sentence(entitlement, name, { course, renewal, lost, isInPart, isAhead } = {}) {
  if (!entitlement.gives_access) return isAhead ? say.ahead(name, text(millis(entitlement.since))) : lossSentence(entitlement, name, lost, isInPart);
  if (!course && entitlement.until !== null) return foreseen(entitlement, name);
  const { until, next } = course ?? { until: null, next: [] };
  const end = text(until);
  const isShared = entitlement.ownership === "family_shared";
  switch (entitlement.reason.code) {
    case "grant": return goingOn(end ? say.grantedUntil(name, end) : say.granted(name), next);
    case "one_time_purchase":
      return goingOn(end ? say.paid(name, end) : isShared ? say.sharedForGood(name) : say.forGood(name), next);
    case "paid_period":
      return end ? paidSentence(entitlement, name, course, isShared, renewal) : isShared ? say.sharedForGood(name) : say.forGood(name);
    case "renewal_pending": return goingOn(say.pending(name, end), next);
    case "leeway": return goingOn(say.leeway(name, end), next);
    case "grace_period":
    case "past_due": return goingOn(say.grace(name, end), next);
    case "billing_retry": return goingOn(isOnWeb(entitlement) ? say.unpaidWith(name) : say.retryWith(name), next);
    default: return say.holds(name);
  }
}

const isOnWeb = ({ source }) => source === "web_checkout";

// One and the same trouble: its last word tells all of it.
const unpaid = ["grace_period", "past_due", "billing_retry", "renewal_pending", "billing_given_up"];

// The reason is that of the state now, which may have come long after access was lost: the date goes with the reason of then.
function lossSentence({ reason, since, source }, name, lost, isInPart) {
  const lostBy = isOnWeb({ source }) ? { ...say.lostBy, ...say.lostOnWebBy } : { ...say.lostBy };
  if (isInPart) lostBy.refunded = lostBy.refunded_in_part;
  const now = lostBy[reason.code] ?? lostBy.expired;
  if (!lost) return say.none(name, now);
  const when = timeText(millis(since));
  const isUnpaid = unpaid.includes(lost);
  if (lost === reason.code || (isUnpaid && unpaid.includes(reason.code))) return say.lost(name, when, now);
  return `${say.lost(name, when, isUnpaid ? lostBy.unpaid : lostBy[lost] ?? lostBy.other)} `
    + (lost === "other" ? say.ofAnother(now) : say.also(now));
}

// Only the end of all access is known, and by what it begins: the end is said of nothing in it.
function foreseen({ until, reason, offer, ownership, source, will_renew: renews }, name) {
  const code = reason.code === "past_due" ? "grace_period" : say.atPresent[reason.code] ? reason.code
    : offer?.discount === "free_trial" ? "free_trial" : ownership;
  return [say.paid(name, text(millis(until))), say.atPresent[code],
    reason.code === "paid_period" && renews !== null && (renews ? say.renews : ending({ source }))].filter(Boolean).join(" ");
}

// What is said of a renewal that is not simply made; `null` where it is, or there is none. `renewal` is what the store says of it,
// and whether what is sold then gives the entitlement.
export function renewalOf({ id, original_transaction_id: original }, purchases, catalog) {
  const purchase = purchases.get(original);
  if (!purchase) return null;
  const { paused, awaits_consent: awaits, renews_as: as } = purchase;
  const gives = (catalog?.products ?? []).some((one) => one.product_id === as && one.entitlements.includes(id));
  return paused || awaits || as ? { paused, awaits, as, gives } : null;
}

function renewalSentence({ paused, awaits, as, gives }, name) {
  if (paused) return say.paused;
  return [as && say.renewsAs(as, gives ? null : name), awaits && say.awaitsConsent].filter(Boolean).join(" ");
}

const ending = (entitlement) => (isOnWeb(entitlement) ? say.isSetToEnd : say.doesNotRenew);

const mostNext = 3;

// What follows where access goes on by something else.
function goingOn(start, next) {
  const isUnpaid = next.some((one) => one.state !== "active");
  return [start, ...next.slice(0, mostNext).map((one) => say.after(text(one.until), one.by)),
    next.length > mostNext && say.goesOn(text(next.at(-1).until)), isUnpaid && say.lookAtPay].filter(Boolean).join(" ");
}

// Access may last longer than what is paid for: by a grace period, or while the next renewal is waited for.
function paidSentence({ will_renew: renews, offer, source }, name, { until, next, paid, trial, isTrialLast }, isShared, renewal) {
  const [first, ...others] = next;
  const isTrial = offer?.discount === "free_trial" && trial !== null;
  const isShort = paid !== null && paid < until - 1000;
  if (!isTrial && first?.state === "in_grace_period" && first.until !== null) {
    return goingOn(say.paidThenGrace(name, text(isShort ? paid : until), text(first.until)), others);
  }
  // It renews when it ends, and not where it is cut short or something of it follows already.
  const isRenewing = renews === true && (isTrial ? isTrialLast : true) && (paid === null || paid <= until + 1000);
  // On the web an hour is waited for a renewal that was not heard of, also where an end is set for later.
  const end = text(isShort && (renews || isOnWeb({ source })) ? paid : until);
  const start = isTrial ? say.trial(name, text(trial)) : isShared ? say.shared(name, end) : say.paid(name, end);
  // Without its periods nobody knows whether access lasts longer than what is paid for.
  const isNext = isRenewing && (first?.state ?? "active") === "active";
  if (renewal && (isNext || renewal.paused)) return goingOn(`${start} ${renewalSentence(renewal, name)}`, next);
  if (isNext) return `${start} ${paid ? say.renewsThen : say.renews}`;
  return goingOn(renews === false && isTrialLast ? `${start} ${ending({ source })}` : start, next);
}
