// The forms of what somebody may put right: each is shown before it is done, says why, and offers its undoing where there
// is one.

import { nowhere, replace } from "./address.js";
import { call, get, mayInEveryApp, path, post } from "./api.js";
import { el, field, show } from "./dom.js";
import { screenWords } from "./screenwords.js";
import { idText, known as whereKnown, seesAll, unremember } from "./find.js";
import { eventWords } from "./history.js";
import { ownerOf } from "./lanes.js";
import { ownersPage } from "./said.js";
import { sides, steps } from "./steps.js";
import { dayText, fieldInstant, millis, secondOf, timeText } from "./time.js";
import { apart, words } from "./words.js";

export { exportAll } from "./saving.js";
export { sides, steps, undoKey } from "./steps.js";

const say = { ...words.commands, ...screenWords.forms };

// So many events are offered to be told of again.
const mostEvents = 50;

export const own = (view, action) => `v1/customers/${path(view.view.customer)}/actions/${action}`;
export const environment = (view) => ({ environment: view.view.environment });

function choice(id, values) {
  return el("select", { id, required: true }, values.map(([value, text]) => el("option", { value }, text ?? value)));
}

export function reasonField() {
  const reason = el("textarea", { id: "reason", rows: 2, maxlength: 1000, required: true });
  // Spaces are no reason.
  reason.addEventListener("input", () => reason.setCustomValidity(reason.value.trim() === "" ? say.noReason : ""));
  return reason;
}

// Says beneath when that is, with the zone.
function untilField(until) {
  const read = el("output", { id: "until-read", for: "until" });
  until.addEventListener("input", () => {
    const instant = fieldInstant(until.value);
    show(read, instant !== null && [timeText(instant), secondOf(instant) !== null && ` ${say.twice}`]);
  });
  return [field(say.until, until, say.untilHint), read];
}

// An id of which nobody has heard is a slip, more often than not, as is a blank that was copied with one.
async function stranger(view, id) {
  const found = await whereKnown(id);
  return [
    id.trim() !== id && el("p", { class: "problem" }, screenWords.blanks(id)),
    !found.some((one) => one.environment === view.view.environment)
      && el("p", { class: "problem" }, screenWords.forms.nobodyKnown(id, seesAll())),
  ];
}

export async function preview(view, command) {
  return sides((await post(own(view, "preview"), { ...command, ...environment(view) })).customers);
}

export async function grant(view) {
  const names = new Set();
  const list = el("datalist", { id: "entitlements" });
  const entitlement = el("input", { id: "entitlement", list: "entitlements", required: true, maxlength: 100, autocomplete: "off" });
  // Beyond it browsers write years that are no dates.
  const until = el("input", { type: "datetime-local", id: "until", max: "9999-12-31T23:59" });
  const reason = reasonField();
  const body = () => ({
    entitlement: entitlement.value.trim(), reason: reason.value.trim(),
    until: until.value === "" ? null : new Date(fieldInstant(until.value)).toISOString(),
  });
  steps(view, say.grant, [
    field(say.entitlement, entitlement), list,
    untilField(until), field(say.reason, reason, say.reasonHint),
  ], {
    preview: async () => [
      await stranger(view, view.view.customer),
      names.size > 0 && !names.has(body().entitlement) && el("p", { class: "problem" }, say.noProductGives(body().entitlement)),
      await preview(view, { grant: body() }),
    ],
    run: async (key) => {
      const done = await send(own(view, "grant"), { ...body(), ...environment(view) }, key);
      return {
        position: done.position, undo: (undo) => send(own(view, "revoke_grant"),
          { grant_id: done.grant_id, reason: say.undoReason(done.position), ...environment(view) }, undo),
      };
    },
  });
  try {
    for (const product of (await get("v1/catalog")).products) for (const name of product.entitlements) names.add(name);
    show(list, [...names].map((value) => el("option", { value })));
  } catch {
    // The name can be typed all the same.
  }
}

export const send = (where, body, key) => call("POST", where, { body, headers: { "Idempotency-Key": key } });

export function revoke(view, known) {
  const which = choice("grant", known.map(({ facts, from, until, positions }) =>
    [facts.grant_id, say.grantLine(facts, dayText(from), until === null ? null : dayText(until), positions[0])]));
  const reason = reasonField();
  const body = () => ({ grant_id: which.value, reason: reason.value.trim() });
  steps(view, say.revoke, [field(say.whichGrant, which), field(say.reason, reason, say.reasonHint)], {
    preview: () => preview(view, { revoke_grant: body() }),
    run: async (key) => {
      const done = await send(own(view, "revoke_grant"), { ...body(), ...environment(view) }, key);
      const { facts } = known.find((one) => one.facts.grant_id === which.value);
      return {
        position: done.position, undo: (undo) => send(own(view, "grant"), {
          entitlement: facts.entitlement, until: facts.until, reason: say.undoReason(done.position), ...environment(view),
        }, undo),
      };
    },
  });
}

export function link(view) {
  const kind = choice("kind", Object.entries(say.linkKinds));
  const id = el("input", { id: "linked", required: true, maxlength: 512, autocomplete: "off", spellcheck: "false" });
  const reason = reasonField();
  // The ids that Apple gives have no blanks.
  const linked = () => (kind.value === "customer_id" ? id.value : id.value.trim());
  const body = () => ({ [kind.value]: linked(), reason: reason.value.trim() });
  steps(view, say.link, [
    el("p", {}, say.linkText), field(say.linkKind, kind), field(say.linkID, id), field(say.reason, reason, say.reasonHint),
  ], {
    preview: async () => [await stranger(view, view.view.customer), await stranger(view, `${kind.value === "app_transaction_id" ? "apple:" : ""}${linked()}`),
      await preview(view, { link: body() })],
    run: async (key) => {
      const done = await send(own(view, "link"), { ...body(), ...environment(view) }, key);
      return {
        position: done.position, note: done.until_now && say.untilNow(done.until_now),
        undo: (undo) => takeBack(view, "link", done.position, undo),
      };
    },
  });
}

// Everybody whom a transfer is about: who gives, who gets, and whoever has a part of it beside them.
export const parties = (answer) => [answer.from, answer.to, ...(answer.others ?? [])].filter((side) => side !== null);

function takeBack(view, action, position, key) {
  return send(own(view, action), { undo: position, reason: say.undoReason(position), ...environment(view) }, key);
}

// What goes on first: a purchase is known by its product and its state, and not by its number.
function purchaseChoice(view, originals, more) {
  const lines = originals.map((id) => {
    const purchase = known(view, id);
    const { state, periods = [] } = purchase ?? {};
    const last = periods.at(-1);
    const end = millis(last?.ends_at ?? null);
    const isOver = !last || (end !== null && end <= Date.now());
    const text = say.purchaseLine(last?.product_id, words.states[state], end && dayText(end), !isOver, id, purchase && view.whose(purchase));
    return { id, text, isOver, from: millis(last?.starts_at ?? null) ?? 0 };
  }).sort((one, other) => one.isOver - other.isOver || other.from - one.from);
  return choice("original", [...lines.map(({ id, text }) => [id, text]), ...more]);
}

const known = (view, id) => view.answered[2].purchases.get(id) ?? view.answered[2].others.get(id);

// Stands for one of which the id is typed: not all that somebody ever bought is listed.
const typed = "typed";

// A purchase that is chosen, or of which the id is typed; whose it is stands beneath, where it is not the customer's.
function purchaseFields(view, originals, more = []) {
  const which = purchaseChoice(view, originals, [...more, [typed, say.typedPurchase]]);
  const id = el("input", { id: "typed-original", maxlength: 512, autocomplete: "off", spellcheck: "false" });
  const idField = field(say.nobodysID, id);
  const owner = el("p", { class: "soft", id: "owner", "aria-live": "polite" });
  const adapt = () => {
    id.required = which.value === typed;
    idField.hidden = !id.required;
    const purchase = known(view, which.value);
    const other = purchase && view.whose(purchase);
    show(owner, other && [say.isAnothers(other), " ", ownerOf(purchase) && ownersPage(view, ownerOf(purchase))]);
  };
  which.addEventListener("change", adapt);
  adapt();
  return { which, nodes: [field(say.purchase, which), owner, idField], value: () => (which.value === typed ? id.value.trim() : which.value) };
}

// Stands for a purchase that is nobody's, of which the id is typed.
const nobodys = "nobodys";

export function transfer(view, originals) {
  const { which, nodes, value } = purchaseFields(view, originals, mayInEveryApp("customers:write") ? [[nobodys, say.nobodys]] : []);
  const { purchases, others } = view.answered[2];
  // One that was given to them once and is nobody's now is at hand.
  const loose = [...purchases, ...others].find(([, one]) => one?.periods.length > 0 && ownerOf(one) === null)?.[0];
  const id = el("input", { id: "nobodys", value: loose ?? "", maxlength: 512, autocomplete: "off", spellcheck: "false" });
  const to = el("input", { id: "to", maxlength: 255, autocomplete: "off", spellcheck: "false" });
  const reason = reasonField();
  const [idField, toField] = [field(say.nobodysID, id, say.nobodysHint), field(say.to, to)];
  const isNobodys = () => which.value === nobodys;
  const adapt = () => {
    [idField.hidden, toField.hidden] = [!isNobodys(), isNobodys()];
    [id.required, to.required] = [isNobodys(), !isNobodys()];
  };
  which.addEventListener("change", adapt);
  adapt();
  // What is nobody's is given by a transfer that is addressed to whoever gets it.
  const body = () => ({
    original_transaction_id: isNobodys() ? id.value.trim() : value(),
    to: isNobodys() ? view.view.customer : to.value, reason: reason.value.trim(), ...environment(view),
  });
  steps(view, say.transfer, [nodes, idField, toField, field(say.reason, reason, say.reasonHint)], {
    preview: async () => [
      await stranger(view, body().to),
      sides(parties(await post(own(view, "transfer"), { ...body(), dry_run: true }))),
    ],
    run: async (key) => {
      const done = await send(own(view, "transfer"), body(), key);
      return {
        position: done.position, sides: parties(done),
        undo: (undo) => takeBack(view, "transfer", done.position, undo),
      };
    },
  });
}

export function check(view, originals) {
  const { nodes, value } = purchaseFields(view, originals);
  steps(view, say.check, [el("p", {}, say.checkText), nodes], {
    run: async (key) => {
      const done = await send(`v1/subscriptions/${path(value())}/actions/check`, environment(view), key);
      const ledger = (one) => (one?.state ? words.states[one.state] : screenWords.nothing);
      return {
        note: say.checked(ledger(done.before.ledger), storeSentence(done), ledger(done.after.ledger), done.agrees,
          done.recorded.length),
      };
    },
  });
}

// What a store says of a purchase: of what is bought once the App Store names no state.
function storeSentence({ app, before: { store } }) {
  if (store === null) return say.storeKnowsNothing;
  if (store.state) return say.storeSays(words.states[store.state]);
  // Of what was bought on the web nothing counts that is not paid.
  if (app === null) return say.storeSays(say.nothingCounts(store.stripe_status));
  if (store.status !== null) return say.storeSays(say.unknownStatus(store.status));
  return say.storeSays(store.revoked_at ? say.takenBack : say.bought);
}

export function extend(view, originals) {
  const { nodes, value } = purchaseFields(view, originals);
  const days = el("input", { type: "number", id: "days", min: 1, max: 90, required: true, value: "7" });
  const code = choice("reason-code", Object.entries(say.extendReasons));
  const reason = reasonField();
  const again = el("input", { type: "checkbox", id: "again" });
  const where = () => `v1/subscriptions/${path(value())}/actions/extend`;
  const body = () => ({ days: Number(days.value), reason_code: code.value, reason: reason.value.trim(), again: again.checked, ...environment(view) });
  const time = (text) => timeText(millis(text));
  steps(view, say.extend, [
    el("p", {}, say.extendText), nodes, field(say.days, days), field(say.extendReason, code),
    field(say.reason, reason, say.reasonHint), el("div", { class: "field" }, el("label", {}, again, " ", say.again)),
  ], {
    preview: async () => {
      const plan = await post(where(), { ...body(), dry_run: true });
      // The days would be another's, for good.
      if (plan.customer_id !== null && !view.isOwn(plan.customer_id)) throw new Error(say.daysOfAnother(plan.customer_id));
      return [
        el("div", { class: "sides" }, el("h4", {}, plan.product_id, " · ", plan.customer_id ? el("span", { class: "id" }, idText(plan.customer_id)) : words.ofNobody), el("div", {}, el("h5", {}, say.before), el("p", {}, say.runsUntil(time(plan.expires_at)))),
          el("div", {}, el("h5", {}, say.after), el("p", {}, say.runsUntil(time(plan.would_expire_at))))),
        el("p", { class: "soft" }, say.extendedBefore(plan.extended_within_year)),
        plan.doubts.length > 0 && el("p", { class: "problem" }, say.doubts(plan.doubts)),
        plan.unsettled !== null && el("p", { class: "problem" }, say.unsettled(plan.unsettled)),
      ];
    },
    run: async (key) => {
      const done = await send(where(), body(), key);
      return { position: done.position, note: done.extended_until && say.extended(time(done.extended_until)) };
    },
  });
}

export async function resend(view) {
  const events = view.history.events.toReversed().slice(0, mostEvents);
  const where = el("select", { id: "endpoint", required: true });
  const unread = el("p", { role: "alert", class: "problem", id: "unread-endpoints" });
  const which = choice("event", [["all", say.resendAll(events.length)],
    ...events.map((event) => [String(event.position), say.eventLine(event.position, eventWords(event))])]);
  steps(view, say.resend, [el("p", {}, say.resendText), field(say.endpoint, where), unread, field(say.whichEvent, which)], {
    run: async (key) => {
      const positions = which.value === "all" ? events.map((event) => event.position).toReversed() : [Number(which.value)];
      let count = 0;
      for (const position of positions) {
        const done = await send(`v1/webhook_endpoints/${path(where.value)}/actions/redeliver`, { from: position, to: position }, `${key}-${position}`);
        count += done.deliveries;
      }
      return { note: say.resent(count) };
    },
  });
  try {
    const { items } = await get("v1/webhook_endpoints", { limit: 100 });
    show(where, items.map((one) => el("option", { value: one.id }, one.url ?? one.id)));
  } catch (error) {
    unread.textContent = error.message || words.unreachable;
  }
}

export function forget(view) {
  const { customer } = view.view;
  const typed = el("input", { id: "typed", required: true, maxlength: 1024, autocomplete: "off", spellcheck: "false", class: "id" });
  const body = (isDryRun) => {
    if (typed.value !== customer) throw new Error(say.typedWrong);
    return { dry_run: isDryRun, confirm: typed.value };
  };
  const names = view.history?.names() ?? [];
  const listed = (done) => [
    names.length > 0 && el("p", { class: "problem" }, say.oneCustomer([customer, ...names])),
    done.ids && el("ul", { id: "forget-ids" }, done.ids.map((one) => el("li", {}, el("code", {}, idText(one.id)), ` ${say.forgetID(one.erased, one.leads_to)}`))),
    el("ul", {}, el("li", {}, say.erases(done.identities, done.evidence)),
      done.shared_app_transactions > 0 && el("li", {}, say.sharedAccounts(done.shared_app_transactions)),
      done.kept_aliases > 0 && el("li", {}, say.keptAliases(done.kept_aliases)),
      done.shared_mail_addresses > 0 && el("li", {}, say.sharedMail(done.shared_mail_addresses)),
      done.unreadable_evidence > 0 && el("li", {}, say.unreadable(done.unreadable_evidence))),
    done.charges.length > 0 && [el("p", { class: "problem" }, say.charges), el("ul", {}, done.charges.map((one) => el("li", {},
      el("code", {}, one.original_transaction_id), ` ${say.charge(one.product_id, one.by)}`)))],
  ];
  steps(view, say.forget, [el("p", { class: "problem" }, say.forgetText), field([say.typed, " ", el("span", { class: "id" }, idText(customer))], typed)], {
    preview: async () => listed(await post(own(view, "forget"), body(true))),
    run: async () => {
      const done = await post(own(view, "forget"), body(false));
      for (const id of [customer, ...names]) unremember(id);
      return { position: done.positions[0], note: listed(done) };
    },
    // The screen, the address and what the browser keeps lose the id with the ledger.
    finish: () => {
      replace({ ...nowhere, ...environment(view) });
      view.open(environment(view));
    },
  });
}
