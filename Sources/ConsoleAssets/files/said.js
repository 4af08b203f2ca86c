// What is said of a customer at an instant: what they hold, what they pay for beside that, and what is somebody else's.

import { currentSession, get, path } from "./api.js";
import { button, el, show } from "./dom.js";
import { isOfAppStore, seesAll } from "./find.js";
import { tying } from "./history.js";
import { ownerOf, paidBeside, undrawn } from "./lanes.js";
import { stateShape } from "./picture.js";
import { courseOf, grouped, groupSentence, lossOf, renewalOf } from "./sentence.js";
import { millis, timeText } from "./time.js";
import { words } from "./words.js";

// The purchases that say how what is held is renewed at an instant: those that are known are of the present.
export async function renewing({ entitlements }, then, explained, moment, signal) {
  const ids = [...new Set(entitlements.filter((one) => one.gives_access && one.will_renew !== null).map((one) => one.original_transaction_id))];
  const purchases = moment.at === null ? then.purchases
    : new Map(await Promise.all(ids.map(async (id) => [id, await get(`v1/subscriptions/${path(id)}`, moment, signal)])));
  if ([...purchases.values()].some((one) => one.renews_as)) await readCatalog(then, explained);
  return purchases;
}

// Asks when it is first needed, and not again.
export function once(ask) {
  let answer;
  return () => answer ??= ask();
}

// What the catalog said of their products, as it was known then: an explanation has that.
export async function readCatalog(then, explained) {
  then.catalog ??= (await explained().catch(() => null))?.catalog;
}

// An explanation takes longer, and comes when somebody has stopped sliding.
export function explain(view, explained, moment, signal) {
  const mine = view.generation;
  clearTimeout(view.waiting);
  view.why.setAttribute("aria-busy", "true");
  view.waiting = setTimeout(async () => {
    try {
      const [document, { explanation }] = await Promise.all([explained(), import("./why.js")]);
      if (mine !== view.generation) return;
      show(view.why, explanation(document, view.openEvent));
      const claimed = await claimedElsewhere(view, document.conflicts, { environment: moment.environment, known_at: moment.known_at }, signal);
      if (mine !== view.generation) return;
      if (JSON.stringify(claimed) !== JSON.stringify(view.claimed ?? [])) {
        view.claimed = claimed;
        if (view.answered && view.shown) view.showAgain();
      }
    } catch (error) {
      if (error.name === "AbortError" || mine !== view.generation) return;
      show(view.why, el("p", { class: "problem" }, error.message || words.unreachable));
    }
    if (mine === view.generation) view.why.removeAttribute("aria-busy");
  }, view.why.childElementCount === 0 ? 0 : 150);
}

// What they claimed and is another's, with whose it is as far as may be seen; what is theirs all the same is left out.
async function claimedElsewhere(view, conflicts, query, signal) {
  const ids = [...new Set(conflicts.map((one) => one.original_transaction_id))].slice(0, 5);
  const found = await Promise.all(ids.map(async (id) => {
    const purchase = await get(`v1/subscriptions/${path(id)}`, query, signal).catch(() => null);
    return { id, product: purchase?.product_id ?? purchase?.periods.at(-1)?.product_id, owner: ownerOf(purchase) };
  }));
  return found.filter(({ owner }) => owner === null || !view.isOwn(owner));
}

// Opens the page of whoever a purchase is.
export const ownersPage = (view, owner) => button(words.lookThere, (event) => {
  event.target.closest("dialog")?.close();
  view.open({ customer: owner, environment: view.view.environment });
}, { class: "link" });

function claims(view) {
  return (view.claimed ?? []).map(({ id, product, owner }) => el("p", { class: "sentence claimed" },
    words.claimedElsewhere(isOfAppStore(id), id, product), owner ? el("strong", { class: "id" }, words.whose(owner)) : words.notTheirs, ". ",
    owner && ownersPage(view, owner)));
}

export function said(view, held, all, then, at) {
  const tell = (one) => (one.gives_access ? { course: courseOf(one, then, at), renewal: renewalOf(one, view.renewing, then.catalog) }
    : { lost: view.lost.has(one.since) ? lossOf(one, view.lost.get(one.since)) : null, isAhead: millis(one.since) > view.now,
      isInPart: then.purchases.get(one.original_transaction_id)?.periods.at(-1)?.refunded_in_part });
  const sentences = held.entitlements.length === 0 ? nobody(view, held, all) : grouped(held.entitlements, tell).map((group) =>
    el("p", { class: "sentence" }, group.map((one) => el("data", {
      value: one.id, "data-entitlement": one.id, "data-state": one.state, "data-access": one.gives_access,
    })), stateShape(group[0].state, 36, 18), " ", groupSentence(group, tell)));
  // Who is locked out is so because of these, more often than not.
  const isLockedOut = !held.entitlements.some((one) => one.gives_access);
  const { app } = currentSession()?.key ?? {};
  return [
    app && el("p", { class: "soft", id: "as-far-as" }, words.asFarAs(app)),
    isLockedOut && claims(view), sentences, !isLockedOut && claims(view), beside(view, held, then, at),
    then.unread > 0 && el("p", { class: "soft", id: "unread" }, words.unreadPurchases(then.unread)),
    undrawn(then) > 0 && el("p", { class: "soft", id: "undrawn" }, words.undrawnGrants(undrawn(then))),
  ];
}

function beside(view, held, then, at) {
  const say = words.sentences;
  return paidBeside(held, then, view.ids(), at).map(({ id, purchase, period }) => {
    const until = period.expires_at === null ? null : timeText(millis(period.expires_at));
    const isUnmapped = then.catalog && then.others.has(id) && !then.catalog.products.some((product) =>
      product.product_id === period.product_id && product.entitlements.length > 0);
    const isRenewed = view.shown.at === null && purchase.will_renew && !purchase.paused && !purchase.awaits_consent && !purchase.renews_as;
    return el("p", { class: "beside" }, purchase.will_renew === null ? say.bought(period.product_id, until)
      : say.beside(period.product_id, until, isRenewed), purchase.paused && ` ${say.paused}`,
    isUnmapped && ` ${say.unmapped}`);
  });
}

function nobody(view, held, all) {
  if (held.also_in) {
    return held.also_in.map((other) => el("p", { class: "sentence" }, words.knownElsewhere(words.environments[other]), " ",
      button(words.lookThere, () => view.open({ customer: view.view.customer, environment: other }), { class: "link" })));
  }
  return el("p", { class: "sentence", id: "nobody" }, nobodyText(view, all));
}

export function nobodyText(view, all) {
  const { at, knownAt } = view.shown;
  const events = view.history?.events ?? [];
  if (!seesAll()) return words.mayKnowNothing;
  if (all.document.entitlements.length === 0 && events.length === 0) return words.nothingKnown(view.view.customer);
  // By then nothing may have been bought; and of whom more is known, it is not known that nothing ever gave them anything.
  return at !== null || knownAt !== null || view.claimed?.length > 0 || events.some((event) => tying.includes(event.type)) ? words.holdNone : words.neverHeld;
}
