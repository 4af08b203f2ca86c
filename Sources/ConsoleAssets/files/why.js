// Why an entitlement reads as it does, as the service explains it.

import { el, eventNumber } from "./dom.js";
import { eventWords } from "./history.js";
import { millis, timeElement } from "./time.js";
import { words } from "./words.js";
import { stateShape } from "./picture.js";

const mostShown = 20;

// As the service's sentences have it.
const utcTime = (text) => timeElement(millis(text), true);

export function explanation(document, openEvent) {
  const { conflicts, entitlements } = document;
  // Who has nothing has it, more often than not, because it is somebody else's.
  const isFirst = !entitlements.some((one) => one.decision.gives_access);
  const claimed = conflicts.length > 0 && el("section", { class: "why" }, el("h3", {}, words.conflicts),
    cut(conflicts, (claim) => [claim.sentence, " ", events([claim.position], openEvent)]));
  if (entitlements.length === 0) return [claimed, el("p", { class: "soft" }, words.nothingToExplain)];
  return [
    isFirst && claimed,
    alike(entitlements).map((group) => entitlement(group, openEvent)),
    !isFirst && claimed,
    el("p", { class: "soft" }, document.catalog.position > 0
      ? [words.catalogBy, " ", events([document.catalog.position], openEvent)] : words.noCatalog),
  ];
}

// Entitlements that one purchase gives are explained alike, and once.
function alike(entitlements) {
  const groups = new Map();
  for (const one of entitlements) {
    const key = JSON.stringify(one).replaceAll(JSON.stringify(one.id), '""').replaceAll(` ${one.id} `, " ");
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()];
}

function entitlement(group, openEvent) {
  const [one, ...others] = group;
  const { decision, rule } = one;
  const called = ({ type, notification, ownership }) =>
    eventWords({ type, subtype: notification?.subtype, ownership: ownership?.toUpperCase() });
  return el("section", { class: "why", "aria-label": words.whyOf(one.id) },
    el("h3", {}, stateShape(decision.state), " ", words.and(group.map((each) => each.id)), " ",
      el("span", { class: decision.gives_access ? "yes" : "no" }, decision.gives_access ? words.access : words.noAccess)),
    el("p", { class: "lead" }, rule.sentence),
    others.length > 0 && el("p", {}, words.sameFor(words.and(others.map((other) => other.id)))),
    one.catalog_change && el("p", {}, one.catalog_change.sentence, " ", events([one.catalog_change.position], openEvent)),
    el("h4", {}, words.restsOn),
    one.events.length === 0 ? el("p", { class: "soft" }, words.noEvents) : cut(one.events, (event) => [
      events([event.position], openEvent), " ", called(event), ", ",
      words.recorded, " ", utcTime(event.recorded_at),
      event.occurred_at && [", ", words.signed, " ", utcTime(event.occurred_at)],
    ]),
    one.considered.length > 0 && [el("h4", {}, words.considered), cut(one.considered, (other) => [
      other.state && [stateShape(other.state), " "], other.sentence, " ",
      other.original_transaction_id && el("code", {}, other.original_transaction_id), " ",
      events(other.positions, openEvent),
    ])],
    one.would_change.length > 0 && [el("h4", {}, words.wouldChange), cut(one.would_change, (outlook) => [
      outlook.at && [utcTime(outlook.at), ": "], outlook.sentence,
    ])]);
}

function events(positions, openEvent) {
  return [positions.slice(0, 8).map((position) => [eventNumber(position, openEvent), " "]),
    positions.length > 8 && words.andMore(positions.length - 8)];
}

// A list of which the rest is opened.
function cut(items, line) {
  const list = (some) => el("ul", {}, some.map((item) => el("li", {}, line(item))));
  return [list(items.slice(0, mostShown)), items.length > mostShown && el("details", {},
    el("summary", {}, words.andMore(items.length - mostShown)), list(items.slice(mostShown, 500)))];
}
