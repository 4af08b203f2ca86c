// A customer on one screen, at an instant, as it was known then.

import { get, may, path, Unreachable } from "./api.js";
import { adjust } from "./address.js";
import { announce, button, el, show } from "./dom.js";
import { isPinned, remember, setPinned } from "./find.js";
import { openEvent } from "./event.js";
import { History } from "./history.js";
import { patterns, Picture, stateShape } from "./picture.js";
import { grouped, groupSentence } from "./sentence.js";
import { Sliders } from "./sliders.js";
import { millis, timeText } from "./time.js";
import { commands } from "./commands.js";
import { boundaries, lanesOf, purchaseEnds, span } from "./lanes.js";
import { explanation } from "./why.js";
import { words } from "./words.js";

const mostPurchases = 40;
// While nobody asks about the past, what is shown is asked for again, unless nobody sits before it.
const refreshEvery = 30000;
const attentionSpan = 600000;

export class CustomerView {
  constructor(view, main, open) {
    this.view = view;
    this.main = main;
    this.open = open;
    this.generation = 0;
    this.timelines = new Map();
    this.lastInput = Date.now();
    const opened = may("events:read") ? (position) => openEvent(position, this) : () => announce(words.mayNotReadEvents);
    this.openEvent = opened;
    this.picture = new Picture({ choose: (instant) => this.set({ at: instant }), openEvent: opened });
    this.sliders = new Sliders({ at: (at) => this.set({ at }), knownAt: (knownAt) => this.set({ knownAt }) });
    this.answer = el("section", { class: "card answer", id: "answer", "aria-label": words.answer, "aria-live": "polite" });
    this.momentLine = el("p", { class: "moment", id: "moment", hidden: true });
    this.why = el("div", { id: "explanation" });
    this.problem = el("p", { role: "alert", class: "problem", id: "problem" });
    this.history = may("events:read")
      ? new History(view.customer, view.environment, { openEvent: opened, loaded: () => this.showKnown() }) : null;
    // What events state, by their positions: of those that are needed for what is drawn.
    this.facts = new Map();
    this.alsoKnown = el("p", { class: "soft", id: "also-known", hidden: true });
    this.right = el("div", { id: "commands" });
    this.build();
    remember(view.customer, view.environment);
    this.begin();
  }

  build() {
    const { customer, environment } = this.view;
    const pin = button("", () => {
      setPinned(customer, environment, !isPinned(customer, environment));
      label();
    }, { class: "quiet", id: "pin" });
    const label = () => {
      const isOn = isPinned(customer, environment);
      pin.textContent = isOn ? words.unpin : words.pin;
      pin.setAttribute("aria-pressed", isOn);
    };
    label();
    show(this.main, patterns(),
      el("div", { class: "title" }, el("h2", { class: "id", id: "customer" }, customer),
        el("span", { class: "tag" }, words.environments[environment]), pin),
      this.alsoKnown, this.problem, this.answer,
      el("section", { class: "card", "aria-label": words.moments }, this.sliders.node),
      el("section", { class: "card", "aria-label": words.picture }, el("h2", {}, words.pictureTitle), this.picture.node),
      el("section", { class: "card", "aria-label": words.why }, el("h2", {}, words.why), this.why),
      this.right,
      this.history && el("section", { class: "card", "aria-label": words.events }, el("h2", {}, words.events),
        this.history.node));
    this.onInput = () => { this.lastInput = Date.now(); };
    for (const type of ["pointerdown", "keydown"]) document.addEventListener(type, this.onInput);
    this.timer = setInterval(() => this.refresh(), refreshEvery);
  }

  close() {
    this.isClosed = true;
    this.generation += 1;
    this.aborter?.abort();
    this.history?.close();
    clearInterval(this.timer);
    clearTimeout(this.waiting);
    clearTimeout(this.othersWaiting);
    for (const type of ["pointerdown", "keydown"]) document.removeEventListener(type, this.onInput);
  }

  async begin() {
    this.sliders.show(this.moment());
    await this.load();
    await this.readOn();
  }

  // The events, and then what only they tell of.
  async readOn() {
    if (this.isClosed || !this.history) return;
    await this.history.load();
    if (!this.isClosed) await this.loadOthers();
  }

  moment() {
    return { at: this.view.at, now: this.now ?? Date.now(), knownAt: this.view.knownAt };
  }

  // Another instant, or another knowledge: everything on the screen follows.
  set(change) {
    this.view = { ...this.view, ...change };
    adjust(this.view);
    this.sliders.refuse("");
    this.sliders.show(this.moment());
    // One request a frame, however fast somebody slides.
    this.wanted ??= requestAnimationFrame(() => {
      this.wanted = null;
      this.load();
    });
  }

  refresh() {
    const isIdle = Date.now() - this.lastInput > attentionSpan;
    if (this.view.at !== null || this.view.knownAt !== null || document.hidden || isIdle) return;
    this.timelines.clear();
    this.load(true);
    this.readOn();
  }

  // After a command.
  again() {
    this.timelines.clear();
    this.readOn();
    return this.load();
  }

  // What is asked for last is shown, whatever answer comes last.
  async load(isQuiet = false) {
    if (this.isClosed) return;
    const mine = ++this.generation;
    this.aborter?.abort();
    this.aborter = new AbortController();
    const { signal } = this.aborter;
    const { customer, environment, at, knownAt } = this.view;
    const own = `v1/customers/${path(customer)}`;
    const moment = { environment, at: at === null ? null : new Date(at).toISOString(), known_at: knownAt };
    if (!isQuiet) this.main.setAttribute("aria-busy", "true");
    try {
      const [held, all, then] = await Promise.all([
        get(`${own}/entitlements`, moment, signal), this.timeline(null, signal), this.timeline(knownAt, signal),
      ]);
      if (mine !== this.generation) return;
      this.now = at === null ? millis(held.at) : Date.now();
      this.problem.textContent = "";
      // What is on the screen from here on; what is asked for may be another moment already.
      this.shown = { at, knownAt };
      this.showHeld(held, all, then);
      this.explain(own, moment, mine, signal);
      this.answered = [held, all, then];
      show(this.right, commands(this));
      // When somebody has stopped sliding.
      clearTimeout(this.othersWaiting);
      this.othersWaiting = setTimeout(() => this.loadOthers(), 250);
    } catch (error) {
      if (error.name === "AbortError" || mine !== this.generation) return;
      this.problem.textContent = error instanceof Unreachable ? words.unreachable : error.message;
      announce(this.problem.textContent);
    } finally {
      if (mine === this.generation) this.main.removeAttribute("aria-busy");
    }
  }

  // How everything reads over time, with the purchases that carry it; the same for every instant that is asked about.
  async timeline(knownAt, signal) {
    const key = knownAt ?? "";
    const known = this.timelines.get(key);
    if (known) return known;
    const { customer, environment } = this.view;
    const query = { environment, known_at: knownAt };
    const document = await get(`v1/customers/${path(customer)}/timeline`, query, signal);
    const ids = [...new Set(document.entitlements.flatMap((one) =>
      one.intervals.map((interval) => interval.original_transaction_id)).filter((id) => id !== null))];
    const purchases = new Map();
    const waiting = ids.slice(0, mostPurchases);
    const work = async () => {
      for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
        purchases.set(id, await get(`v1/subscriptions/${path(id)}`, query, signal));
      }
    };
    await Promise.all([work(), work(), work(), work()]);
    const whole = { document, purchases, others: new Map(), grants: null, unread: ids.length - purchases.size };
    if (this.timelines.size >= 50) this.timelines.clear();
    this.timelines.set(key, whole);
    return whole;
  }

  // Purchases that decide nothing stand in no timeline, and grants in none but those that decide: the events name them.
  async loadOthers() {
    if (!this.answered || !this.history || this.history.events.length === 0) return;
    const [, , then] = this.answered;
    const mine = this.generation;
    const query = { environment: this.view.environment, known_at: this.shown.knownAt };
    const named = new Set(this.history.known().map((event) => event.original).filter(Boolean));
    const left = [...named].filter((id) => !then.purchases.has(id) && !then.others.has(id))
      .slice(0, Math.max(mostPurchases - then.purchases.size - then.others.size, 0));
    const orders = this.history.known(["granted", "grant_revoked"]).slice(-mostPurchases);
    const unread = orders.filter((event) => !this.facts.has(event.position));
    if (left.length === 0 && unread.length === 0 && then.grants !== null && then.grants.orders === orders.length) return;
    try {
      const read = await Promise.all(unread.map((event) => get(`v1/events/${event.position}`)));
      for (const event of read) this.facts.set(event.position, event.facts);
      await Promise.all(left.map(async (id) => {
        then.others.set(id, await get(`v1/subscriptions/${path(id)}`, query).catch(() => null));
      }));
      if ([...then.others.values()].some(Boolean)) this.catalog ??= await get("v1/catalog").catch(() => null);
    } catch {
      // What decides is on the screen.
      return;
    }
    then.grants = this.grantsOf(orders);
    if (mine === this.generation && !this.isClosed) this.showAgain();
  }

  grantsOf(orders) {
    const revoked = new Map(orders.filter((event) => event.type === "grant_revoked")
      .map((event) => [this.facts.get(event.position)?.grant_id, event]));
    const grants = orders.filter((event) => event.type === "granted").map((event) => {
      const facts = this.facts.get(event.position) ?? {};
      const end = revoked.get(facts.grant_id);
      const ends = [millis(facts.until ?? null), end ? end.recordedAt : null].filter((ms) => ms !== null);
      return {
        facts, from: event.recordedAt, until: ends.length > 0 ? Math.min(...ends) : null, isRevoked: end !== undefined,
        positions: [event.position, ...(end ? [end.position] : [])],
      };
    }).filter((grant) => grant.facts.grant_id && (grant.until === null || grant.until > grant.from));
    return Object.assign(grants, { orders: orders.length });
  }

  // What is on the screen, with what was learnt since.
  showAgain() {
    this.showHeld(...this.answered);
    show(this.right, commands(this));
  }

  // Until when one is paid for, as the purchase that decides says it, and how it reads then.
  paid({ id, original_transaction_id: original, until }, { document, purchases }) {
    const end = millis(until) ?? Infinity;
    const last = purchases.get(original)?.periods.filter((period) => millis(period.starts_at) < end)
      .reduce((one, other) => (one && millis(one.starts_at) > millis(other.starts_at) ? one : other), null);
    if (!last || last.expires_at === null) return null;
    const paidUntil = millis(last.expires_at);
    const next = document.entitlements.find((one) => one.id === id)?.intervals
      .find((interval) => millis(interval.from) <= paidUntil + 1 && (millis(interval.until) ?? Infinity) > paidUntil + 1);
    return { until: paidUntil, next: next?.state, isSame: next?.original_transaction_id === original };
  }

  // Purchases that are paid for at the moment and decide nothing: somebody who asks about a charge means them.
  beside(held, then) {
    const at = this.shown.at ?? this.now;
    const own = new Set([this.view.customer, held.customer_id, ...(this.history?.names() ?? [])]);
    const deciding = new Set(held.entitlements.filter((one) => one.gives_access).map((one) => one.original_transaction_id));
    const mapped = new Set(this.catalog?.products.filter((product) => product.entitlements.length > 0)
      .map((product) => product.product_id));
    return [...then.purchases, ...then.others].filter(([id, purchase]) => purchase && !deciding.has(id)).map(([id, purchase]) => {
      const period = purchase.periods.find((one) => millis(one.starts_at) <= at
        && (millis(one.ends_at) ?? Infinity) > at && own.has(one.customer_id) && one.ownership !== "family_shared");
      if (!period) return null;
      const until = period.expires_at === null ? null : timeText(millis(period.expires_at));
      const isUnmapped = this.catalog && then.others.has(id) && !mapped.has(period.product_id);
      return el("p", { class: "beside" }, isUnmapped && [words.sentences.unmapped(period.product_id), " "],
        words.sentences.beside(period.product_id, until, this.shown.at === null && purchase.will_renew === true));
    });
  }

  showHeld(held, all, then) {
    const at = this.shown.at ?? this.now;
    const lanes = lanesOf(then, this.now);
    const changes = boundaries(then.document);
    const [from, until] = span([...boundaries(all.document), ...purchaseEnds(all)], this.now);
    this.sliders.setSpan(Math.min(from, at), Math.max(until, at), changes);
    this.sliders.show(this.moment());
    this.picture.show({ lanes, now: this.now, at, from: Math.min(from, at), until: Math.max(until, at) });
    this.showKnown();
    const paid = (one) => this.paid(one, then);
    show(this.answer, this.momentLine,
      held.entitlements.length === 0 ? this.nobody(held, all) : grouped(held.entitlements, paid).map((group) =>
        el("p", { class: "sentence" }, group.map((one) => el("data", {
          value: one.id, "data-entitlement": one.id, "data-state": one.state, "data-access": one.gives_access,
        })), stateShape(group[0].state, 36, 18), " ", groupSentence(group, paid))),
      this.beside(held, then),
      then.unread > 0 && el("p", { class: "soft" }, words.unreadPurchases(then.unread)));
  }

  // Which moment it is, where it is not the present as far as it is known.
  showMoment() {
    if (!this.shown) return;
    const { at, knownAt } = this.shown;
    this.momentLine.hidden = at === null && knownAt === null;
    const known = this.sliders.knownWords(knownAt, this.sliders.stopIndex(knownAt));
    this.momentLine.textContent = this.momentLine.hidden
      ? "" : words.momentLine(timeText(at ?? this.now), at === null, known, knownAt === null);
  }

  nobody(held, all) {
    if (held.also_in) {
      return held.also_in.map((other) => el("p", { class: "sentence" }, words.knownElsewhere(words.environments[other]), " ",
        button(words.lookThere, () => this.open({ customer: this.view.customer, environment: other }), { class: "link" })));
    }
    const isKnown = all.document.entitlements.length > 0 || (this.history?.events.length ?? 0) > 0;
    return el("p", { class: "sentence", id: "nobody" }, isKnown ? words.heldNothing : words.nothingKnown(this.view.customer));
  }

  showKnown() {
    this.sliders.setStops(this.history ? this.history.events : this.citedStops());
    this.showMoment();
    if (!this.history) return;
    const { knownAt } = this.shown ?? this.view;
    // Some of what may be put right is about events.
    if (this.answered && this.history.events.length > 0 && !this.offersMore) {
      this.offersMore = true;
      show(this.right, commands(this));
    }
    const names = this.history.names();
    this.alsoKnown.hidden = names.length === 0;
    this.alsoKnown.textContent = names.length === 0 ? "" : words.alsoKnown(names.slice(0, 12));
    this.history.show(knownAt === null ? this.history.events.length : this.sliders.stopIndex(knownAt));
    const nobody = document.getElementById("nobody");
    if (nobody && this.history.events.length > 0) nobody.textContent = words.heldNothing;
  }

  // For who may not read events: those that the timeline rests on.
  citedStops() {
    const all = this.timelines.get("");
    const positions = all ? all.document.entitlements.flatMap((one) => one.intervals.flatMap((each) => each.positions)) : [];
    return [...new Set(positions)].sort((one, other) => one - other)
      .map((position) => ({ position, type: null, recordedAt: null }));
  }

  // An explanation takes longer, and comes when somebody has stopped sliding.
  explain(own, moment, mine, signal) {
    clearTimeout(this.waiting);
    this.why.setAttribute("aria-busy", "true");
    this.waiting = setTimeout(async () => {
      try {
        const document = await get(`${own}/explain`, moment, signal);
        if (mine === this.generation) show(this.why, explanation(document, this.openEvent));
      } catch (error) {
        if (error.name === "AbortError" || mine !== this.generation) return;
        show(this.why, el("p", { class: "problem" }, error.message || words.unreachable));
      }
      if (mine === this.generation) this.why.removeAttribute("aria-busy");
    }, this.why.childElementCount === 0 ? 0 : 150);
  }
}
