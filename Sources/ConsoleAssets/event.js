// One event of the log: what it states, what it was taken from, and that it stands in the log.

import { get, may } from "./api.js";
import { button, el, openDialog, show } from "./dom.js";
import { undoing } from "./commands.js";
import { checkInclusion } from "./proof.js";
import { millis, timeElement } from "./time.js";
import { words } from "./words.js";
import { eventWords } from "./history.js";

const longText = 200;

// JSON as nested lists; whatever it holds is text.
export function tree(value) {
  if (value === null || value === undefined) return el("span", { class: "soft" }, words.nothing);
  if (Array.isArray(value)) {
    if (value.length === 0) return el("span", { class: "soft" }, words.none);
    return el("ol", { class: "tree" }, value.map((one) => el("li", {}, tree(one))));
  }
  if (typeof value === "object") {
    const entries = Object.entries(value);
    if (entries.length === 0) return el("span", { class: "soft" }, words.none);
    return el("dl", { class: "tree" }, entries.map(([name, one]) => [el("dt", {}, name), el("dd", {}, tree(one))]));
  }
  const text = String(value);
  if (typeof value === "string" && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text)) return timeElement(Date.parse(text));
  if (text.length <= longText) return el("code", {}, text);
  return el("details", {}, el("summary", {}, el("code", {}, `${text.slice(0, 60)}…`)), el("code", {}, text));
}

// Opens an event in a dialog; `view` is the screen of the customer whom it is about.
export async function openEvent(position, view) {
  const body = el("div", { class: "body" }, el("p", { class: "soft" }, words.loading));
  openDialog(words.event(position), words.close, body, "event");
  let event;
  try {
    event = await get(`v1/events/${position}`);
  } catch (error) {
    show(body, el("p", { class: "problem" }, error.message || words.unreachable));
    return;
  }
  show(body, description(event, view));
}

function description(event, view) {
  const line = (name, value) => value !== null && value !== undefined && [el("dt", {}, name), el("dd", {}, value)];
  const id = (text) => text && el("code", {}, text);
  const proof = el("div", { "aria-live": "polite" });
  const check = button(words.proof.check, async () => {
    check.disabled = true;
    show(proof, el("p", { class: "soft" }, words.proof.checking));
    try {
      const steps = await checkInclusion(event);
      show(proof, el("ul", { class: "steps" }, steps.map((step) =>
        el("li", { class: step.ok === false ? "problem" : "" }, step.ok ? "✓ " : step.ok === null ? "– " : "✗ ", step.text))),
      steps.every((step) => step.ok !== false) && el("p", { class: "soft" }, words.proof.rest));
    } catch (error) {
      show(proof, el("p", { class: "problem" }, error.message || words.unreachable));
    }
    check.disabled = false;
    proof.scrollIntoView({ block: "nearest" });
  }, { id: "check-proof" });
  return [
    el("p", { class: "lead" }, eventWords({ type: event.type, subtype: event.notification?.subtype })), undoing(view, event),
    el("dl", { class: "tree" },
      line(words.fields.type, id(event.type)), line(words.fields.source, words.eventSources[event.source] ?? event.source),
      line(words.fields.occurred, event.occurred_at && timeElement(millis(event.occurred_at))),
      line(words.fields.recorded, timeElement(millis(event.recorded_at))),
      line(words.fields.environment, event.environment), line(words.fields.customer, id(event.customer_id)),
      line(words.fields.original, id(event.original_transaction_id)),
      line(words.fields.transaction, id(event.transaction_id)), line(words.fields.product, id(event.product_id))),
    el("h3", {}, words.facts), tree(event.facts),
    el("h3", {}, words.evidence),
    event.evidence ? [
      el("p", { class: "soft" }, words.evidenceHash, " ", id(event.evidence_sha256)),
      el("details", {}, el("summary", {}, words.payload), tree(event.evidence.payload)),
      el("details", {}, el("summary", {}, words.signedBytes), el("pre", {}, event.evidence.signed_payload)),
    ] : el("p", {}, event.evidence_sha256 ? words.evidenceErased : words.noEvidence),
    el("h3", {}, words.proof.title),
    el("dl", { class: "tree" }, line(words.fields.hash, id(event.hash)), line(words.fields.previous, id(event.previous_hash))),
    may("events:read") && check, proof,
  ];
}
