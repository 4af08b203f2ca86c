// The picture of one figure of a chart over time: a bar for each interval, and the same as a table.

import { el, paged, show, svg, wide } from "./dom.js";
import { screenWords } from "./screenwords.js";
import { words } from "./words.js";

const say = screenWords.charts;
const height = 190;
const [top, bottom] = [10, 24];
// So many series are told apart; the others are added up.
export const mostSeries = 6;

const whole = new Intl.NumberFormat(words.locale);
const short = new Intl.NumberFormat(words.locale, { notation: "compact", maximumFractionDigits: 1 });

const inUTC = (options) => new Intl.DateTimeFormat(words.locale, { ...options, timeZone: "UTC" });
const dayAndMonth = inUTC({ day: "numeric", month: "short" });
const dayOfYear = inUTC({ day: "numeric", month: "short", year: "numeric" });
const month = inUTC({ month: "short", year: "numeric" });

// An interval of a chart, as people call it: days, weeks and months are those of UTC, as they were counted.
export function intervalText({ from }, step) {
  const at = Date.parse(from);
  if (step === "month") return month.format(at);
  return step === "week" ? say.weekOf(dayOfYear.format(at)) : dayOfYear.format(at);
}

// What series are filled with: told apart by pattern as well as by colour.
export function seriesPatterns() {
  const marks = [
    null, svg("circle", { cx: 3, cy: 3, r: 1.3 }), svg("rect", { width: 2, height: 6 }), svg("rect", { width: 6, height: 1.6 }),
    svg("path", { d: "M0 0L6 6M6 0L0 6", fill: "none" }), svg("path", { d: "M0 3H6M3 0V6", fill: "none" }),
  ];
  return svg("svg", { width: 0, height: 0, class: "patterns", "aria-hidden": "true" }, svg("defs", {},
    marks.map((mark, index) => mark && svg("pattern", {
      id: `series-${index}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", class: "series-mark",
      patternTransform: index === 2 ? "rotate(45)" : null,
    }, mark))));
}

function filled(index, box) {
  const number = Math.min(index, mostSeries - 1);
  return [svg("rect", { class: `series s${number}`, ...box }), number > 0 && svg("rect", { ...box, fill: `url(#series-${number})` })];
}

// Which series is filled with what.
export function legend(names) {
  return el("ul", { class: "legend" }, names.map((name, index) => el("li", {}, sample(index), " ", name)));
}

function sample(index) {
  return svg("svg", { width: 18, height: 12, class: "sample", "aria-hidden": "true" },
    filled(index, { x: 0.5, y: 0.5, width: 17, height: 11 }));
}

// Steps of 1, 2 or 5 and zeros: about five of them around what is to be seen.
function ticks(least, most) {
  const reach = Math.max(most - least, 1);
  const power = Math.max(10 ** Math.floor(Math.log10(reach / 4)), 1);
  const step = power * ([1, 2, 5].find((factor) => reach / (power * factor) <= 5) ?? 10);
  const all = [];
  for (let value = Math.floor(least / step) * step; value < most + step; value += step) all.push(value);
  return all;
}

let lastPanel = 0;

export class Bars {
  // `model`: title, text, unit ("count", "share" or "amount"), isStanding, step, intervals, which say whether they are over,
  // series: [{ name, values, fill }] with null where there is nothing to say; the fill is a place in the legend
  constructor(model) {
    this.model = model;
    this.number = ++lastPanel;
    this.host = el("div", { class: "picture" });
    this.readout = el("p", { class: "bar-readout soft", "aria-live": "polite" }, say.hint);
    this.table = el("details", { class: "table" }, el("summary", {}, words.asTable));
    this.table.addEventListener("toggle", () => this.drawTable());
    this.place = {};
    const titleID = `panel-${this.number}`;
    this.node = el("section", { class: "card panel", "aria-labelledby": titleID, "data-figure": model.id },
      el("h3", { id: titleID }, model.title), el("p", { class: "big" }, this.headline(), " ", el("small", {}, this.headlineNote())),
      el("p", { class: "soft running" }, this.running()), model.text && el("p", { class: "soft" }, model.text), this.host, this.readout, this.table);
    this.observer = new ResizeObserver(() => {
      if (Math.abs(this.host.clientWidth - (this.width ?? 0)) > 2) this.draw();
    });
    this.observer.observe(this.host);
  }

  close() {
    this.observer.disconnect();
  }

  text(value, isShort = false) {
    if (value === null) return say.noValue;
    if (this.model.unit === "share") return `${whole.format(Math.round(value * 10) / 10)} %`;
    if (this.model.unit === "amount") return isShort ? short.format(value) : say.amount(value, this.model.currency);
    return isShort && value >= 10000 ? short.format(value) : whole.format(value);
  }

  total(index) {
    const known = this.model.series.map((one) => one.values[index]).filter((value) => value !== null);
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0);
  }

  // What stood at the end; what came together; or the share of all: of what is over, for the rest is partly still to come.
  headline() {
    const { intervals, isStanding, unit, whole: all } = this.model;
    const last = this.last();
    if (last < 0) return say.noValue;
    if (unit === "share") return this.text(all);
    if (isStanding) return this.text(this.total(last));
    return this.text(intervals.reduce((sum, one, index) => sum + (one.is_over ? this.total(index) ?? 0 : 0), 0));
  }

  // The last interval that is over.
  last() {
    return this.model.intervals.findLastIndex((one) => one.is_over);
  }

  headlineNote() {
    const { intervals, isStanding, step, unit } = this.model;
    const last = this.last();
    if (last < 0) return say.nothingOver;
    if (isStanding) return say.atTheEnd(intervalText(intervals[last], step));
    return unit === "share" ? say.shareOfAll : say.together;
  }

  // The interval that runs, by itself.
  running() {
    const { intervals, isStanding, step, unit } = this.model;
    const index = intervals.findIndex((one) => !one.is_over);
    if (index < 0) return null;
    const name = intervalText(intervals[index], step);
    return (unit === "share" ? say.shareSoFar : isStanding ? say.expectedAtEnd : say.soFar)(name, this.text(this.total(index)));
  }

  describe(index) {
    const { series, intervals, step } = this.model;
    const parts = series.length > 1
      ? series.filter((one) => one.values[index]).map((one) => `${one.name} ${this.text(one.values[index])}`) : [];
    return say.bar(intervalText(intervals[index], step), this.text(this.total(index)), parts, !intervals[index].is_over);
  }

  draw() {
    const { series, intervals, isStanding, unit, step } = this.model;
    this.width = Math.max(this.host.clientWidth || 480, 220);
    // What is above the line, and what beneath it: an amount may be given back.
    const sums = intervals.map((_, index) => series.map((one) => one.values[index] ?? 0).reduce(
      ([less, more], value) => (value < 0 ? [less + value, more] : [less, more + value]), [0, 0]));
    const [least, most] = sums.reduce(([less, more], one) => [Math.min(less, one[0]), Math.max(more, one[1])], [0, 1]);
    const scale = unit === "share" ? [0, 25, 50, 75, 100] : ticks(least, most);
    const left = 8 + 7 * Math.max(...scale.map((value) => this.text(value, true).length));
    const [inner, across] = [height - top - bottom, this.width - left - 4];
    const y = (value) => top + inner * (scale.at(-1) - value) / (scale.at(-1) - scale[0]);
    const each = across / Math.max(intervals.length, 1);
    const gap = isStanding ? 0 : Math.min(each * 0.2, 6);
    const grid = scale.map((value) => [
      svg("line", { x1: left, x2: this.width, y1: y(value), y2: y(value) }),
      svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, this.text(value, true)),
    ]);
    const every = Math.ceil((step === "month" ? 68 : 52) / each);
    // Counted from the last one, which has a label always.
    const labels = intervals.map((one, index) => (intervals.length - 1 - index) % every === 0 && svg("text", {
      x: Math.min(left + each * (index + 0.5), this.width - 30), y: height - 6, "text-anchor": "middle",
    }, step === "month" ? month.format(Date.parse(one.from)) : dayAndMonth.format(Date.parse(one.from))));
    const bars = intervals.map((one, index) => {
      let [above, below] = [0, 0];
      const isOpen = !one.is_over;
      const parts = series.map(({ values, fill = 0 }) => {
        const value = values[index];
        if (!value) return null;
        const base = value < 0 ? below : above;
        const ends = [y(base), y(base + value)];
        if (value < 0) below += value;
        else above += value;
        const tall = Math.max(Math.abs(ends[0] - ends[1]), 1);
        return filled(fill, { x: left + each * index + gap / 2, y: Math.min(...ends), width: Math.max(each - gap, 1), height: tall });
      });
      return svg("g", {
        id: `bar-${this.number}-${index}`, "data-bar": index, tabindex: index === intervals.length - 1 ? "0" : "-1", role: "img",
        "aria-label": this.describe(index), class: isOpen ? "bar open" : "bar",
        onfocus: () => this.tell(index), onmouseenter: () => this.tell(index),
      }, svg("rect", { class: "reach", x: left + each * index, y: top, width: each, height: inner }), parts);
    });
    const drawing = svg("svg", {
      width: this.width, height, viewBox: `0 0 ${this.width} ${height}`, role: "group", "aria-label": say.pictureOf(this.model.title),
      class: "bars", onkeydown: (event) => this.key(event),
    }, svg("g", { class: "axis", "aria-hidden": "true" }, grid, labels), bars);
    show(this.host, drawing);
    this.drawTable();
  }

  tell(index) {
    this.readout.textContent = this.describe(index);
  }

  key(event) {
    const held = event.target.closest?.("[data-bar]");
    if (!held) return;
    const last = this.model.intervals.length - 1;
    const now = Number(held.getAttribute("data-bar"));
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const target = document.getElementById(`bar-${this.number}-${Math.min(Math.max(next, 0), last)}`);
    held.setAttribute("tabindex", "-1");
    target.setAttribute("tabindex", "0");
    target.focus();
  }

  drawTable() {
    const { series, intervals, step, unit } = this.model;
    const summary = el("summary", {}, words.asTable);
    if (!this.table.open) {
      show(this.table, summary);
      return;
    }
    const hasTotal = series.length > 1 && unit !== "share";
    const numbers = intervals.map((_, index) => index);
    show(this.table, summary, el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": this.model.title },
      paged(numbers, 60, words, (shown) => el("table", { class: "numbers" },
        el("thead", {}, el("tr", {}, [say.interval, ...series.map((one) => one.name), ...(hasTotal ? [say.total] : [])]
          .map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, shown.map((index) => el("tr", {},
          el("th", { scope: "row" }, intervalText(intervals[index], step), !intervals[index].is_over && el("small", {}, ` ${say.notOver}`)),
          series.map((one) => el("td", {}, this.text(one.values[index]))),
          hasTotal && el("td", {}, this.text(this.total(index))))))), this.place)));
  }
}
