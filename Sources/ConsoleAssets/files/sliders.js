// The two sliders: the instant asked about, and what was known then; each with an exact field beside it.

import { blame, button, el, show } from "./dom.js";
import { eventWords } from "./history.js";
import { fieldInstant, fieldValue, instantOf, timeText, utcText } from "./time.js";
import { words } from "./words.js";

const steps = 2000;

export class Sliders {
  // `handlers`: at(ms or null), knownAt(text or null)
  constructor(handlers) {
    this.handlers = handlers;
    this.stops = [];
    this.at = el("input", {
      type: "range", id: "at-slider", min: 0, max: steps, step: 1, "aria-label": words.atLabel,
      oninput: () => this.slideAt(),
    });
    this.atField = el("input", {
      type: "datetime-local", id: "at-field", step: "0.001", max: "9999-12-31T23:59", "aria-label": words.atField,
      onkeydown: (event) => event.key === "Enter" && this.typeAt(),
      onblur: () => {
        this.typeAt();
        this.show(this.state);
      },
    });
    this.atNow = button(words.now, () => handlers.at(null), { id: "at-now", class: "quiet" });
    // The present goes on by itself, and is not told each time.
    this.atText = el("output", { for: "at-slider", "aria-live": "off" });
    this.known = el("input", {
      type: "range", id: "known-slider", min: 0, max: 0, step: 1, "aria-label": words.knownLabel,
      oninput: () => this.slideKnown(),
    });
    this.knownField = el("input", {
      type: "text", id: "known-field", "aria-label": words.knownField, placeholder: words.knownPlaceholder, size: 14,
      maxlength: 40, autocomplete: "off", spellcheck: "false", onchange: () => this.typeKnown(),
    });
    this.knownAll = button(words.everything, () => handlers.knownAt(null), { id: "known-all", class: "quiet" });
    this.knownText = el("output", { for: "known-slider" });
    this.problem = el("p", { role: "alert", class: "problem" });
    this.node = el("div", { class: "sliders" },
      el("fieldset", {}, el("legend", {}, words.atLegend), el("div", { class: "slide" }, this.at,
        button("◀", () => this.jumpAt(-1), { id: "at-before", "aria-label": words.changeBefore, class: "quiet" }),
        button("▶", () => this.jumpAt(1), { id: "at-after", "aria-label": words.changeAfter, class: "quiet" })),
      el("div", { class: "exact" }, this.atField, this.atNow, this.atText)),
      el("fieldset", {}, el("legend", {}, words.knownLegend), el("div", { class: "slide" }, this.known,
        button("◀", () => this.jumpKnown(-1), { id: "known-before", "aria-label": words.eventBefore, class: "quiet" }),
        button("▶", () => this.jumpKnown(1), { id: "known-after", "aria-label": words.eventAfter, class: "quiet" })),
      el("div", { class: "exact" }, this.knownField, this.knownAll, this.knownText)), this.problem);
  }

  // `from`, `until`: what the slider reaches over; `changes`: where something begins or ends, in order.
  setSpan(from, until, changes) {
    [this.from, this.until, this.changes] = [from, until, changes];
  }

  // The customer's events, oldest first, as far as they are loaded.
  setStops(stops) {
    this.stops = stops;
    this.show(this.state);
  }

  // `state`: at (null for now), now, knownAt (null for everything)
  show(state) {
    if (!state) return;
    this.state = state;
    const at = state.at ?? state.now;
    if (this.from !== undefined) {
      this.at.value = Math.round(((at - this.from) / (this.until - this.from)) * steps);
    }
    this.at.setAttribute("aria-valuetext", state.at === null ? words.nowIs(timeText(at)) : timeText(at));
    // The present is shown to the second.
    const exact = state.at ?? Math.floor(at / 1000) * 1000;
    if (document.activeElement !== this.atField) {
      this.atField.value = fieldValue(exact);
      // As the browser writes it.
      this.typed = this.atField.value;
    }
    this.atNow.ariaDisabled = state.at === null;
    show(this.atText, state.at === null && `${words.now} · `, utcText(at));
    const index = this.stopIndex(state.knownAt);
    this.known.max = this.stops.length;
    this.known.value = index;
    const text = this.knownWords(state.knownAt, index);
    this.known.setAttribute("aria-valuetext", text);
    if (document.activeElement !== this.knownField) this.knownField.value = state.knownAt ?? "";
    this.knownAll.ariaDisabled = state.knownAt === null;
    show(this.knownText, text);
  }

  refuse(text, field) {
    this.problem.textContent = text;
    this.atField.ariaInvalid = this.knownField.ariaInvalid = null;
    if (field) blame(field, this.problem);
  }

  // How many of the stops are believed.
  stopIndex(knownAt) {
    if (knownAt === null) return this.stops.length;
    if (/^\d+$/.test(knownAt)) return this.stops.filter((stop) => stop.position <= Number(knownAt)).length;
    const instant = Date.parse(knownAt);
    return this.stops.filter((stop) => stop.recordedAt <= instant).length;
  }

  knownWords(knownAt, index) {
    if (knownAt === null) return words.everythingKnown;
    const stop = this.stops[index - 1];
    if (!/^\d+$/.test(knownAt)) return words.knownAtTime(timeText(Date.parse(knownAt)));
    if (!stop || stop.type === null) return this.stops.length === 0 || stop ? words.knownPosition(knownAt) : words.knownNothing;
    return words.knownUpTo(stop.position, eventWords(stop), timeText(stop.recordedAt));
  }

  slideAt() {
    this.handlers.at(Math.round(this.from + (Number(this.at.value) / steps) * (this.until - this.from)));
  }

  // What is typed counts by Enter, or when the field is left: until then it is not whole, and each digit of a year is one.
  typeAt() {
    const { value, validity } = this.atField;
    if (validity.badInput) this.refuse(words.atIsNothing, this.atField);
    else if (value !== this.typed) {
      this.typed = value;
      this.handlers.at(value === "" ? null : fieldInstant(value, this.state.at ?? this.state.now));
    }
  }

  jumpAt(step) {
    const at = this.state.at ?? this.state.now;
    const next = step > 0 ? this.changes.find((one) => one > at) : this.changes.findLast((one) => one < at);
    if (next === undefined) this.refuse(step > 0 ? words.noChangeAfter : words.noChangeBefore);
    else this.handlers.at(next);
  }

  slideKnown() {
    this.goToStop(Number(this.known.value));
  }

  jumpKnown(step) {
    this.goToStop(this.stopIndex(this.state.knownAt) + step);
  }

  goToStop(index) {
    if (index >= this.stops.length) this.handlers.knownAt(null);
    else if (index > 0) this.handlers.knownAt(String(this.stops[index - 1].position));
    else this.handlers.knownAt(String(Math.max((this.stops[0]?.position ?? 1) - 1, 0)));
  }

  typeKnown() {
    const text = this.knownField.value.trim();
    if (text === "") this.handlers.knownAt(null);
    else if (/^\d+$/.test(text)) {
      // A year is no position, and neither is what the log has not reached.
      if (Number(text) > (this.head ?? Infinity)) this.refuse(words.knownBeyond(this.head), this.knownField);
      else this.handlers.knownAt(text);
    } else {
      const instant = instantOf(text);
      if (instant === null) this.refuse(words.knownIsNothing, this.knownField);
      else this.handlers.knownAt(new Date(instant).toISOString());
    }
  }
}
