// What somebody may put right: each is shown before it is done, says why, and can be undone.

import { call, get, may, mayInEveryApp, path, post } from "./api.js";
import { announce, button, el, field, openDialog, show } from "./dom.js";
import { grouped, groupSentence } from "./sentence.js";
import { stateShape } from "./picture.js";
import { fieldInstant } from "./time.js";
import { words } from "./words.js";

const say = words.commands;

// Nothing, where the key may do none of it.
export function commands(view, held, then) {
  if (!may("customers:write")) return null;
  const originals = [...then.purchases.keys()];
  const grants = then.document.entitlements.flatMap((one) => one.intervals)
    .filter((interval) => interval.source === "grant" && interval.state === "active" && mayStillRun(interval));
  const offered = [
    mayInEveryApp("customers:write") && button(say.grant, () => grant(view), { id: "do-grant" }),
    mayInEveryApp("customers:write") && may("events:read") && grants.length > 0
      && button(say.revoke, () => revoke(view, grants), { id: "do-revoke" }),
    mayInEveryApp("customers:write") && button(say.link, () => link(view), { id: "do-link" }),
    originals.length > 0 && button(say.transfer, () => transfer(view, originals), { id: "do-transfer" }),
    originals.length > 0 && button(say.check, () => check(view, originals), { id: "do-check" }),
  ];
  return el("section", { class: "card", "aria-label": say.title }, el("h2", {}, say.title),
    el("div", { class: "buttons" }, offered), el("p", { class: "soft" }, say.text));
}

const mayStillRun = (interval) => interval.until === null || Date.parse(interval.until) > Date.now();

const own = (view, action) => `v1/customers/${path(view.view.customer)}/actions/${action}`;
const environment = (view) => ({ environment: view.view.environment });

function choice(id, values) {
  return el("select", { id, required: true }, values.map(([value, text]) => el("option", { value }, text ?? value)));
}

function reasonField() {
  return el("textarea", { id: "reason", rows: 2, maxlength: 1000, required: true });
}

// A dialog of three steps: what is to be done, what it would change, what was done.
//
// `preview` answers the sides, each with `before` and `after`; `run` answers them too, with `position` and maybe `undo`.
function steps(view, title, fields, { preview, run, canUndo }) {
  const problem = el("p", { role: "alert", class: "problem" });
  const outcome = el("div", { id: "outcome", "aria-live": "polite" });
  const submit = el("button", { type: "submit", id: "preview" }, preview ? say.show : say.do);
  const form = el("form", { class: "body" }, fields, submit, problem, outcome);
  const attempt = async (work) => {
    problem.textContent = "";
    submit.disabled = true;
    try {
      await work();
    } catch (error) {
      problem.textContent = error.message || words.unreachable;
    }
    submit.disabled = false;
  };
  const done = async (key) => {
    const answer = await run(key);
    announce(say.done);
    show(outcome, el("p", { class: "lead" }, say.done, " ", answer.position ? say.recordedAs(answer.position) : ""),
      answer.note && el("p", {}, answer.note), answer.sides && sides(answer.sides),
      canUndo && answer.undo && button(say.undo, () => attempt(async () => {
        await answer.undo();
        announce(say.undone);
        show(outcome, el("p", { class: "lead", id: "undone" }, say.undone));
        await view.again();
      }), { id: "undo" }));
    for (const input of form.querySelectorAll("input, select, textarea")) input.disabled = true;
    submit.hidden = true;
    await view.again();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    // One key for each attempt: pressed twice, it is done once.
    const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
    attempt(async () => {
      if (!preview) {
        await done(key);
        return;
      }
      const foreseen = await preview();
      show(outcome, el("h3", {}, say.would), sides(foreseen),
        button(say.do, () => attempt(() => done(key)), { id: "confirm", class: "main" }));
      document.getElementById("confirm").focus();
    });
  });
  form.addEventListener("input", () => show(outcome));
  openDialog(title, words.close, form, "command");
}

function sides(list) {
  return list.map((side) => el("div", { class: "sides" }, el("h4", { class: "id" }, side.customer_id),
    el("div", {}, el("h5", {}, say.before), held(side.before)), el("div", {}, el("h5", {}, say.after), held(side.after))));
}

function held(entitlements) {
  if (entitlements.length === 0) return el("p", { class: "soft" }, words.holdsNothing);
  return el("ul", {}, grouped(entitlements).map((group) => el("li", {},
    stateShape(group[0].state), " ", groupSentence(group))));
}

async function preview(view, command) {
  return (await post(own(view, "preview"), { ...command, ...environment(view) })).customers;
}

async function grant(view) {
  const names = new Set();
  try {
    for (const product of (await get("v1/catalog")).products) for (const name of product.entitlements) names.add(name);
  } catch {
    // The name can be typed all the same.
  }
  const entitlement = el("input", { id: "entitlement", list: "entitlements", required: true, maxlength: 100, autocomplete: "off" });
  const until = el("input", { type: "datetime-local", id: "until" });
  const reason = reasonField();
  const body = () => ({
    entitlement: entitlement.value.trim(), reason: reason.value,
    until: until.value === "" ? null : new Date(fieldInstant(until.value)).toISOString(),
  });
  steps(view, say.grant, [
    field(say.entitlement, entitlement), el("datalist", { id: "entitlements" }, [...names].map((value) => el("option", { value }))),
    field(say.until, until, say.untilHint), field(say.reason, reason, say.reasonHint),
  ], {
    preview: () => preview(view, { grant: body() }), canUndo: true,
    run: async (key) => {
      const done = await send(own(view, "grant"), { ...body(), ...environment(view) }, key);
      return {
        position: done.position, undo: () => post(own(view, "revoke_grant"),
          { grant_id: done.grant_id, reason: say.undoReason(done.position), ...environment(view) }),
      };
    },
  });
}

const send = (where, body, key) => call("POST", where, { body, headers: { "Idempotency-Key": key } });

async function revoke(view, grants) {
  const positions = [...new Set(grants.flatMap((interval) => interval.positions))];
  const known = [];
  for (const position of positions.slice(0, 50)) {
    const event = await get(`v1/events/${position}`);
    if (event.facts.grant_id && !known.some((one) => one.grant_id === event.facts.grant_id)) known.push(event.facts);
  }
  const which = choice("grant", known.map((one) => [one.grant_id, say.grantLine(one.entitlement, one.reason)]));
  const reason = reasonField();
  const body = () => ({ grant_id: which.value, reason: reason.value });
  steps(view, say.revoke, [field(say.whichGrant, which), field(say.reason, reason, say.reasonHint)], {
    preview: () => preview(view, { revoke_grant: body() }), canUndo: true,
    run: async (key) => {
      const done = await send(own(view, "revoke_grant"), { ...body(), ...environment(view) }, key);
      const facts = known.find((one) => one.grant_id === which.value);
      return {
        position: done.position, undo: () => post(own(view, "grant"), {
          entitlement: facts.entitlement, until: facts.until, reason: say.undoReason(done.position), ...environment(view),
        }),
      };
    },
  });
}

function link(view) {
  const kind = choice("kind", Object.entries(say.linkKinds));
  const id = el("input", { id: "linked", required: true, maxlength: 512, autocomplete: "off", spellcheck: "false" });
  const body = () => ({ [kind.value]: id.value.trim() });
  steps(view, say.link, [el("p", {}, say.linkText), field(say.linkKind, kind), field(say.linkID, id)], {
    preview: () => preview(view, { link: body() }), canUndo: true,
    run: async (key) => {
      const done = await send(own(view, "link"), { ...body(), ...environment(view) }, key);
      return { position: done.position, undo: () => post(own(view, "link"), { undo: done.position, ...environment(view) }) };
    },
  });
}

function transfer(view, originals) {
  const which = choice("original", originals.map((id) => [id]));
  const to = el("input", { id: "to", required: true, maxlength: 255, autocomplete: "off", spellcheck: "false" });
  const reason = reasonField();
  const body = () => ({
    original_transaction_id: which.value, to: to.value.trim(), reason: reason.value, ...environment(view),
  });
  const both = (answer) => [answer.from, answer.to].filter((side) => side !== null);
  steps(view, say.transfer, [field(say.purchase, which), field(say.to, to), field(say.reason, reason, say.reasonHint)], {
    preview: async () => both(await post(own(view, "transfer"), { ...body(), dry_run: true })), canUndo: true,
    run: async (key) => {
      const done = await send(own(view, "transfer"), body(), key);
      return {
        position: done.position, sides: both(done),
        undo: () => post(own(view, "transfer"), { undo: done.position, ...environment(view) }),
      };
    },
  });
}

function check(view, originals) {
  const which = choice("original", originals.map((id) => [id]));
  steps(view, say.check, [el("p", {}, say.checkText), field(say.purchase, which)], {
    run: async (key) => {
      const done = await send(`v1/subscriptions/${path(which.value)}/actions/check`, environment(view), key);
      const state = (one) => (one?.state ? words.states[one.state] : words.nothing);
      return { note: say.checked(state(done.before.ledger), state(done.before.store), state(done.after.ledger), done.recorded.length) };
    },
  });
}
