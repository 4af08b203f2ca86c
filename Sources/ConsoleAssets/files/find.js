// Finding a customer by whatever a person has at hand, and those looked at lately.

import { readAddress } from "./address.js";
import { currentSession, fileProblem, get, may, mayEverywhere, path, Refusal } from "./api.js";
import { button, el, show, styled } from "./dom.js";
import { words } from "./words.js";

export const recentKey = "rightful.recent";
export const pinnedKey = "rightful.pinned";
const mostRecent = 12;
const mostPinned = 30;

// Blanks at the ends of an id are a part of it, and would not be seen.
export const idText = (id) => id.split(/(^\s+|\s+$)/).map((part) => (part.trim() === "" ? part && el("mark", {}, part) : part));

// Ids alone are kept in the browser, and wiped at sign-out.
export function read(key) {
  try {
    const list = JSON.parse(localStorage.getItem(key) ?? "[]");
    return list.filter((one) => typeof one.id === "string" && typeof one.environment === "string");
  } catch {
    return [];
  }
}

function write(key, list) {
  try {
    localStorage.setItem(key, JSON.stringify(list));
  } catch {
    // A browser that keeps nothing keeps no recent customers.
  }
}

const isSame = (one, other) => one.id === other.id && one.environment === other.environment;

export function remember(id, environment) {
  const one = { id, environment };
  write(recentKey, [one, ...read(recentKey).filter((other) => !isSame(one, other))].slice(0, mostRecent));
}

// Of somebody who was forgotten nothing is kept.
export function unremember(id) {
  for (const key of [recentKey, pinnedKey]) write(key, read(key).filter((one) => one.id !== id));
}

export function isPinned(id, environment) {
  return read(pinnedKey).some((one) => isSame(one, { id, environment }));
}

export function setPinned(id, environment, isOn) {
  const one = { id, environment };
  const others = read(pinnedKey).filter((other) => !isSame(one, other));
  write(pinnedKey, isOn ? [one, ...others].slice(0, mostPinned) : others);
}

export function forgetAll() {
  try {
    localStorage.removeItem(recentKey);
    localStorage.removeItem(pinnedKey);
  } catch {
    // Nothing was kept.
  }
}

// The App Store's ids are numbers.
export const isOfAppStore = (id) => /^\d+$/.test(id);

// The environments that the key may see.
export function seenEnvironments() {
  const own = currentSession().key.environment;
  return own ? [own] : Object.keys(words.environments);
}

// Whether nothing is hidden from the session's key.
export const seesAll = () => mayEverywhere("events:read") && may("customers:read");

// Where somebody of exactly this id is known: in one environment, in both, or in none.
export async function known(id) {
  const found = await Promise.all(seenEnvironments().map((one) => knownIn(id, one)));
  const first = new Map(found.flat().map((one) => [one.environment, one]));
  return Object.keys(words.environments).filter((one) => first.has(one)).map((one) => first.get(one));
}

async function knownIn(id, environment) {
  const answer = await get(`v1/customers/${path(id)}/entitlements`, { environment });
  if (answer.entitlements.length > 0) return [{ id: answer.customer_id, environment }];
  if (may("events:read")) {
    const events = await get(`v1/customers/${path(id)}/events`, { environment, limit: 1 });
    if (events.items.length > 0) return [{ id: answer.customer_id, environment }];
  }
  return (answer.also_in ?? []).map((other) => ({ id: answer.customer_id, environment: other }));
}

// Whoever looks at somebody in the sandbox may mean what they pay for, and the other way round.
export async function showAlsoIn(node, { customer, environment }, open) {
  if (currentSession().key.environment) return;
  const other = environment === "sandbox" ? "production" : "sandbox";
  node.classList.toggle("problem", environment === "sandbox");
  const others = (await knownIn(customer, other).catch(() => [])).filter((one) => one.environment === other);
  show(node, others.map((one) => [words.alsoIn(words.environments[one.environment]), " ",
    button(words.lookThere, () => open({ customer, environment: one.environment }), { class: "link" })]));
}

export function finder(open) {
  const input = el("input", {
    type: "search", id: "find", name: "find", autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    placeholder: words.findPlaceholder, maxlength: "512", "aria-keyshortcuts": "/",
  });
  const results = el("div", { class: "results", id: "found", "aria-live": "polite" });
  let latest = 0;
  const form = el("form", { role: "search", class: "find" },
    el("label", { for: "find", class: "aside" }, words.findLabel), input,
    el("button", { type: "submit" }, words.find), results);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    // Spaces may be part of an id; without them it is looked for as well.
    const text = input.value.replace(/^\p{Cc}+|\p{Cc}+$/gu, "");
    if (text.trim() === "") return;
    const mine = ++latest;
    show(results, el("p", { class: "soft" }, words.looking));
    try {
      const { lookFor } = await styled(import("./look.js"));
      const answer = await lookFor(text, open);
      if (mine !== latest) return;
      if (answer.one) input.value = "";
      show(results, answer.one ? null : answer.nodes);
      answer.one?.();
    } catch (error) {
      if (mine === latest) show(results, el("p", { class: "problem" }, error instanceof Refusal ? error.message : fileProblem(error)));
    }
  });
  return form;
}

// Which environment is looked at; said and not asked, where the key is for one.
export function environmentChoice(open, environment) {
  const only = currentSession().key.environment;
  if (only) return el("span", { class: "tag" }, words.environments[only]);
  const choice = el("select", { id: "environment", "aria-label": words.environment },
    Object.entries(words.environments).map(([value, text]) => el("option", { value }, text)));
  choice.value = environment();
  choice.addEventListener("change", () => {
    const { customer, view, chart } = readAddress();
    open({ customer, view, chart, environment: choice.value });
  });
  return choice;
}

// The sandbox is not to be taken for what people pay for.
export const environmentTag = (name) => el("span", { class: name === "sandbox" ? "tag loud" : "tag" }, words.environments[name]);
