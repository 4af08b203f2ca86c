// What is looked at, in the part of the address behind #: that is sent to no server and stands in no log of one.

export function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const at = Date.parse(parts.get("at") ?? "");
  return {
    customer: parts.get("customer") || null,
    environment: parts.get("environment") === "sandbox" ? "sandbox" : "production",
    at: Number.isNaN(at) ? null : at,
    knownAt: parts.get("known_at") || null,
    isOverview: parts.get("view") === "service",
    link: parts.get("link"),
  };
}

function written({ customer, environment, at, knownAt, isOverview = false }) {
  const parts = new URLSearchParams();
  if (isOverview) parts.set("view", "service");
  if (customer) parts.set("customer", customer);
  if (environment === "sandbox") parts.set("environment", environment);
  if (at !== null) parts.set("at", new Date(at).toISOString());
  if (knownAt !== null) parts.set("known_at", knownAt);
  const text = parts.toString();
  return location.pathname + location.search + (text ? `#${text}` : "");
}

let pending = null;

// Another view: the one before is a step back.
export function goTo(view) {
  clearTimeout(pending);
  history.pushState(null, "", written(view));
}

// The same view at another moment; browsers bound how often that may be written.
export function adjust(view) {
  clearTimeout(pending);
  pending = setTimeout(() => history.replaceState(null, "", written(view)), 120);
}

export function replace(view) {
  clearTimeout(pending);
  history.replaceState(null, "", written(view));
}
