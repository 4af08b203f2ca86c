// Whoever is meant by what somebody typed, and what is there before anybody was looked for.

import { call, currentSession, get, path, Refusal } from "./api.js";
import { announce, button, el } from "./dom.js";
import { environmentTag, idText, isOfAppStore, known, pinnedKey, read, recentKey, seenEnvironments, seesAll } from "./find.js";
import { screenWords } from "./screenwords.js";
import { words } from "./words.js";

const say = screenWords.finding;

const isUUID = (text) => /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(text);

// Such as stands in receipts.
const mayBeOrder = (text) => /^[a-z][a-z0-9]{6,19}$/i.test(text) && /\d/.test(text);

// Original transactions, which Stripe's subscriptions, payments and sessions are as well.
const mayBePurchase = (text) => isOfAppStore(text) || /^(sub|pi|cs)_/.test(text);

// What is written around an id where it was copied from: quotes, a label, a full stop, spaces within it or nothing that is seen.
export function bare(text) {
  const ends = /^[\p{Pi}\p{Pf}\p{Ps}"'`,;.]+|[\p{Pi}\p{Pf}\p{Pe}"'`,;.:]+$/gu;
  const plain = text.normalize("NFKC").replace(/[\p{Cf}\p{Cc}]/gu, "").trim().replace(ends, "");
  // A label ends with a colon or a number sign, or is words before something with a digit in it.
  const id = plain.replace(/^[\p{L} ._-]*[:#]+\s*/u, "").replace(/^(\p{L}+ +)+(?=\S*\d)/u, "").replace(/\s+/g, "").replace(ends, "");
  return id.replace(/^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/i, "$1-$2-$3-$4-$5");
}

const isMail = (text) => /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(text);

// As it was typed, and once more as what it may have been copied from.
async function lookTwice(text) {
  const seen = await look(text);
  const other = bare(text);
  if (seen.found.length > 0 || seen.nobodys.length > 0 || other === text || other === "") return seen;
  const again = await look(other);
  return { ...again, problem: again.problem ?? seen.problem, other: isMore(text, other) ? other : null };
}

// Whether letters or digits of what was typed are left out: not only what is written around an id, but maybe a part of it.
const isMore = (text, id) => text.normalize("NFKC").replace(/[^\p{L}\p{N}]/gu, "") !== id.replace(/[^\p{L}\p{N}]/gu, "");

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
      noteAll(await call("GET", "v1/customers", { query: { order_id: text.toUpperCase() }, isSlow: true }));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      problem = say.orderNotAsked(error.message);
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

// What is shown of who was found; `one` opens the only one.
export async function lookFor(text, open) {
  const { found, nobodys, problem, other = null } = await lookTwice(text);
  // A purchase's id is nobody else's; one of your own customers' may be a part of another's.
  const isMeant = other === null || found[0]?.by.length > 0;
  if (found.length === 1 && isMeant) {
    return { one: () => {
      announce(say.one(found[0].id));
      open({ customer: found[0].id, environment: found[0].environment });
    } };
  }
  const nothing = () => [el("p", { class: "problem" }, /^cus_/.test(bare(text)) ? say.noStripeCustomer
    : isMail(bare(text)) ? say.noMail : seesAll() ? say.nobody(text) : screenWords.forms.nobodyKnown(text, false)),
  problem && el("p", { class: "soft" }, problem)];
  return { nodes: found.length > 0
    ? [el("p", {}, isMeant ? say.several(found.length) : say.onlyPart(text, other)), list(found, open)]
    : nobodys.length > 0 ? nobodys.map((purchase) => nobodysPurchase(purchase)) : nothing() };
}

// A purchase that is nobody's, and how it becomes somebody's: what the App Store sold may be claimed by a device, too.
function nobodysPurchase({ original_transaction_id: id, environment, product_id: product, periods }) {
  return el("p", {},
    say.nobodys(id, product ?? periods.at(-1)?.product_id, words.environments[environment]), " ",
    isOfAppStore(id) ? say.nobodysOfAppStore : say.nobodysOfWeb);
}

function list(customers, open) {
  return el("ul", { class: "customers" }, customers.map((one) =>
    el("li", {},
      button(idText(one.id), () => open({ customer: one.id, environment: one.environment }), { class: "link id" }),
      one.environment === "sandbox" && environmentTag("sandbox"),
      one.by?.length > 0 && el("span", { class: "soft" }, say.by(one.by)))));
}

// What is there before anybody was looked for.
export function start(open) {
  const own = currentSession().key.environment;
  const allowed = (one) => own === null || one.environment === own;
  const [pinned, recent] = [read(pinnedKey).filter(allowed), read(recentKey).filter(allowed)];
  return [
    el("section", { class: "card" }, el("h2", {}, say.startTitle), el("p", {}, say.startText),
      el("ul", {}, say.startIDs.map((text) => el("li", {}, text)))),
    pinned.length > 0 && el("section", { class: "card" }, el("h2", {}, say.pinned), list(pinned, open)),
    recent.length > 0 && el("section", { class: "card" }, el("h2", {}, say.recent), list(recent, open)),
  ];
}
