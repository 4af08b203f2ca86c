// A customer on one screen, at an instant, as it was known then.

import { fileProblem, get, may, path, Unreachable } from "./api.js";
import { adjust } from "./address.js";
import { Attention } from "./attention.js";
import { announce, button, el, show, showChanged, styled } from "./dom.js";
import { environmentTag, idText, isPinned, remember, setPinned, showAlsoIn } from "./find.js";
import { History } from "./history.js";
import { patterns, Picture } from "./picture.js";
import { explain, nobodyText, once, readCatalog, renewing, said } from "./said.js";
import { lossesOf } from "./sentence.js";
import { Sliders } from "./sliders.js";
import { millis, timeText } from "./time.js";
import { boundaries, citedStops, lanesOf, ownerOf, purchaseEnds, readOthers, readTimeline, span } from "./lanes.js";
import { words } from "./words.js";

// While nobody asks about the past, what is shown is asked for again, unless nobody sits before it.
const refreshEvery = 30000;
// In milliseconds: so long what was shown before stands while something else is asked for.
const patience = 1500;
const longestTimer = 2147483647;

export class CustomerView {
  constructor(view, main, open) {
    this.view = view;
    this.main = main;
    this.open = open;
    this.generation = 0;
    this.timelines = new Map();
    this.losses = new Map();
    this.openEvent = may("events:read") ? (position) => this.showEvent(position) : null;
    this.picture = new Picture({ choose: (instant) => this.set({ at: instant }), openEvent: this.openEvent });
    this.sliders = new Sliders({ at: (at) => this.set({ at }), knownAt: (knownAt) => this.set({ knownAt }) });
    this.answer = el("section", { class: "card answer", id: "answer", "aria-label": words.answer, "aria-live": "polite" });
    this.said = el("div");
    // Where the present is not asked for any more, or could not be.
    this.stale = el("p", { class: "problem", id: "stale", hidden: true });
    this.momentLine = el("p", { class: "moment", id: "moment", hidden: true });
    this.why = el("div", { id: "explanation" });
    this.problem = el("p", { role: "alert", class: "problem", id: "problem" });
    this.history = may("events:read")
      ? new History(view.customer, view.environment, { openEvent: this.openEvent, loaded: () => this.showKnown() }) : null;
    this.alsoIn = el("p", { id: "also-in" });
    this.alsoKnown = el("p", { class: "soft", id: "also-known", hidden: true });
    this.right = el("div", { id: "commands", "aria-busy": "true" });
    this.build();
    remember(view.customer, view.environment);
    this.begin();
  }

  build() {
    const { customer, environment } = this.view;
    const turn = () => label(setPinned(customer, environment, !isPinned(customer, environment)));
    const pin = button("", turn, { class: "quiet", id: "pin" });
    const label = () => { pin.textContent = isPinned(customer, environment) ? words.unpin : words.pin; };
    label();
    show(this.main, patterns(),
      el("div", { class: "title" }, el("h2", { class: "id", id: "customer" }, idText(customer)), environmentTag(environment), pin),
      this.alsoIn, this.alsoKnown, this.problem, this.answer,
      el("section", { class: "card", "aria-label": words.moments }, this.sliders.node),
      el("section", { class: "card", "aria-label": words.picture }, el("h2", {}, words.pictureTitle), this.picture.node),
      el("section", { class: "card", "aria-label": words.why }, el("h2", {}, words.why), this.why),
      this.right,
      this.history && el("section", { class: "card", "aria-label": words.events }, el("h2", {}, words.events),
        this.history.node));
    show(this.answer, environment === "sandbox" && el("p", { class: "problem" }, words.inSandbox), this.momentLine, this.said, this.stale,
      !may("events:read") && el("p", { class: "soft" }, words.notAllPurchases));
    this.attention = new Attention({
      onSign: () => !this.stale.hidden && !this.failed && this.refresh(), onReturn: () => this.refresh(),
    });
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
    clearTimeout(this.turning);
    clearTimeout(this.overdue);
    this.attention.close();
  }

  async begin() {
    this.sliders.show(this.moment());
    await this.load();
    this.loadCommands();
    // Where nothing is held here, the answer says so itself.
    const isAsked = !this.isClosed && !this.answered?.[0].also_in;
    const alsoIn = () => isAsked && showAlsoIn(this.alsoIn, this.view, this.open);
    // Of who is looked at in production it is asked after all else.
    await Promise.all([this.readOn(), this.view.environment === "sandbox" && alsoIn()]);
    if (this.view.environment !== "sandbox" && !this.isClosed) await alsoIn();
  }

  // The events, and then what only they tell of.
  async readOn() {
    if (this.isClosed || !this.history) return;
    await this.history.load();
    // What is on one screen is of one moment: an event that came after the answer was asked for is not left beneath it.
    const last = this.history.events.at(-1)?.position ?? 0;
    if (!this.isClosed && this.answered && last > this.answered[1].document.known_at) {
      this.forgetRead();
      await this.load(true);
    }
    if (!this.isClosed) await this.loadOthers();
  }

  moment() {
    return { at: this.view.at, now: this.now ?? Date.now(), knownAt: this.view.knownAt };
  }

  // Another instant, or another knowledge: everything on the screen follows.
  set(change) {
    // A field that goes with the page is left once more.
    if (this.isClosed) return;
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
    const isPast = this.view.at !== null || this.view.knownAt !== null;
    if (document.hidden || this.isAsking || (isPast && !this.failed)) return;
    if (this.attention.isGone) {
      this.showStale();
      return;
    }
    this.forgetRead();
    this.load(true);
    this.readOn();
  }

  forgetRead() {
    this.timelines.clear();
    this.losses.clear();
  }

  // What is on the screen may be so no more: nobody is to read it out as the present.
  showStale() {
    if (!this.shown || this.shown.at !== null || !this.stale.hidden) return;
    this.stale.hidden = false;
    show(this.stale, words.asOf(timeText(this.now)), " ", button(words.askAgain, () => this.attention.comeBack(), { class: "link", id: "ask-again" }));
  }

  // After a command.
  again() {
    this.forgetRead();
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
    const moment = { environment, at: at === null ? null : new Date(at).toISOString(), known_at: knownAt };
    this.isAsking = true;
    this.overdue ??= setTimeout(() => this.tellOverdue(), patience);
    if (!isQuiet) this.main.setAttribute("aria-busy", "true");
    try {
      const own = `v1/customers/${path(customer)}`;
      const whole = this.timeline(null, signal);
      const [held, all, then] = await Promise.all([
        get(`${own}/entitlements`, moment, signal), whole, knownAt === null ? whole : this.timeline(knownAt, signal),
      ]);
      const explained = once(() => get(`${own}/explain`, moment, signal));
      const renewals = await renewing(held, then, explained, moment, signal);
      const lost = await lossesOf(held, this.losses, (instant) => get(`${own}/entitlements`, { ...moment, at: instant }, signal), knownAt);
      if (mine !== this.generation) return;
      this.failed = false;
      this.endOverdue();
      [this.lost, this.renewing] = [lost, renewals];
      this.sliders.head = all.document.known_at;
      this.stale.hidden = true;
      this.now = at === null ? millis(held.at) : Date.now();
      this.readAt = Date.now();
      this.problem.textContent = "";
      if (this.shown?.at !== at || this.shown.knownAt !== knownAt) this.claimed = [];
      // What is on the screen from here on; what is asked for may be another moment already.
      this.shown = { at, knownAt };
      this.answered = [held, all, then, explained];
      this.showHeld(held, all, then);
      // Somebody may have been forgotten meanwhile, in another tab or elsewhere.
      if (held.entitlements.length === 0 && all.document.entitlements.length === 0 && this.history?.events.length > 0) this.history.loadAgain();
      explain(this, explained, moment, signal);
      this.showRight();
      this.waitForChange();
      // When somebody has stopped sliding.
      clearTimeout(this.othersWaiting);
      this.othersWaiting = setTimeout(() => this.loadOthers(), 250);
    } catch (error) {
      if (error.name === "AbortError" || mine !== this.generation) return;
      this.problem.textContent = error instanceof Unreachable ? words.unreachable : error.message;
      announce(this.problem.textContent);
      this.fail();
    } finally {
      if (mine === this.generation) {
        this.isAsking = false;
        this.main.removeAttribute("aria-busy");
      }
    }
  }

  fail() {
    this.failed = true;
    this.endOverdue();
    if (this.isShown()) this.showStale();
    else this.clear(el("p", { class: "problem" }, words.notShown, " ", button(words.tryAgain, () => this.again(), { class: "link", id: "try-again" })));
  }

  // Whether what is on the screen is of the moment that is asked about.
  isShown() {
    return this.shown?.at === this.view.at && this.shown.knownAt === this.view.knownAt;
  }

  // The answer is long in coming.
  tellOverdue() {
    this.overdue = null;
    if (!this.isShown()) this.clear(el("p", { class: "soft" }, words.loading));
    else if (!this.isFresh()) this.showStale();
  }

  endOverdue() {
    clearTimeout(this.overdue);
    this.overdue = null;
  }

  // Whether nothing has ended or begun since it was asked for, which was not long ago.
  isFresh() {
    const passed = Date.now() - this.readAt;
    return passed < 2 * refreshEvery && this.now + passed < this.nextChange();
  }

  nextChange() {
    return boundaries(this.answered[2].document).find((ms) => ms > this.now) ?? Infinity;
  }

  // No answer about another moment is left standing.
  clear(instead) {
    clearTimeout(this.waiting);
    this.shown = null;
    this.stale.hidden = this.momentLine.hidden = this.picture.node.hidden = true;
    show(this.said, instead);
    show(this.why);
    this.why.removeAttribute("aria-busy");
  }

  // Asks again when something begins or ends.
  waitForChange() {
    clearTimeout(this.turning);
    const wait = this.nextChange() - this.now + 300;
    if (this.view.at === null && wait < longestTimer) this.turning = setTimeout(() => this.refresh(), wait);
  }

  // How everything reads over time, with the purchases that carry it; the same for every instant that is asked about.
  async timeline(knownAt, signal) {
    const key = knownAt ?? "";
    const known = this.timelines.get(key);
    if (known) return known;
    const whole = await readTimeline(this.view, knownAt, signal);
    if (this.timelines.size >= 50) this.timelines.clear();
    this.timelines.set(key, whole);
    return whole;
  }

  // What only the events tell of.
  async loadOthers() {
    if (!this.answered || !this.shown || !this.history || this.history.events.length === 0) return;
    const [, , then, explained] = this.answered;
    const mine = this.generation;
    const isMore = await readOthers(then, this.history, { environment: this.view.environment, known_at: this.shown.knownAt });
    if (isMore && [...then.others.values()].some(Boolean)) await readCatalog(then, explained);
    if (isMore && mine === this.generation && !this.isClosed && this.shown) this.showAgain();
  }

  // What is on the screen, with what was learnt since.
  showAgain() {
    this.showHeld(...this.answered);
    this.showRight();
  }

  // What may be put right is no part of the answer, and does not keep it waiting.
  async loadCommands() {
    try {
      this.commands = (await import("./commands.js")).commands;
      if (!this.isClosed) this.showRight();
    } catch (error) {
      this.problem.textContent = fileProblem(error);
      this.right.removeAttribute("aria-busy");
    }
  }

  // What the key that is signed in may do.
  showRight() {
    if (!this.answered || !this.commands) return;
    show(this.right, this.commands(this));
    this.right.removeAttribute("aria-busy");
  }

  showHeld(held, all, then) {
    const at = this.shown.at ?? this.now;
    const lanes = lanesOf(then, this.now, (purchase) => this.whose(purchase));
    const changes = boundaries(then.document);
    const [from, until] = span([...boundaries(all.document), ...purchaseEnds(all)], this.now);
    this.sliders.setSpan(Math.min(from, at), Math.max(until, at), changes);
    this.sliders.show(this.moment());
    this.picture.node.hidden = false;
    this.picture.show({ lanes, now: this.now, at, from: Math.min(from, at), until: Math.max(until, at) });
    this.showKnown();
    showChanged(this.said, said(this, held, all, then, at));
  }

  // Which moment it is, where it is not the present as far as it is known.
  showMoment() {
    if (!this.shown) return;
    const { at, knownAt } = this.shown;
    this.momentLine.hidden = at === null && knownAt === null;
    const known = this.sliders.knownWords(knownAt, this.sliders.stopIndex(knownAt));
    const text = this.momentLine.hidden
      ? "" : words.momentLine(timeText(at ?? this.now), at === null, known, knownAt === null);
    if (this.momentLine.textContent !== text) this.momentLine.textContent = text;
  }

  // All ids that stand for the customer.
  ids() {
    return [this.view.customer, this.answered?.[0].customer_id, ...this.names()].filter(Boolean);
  }

  isOwn(id) {
    return this.ids().includes(id);
  }

  // Of a purchase that is not theirs, whose it is; `null` of one that is.
  whose(purchase) {
    const owner = ownerOf(purchase);
    if (purchase.periods.length === 0) return null;
    return owner === null ? words.ofNobody : this.isOwn(owner) ? null : words.ofAnother(owner);
  }

  // The ids that are one customer, as far as is believed.
  names() {
    if (!this.history) return [];
    const isAll = (this.shown ?? this.view).knownAt === null;
    return this.history.names(isAll ? undefined : this.history.known());
  }

  showKnown() {
    this.sliders.setStops(this.history ? this.history.events : citedStops(this.timelines.get("")));
    this.showMoment();
    if (!this.history) return;
    const { knownAt } = this.shown ?? this.view;
    // Some of what may be put right is about events.
    const offersMore = this.history.events.length > 0;
    if (this.answered && offersMore !== (this.offersMore ?? false)) {
      this.offersMore = offersMore;
      this.showRight();
    }
    this.history.show(knownAt === null ? this.history.events.length : this.sliders.stopIndex(knownAt));
    const names = this.names();
    this.alsoKnown.hidden = names.length === 0;
    this.alsoKnown.textContent = names.length === 0 ? "" : words.alsoKnown(names.slice(0, 12));
    const nobody = document.getElementById("nobody");
    const text = nobody && this.answered && this.shown && nobodyText(this, this.answered[1]);
    if (text && nobody.textContent !== text) nobody.textContent = text;
  }

  // How an event is shown comes when one is opened.
  async showEvent(position) {
    try {
      await (await styled(import("./event.js"))).openEvent(position, this);
    } catch (error) {
      this.problem.textContent = fileProblem(error);
    }
  }
}
