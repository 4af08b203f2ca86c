// The customer's events: loaded page by page, shown newest first, fifty at a time.

import { get, path } from "./api.js";
import { el, eventNumber, paged, show, showChanged } from "./dom.js";
import { millis, timeElement } from "./time.js";
import { words } from "./words.js";

const pageSize = 1000;
const mostLoaded = 20000;

// These are paired by what they state.
const aboutGrants = ["granted", "grant_revoked"];

// What is kept of each: not what it states, which is read when it is opened, but for grants.
function brief(event) {
  return {
    ...kindOf(event), facts: aboutGrants.includes(event.type) ? event.facts : null, position: event.position, source: event.source, original: event.original_transaction_id,
    customer: event.customer_id, product: event.product_id,
    recordedAt: millis(event.recorded_at), occurredAt: millis(event.occurred_at),
  };
}

// What an event is called by: an id that is linked to itself is no alias any more.
export const kindOf = ({ type, notification, facts }) => ({
  type, subtype: facts.identity && facts.identity === facts.customer ? "undone" : notification?.subtype,
  ownership: facts.transaction?.ownership,
});

// What an event is called: some types are two things.
export const eventWords = ({ type, subtype, ownership }) => words.eventTypes[`${type}_${ownership}`]
  ?? words.eventTypes[`${type}_${subtype}`] ?? words.eventTypes[type] ?? type;

// These may name somebody else.
const aboutOthers = ["transferred", "transfer_undone", "ownership_conflict", "claimed"];

// These tell that more happened than that something was bought or given.
export const tying = ["linked", "claimed", "transferred", "transfer_undone", "ownership_conflict"];

// What an answer of Stripe's states, by what it is called by and a key of its own; what counts most comes first.
function statedOnWeb({ disputes = [], refunds = [], invoices = [], subscription }) {
  const sum = (list, name) => list.reduce((all, one) => all + (one[name] ?? 0), 0);
  const isPart = sum(refunds.filter((one) => one.status !== "failed" && one.status !== "canceled"), "amount") < sum(invoices, "amount_paid");
  return [
    ...disputes.map((one) => ["dispute", `${one.dispute} ${one.status}`]),
    ...refunds.map((one) => [isPart ? "part" : "refund", `${one.refund} ${one.status}`]),
    ...invoices.map((one) => ["paid", one.invoice]),
    ...(subscription ? [["subscription", JSON.stringify(subscription)]] : []),
  ];
}

// These move events from one customer's list to another's.
const moving = ["linked", "transferred", "transfer_undone", "forgotten"];

// Whether it became known long after it was stated.
const isLate = (event) => event.occurredAt !== null && event.recordedAt - event.occurredAt > 60000;

export class History {
  // `handlers`: openEvent(position), loaded(events)
  constructor(customer, environment, handlers) {
    [this.customer, this.environment, this.handlers] = [customer, environment, handlers];
    this.clear();
    this.isWhole = false;
    this.aborter = new AbortController();
    this.node = el("div", { id: "events" }, el("p", { class: "soft" }, words.loading));
    this.place = {};
  }

  clear() {
    this.events = [];
    // What was stated on the web so far, and what each grant is of.
    [this.told, this.grants] = [new Set(), new Map()];
  }

  add(items) {
    for (const event of items) {
      const { facts } = event;
      const one = brief(event);
      const stated = statedOnWeb(facts);
      // An answer of Stripe's says all that is known: it is called by what it adds.
      if (event.type === "web_reading") one.subtype = stated.find(([, key]) => !this.told.has(key))?.[0];
      for (const [, key] of stated) this.told.add(key);
      if (facts.entitlement) this.grants.set(facts.grant_id, facts.entitlement);
      one.entitlement = this.grants.get(facts.grant_id);
      this.events.push(one);
    }
  }

  // What came since, behind whatever is being loaded already: no event is listed twice.
  load() {
    this.loading = (this.loading ?? Promise.resolve()).then(() => this.loadMore());
    return this.loading;
  }

  async loadMore() {
    if (this.events.length >= mostLoaded) return;
    const known = this.events.at(-1)?.position ?? 0;
    let after = known;
    try {
      for (;;) {
        const page = await get(`v1/customers/${path(this.customer)}/events`,
          { environment: this.environment, after, limit: pageSize }, this.aborter.signal);
        // What was moved to them may lie before what is known, and what was moved away is theirs no more.
        if (known > 0 && page.items.some((event) => moving.includes(event.type))) {
          await this.loadAnew();
          break;
        }
        this.add(page.items);
        this.handlers.loaded(this.events);
        if (!page.has_more || this.events.length >= mostLoaded) {
          this.isWhole = !page.has_more;
          break;
        }
        after = page.next_after;
      }
      this.draw();
    } catch (error) {
      if (error.name !== "AbortError") show(this.node, el("p", { class: "problem" }, error.message || words.unreachable));
    }
  }

  async loadAnew() {
    const pages = [];
    for (let after = 0; after !== null && pages.length * pageSize < mostLoaded;) {
      const page = await get(`v1/customers/${path(this.customer)}/events`,
        { environment: this.environment, after, limit: pageSize }, this.aborter.signal);
      pages.push(page.items);
      this.isWhole = !page.has_more;
      after = page.has_more ? page.next_after : null;
    }
    this.clear();
    for (const items of pages) this.add(items);
    this.handlers.loaded(this.events);
  }

  // Where nobody is known any more, somebody may have been forgotten meanwhile.
  loadAgain() {
    this.loading = (this.loading ?? Promise.resolve()).then(() => this.loadAnew()).catch(() => {});
    return this.loading;
  }

  // The events of these types, or all, as far as they are believed.
  known(types) {
    const believed = this.events.slice(0, this.believed ?? this.events.length);
    return types ? believed.filter((event) => types.includes(event.type)) : believed;
  }

  // The events of grants, as far as they are believed.
  orders() {
    return this.known(aboutGrants);
  }

  // The ids that are one customer, beside the one that is looked at; as far as is believed, where `events` are those.
  names(events = this.events) {
    const isTied = events === this.events || events.some((event) => event.type === "linked" || event.type === "claimed");
    const named = (isTied ? events : []).filter((event) => !aboutOthers.includes(event.type)).map((event) => event.customer);
    return [...new Set(named)].filter((name) => name && name !== this.customer);
  }

  // Whether a purchase is told of as that of somebody of these ids.
  hasOwn(original, ids) {
    return this.known().some((event) => event.original === original && !aboutOthers.includes(event.type) && ids.includes(event.customer));
  }

  // `believed`: how many of the events, oldest first.
  show(believed) {
    this.believed = believed;
    this.draw();
  }

  draw() {
    const believed = this.events.slice(0, this.believed ?? this.events.length);
    const hidden = this.events.length - believed.length;
    const newest = believed.reverse();
    showChanged(this.node,
      hidden > 0 && el("p", { class: "soft", id: "not-known" }, words.notKnownThen(hidden)),
      !this.isWhole && this.events.length >= mostLoaded && el("p", { class: "soft" }, words.onlyFirst(mostLoaded)),
      newest.length === 0 ? el("p", { class: "soft" }, words.noEvents) : paged(newest, 50, words, (shown) =>
        el("ol", { class: "events" }, shown.map((event) => el("li", {},
          eventNumber(event.position, this.handlers.openEvent),
          el("span", {}, eventWords(event)),
          el("span", { class: "soft" }, event.product ?? event.entitlement ?? event.original ?? ""),
          el("span", { class: "soft when" }, timeElement(event.occurredAt ?? event.recordedAt),
            isLate(event) && el("small", {}, ` ${words.recorded} `, timeElement(event.recordedAt)))))), this.place));
  }

  close() {
    this.aborter.abort();
  }
}
