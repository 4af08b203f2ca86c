// One event of the log: what it states, what it was taken from, and that it stands in the log.

import { get, may, mayInEveryApp, post } from "./api.js";
import { button, el, field, openDialog, show } from "./dom.js";
import { idText } from "./find.js";
import { environment, own, parties, preview, reasonField, send, sides, steps, undoKey } from "./forms.js";
import { checkInclusion } from "./proof.js";
import { millis, timeElement } from "./time.js";
import { screenWords } from "./screenwords.js";
import { words } from "./words.js";
import { eventWords, kindOf } from "./history.js";

const say = screenWords.forms;
const longText = 200;

// JSON as nested lists; whatever it holds is text.
export function tree(value) {
  if (value === null || value === undefined) return el("span", { class: "soft" }, screenWords.nothing);
  if (Array.isArray(value)) {
    if (value.length === 0) return el("span", { class: "soft" }, screenWords.none);
    return el("ol", { class: "tree" }, value.map((one) => el("li", {}, tree(one))));
  }
  if (typeof value === "object") {
    const entries = Object.entries(value);
    if (entries.length === 0) return el("span", { class: "soft" }, screenWords.none);
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
  openDialog(screenWords.event(position), words.close, body, "event");
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
  const check = button(screenWords.proof.check, async () => {
    check.ariaDisabled = "true";
    show(proof, el("p", { class: "soft" }, screenWords.proof.checking));
    try {
      const steps = await checkInclusion(event);
      show(proof, el("ul", { class: "steps" }, steps.map((step) =>
        el("li", { class: step.ok === false ? "problem" : "" }, step.ok ? "✓ " : step.ok === null ? "– " : "✗ ", step.text))),
      steps.every((step) => step.ok !== false) && el("p", { class: "soft" }, screenWords.proof.rest));
    } catch (error) {
      show(proof, el("p", { class: "problem" }, error.message || words.unreachable));
    }
    check.ariaDisabled = "false";
    proof.scrollIntoView({ block: "nearest" });
  }, { id: "check-proof" });
  return [
    el("p", { class: "lead" }, eventWords(view?.history?.events.find((one) => one.position === event.position) ?? kindOf(event))), undoing(view, event),
    el("dl", { class: "tree" },
      line(screenWords.fields.type, id(event.type)), line(screenWords.fields.source, screenWords.eventSources[event.source] ?? event.source),
      line(screenWords.fields.occurred, event.occurred_at && timeElement(millis(event.occurred_at))),
      line(screenWords.fields.recorded, timeElement(millis(event.recorded_at))),
      line(screenWords.fields.environment, event.environment), line(screenWords.fields.customer, event.customer_id && id(idText(event.customer_id))),
      line(screenWords.fields.original, id(event.original_transaction_id)),
      line(screenWords.fields.transaction, id(event.transaction_id)), line(screenWords.fields.product, id(event.product_id))),
    el("h3", {}, screenWords.facts), tree(event.facts),
    el("h3", {}, screenWords.evidence),
    event.evidence ? [
      el("p", { class: "soft" }, screenWords.evidenceHash, " ", id(event.evidence_sha256)),
      el("details", {}, el("summary", {}, screenWords.payload), tree(event.evidence.payload)),
      el("details", {}, el("summary", {}, screenWords.signedBytes), el("pre", {}, event.evidence.signed_payload)),
    ] : el("p", {}, event.evidence_sha256 ? screenWords.evidenceErased : screenWords.noEvidence),
    el("h3", {}, screenWords.proof.title),
    el("dl", { class: "tree" }, line(screenWords.fields.hash, id(event.hash)), line(screenWords.fields.previous, id(event.previous_hash))),
    may("events:read") && check, proof,
  ];
}

const isAlike = (one, other) => one.entitlement === other?.entitlement && (one.until ?? null) === (other.until ?? null);

// What undoes an event that somebody ordered, for as long as that is possible; `null` where nothing does.
function undoing(view, event) {
  if (!view || !mayInEveryApp("customers:write")) return null;
  const { position, facts } = event;
  const reason = reasonField();
  const given = { ...environment(view) };
  const undo = {
    linked: ["link", () => ({ undo: position })],
    transferred: ["transfer", () => ({ undo: position })],
    granted: ["revoke_grant", () => ({ grant_id: facts.grant_id })],
    grant_revoked: ["grant", () => {
      const grants = view.answered?.[2].grants ?? [];
      const grant = grants.find((one) => one.facts.grant_id === facts.grant_id)?.facts;
      // Given again already.
      if (grants.some((one) => !one.isRevoked && one.positions[0] > position && isAlike(one.facts, grant))) return null;
      return grant && { entitlement: grant.entitlement, until: grant.until };
    }],
  }[event.type];
  const command = undo?.[1]();
  if (!command) return null;
  const [action] = undo;
  const body = () => ({ ...command, reason: reason.value.trim(), ...given });
  return button(say.undo, () => steps(view, screenWords.undoTitle(position), [field(say.reason, reason, say.reasonHint)], {
    preview: async () => (action === "transfer"
      ? sides(parties(await post(own(view, action), { ...body(), dry_run: true })))
      : preview(view, { [action]: { ...command, reason: reason.value.trim() } })),
    run: async () => {
      const done = await send(own(view, action), body(), undoKey(position));
      return { position: done.position };
    },
  }), { id: "undo-event" });
}
