// Where instants lie on a picture, and which of them are written beneath it.

import { words } from "./words.js";
import { usesUTC } from "./time.js";

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

const utc = (year, month = 0, date = 1, hours = 0) => new Date(Date.UTC(year, month, date, hours));

const hours = (count) => ({
  about: count * hour,
  first: (date) => new Date(Math.ceil(date / (count * hour)) * count * hour),
  next: (date) => new Date(date.getTime() + count * hour),
  text: text({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
});

const days = (count) => ({ ...hours(24 * count), text: text({ day: "numeric", month: "short" }) });

const months = (count) => ({
  about: count * 30 * day,
  first: (date) => utc(date.getUTCFullYear(), Math.floor(date.getUTCMonth() / count) * count),
  next: (date) => utc(date.getUTCFullYear(), date.getUTCMonth() + count),
  text: (date) => new Intl.DateTimeFormat(words.locale, { month: "short", year: "numeric", timeZone: "UTC" }).format(date),
});

const years = (count) => ({
  about: count * 365 * day,
  first: (date) => utc(Math.floor(date.getUTCFullYear() / count) * count),
  next: (date) => utc(date.getUTCFullYear() + count),
  text: (date) => String(date.getUTCFullYear()),
});

const steps = [
  hours(1), hours(6), days(1), days(2), days(7), days(14), months(1), months(3), months(6), years(1), years(2), years(5),
  years(10), years(50), years(100),
];
