// What a support person can read out, of one entitlement at an instant.

import { timeText, millis } from "./time.js";
import { words } from "./words.js";

// Those of which the same is to be said, together. `paid` tells of one until when it is paid for, and what comes then.
export function grouped(entitlements, paid) {
  const groups = new Map();
  for (const one of entitlements) {
    const key = sentence({ ...one, id: "" }, "", paid?.(one)) + one.state + one.gives_access;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()];
}

// What is said of those of which the same is to be said.
export function groupSentence(group, paid) {
  const names = group.map((one) => one.id);
  return sentence(group[0], group[0].gives_access ? words.and(names) : words.or(names), paid?.(group[0]));
}

const say = words.sentences;

// By the reason, not by the state alone: what is read out to a customer has to be what happened.
function sentence(entitlement, name, paid) {
  const until = entitlement.until === null ? null : timeText(millis(entitlement.until));
  const since = timeText(millis(entitlement.since));
  if (!entitlement.gives_access) return say.lost(name, since, say.lostBy[entitlement.reason.code] ?? say.lostBy.expired);
  const isShared = entitlement.ownership === "family_shared";
  switch (entitlement.reason.code) {
    case "grant": return until ? say.grantedUntil(name, until) : say.granted(name);
    case "one_time_purchase": return until ? say.paid(name, until) : isShared ? say.sharedForGood(name) : say.forGood(name);
    case "paid_period": return paidSentence(entitlement, name, until, isShared, paid);
    case "renewal_pending": return say.pending(name, until);
    case "leeway": return say.leeway(name, until);
    case "grace_period":
    case "past_due": return say.grace(name, until);
    case "billing_retry": return say.retryWith(name);
    default: return say.holds(name);
  }
}

// Access may last longer than what is paid for: by a grace period, or while the next renewal is waited for.
function paidSentence(entitlement, name, until, isShared, paid) {
  if (!until) return isShared ? say.sharedForGood(name) : say.forGood(name);
  const isShort = paid && paid.until < millis(entitlement.until) - 1000;
  if (isShort && (paid.next === "in_grace_period" || paid.next === "in_billing_retry")) {
    return say.paidThenGrace(name, timeText(paid.until), until);
  }
  const renews = entitlement.will_renew === true;
  const end = isShort && renews && paid.isSame ? timeText(paid.until) : until;
  const start = entitlement.offer?.discount === "free_trial" ? say.trial(name, end) : isShared ? say.shared(name, end) : say.paid(name, end);
  if (entitlement.will_renew === false) return `${start} ${say.doesNotRenew}`;
  // Without its periods nobody knows whether access lasts longer than what is paid for.
  return renews && !(isShort && !paid.isSame) ? `${start} ${paid ? say.renewsThen : say.renews}` : start;
}
