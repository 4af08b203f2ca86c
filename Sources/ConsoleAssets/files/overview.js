// The service as a whole: what arrives, what differs, who is told, and what comes into the log.

import { get, may, mayEverywhere, path, post } from "./api.js";
import { announce, button, el, show, wide } from "./dom.js";
import { openEvent } from "./event.js";
import { idText } from "./find.js";
import { readCheckpoint } from "./proof.js";
import { millis, timeElement } from "./time.js";
import { eventWords, kindOf } from "./history.js";
import { screenWords } from "./screenwords.js";
import { words } from "./words.js";

const say = screenWords.overview;
const refreshEvery = 5000;
// While nobody sits before it, nothing is asked: else a session would never end.
const attentionSpan = 600000;
const mostEvents = 60;
const mostNames = 50;

// One part of the page: a title, and what it says; each part fails by itself.
class Part {
  constructor(id, title, read) {
    this.read = read;
    this.body = el("div", { id }, el("p", { class: "soft" }, words.loading));
    this.node = el("section", { class: "card", "aria-label": title }, el("h2", {}, title), this.body);
  }

  async refresh(signal) {
    try {
      show(this.body, await this.read(signal));
    } catch (error) {
      if (error.name !== "AbortError") show(this.body, el("p", { class: "problem" }, error.message || words.unreachable));
    }
  }
}

export class Overview {
  constructor({ environment }, main, open) {
    [this.environment, this.open] = [environment, open];
    this.aborter = new AbortController();
    this.feed = [];
    this.lastInput = Date.now();
    this.parts = [];
    if (may("events:read")) {
      this.parts.push(
        new Part("log", say.log, (signal) => this.log(signal)),
        new Part("streams", say.streams, (signal) => this.streams(signal)),
        new Part("drift", say.drift, (signal) => this.drift(signal)));
      if (mayEverywhere("events:read")) this.parts.push(new Part("seen", say.seen, (signal) => this.seen(signal)));
    }
    if (may("admin")) this.parts.push(new Part("endpoints", say.endpoints, (signal) => this.endpoints(signal)));
    if (may("events:read")) this.parts.push(new Part("feed", say.feed, (signal) => this.news(signal)));
    this.problem = el("p", { role: "alert", class: "problem", id: "problem" });
    show(main, el("div", { class: "title" }, el("h2", { id: "overview" }, words.screen.service.title)), this.problem,
      this.parts.length === 0 ? el("p", {}, say.mayNot) : this.parts.map((part) => part.node));
    this.onInput = () => { this.lastInput = Date.now(); };
    for (const type of ["pointerdown", "keydown"]) document.addEventListener(type, this.onInput);
    this.run();
  }

  async run() {
    while (!this.aborter.signal.aborted) {
      if (!document.hidden && Date.now() - this.lastInput < attentionSpan) {
        await Promise.all(this.parts.map((part) => part.refresh(this.aborter.signal)));
      }
      await new Promise((resolve) => { setTimeout(resolve, refreshEvery); });
    }
  }

  close() {
    this.aborter.abort();
    for (const type of ["pointerdown", "keydown"]) document.removeEventListener(type, this.onInput);
  }

  async log(signal) {
    const ledger = await get("v1/ledger", {}, signal);
    let checkpoint = null;
    try {
      checkpoint = readCheckpoint(await get("v1/ledger/checkpoint", {}, signal));
    } catch (error) {
      if (error.name === "AbortError") throw error;
    }
    return [
      el("p", { class: "lead", id: "head" }, say.head(ledger.position)),
      el("p", { class: "soft" }, el("code", {}, ledger.hash)),
      el("p", {}, checkpoint ? say.checkpoint(checkpoint.size, checkpoint.origin) : say.noCheckpoint),
      this.views(ledger),
    ];
  }

  // How far each view has read; opened by itself where one is behind by more than a moment.
  views({ position, projections }) {
    const behind = Math.max(0, ...projections.map((one) => position - one.checkpoint));
    const wasOpen = document.getElementById("views")?.open;
    return el("details", { id: "views", open: wasOpen ?? behind > 1000 }, el("summary", {}, behind > 0 ? say.viewsBehind(behind) : say.viewsCurrent),
      wide(say.projectionHead[0], el("table", {}, headings(say.projectionHead), el("tbody", {}, projections.map((one) => el("tr", {},
        el("th", { scope: "row" }, el("code", {}, one.name)), el("td", {}, one.checkpoint),
        el("td", {}, position > one.checkpoint ? say.behind(position - one.checkpoint) : say.upToDate)))))));
  }

  async streams(signal) {
    const { items } = await get("v1/streams", {}, signal);
    if (items.length === 0) return el("p", { class: "soft" }, say.noStreams);
    return wide(say.streams, el("table", {}, headings(say.streamHead), el("tbody", {}, items.map((one) => el("tr", {},
      el("th", { scope: "row" }, one.app ?? words.sources.web_checkout, " · ", words.environments[one.environment]),
      el("td", {}, one.silent ? el("strong", { class: "no" }, say.silent)
        : one.last_heard_at ? el("span", { class: "yes" }, say.heard) : el("span", { class: "soft" }, say.notYet)),
      el("td", {}, one.last_heard_at ? timeElement(millis(one.last_heard_at)) : say.never),
      el("td", {}, one.overdue > 0 ? say.overdue(one.overdue) : say.noneOverdue,
        one.oldest_overdue_at && [", ", say.since, " ", timeElement(millis(one.oldest_overdue_at))]),
      el("td", {}, say.sweeps[one.sweep.state] ?? one.sweep.state,
        one.sweep.completed_at && [", ", timeElement(millis(one.sweep.completed_at))],
        one.sweep.last_error && el("p", { class: "problem" }, one.sweep.last_error)))))));
  }

  async drift(signal) {
    const list = await get("v1/drift", { environment: this.environment, resolved: false, limit: 20 }, signal);
    return [
      el("p", { class: list.unexplained > 0 ? "lead problem" : "lead", id: "unexplained" }, say.unexplained(list.unexplained)),
      el("p", { class: "soft" }, words.environments[this.environment], ". ",
        list.items.length === 0 ? say.noDrift : say.openDrift(list.items.length, list.has_more)),
      el("ul", {}, list.items.map((one) => el("li", {}, say.driftClasses[one.class] ?? one.class, ": ", one.explanation, " ",
        one.customer_id && [this.customer(one.customer_id, one.environment), " "],
        button(`#${one.position}`, () => openEvent(one.position), { class: "link" })))),
    ];
  }

  // What the log speaks of and nobody has told the ledger what to make of.
  async seen(signal) {
    const { counted_to: countedTo, remarks, unmapped_products: products, products_without_duration: endless } =
      await get("v1/remarks", {}, signal);
    const count = remarks.length + products.length + endless.length;
    const list = (items, text) => el("ul", {}, items.slice(0, mostNames).map((one) => el("li", {}, text(one), " ", el("span", { class: "soft" },
      say.seenEvents(one.events)), " ", button(`#${one.last_position}`, () => openEvent(one.last_position), { class: "link" }))));
    return [
      el("p", { class: "lead" }, count === 0 ? say.nothingSeen : say.seenSome(count)),
      products.length > 0 && [el("h3", {}, say.unmapped), list(products, (one) => el("code", {}, one.stripe
        ? [one.stripe.price, one.stripe.product].filter(Boolean).join(" · ") : one.name))],
      endless.length > 0 && [el("h3", {}, say.endless), list(endless, (one) => el("code", {}, one.name))],
      remarks.length > 0 && [el("h3", {}, say.remarks), list(remarks, (one) => say.remarkWords[one.name] ?? el("code", {}, one.name))],
      el("p", { class: "soft" }, say.countedTo(countedTo)),
    ];
  }

  async endpoints(signal) {
    const { items } = await get("v1/webhook_endpoints", { limit: 100 }, signal);
    if (items.length === 0) return el("p", { class: "soft" }, say.noEndpoints);
    return wide(say.endpoints, el("table", {}, headings(say.endpointHead), el("tbody", {}, items.map((one) => el("tr", {},
      el("th", { scope: "row" }, one.url ?? one.id), el("td", {}, say.endpointStates[one.status] ?? one.status),
      el("td", {}, one.failing_since
        ? el("strong", { class: "no" }, say.failing, " ", timeElement(millis(one.failing_since))) : el("span", { class: "yes" }, say.fine),
      one.held_until && el("p", {}, say.held, " ", timeElement(millis(one.held_until)))),
      el("td", {}, one.waiting), el("td", {}, one.failed, one.failed > 0 && [" ", this.resending(one.id)]))))));
  }

  // What was given up is sent again, some ten thousand messages at a time.
  resending(id) {
    const again = button(say.resend, async () => {
      again.ariaDisabled = "true";
      this.problem.textContent = "";
      try {
        const done = await post(`v1/webhook_endpoints/${path(id)}/actions/redeliver`, { failed: true });
        announce(say.resent(done.deliveries));
      } catch (error) {
        this.problem.textContent = error.message || words.unreachable;
        again.ariaDisabled = null;
      }
    }, { class: "quiet resend", id: `resend-${id}` });
    return again;
  }

  // The last events, newest first; those that came since are put on top.
  async news(signal) {
    let after = this.feed[0]?.position ?? Math.max((await get("v1/ledger", {}, signal)).position - mostEvents, 0);
    for (let pages = 0; pages < 5; pages += 1) {
      const page = await get("v1/events", { after, limit: 200 }, signal);
      this.feed = [...page.items.toReversed(), ...this.feed].slice(0, mostEvents);
      after = page.next_after;
      if (!page.has_more) break;
    }
    if (this.feed.length === 0) return el("p", { class: "soft" }, words.noEvents);
    return el("ol", { class: "events" }, this.feed.map((event) => el("li", {},
      button(`#${event.position}`, () => openEvent(event.position), { class: "link", id: `feed-${event.position}` }),
      el("span", {}, eventWords(kindOf(event))),
      el("span", {}, event.customer_id && event.environment
        ? this.customer(event.customer_id, event.environment) : el("span", { class: "soft" }, event.product_id ?? "")),
      el("span", { class: "soft when" }, timeElement(millis(event.recorded_at))))));
  }

  customer(id, environment) {
    if (!may("customers:read")) return el("span", { class: "id" }, idText(id));
    return button(idText(id), () => this.open({ customer: id, environment }), { class: "link id" });
  }
}

function headings(texts) {
  return el("thead", {}, el("tr", {}, texts.map((text) => el("th", { scope: "col" }, text))));
}
