// The picture of a customer's timeline: a lane for each entitlement, and beneath it the purchases that carry it.

import { button, el, eventNumber, paged, show, svg, wide } from "./dom.js";
import { timeElement, timeText, usesUTC } from "./time.js";
import { words } from "./words.js";

const laneHeight = 24;
const purchaseHeight = 10;
const axisHeight = 26;
const mostStretches = 400;
const purchasesShown = 8;

// What each state looks like: told apart by shape, and by colour beside that.
const shapes = {
  active: (x, y, width, height) => svg("rect", { class: "state active", x, y, width, height, rx: 3 }),
  in_grace_period: (x, y, width, height) => [
    svg("rect", { class: "state grace", x, y, width, height, rx: 3 }),
    svg("rect", { x, y, width, height, rx: 3, fill: "url(#dots)" }),
  ],
  in_billing_retry: (x, y, width, height) => [
    svg("rect", { class: "state retry", x, y: y + height / 2, width, height: height / 2 }),
    svg("rect", { x, y: y + height / 2, width, height: height / 2, fill: "url(#stripes)" }),
  ],
  revoked: (x, y, width, height) => [
    svg("rect", { class: "state revoked", x, y: y + 1, width, height: height - 2 }),
    svg("rect", { x, y: y + 1, width, height: height - 2, fill: "url(#crosses)" }),
  ],
  expired: (x, y, width, height) => svg("rect", { class: "state expired", x, y: y + height - 4, width, height: 3 }),
};

export function stateShape(state, width = 28, height = 14) {
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "sample", "aria-hidden": "true" },
    shapes[state]?.(0.5, 0.5, width - 1, height - 1) ?? svg("rect", { class: "state nothing", x: 0.5, y: 0.5, width: width - 1, height: height - 1 }));
}

// Once in the page: pictures and samples fill with these.
export function patterns() {
  return svg("svg", { width: 0, height: 0, class: "patterns", "aria-hidden": "true" }, svg("defs", {},
    svg("pattern", { id: "dots", width: 6, height: 6, patternUnits: "userSpaceOnUse" },
      svg("circle", { class: "mark", cx: 3, cy: 3, r: 1.4 })),
    svg("pattern", { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("rect", { class: "mark", width: 2, height: 6 })),
    svg("pattern", { id: "crosses", width: 8, height: 8, patternUnits: "userSpaceOnUse" },
      svg("path", { class: "cross", d: "M0 0L8 8M8 0L0 8" }))));
}

// Whether what lies ahead of it may still turn out otherwise.
const isOpen = (state) => state !== "expired" && state !== "revoked";

const called = (stretch) => words.states[stretch.called ?? stretch.state] ?? stretch.state;

// What is told of a stretch, in words.
export function stretchWords(stretch) {
  return words.stretch(
    stretch.name, called(stretch), timeText(stretch.from),
    stretch.until === null ? null : timeText(stretch.until), stretch.detail, stretch.positions.slice(0, 6),
    stretch.isExpected);
}

export class Picture {
  // `handlers`: choose(instant), openEvent(position)
  constructor(handlers) {
    this.handlers = handlers;
    this.more = new Set();
    this.zoom = "all";
    this.host = el("div", { class: "picture" });
    this.readout = el("div", { class: "readout", id: "readout" });
    this.table = el("details", { class: "table" });
    this.table.addEventListener("toggle", () => this.drawTable());
    this.node = el("div", {}, this.tools(), this.host, this.readout, legend(), this.table);
    new ResizeObserver(() => {
      if (this.model && Math.abs(this.host.clientWidth - this.width) > 2) this.draw();
    }).observe(this.host);
  }

  tools() {
    const choice = el("select", { id: "zoom" },
      Object.entries(words.zooms).map(([value, text]) => el("option", { value }, text)));
    choice.addEventListener("change", () => {
      this.zoom = choice.value;
      this.draw();
    });
    return el("div", { class: "tools" }, el("label", { for: "zoom" }, words.zoom), choice);
  }

  // `model`: lanes, now, at, from, until
  show(model) {
    this.model = model;
    this.draw();
  }

  span() {
    const days = { all: null, year: 366, quarter: 92, month: 31, week: 7 }[this.zoom];
    if (!days) return [this.model.from, this.model.until];
    const half = (days * 86400000) / 2;
    return [this.model.at - half, this.model.at + half];
  }

  draw() {
    const { lanes, now, at } = this.model;
    this.width = Math.max(this.host.clientWidth || 640, 240);
    const scale = (this.scale = new Scale(...this.span(), this.width));
    this.rows = [];
    let y = 4;
    const parts = [];
    const afterwards = [];
    lanes.forEach((lane, index) => {
      parts.push(svg("text", { class: "lane", x: 0, y: y + 13 }, lane.id));
      y += 19;
      parts.push(this.row(lane.stretches, index, 0, y, laneHeight, scale, now));
      y += laneHeight + 4;
      const shown = this.more.has(lane.id) ? lane.purchases.length : purchasesShown;
      lane.purchases.slice(0, shown).forEach((purchase, number) => {
        parts.push(svg("text", { class: "purchase", x: 0, y: y + 11 }, clipped(purchase.name, this.width)));
        y += 15;
        parts.push(this.row(purchase.stretches, index, number + 1, y, purchaseHeight, scale, now));
        y += purchaseHeight + 5;
      });
      if (lane.purchases.length > shown) {
        afterwards.push(button(words.morePurchases(lane.purchases.length - shown, lane.id), () => {
          this.more.add(lane.id);
          this.draw();
        }, { class: "quiet" }));
      }
      y += 8;
    });
    const height = y + axisHeight;
    const drawing = svg("svg", {
      width: this.width, height, viewBox: `0 0 ${this.width} ${height}`, role: "group", "aria-label": words.picture,
      class: "timeline",
    }, this.axis(scale, y), parts, this.marks(scale, y, now, at));
    drawing.addEventListener("click", (event) => {
      const box = drawing.getBoundingClientRect();
      this.handlers.choose(scale.instant(event.clientX - box.left));
    });
    drawing.addEventListener("keydown", (event) => this.key(event));
    show(this.host, lanes.length === 0 ? el("p", { class: "soft" }, words.emptyPicture) : drawing, afterwards);
    if (lanes.length === 0) show(this.readout);
    else if (!this.readout.firstChild) show(this.readout, el("p", { class: "soft" }, words.pictureHint));
    const first = this.host.querySelector("[data-stretch]");
    if (first && !this.host.querySelector("[data-stretch][tabindex='0']")) first.setAttribute("tabindex", "0");
    this.drawTable();
  }

  axis(scale, y) {
    return svg("g", { class: "axis", "aria-hidden": "true" }, scale.ticks().map((tick) => {
      const x = scale.x(tick.at);
      const anchor = x < 30 ? "start" : x > this.width - 30 ? "end" : "middle";
      return [
        svg("line", { x1: x, x2: x, y1: 0, y2: y + 4 }),
        svg("text", { x, y: y + 18, "text-anchor": anchor }, tick.text),
      ];
    }));
  }

  marks(scale, y, now, at) {
    const mark = (name, ms, text) => {
      if (!scale.holds(ms)) return null;
      const x = scale.x(ms);
      const anchor = x > this.width - 60 ? "end" : "start";
      return svg("g", { class: name, "aria-hidden": "true" }, svg("line", { x1: x, x2: x, y1: 0, y2: y + 2 }),
        svg("text", { x: x + (anchor === "end" ? -4 : 4), y: y + 1, "text-anchor": anchor }, text));
    };
    return [mark("now", now, words.now), at !== now && mark("at", at, words.at)];
  }

  // One row of stretches; those too narrow to be seen one by one are drawn as one.
  row(stretches, lane, row, y, height, scale, now) {
    const shown = [];
    let last = -1;
    let isCut = false;
    for (const stretch of stretches) {
      const [from, until] = [stretch.from, stretch.until ?? Infinity];
      if (until < scale.from || from > scale.until) continue;
      const [left, right] = [scale.x(from), scale.x(until)];
      if (right - last < 0.7 && shown.length > 0) continue;
      if (shown.length >= mostStretches) {
        isCut = true;
        break;
      }
      last = right;
      shown.push({ stretch, left, width: Math.max(right - left, 1.5) });
    }
    this.rows.push(shown.map((one) => one.stretch));
    const number = this.rows.length - 1;
    const drawn = shown.map(({ stretch, left, width }, index) => {
      const draw = shapes[stretch.state] ?? shapes.expired;
      const ahead = scale.x(now);
      const isAhead = isOpen(stretch.state) && (stretch.until ?? Infinity) > now;
      const parts = [];
      if (isAhead && stretch.from < now) {
        const known = Math.max(ahead - left, 0);
        parts.push(draw(left, y, known, height));
        if (width > known) parts.push(svg("g", { class: "expected" }, draw(left + known, y, width - known, height)));
      } else {
        parts.push(isAhead ? svg("g", { class: "expected" }, draw(left, y, width, height)) : draw(left, y, width, height));
      }
      const group = svg("g", {
        id: `stretch-${number}-${index}`, "data-stretch": `${number} ${index}`, tabindex: "-1", role: "img",
        "aria-label": stretchWords(stretch), class: "stretch",
        onfocus: () => this.tell(stretch), onmouseenter: () => this.tell(stretch),
      }, svg("rect", { class: "reach", x: left, y: y - 1, width, height: height + 2, rx: 3 }), parts);
      return group;
    });
    if (isCut) drawn.push(svg("title", {}, words.pictureCut));
    return drawn;
  }

  // Arrows go from stretch to stretch, and from row to row; Enter goes to where one begins.
  key(event) {
    const held = event.target.closest?.("[data-stretch]")?.getAttribute("data-stretch");
    if (!held) return;
    let [row, index] = held.split(" ").map(Number);
    const stretch = this.rows[row][index];
    switch (event.key) {
      case "ArrowRight": index += 1; break;
      case "ArrowLeft": index -= 1; break;
      case "ArrowDown": row = this.nextRow(row, 1); break;
      case "ArrowUp": row = this.nextRow(row, -1); break;
      case "Home": index = 0; break;
      case "End": index = this.rows[row].length - 1; break;
      case "Enter":
      case " ":
        event.preventDefault();
        this.handlers.choose(stretch.from);
        return;
      default: return;
    }
    event.preventDefault();
    index = Math.min(Math.max(index, 0), this.rows[row].length - 1);
    const next = document.getElementById(`stretch-${row}-${index}`);
    if (!next) return;
    event.target.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  nextRow(row, step) {
    for (let next = row + step; next >= 0 && next < this.rows.length; next += step) {
      if (this.rows[next].length > 0) return next;
    }
    return row;
  }

  tell(stretch) {
    show(this.readout, el("p", {}, stateShape(stretch.state), " ",
      el("strong", {}, stretch.name), ` ${called(stretch)} `, words.from, " ",
      timeElement(stretch.from), " ",
      stretch.until === null ? words.withoutEnd : [words.until, " ", timeElement(stretch.until)],
      stretch.isExpected && ` (${words.expected})`, ". ", stretch.detail),
    stretch.positions.length > 0 && el("p", {}, words.byEvents, " ", stretch.positions.slice(0, 12).map((position) =>
      [eventNumber(position, this.handlers.openEvent), " "]),
    stretch.positions.length > 12 && words.andMore(stretch.positions.length - 12)));
  }

  drawTable() {
    const summary = el("summary", {}, words.asTable);
    if (!this.table.open) {
      show(this.table, summary);
      return;
    }
    const rows = this.model.lanes.flatMap((lane) =>
      [...lane.stretches, ...lane.purchases.flatMap((purchase) => purchase.stretches)]);
    show(this.table, summary, paged(rows, 50, words, (shown) => wide(words.asTable, el("table", {},
      el("thead", {}, el("tr", {}, words.tableHead.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, shown.map((stretch) => el("tr", {},
        el("th", { scope: "row" }, stretch.name), el("td", {}, stateShape(stretch.state), " ", called(stretch)),
        el("td", {}, timeElement(stretch.from)),
        el("td", {}, stretch.until === null ? words.withoutEnd : timeElement(stretch.until)),
        el("td", {}, stretch.detail)))))), this.place ??= {}));
  }
}

function clipped(text, width) {
  const most = Math.floor(width / 6.4);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function legend() {
  return el("ul", { class: "legend", "aria-label": words.legend },
    Object.keys(shapes).map((state) => el("li", {}, stateShape(state), " ", words.legendOf(state))),
    el("li", {}, svg("svg", { width: 28, height: 14, class: "sample", "aria-hidden": "true" },
      svg("g", { class: "expected" }, shapes.active(0.5, 0.5, 27, 13))), " ", words.expected));
}

// Where instants lie on the picture, and which of them are written beneath it.

const hour = 3600000;
const day = 24 * hour;

export class Scale {
  constructor(from, until, width) {
    this.from = from;
    this.until = Math.max(until, from + 1);
    this.width = width;
  }

  x(ms) {
    return ((Math.min(Math.max(ms, this.from), this.until) - this.from) / (this.until - this.from)) * this.width;
  }

  instant(x) {
    return Math.round(this.from + (Math.min(Math.max(x, 0), this.width) / this.width) * (this.until - this.from));
  }

  holds(ms) {
    return ms >= this.from && ms <= this.until;
  }

  // Instants far enough from each other that what is written of them does not touch.
  ticks() {
    const least = ((this.until - this.from) / this.width) * 96;
    const step = steps.find((one) => one.about >= least) ?? steps.at(-1);
    const ticks = [];
    for (let date = step.first(new Date(this.from)); date <= this.until && ticks.length < 40; date = step.next(date)) {
      if (date >= this.from) ticks.push({ at: date.getTime(), text: step.text(date) });
    }
    return ticks;
  }
}

function text(options) {
  return (date) => new Intl.DateTimeFormat(words.locale, { ...options, timeZone: usesUTC() ? "UTC" : undefined })
    .format(date);
}

// Year, month and day of an instant in the zone in which it is written, and when a day of it begins.
const partsOf = (date) => (usesUTC() ? [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  : [date.getFullYear(), date.getMonth(), date.getDate()]);
const begin = (year, month = 0, date = 1) => new Date(usesUTC() ? Date.UTC(year, month, date) : new Date(year, month, date));

const hours = (count) => ({
  about: count * hour,
  first: (date) => new Date(Math.ceil(date / (count * hour)) * count * hour),
  next: (date) => new Date(date.getTime() + count * hour),
  text: text({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
});

// Steps of days, months or years: where the first of them is, and the next, of what year, month and day one is in.
const calendar = (about, first, next, options) => ({
  about: about * day, first: (date) => begin(...first(...partsOf(date))), next: (date) => begin(...next(...partsOf(date))), text: text(options),
});

const days = (count) => calendar(count, (year, month, date) => [year, month, date - (Date.UTC(year, month, date) / day) % count],
  (year, month, date) => [year, month, date + count], { day: "numeric", month: "short" });

const months = (count) => calendar(count * 30, (year, month) => [year, Math.floor(month / count) * count],
  (year, month) => [year, month + count], { month: "short", year: "numeric" });

const years = (count) => calendar(count * 365, (year) => [Math.floor(year / count) * count], (year) => [year + count], { year: "numeric" });

const steps = [
  hours(1), hours(6), days(1), days(2), days(7), days(14), months(1), months(3), months(6), years(1), years(2), years(5),
  years(10), years(50), years(100),
];
