// Finding a customer by whatever a person has at hand, and those looked at lately.

import { readAddress } from "./address.js";
import { get, may, mayEverywhere, path, currentSession, Refusal } from "./api.js";
import { announce, button, el, show } from "./dom.js";
import { words } from "./words.js";

const recentKey = "rightful.recent";
const pinnedKey = "rightful.pinned";
const mostRecent = 12;
const mostPinned = 30;

// Ids alone are kept in the browser, and wiped at sign-out.
function read(key) {
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

const isUUID = (text) => /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(text);

// Such as stands in receipts.
const mayBeOrder = (text) => /^[a-z][a-z0-9]{6,19}$/i.test(text) && /\d/.test(text);

// The App Store's ids are numbers.
export const isOfAppStore = (id) => /^\d+$/.test(id);

// Original transactions, which Stripe's subscriptions, payments and sessions are as well.
const mayBePurchase = (text) => isOfAppStore(text) || /^(sub|pi|cs)_/.test(text);

// Whoever it may be: by a purchase that bears the id, by what statements bear, or as a customer's own id. `nobodys` are
// purchases of which no customer is told, because they are nobody's.
async function look(text) {
  const purchases = [{ transaction_id: text }];
  if (isUUID(text)) purchases.push({ app_account_token: text });
  if (/^\d+$/.test(text)) purchases.push({ app_transaction_id: text });
  const asked = purchases.map((query) => get("v1/customers", query));
  const [own, ...lists] = await Promise.all([known(text), ...asked]);
  const found = new Map();
  const note = (one) => {
    const key = `${one.environment} ${one.id}`;
    const known = found.get(key) ?? { id: one.id, environment: one.environment, by: [] };
    if (one.by) known.by.push(one.by);
    found.set(key, known);
  };
  const noteAll = ({ items }) => {
    for (const match of items) note({ id: match.customer_id, environment: match.environment, by: match.original_transaction_id });
  };
  own.forEach(note);
  lists.forEach(noteAll);
  const nobodys = [];
  for (const purchase of found.size === 0 ? await purchasesOf(text) : []) {
    const owner = purchase.periods.findLast((one) => one.customer_id !== null)?.customer_id;
    if (owner) note({ id: owner, environment: purchase.environment, by: text });
    else nobodys.push(purchase);
  }
  let problem = null;
  if (found.size === 0 && mayBeOrder(text)) {
    // The store is asked, and it takes only so many questions: after all else.
    try {
      noteAll(await get("v1/customers", { order_id: text.toUpperCase() }));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      problem = words.orderNotAsked(error.message);
    }
  }
  return { found: [...found.values()], nobodys, problem };
}

// The purchase of this id, in each environment that knows one.
async function purchasesOf(id) {
  if (!mayBePurchase(id)) return [];
  const asked = seenEnvironments().map((environment) =>
    get(`v1/subscriptions/${path(id)}`, { environment }).catch((error) => {
      if (error.status !== 404) throw error;
      return null;
    }));
  return (await Promise.all(asked)).filter((one) => one !== null);
}

// The environments that the key may see.
function seenEnvironments() {
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

// Whoever looks at somebody in the sandbox may mean what they pay for.
export async function showAlsoIn(node, { customer, environment }, open) {
  if (environment !== "sandbox" || currentSession().key.environment) return;
  const others = (await knownIn(customer, "production").catch(() => [])).filter((one) => one.environment !== environment);
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
    const text = input.value.trim();
    if (!text) return;
    const mine = ++latest;
    show(results, el("p", { class: "soft" }, words.looking));
    let found;
    let nobodys;
    let problem;
    try {
      ({ found, nobodys, problem } = await look(text));
    } catch (error) {
      if (mine === latest) show(results, el("p", { class: "problem" }, error.message || words.unreachable));
      return;
    }
    if (mine !== latest) return;
    if (found.length === 1) {
      input.value = "";
      show(results);
      announce(words.foundOne(found[0].id));
      open({ customer: found[0].id, environment: found[0].environment });
      return;
    }
    show(results, found.length > 0 ? [el("p", {}, words.foundSeveral(found.length)), list(found, open)]
      : nobodys.length > 0 ? nobodys.map((purchase) => nobodysPurchase(text, purchase))
      : [el("p", { class: "problem" }, /^cus_/.test(text) ? words.foundNoStripeCustomer
        : seesAll() ? words.foundNobody(text) : words.commands.nobodyKnown(text, false)),
      problem && el("p", { class: "soft" }, problem)]);
  });
  return form;
}

// A purchase that is nobody's, and how it becomes somebody's: what the App Store sold may be claimed by a device, too.
function nobodysPurchase(id, { environment, product_id: product, periods }) {
  return el("p", {},
    words.foundNobodys(id, product ?? periods.at(-1)?.product_id, words.environments[environment]), " ",
    isOfAppStore(id) ? words.nobodysOfAppStore : words.nobodysOfWeb);
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

function list(customers, open) {
  return el("ul", { class: "customers" }, customers.map((one) =>
    el("li", {},
      button(one.id, () => open({ customer: one.id, environment: one.environment }), { class: "link id" }),
      one.environment === "sandbox" && environmentTag("sandbox"),
      one.by?.length > 0 && el("span", { class: "soft" }, words.foundBy(one.by)))));
}

// What is there before anybody was looked for.
export function start(open) {
  const own = currentSession().key.environment;
  const allowed = (one) => own === null || one.environment === own;
  const [pinned, recent] = [read(pinnedKey).filter(allowed), read(recentKey).filter(allowed)];
  return [
    el("section", { class: "card" }, el("h2", {}, words.startTitle), el("p", {}, words.startText),
      el("ul", {}, words.startIDs.map((text) => el("li", {}, text)))),
    pinned.length > 0 && el("section", { class: "card" }, el("h2", {}, words.pinned), list(pinned, open)),
    recent.length > 0 && el("section", { class: "card" }, el("h2", {}, words.recent), list(recent, open)),
  ];
}
