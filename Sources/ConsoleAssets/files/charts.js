// Charts: figures over time, each as a picture and as a table, and the same as a file.

import { adjust } from "./address.js";
import { addressOf, get, Unreachable } from "./api.js";
import { Bars, intervalText, legend, mostSeries, seriesPatterns } from "./bars.js";
import { announce, button, el, field, show, wide } from "./dom.js";
import { screenWords } from "./screenwords.js";
import { fileName, save } from "./saving.js";
import { instantOf } from "./time.js";
import { words } from "./words.js";

const say = screenWords.charts;
const steps = ["day", "week", "month"];
// In milliseconds: so long figures stand while others are asked for.
const patience = 1500;
// What a line says of itself beside its values: all else is what it may be told apart by.
const notTold = new Set(["figure", "counted", "values", "currency"]);
const percent = new Intl.NumberFormat(words.locale, { maximumFractionDigits: 1 });

// What a line is of, as people call it.
function nameOf(line, by) {
  if (!by) return say.all;
  const value = line[by];
  if (value === null || value === undefined) return say.all;
  return by === "source" ? words.sources[value] ?? value : String(value);
}

export class ChartsView {
  constructor(address, main) {
    this.address = address;
    this.state = { ...address.chart };
    this.main = main;
    this.generation = 0;
    this.panels = [];
    this.products = new Set();
    this.split = "product_id";
    this.build();
    this.begin();
  }

  build() {
    const changed = (name) => (event) => this.set({ [name]: event.target.value || null });
    this.list = el("nav", { class: "buttons choice", "aria-label": say.which });
    this.interval = el("select", { id: "interval", onchange: changed("interval") },
      steps.map((value) => el("option", { value }, say.steps[value])));
    this.product = el("select", { id: "product", onchange: changed("product_id") });
    this.by = el("select", { id: "split", onchange: () => {
      this.split = this.by.value;
      this.draw();
    } });
    const date = (id, name) => el("input", { type: "date", id, onchange: changed(name) });
    [this.from, this.to] = [date("chart-from", "from"), date("chart-to", "to")];
    this.knownAt = el("input", {
      type: "text", id: "chart-known", size: 14, maxlength: 40, autocomplete: "off", spellcheck: "false",
      placeholder: words.knownPlaceholder, onchange: () => this.know(this.knownAt.value.trim()),
    });
    this.file = el("a", { id: "chart-csv", class: "button", onclick: (event) => {
      event.preventDefault();
      if (this.file.href) save(this.file.href, "text/csv", this.file.download, this.problem);
    } }, say.file);
    this.problem = el("p", { role: "alert", class: "problem", id: "problem" });
    this.text = el("p", { class: "soft", id: "chart-text" });
    this.known = el("p", { class: "moment", id: "moment", hidden: true });
    this.host = el("div", { class: "panels", id: "panels" });
    show(this.main, seriesPatterns(),
      el("div", { class: "title" }, el("h2", { id: "charts" }, words.screen.charts.title),
        el("span", { class: "tag" }, words.environments[this.address.environment])),
      this.list,
      el("section", { class: "card controls", "aria-label": say.controls },
        field(say.interval, this.interval), field(say.product, this.product), field(say.from, this.from), field(say.to, this.to),
        field(say.split, this.by),
        field(say.knownAt, this.knownAt, null, el("span", { class: "beside" }, this.knownAt,
          button(words.everything, () => this.know(""), { id: "chart-known-all", class: "quiet" }))),
        this.file),
      this.problem, this.known, this.text, this.host);
  }

  async begin() {
    try {
      this.charts = (await get("v1/charts")).items;
    } catch (error) {
      this.fail(error);
      return;
    }
    if (!this.charts.some((one) => one.name === this.state.chart)) this.state.chart = this.charts[0].name;
    this.state.interval = steps.includes(this.state.interval) ? this.state.interval : "month";
    // Products are offered by what the catalog maps as well as by what was sold.
    get("v1/catalog").then(({ products }) => {
      for (const product of products) this.products.add(product.product_id);
      this.offer();
    }, () => {});
    this.load();
  }

  close() {
    this.isClosed = true;
    this.generation += 1;
    this.aborter?.abort();
    for (const panel of this.panels) panel.close();
  }

  // A position, or a time as people write it.
  know(text) {
    const isPosition = /^\d*$/.test(text);
    const instant = isPosition ? null : instantOf(text);
    if (isPosition || instant !== null) {
      this.address = { ...this.address, knownAt: isPosition ? text || null : new Date(instant).toISOString() };
      this.set({});
      return;
    }
    // What is asked for so far is not what the field says.
    this.generation += 1;
    this.aborter?.abort();
    this.main.removeAttribute("aria-busy");
    this.fail(new Error(words.knownIsNothing));
  }

  set(change) {
    this.state = { ...this.state, ...change };
    adjust({ ...this.address, chart: this.state });
    this.load();
  }

  query() {
    const { chart, ...asked } = this.state;
    return { environment: this.address.environment, known_at: this.address.knownAt, ...asked };
  }

  offer() {
    const { chart, interval, product_id: product, from, to } = this.state;
    show(this.list, this.charts.map(({ name }) => button(say.names[name] ?? name, () => this.set({ chart: name }),
      { id: `chart-${name}`, "aria-current": name === chart ? "true" : null, class: "quiet" })));
    if (product) this.products.add(product);
    show(this.product, el("option", { value: "" }, say.allProducts), [...this.products].sort().map((value) => el("option", { value }, value)));
    this.product.value = product ?? "";
    [this.interval.value, this.from.value, this.to.value] = [interval, day(from), day(to)];
    if (document.activeElement !== this.knownAt) this.knownAt.value = this.address.knownAt ?? "";
  }

  fail(error) {
    this.clear();
    this.problem.textContent = error instanceof Unreachable ? words.unreachable : error.message;
    announce(this.problem.textContent);
  }

  // No figures are left beneath controls that ask for others.
  clear(instead) {
    for (const panel of this.panels) panel.close();
    this.panels = [];
    this.known.hidden = this.by.disabled = true;
    this.text.textContent = "";
    this.file.removeAttribute("href");
    show(this.host, instead);
  }

  async load() {
    if (this.isClosed || !this.charts) return;
    const mine = ++this.generation;
    this.aborter?.abort();
    this.aborter = new AbortController();
    this.offer();
    this.main.setAttribute("aria-busy", "true");
    const overdue = setTimeout(() => this.clear(el("p", { class: "soft" }, words.loading)), patience);
    try {
      const name = this.state.chart;
      const document = await get(`v1/charts/${encodeURIComponent(name)}`, this.query(), this.aborter.signal);
      if (mine !== this.generation) return;
      this.problem.textContent = "";
      this.document = document;
      for (const line of document.lines) this.products.add(line.product_id);
      this.offer();
      this.draw();
      this.file.href = addressOf(`v1/charts/${encodeURIComponent(name)}`, { ...this.query(), format: "csv" });
      this.file.download = this.fileName();
      announce(say.shown(say.names[name] ?? name));
    } catch (error) {
      if (error.name === "AbortError" || mine !== this.generation) return;
      this.fail(error);
    } finally {
      clearTimeout(overdue);
      if (mine === this.generation) this.main.removeAttribute("aria-busy");
    }
  }

  // After what is in it.
  fileName() {
    const { name, environment, interval, intervals, known_at: knownAt } = this.document;
    const { product_id: product } = this.state;
    return `${[name, environment, interval, intervals[0].from.slice(0, 10), intervals.at(-1).until.slice(0, 10),
      product && fileName(product), this.address.knownAt && `known-at-${knownAt}`].filter(Boolean).join("-")}.csv`;
  }

  draw() {
    const { document } = this;
    for (const panel of this.panels) panel.close();
    this.panels = [];
    const told = [...new Set(document.lines.flatMap((line) => Object.keys(line)))].filter((name) => !notTold.has(name) && name !== "cohort");
    if (!told.includes(this.split)) told.unshift(this.split);
    show(this.by, told.map((value) => el("option", { value }, say.by[value] ?? value)), el("option", { value: "" }, say.by.nothing));
    this.by.value = this.split;
    this.known.hidden = this.address.knownAt === null;
    this.known.textContent = this.known.hidden ? "" : words.knownPosition(document.known_at);
    this.text.textContent = say.texts[document.name] ?? "";
    const isByCohort = document.lines.length > 0 && document.lines.every((line) => line.cohort !== null && line.cohort !== undefined);
    this.by.disabled = isByCohort;
    show(this.host, isByCohort ? this.cohorts() : this.figures());
  }

  // A picture for each figure, and for each currency where figures have one: amounts of two are never added up.
  figures() {
    const { document } = this;
    const listed = this.charts.find((one) => one.name === document.name)?.figures ?? [];
    const currencies = [...new Set(document.lines.map((line) => line.currency ?? null))].sort();
    const shares = Object.entries(say.shares).filter(([key]) => key.startsWith(`${document.name}.`));
    this.names = this.named();
    const isMoney = currencies.some((currency) => currency !== null);
    const panels = (currencies.length === 0 ? [null] : currencies).flatMap((currency) => listed.flatMap(({ name, counted }) => {
      const lines = document.lines.filter((line) => line.figure === name && (line.currency ?? null) === currency);
      // Of money, what there is none of in a currency is not drawn.
      return isMoney && lines.length === 0 ? [] : [this.panel(name, counted, currency, lines)];
    }));
    const drawn = shares.map(([key, share]) => this.share(key, share));
    this.panels = [...panels, ...drawn];
    return [this.names.length > 1 && legend(this.names), this.panels.map((panel) => panel.node)];
  }

  // What lines are told apart by, the largest first; the same is filled alike in each picture.
  named() {
    const sizes = new Map();
    for (const line of this.document.lines) {
      const name = nameOf(line, this.split);
      sizes.set(name, line.values.reduce((sum, value) => sum + Math.abs(value), sizes.get(name) ?? 0));
    }
    const names = [...sizes].sort(([, one], [, other]) => other - one).map(([name]) => name);
    const others = names.slice(mostSeries - 1);
    return others.length > 1 ? [...names.slice(0, mostSeries - 1), say.others(others.length)] : names;
  }

  panel(figure, counted, currency, lines) {
    const { document, names } = this;
    const groups = new Map();
    for (const line of lines) {
      const own = nameOf(line, this.split);
      const name = names.includes(own) ? own : names.at(-1);
      const sum = groups.get(name) ?? document.intervals.map(() => 0);
      // Amounts come in thousandths of their unit.
      groups.set(name, sum.map((value, index) => value + line.values[index] / (currency ? 1000 : 1)));
    }
    const series = names.flatMap((name, fill) => (groups.has(name) ? [{ name, values: groups.get(name), fill }] : []));
    if (series.length === 0) series.push({ name: say.all, values: document.intervals.map(() => 0) });
    const title = say.figures[`${document.name}.${figure}`] ?? figure;
    return new Bars({
      id: currency ? `${figure}-${currency}` : figure, title: currency ? say.inCurrency(title, currency) : title, currency,
      unit: currency ? "amount" : "count", isStanding: counted === "at_end", step: document.interval, intervals: document.intervals, series,
    });
  }

  share(key, { part, of, title, text }) {
    const { document } = this;
    const sum = (figure) => document.intervals.map((_, index) => document.lines.filter((line) => line.figure === figure)
      .reduce((all, line) => all + line.values[index], 0));
    const [parts, wholes] = [sum(part), sum(of)];
    // What ends later in an interval that is not over is no loss yet.
    const all = [parts, wholes].map((values) => values.reduce((one, other, index) =>
      one + (document.intervals[index].is_over ? other : 0), 0));
    const share = (one, other) => (other === 0 ? null : (one / other) * 100);
    return new Bars({
      id: key, title, text, unit: "share", whole: share(...all), step: document.interval, intervals: document.intervals,
      series: [{ name: title, values: parts.map((value, index) => share(value, wholes[index])) }],
    });
  }

  // Those who began in one month, and how many of them went on: the table is the picture.
  cohorts() {
    const { document } = this;
    const cohorts = [...new Set(document.lines.map((line) => line.cohort))].sort();
    const sum = (cohort, figure) => document.intervals.map((_, index) => document.lines
      .filter((line) => line.cohort === cohort && line.figure === figure).reduce((all, line) => all + line.values[index], 0));
    const starts = document.intervals.map((one) => one.from.slice(0, 7));
    // Months are counted from that in which they began; other intervals stand where they are, from the first cohort on.
    const isByMonth = document.interval === "month";
    // How many began before what is shown, or in a part of a month before it, nobody knows here: no share of them can be told.
    const isWhole = (cohort) => `${cohort}-01` >= document.intervals[0].from.slice(0, 10);
    const names = cohorts.filter((cohort) => !isByMonth || isWhole(cohort));
    const first = Math.max(starts.findIndex((start) => start >= names[0]), 0);
    const columns = isByMonth ? document.intervals.slice(first).map((_, index) => say.monthsAfter(index))
      : document.intervals.slice(first).map((one) => intervalText(one, document.interval));
    const row = (cohort) => {
      const begun = isWhole(cohort) ? sum(cohort, "begun").reduce((all, value) => all + value, 0) : 0;
      const retained = sum(cohort, "retained");
      const from = isByMonth ? starts.indexOf(cohort) : first;
      const cells = columns.map((_, index) => {
        const place = from + index;
        if (place >= retained.length || starts[place] < cohort) return el("td", {});
        const share = begun > 0 ? (retained[place] / begun) * 100 : null;
        const isOpen = !document.intervals[place].is_over;
        const heat = share === null || isOpen ? null : `heat h${Math.min(Math.floor(share / 20), 4)}`;
        return el("td", {
          class: isOpen ? "soft" : heat, title: say.ofBegun(retained[place], begun, isOpen), "data-interval": place,
        }, share === null ? retained[place] : `${percent.format(share)} %`, isOpen && el("small", {}, ` ${say.expected}`));
      });
      return el("tr", {}, el("th", { scope: "row" }, cohort), el("td", {}, begun || say.noValue), cells);
    };
    return el("section", { class: "card panel wide-panel", "data-figure": "retained", "aria-label": say.cohorts }, el("h3", {}, say.cohorts),
      wide(say.cohorts, el("table", { class: "numbers cohorts" },
        el("thead", {}, el("tr", {}, [say.cohort, say.begun, ...columns].map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, names.map(row)))),
      el("p", { class: "soft" }, say.cohortText(isByMonth, cohorts.length - names.length)));
  }
}

// As a field of a date takes it.
const day = (text) => (text && /^\d{4}-\d\d-\d\d/.test(text) ? text.slice(0, 10) : "");
