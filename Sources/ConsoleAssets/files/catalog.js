// The catalog: which product gives what. A change is tried on everybody first, and then put in place of what it was made from.

import { call, currentSession, get, mayEverywhere, Refusal, Unreachable } from "./api.js";
import { announce, button, el, field, openDialog, paged, show, wide } from "./dom.js";
import { stateShape, patterns } from "./picture.js";
import { millis, timeText } from "./time.js";
import { screenWords } from "./screenwords.js";
import { apart, words } from "./words.js";

const say = screenWords.catalog;
// So many times it is asked to go on: the whole of a ledger that is tried within some minutes.
const mostRounds = 60;

const copy = (value) => JSON.parse(JSON.stringify(value));
// Members may stand in any order.
const sorted = (_, value) => (value && typeof value === "object" && !Array.isArray(value)
  ? Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))) : value);
const isSame = (one, other) => JSON.stringify(one, sorted) === JSON.stringify(other, sorted);
const content = ({ products, policy }) => copy({ products, policy });

// What was drafted, tried or done, while somebody looks at another screen; another key finds nothing of it.
let kept = null;
document.addEventListener("signing-out", () => { kept = null; });

export class CatalogView {
  constructor(address, main, open) {
    [this.main, this.open] = [main, open];
    this.keyID = currentSession().key.id;
    this.problem = el("p", { role: "alert", class: "problem", id: "problem" });
    this.table = el("div", { id: "products" });
    this.place = {};
    this.policy = el("div", { id: "policy" });
    this.change = el("section", { class: "card", id: "change", "aria-live": "polite", hidden: true });
    show(main, patterns(), el("div", { class: "title" }, el("h2", { id: "catalog" }, words.screen.catalog.title), this.origin = el("span", { class: "tag" })),
      this.intro = el("p", { class: "soft" }), this.problem, this.change,
      el("section", { class: "card", "aria-label": say.products }, el("h2", {}, say.products), this.table),
      el("section", { class: "card", "aria-label": say.policy }, el("h2", {}, say.policy), this.policy));
    this.load();
  }

  close() {
    this.isClosed = true;
    this.aborter?.abort();
    const { current, draft, trial, done } = this;
    if (current) kept = { keyID: this.keyID, current, draft, trial, done };
  }

  // Another key signed in while a form was open, which says so: what it may goes on, and what was tried or done was not its own.
  showRight() {
    if (!this.current) return;
    if (this.keyID !== currentSession().key.id) [this.trial, this.done] = [null, null];
    this.keyID = currentSession().key.id;
    if (!mayEverywhere("catalog:write")) this.draft = content(this.current);
    this.draw();
  }

  async load() {
    await this.attempt(async () => {
      const latest = await get("v1/catalog");
      if (this.isClosed) return;
      [this.current, this.draft] = [latest, content(latest)];
      this.takeUp(latest);
      this.draw();
      if (latest.position !== this.current.position) await this.overtaken();
    });
  }

  // Goes on with what was drafted here before, and offers the undoing of what was done, unless something came in between.
  takeUp(latest) {
    const mine = kept;
    kept = null;
    if (!mine || mine.keyID !== currentSession().key.id) return;
    const isDraft = !isSame(mine.draft, content(mine.current));
    if (isDraft || mine.current.position === latest.position) {
      [this.current, this.draft, this.trial, this.done] = [mine.current, mine.draft, mine.trial, mine.done];
    }
  }

  async attempt(work) {
    this.problem.textContent = "";
    try {
      await work();
    } catch (error) {
      if (error.name === "AbortError" || this.isClosed) return;
      this.problem.textContent = error instanceof Unreachable ? words.unreachable : error.message;
    }
  }

  // What is pressed twice is done once.
  async once(work) {
    if (this.isBusy) return;
    this.isBusy = true;
    await this.attempt(work);
    this.isBusy = false;
  }

  // What was drafted becomes what is tried next. `clashes` are the products that somebody else changed as well.
  edit(draft, clashes = []) {
    this.draft = draft;
    this.trial = null;
    this.clashes = clashes;
    this.aborter?.abort();
    this.draw();
  }

  draw() {
    this.mayChange = mayEverywhere("catalog:write");
    this.intro.textContent = this.mayChange ? say.text : say.readOnly;
    this.origin.textContent = this.current.position > 0 ? say.since(this.current.position) : say.none;
    const before = new Set(this.current.products.map((one) => one.product_id));
    const after = new Map(this.draft.products.map((one) => [one.product_id, one]));
    // What is removed stays where it was, for whoever puts it back.
    const rows = this.rows = [
      ...this.current.products.map((known) => {
        const product = after.get(known.product_id);
        return { product: product ?? known, mark: !product ? "removed" : isSame(known, product) ? null : "changed" };
      }),
      ...this.draft.products.filter((one) => !before.has(one.product_id)).map((product) => ({ product, mark: "added" })),
    ];
    show(this.table, rows.length === 0 ? el("p", { class: "soft" }, say.empty)
      : paged(rows, 50, words, (shown) => el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": say.products },
        el("table", {}, el("thead", {}, el("tr", {}, [...say.head, ...(this.mayChange ? [say.do] : [])].map((text) => el("th", { scope: "col" }, text)))),
          el("tbody", {}, shown.map((row) => this.row(row))))), this.place),
    this.mayChange && el("div", { class: "buttons" },
      button(say.add, () => this.editProduct(null), { id: "add-product" }), button(say.paste, () => this.pasteWhole(), { id: "paste" })));
    this.drawPolicy();
    this.drawChange();
  }

  row({ product, mark }) {
    const { product_id: id, entitlements, duration, stripe } = product;
    const sold = [product.app_store === false ? null : words.sources.app_store, stripe ? say.stripe(stripe) : null].filter(Boolean);
    return el("tr", { class: mark, "data-product": id },
      el("th", { scope: "row" }, el("span", { class: "id" }, id), " ", mark && el("span", { class: "tag" }, say.marks[mark])),
      el("td", {}, entitlements.length === 0 ? screenWords.nothing : entitlements.map(apart).join(", ")),
      el("td", {}, duration ?? say.asSold), el("td", {}, sold.join(", ")),
      this.mayChange && el("td", {}, el("div", { class: "buttons" }, mark === "removed"
        ? button(say.putBack, () => this.edit({ ...this.draft, products: this.rows.filter((one) => one.mark !== "removed" || one.product === product)
          .map((one) => copy(one.product)) }), { class: "quiet", id: `turn-${id}`, "aria-label": say.putBackOf(id) })
        : [button(say.edit, () => this.editProduct(product), { class: "quiet", "aria-label": say.editOf(id) }),
          button(say.remove, () => this.edit({ ...this.draft, products: this.draft.products.filter((one) => one.product_id !== id) }),
            { class: "quiet", id: `turn-${id}`, "aria-label": say.removeOf(id) })])));
  }

  editProduct(product) {
    const text = (id, value, more) => el("input", { id, value: value ?? "", autocomplete: "off", spellcheck: "false", ...more });
    const id = text("product-id", product?.product_id, { required: true, maxlength: 512 });
    const gives = el("textarea", { id: "gives", rows: 3, spellcheck: "false", value: product?.entitlements.join("\n") ?? "" });
    const duration = text("duration", product?.duration, { maxlength: 40 });
    const appStore = el("input", { type: "checkbox", id: "app-store", checked: product?.app_store !== false });
    const price = text("price", product?.stripe?.price, { maxlength: 255 });
    const problem = el("p", { role: "alert", class: "problem" });
    const form = el("form", { class: "body" }, field(say.productID, id), field(say.gives, gives, say.givesHint),
      field(say.duration, duration, say.durationHint), el("div", { class: "field" }, el("label", {}, appStore, " ", say.appStore)),
      field(say.price, price, say.priceHint), problem, el("button", { type: "submit", class: "main", id: "take" }, say.take));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = id.value.trim();
      const others = this.draft.products.filter((one) => one !== product);
      if (others.some((one) => one.product_id === name)) {
        problem.textContent = say.twice(name);
        return;
      }
      const made = { ...product, product_id: name, entitlements: gives.value.split("\n").map((one) => (product?.entitlements.includes(one) ? one : one.trim())).filter(Boolean) };
      const put = (member, value) => {
        if (value === undefined) delete made[member];
        else made[member] = value;
      };
      put("duration", duration.value.trim() || undefined);
      put("app_store", appStore.checked ? undefined : false);
      put("stripe", price.value.trim() ? { mode: "subscription", ...product?.stripe, price: price.value.trim() } : undefined);
      const products = product ? this.draft.products.map((one) => (one === product ? made : one)) : [...this.draft.products, made];
      dialog.close();
      this.edit({ ...this.draft, products });
    });
    const dialog = openDialog(product ? say.editTitle : say.add, words.close, form, "command");
  }

  // The whole of it, as a file has it.
  pasteWhole() {
    const input = el("textarea", { id: "whole", rows: 16, class: "id", spellcheck: "false", value: JSON.stringify(this.draft, null, 1) });
    const problem = el("p", { role: "alert", class: "problem" });
    const form = el("form", { class: "body" }, field(say.whole, input, say.wholeHint), problem,
      el("button", { type: "submit", class: "main", id: "take" }, say.take));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      try {
        const { products, policy } = JSON.parse(input.value);
        if (!Array.isArray(products)) throw new SyntaxError();
        dialog.close();
        this.edit({ products, policy: { ...this.current.policy, ...policy } });
      } catch (error) {
        problem.textContent = say.noCatalog(error.message);
      }
    });
    const dialog = openDialog(say.paste, words.close, form, "command");
  }

  drawPolicy() {
    const change = (name, value) => this.edit({ ...this.draft, policy: { ...this.draft.policy, [name]: value } });
    show(this.policy, el("div", { class: "controls" }, Object.entries(this.draft.policy).map(([name, value]) => {
      const shared = { id: `policy-${name}`, disabled: !this.mayChange };
      const label = say.policies[name] ?? name;
      if (typeof value === "boolean") {
        return el("div", { class: "field" }, el("label", {}, el("input", {
          type: "checkbox", ...shared, checked: value, onchange: (event) => change(name, event.target.checked),
        }), " ", label));
      }
      if (typeof value === "number") {
        return field(label, el("input", { type: "number", min: 0, ...shared, value, onchange: (event) => change(name, Number(event.target.value)) }));
      }
      const select = el("select", { ...shared, onchange: () => change(name, select.value) },
        (say.policyWords[name] ? Object.entries(say.policyWords[name]) : [[value, value]]).map(([word, text]) => el("option", { value: word }, text)));
      select.value = value;
      return field(label, select);
    })));
  }

  drawChange() {
    const isChanged = !isSame(this.draft, content(this.current));
    this.change.hidden = !this.mayChange || (!isChanged && !this.done);
    if (this.change.hidden) return;
    this.change.setAttribute("aria-label", isChanged ? say.change : say.changeDone);
    if (!isChanged) {
      show(this.change, el("h2", {}, say.changeDone), el("p", { class: "lead", id: "applied", tabindex: "-1" }, this.done.text),
        this.remarked(this.done.remarks), this.done.former && button(screenWords.forms.undo, () => this.undo(), { id: "undo" }));
      return;
    }
    this.done = null;
    show(this.change, el("h2", {}, say.change), el("p", {}, say.changeText),
      el("div", { class: "buttons" }, button(say.try, () => this.try(), { id: "try", class: this.trial ? null : "main" }),
        button(say.drop, () => {
          this.edit(content(this.current));
          this.table.querySelector("button")?.focus();
        }, { id: "drop", class: "quiet" })),
      this.clashes?.length > 0 && el("p", { class: "problem", id: "clashes" }, say.clashes(words.and(this.clashes))),
      this.progress = el("p", { class: "soft", role: "status" }),
      this.trial && this.outcome(this.trial),
      this.trial?.complete && button(say.apply, () => this.apply(), { id: "apply", class: "main" }));
  }

  async try() {
    this.aborter?.abort();
    const { signal } = (this.aborter = new AbortController());
    const draft = this.draft;
    await this.attempt(async () => {
      const whole = { customers: new Map(), effects: new Map(), complete: false };
      let after;
      let at;
      let knownAt;
      for (let round = 0; round < mostRounds && !whole.complete; round += 1) {
        const part = await call("POST", "v1/catalog/actions/try", { body: draft, query: { after, at, known_at: knownAt }, signal });
        // All of it at one moment, as one knew it at the first.
        [after, at, knownAt, whole.complete] = [part.next_after, part.at, part.known_at, part.complete];
        [whole.difference, whole.position, whole.remarks] = [part.difference, part.catalog_position, part.remarks ?? []];
        add(whole, part);
        const seen = [...whole.customers.values()].reduce((sum, count) => sum + count, 0);
        this.progress.textContent = whole.complete ? "" : say.triedSoFar(seen);
      }
      if (draft !== this.draft || this.isClosed) return;
      this.trial = whole;
      this.drawChange();
      document.getElementById(whole.complete ? "apply" : "try")?.focus();
      announce(say.tried);
      if (whole.position !== this.current.position) await this.overtaken();
    });
  }

  // What may be a slip.
  remarked(remarks) {
    return remarks.length > 0 && el("ul", { class: "remarks" }, remarks.map((text) => {
      const [kind, ...rest] = text.split(":");
      return el("li", { class: "problem" }, say.remarks[kind]?.(rest.join(":")) ?? text);
    }));
  }

  outcome({ customers, effects, difference, complete, remarks }) {
    const list = (text, names) => names.length > 0 && el("li", {}, text, ": ", names.slice(0, 20).map(apart).join(", "), names.length > 20 && ` ${words.andMore(names.length - 20)}`);
    const reading = (one) => (one === null ? screenWords.nothing : [stateShape(one.state), " ", say.reading(
      words.states[one.state] ?? one.state, one.gives_access, one.until === null ? null : timeText(millis(one.until)))]);
    return el("div", { id: "trial" }, this.remarked(remarks),
      el("h3", {}, say.differs), el("ul", {}, [
        ["products_added", say.productsAdded], ["products_changed", say.productsChanged], ["products_removed", say.productsRemoved],
        ["entitlements_added", say.entitlementsAdded], ["entitlements_removed", say.entitlementsRemoved],
      ].map(([member, text]) => list(text, difference[member])), difference.policy_changed && el("li", {}, say.policyChanged)),
      el("h3", {}, say.effects),
      el("p", { class: "soft" }, [...customers].map(([environment, count]) => say.lookedAt(count, words.environments[environment])).join(" "),
        !complete && ` ${say.notAll}`),
      effects.size === 0 ? el("p", { class: "lead" }, say.nobody)
        : el("ul", { class: "effects" }, [...effects.values()].map((one) => el("li", { "data-effect": `${one.environment} ${one.entitlement} ${one.effect}` },
          el("p", { class: "lead" }, say.effect[one.effect](one.customers, one.entitlement), " ",
            el("span", { class: "tag" }, words.environments[one.environment])),
          el("ul", {}, one.examples.map((example) => el("li", {},
            button(example.customer_id, () => this.open({ customer: example.customer_id, environment: one.environment }), { class: "link id" }),
            ": ", reading(example.before), " → ", reading(example.after))))))));
  }

  // Puts a catalog in the place of the one that is known here; whatever came in between is found.
  async put(catalog, expected) {
    return call("PUT", "v1/catalog", { body: catalog, headers: { "If-Match": `"${expected}"` } });
  }

  async apply() {
    await this.once(async () => {
      const former = content(this.current);
      try {
        this.current = await this.put(this.draft, this.current.position);
      } catch (error) {
        if (!(error instanceof Refusal) || error.code !== "precondition_failed") throw error;
        await this.overtaken();
        return;
      }
      this.settle(say.applied(this.current.position), former);
    });
  }

  async undo() {
    await this.once(async () => {
      try {
        this.current = await this.put(this.done.former, this.current.position);
      } catch (error) {
        if (!(error instanceof Refusal) || error.code !== "precondition_failed") throw error;
        this.done = null;
        await this.load();
        this.problem.textContent = say.undoOvertaken;
        return;
      }
      this.settle(say.undone(this.current.position), null);
    });
  }

  settle(text, former) {
    this.done = { text, former, remarks: this.current.remarks ?? [] };
    this.draft = content(this.current);
    this.trial = null;
    announce(text);
    this.draw();
    document.getElementById("applied").focus();
  }

  // Somebody else changed it: the new one is offered, with what was changed here on top of it.
  async overtaken() {
    const latest = await get("v1/catalog");
    if (this.isClosed || latest.position === this.current.position) return;
    this.trial = null;
    show(this.change, el("h2", {}, say.change), el("p", { class: "lead problem", id: "overtaken" }, say.overtaken(latest.position)),
      el("div", { class: "buttons" },
        button(say.rebase, () => {
          const { draft, clashes } = merged(content(this.current), this.draft, content(latest));
          this.current = latest;
          this.edit(draft, clashes);
          document.getElementById("try")?.focus();
        }, { id: "rebase", class: "main" }),
        button(say.takeNew, () => {
          this.current = latest;
          this.edit(content(latest));
          this.table.querySelector("button")?.focus();
        }, { id: "take-new" })));
    document.getElementById("rebase").focus();
  }
}

// Adds what was found of some customers to what was found of others.
function add(whole, part) {
  for (const { environment, count } of part.customers) whole.customers.set(environment, (whole.customers.get(environment) ?? 0) + count);
  for (const effect of part.effects) {
    const key = `${effect.environment} ${effect.entitlement} ${effect.effect}`;
    const known = whole.effects.get(key);
    if (!known) whole.effects.set(key, { ...effect });
    else {
      known.customers += effect.customers;
      known.examples = [...known.examples, ...effect.examples].slice(0, 10);
    }
  }
}

// What was changed from `base` to `mine`, done to `theirs`; and which products were changed there, too, and otherwise.
function merged(base, mine, theirs) {
  const byID = ({ products }) => new Map(products.map((one) => [one.product_id, one]));
  const [before, after] = [byID(base), byID(mine)];
  const isMine = (id) => !isSame(before.get(id) ?? null, after.get(id) ?? null);
  const kept = theirs.products.flatMap((one) => {
    if (!isMine(one.product_id)) return [one];
    return after.has(one.product_id) ? [after.get(one.product_id)] : [];
  });
  const known = new Set(theirs.products.map((one) => one.product_id));
  const added = mine.products.filter((one) => !known.has(one.product_id) && isMine(one.product_id));
  const policy = { ...theirs.policy };
  for (const [name, value] of Object.entries(mine.policy)) if (base.policy[name] !== value) policy[name] = value;
  const [others, products] = [byID(theirs), [...kept, ...added]];
  const is = (one, other, id) => isSame(one.get(id) ?? null, other.get(id) ?? null);
  const clashes = [...new Set([...before.keys(), ...after.keys()])]
    .filter((id) => isMine(id) && !is(before, others, id) && !is(after, others, id));
  return { draft: { products, policy }, clashes };
}
