// What is looked at, in the part of the address behind #: that is sent to no server and stands in no log of one.

// The screens beside that of a customer.
const views = ["service", "charts", "catalog"];
// What a screen of charts is asked for, by the names that the API has for it.
const chartParts = ["chart", "interval", "from", "to", "product_id"];

export function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const at = Date.parse(parts.get("at") ?? "");
  return {
    customer: parts.get("customer") || null,
    environment: parts.get("environment") === "sandbox" ? "sandbox" : "production",
    at: Number.isNaN(at) ? null : at,
    knownAt: parts.get("known_at") || null,
    view: views.includes(parts.get("view")) ? parts.get("view") : null,
    chart: Object.fromEntries(chartParts.map((name) => [name, parts.get(name) || null])),
    link: parts.get("link"),
    // Such as a moment that was cut when the address was sent.
    isBroken: (parts.has("at") && Number.isNaN(at)) || (parts.has("view") && !views.includes(parts.get("view"))),
  };
}

// Where nothing is looked at.
export const nowhere = { customer: null, environment: "production", at: null, knownAt: null };

function written({ customer, environment, at = null, knownAt = null, view = null, chart = {} }) {
  const parts = new URLSearchParams();
  if (view) parts.set("view", view);
  if (customer) parts.set("customer", customer);
  if (environment === "sandbox") parts.set("environment", environment);
  for (const [name, value] of Object.entries(chart)) if (value) parts.set(name, value);
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

// Who goes back has left the view that was still to be written.
window.addEventListener("popstate", () => clearTimeout(pending));

export function replace(view) {
  clearTimeout(pending);
  history.replaceState(null, "", written(view));
}
