// What a support person can read out, of one entitlement at an instant.

import { timeText, millis } from "./time.js";
import { words } from "./words.js";

// Those of which the same is to be said, together.
export function grouped(entitlements) {
  const groups = new Map();
  for (const one of entitlements) {
    const key = sentence({ ...one, id: "" }) + one.state + one.gives_access;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()];
}

// What is said of those of which the same is to be said.
export function groupSentence(group) {
  const names = group.map((one) => one.id);
  return sentence(group[0], group[0].gives_access ? words.and(names) : words.or(names));
}

export function sentence(entitlement, name = entitlement.id) {
  const say = words.sentences;
  const until = entitlement.until === null ? null : timeText(millis(entitlement.until));
  const since = timeText(millis(entitlement.since));
  const isTrial = entitlement.offer?.discount === "free_trial";
  const isShared = entitlement.ownership === "family_shared";
  switch (entitlement.state) {
    case "active": {
      if (entitlement.reason.code === "renewal_pending") return say.pending(name, until);
      if (entitlement.source === "grant") return until ? say.grantedUntil(name, until) : say.granted(name);
      if (!until) return isShared ? say.sharedForGood(name) : say.forGood(name);
      const start = isTrial ? say.trial(name, until) : isShared ? say.shared(name, until) : say.paid(name, until);
      if (entitlement.will_renew === true) return `${start} ${say.renews}`;
      if (entitlement.will_renew === false) return `${start} ${say.doesNotRenew}`;
      return start;
    }
    case "in_grace_period": return entitlement.gives_access ? say.grace(name, until) : say.graceWithout(name, since);
    case "in_billing_retry": return entitlement.gives_access ? say.retryWith(name) : say.retry(name, since);
    case "revoked": return say.revoked(name, since);
    case "expired": return entitlement.gives_access ? say.leeway(name, until) : say.expired(name, since);
    default: return entitlement.gives_access ? say.holds(name) : say.holdsNot(name);
  }
}
