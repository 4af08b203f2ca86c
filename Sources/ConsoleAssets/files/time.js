// Instants as people read them: in the viewer's zone, or in UTC.

import { words } from "./words.js";
import { el } from "./dom.js";

let inUTC = false;

export function usesUTC() {
  return inUTC;
}

export function setUTC(value) {
  inUTC = value;
}

export const zoneName = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";

// With the zone: an hour comes twice where clocks are put back, and who is told of it may live by another one.
const long = {
  day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short",
};
const brief = { day: "numeric", month: "short", year: "numeric" };

const formatters = new Map();

function format(name, options, ms, utc) {
  const key = `${name}${utc}`;
  if (!formatters.has(key)) formatters.set(key, new Intl.DateTimeFormat(words.locale, { ...options, timeZone: utc ? "UTC" : undefined }));
  return formatters.get(key).format(ms);
}

export function timeText(ms, utc = inUTC) {
  return format("long", long, ms, utc);
}

export function dayText(ms) {
  return format("brief", brief, ms, inUTC);
}

export function utcText(ms) {
  return new Date(ms).toISOString();
}

// Shown in the zone that was chosen, or in UTC; the exact instant is its title.
export function timeElement(ms, utc) {
  return el("time", { datetime: utcText(ms), title: utcText(ms) }, timeText(ms, utc));
}

export const millis = (text) => (text === null || text === undefined ? null : Date.parse(text));

const day = 86400000;
const two = (number, digits = 2) => String(number).padStart(digits, "0");

// As the field of a date and a time has it.
export function fieldValue(ms) {
  const date = new Date(ms);
  return (inUTC ? date.toISOString().slice(0, -1) : localValue(date)).replace(/\.000$/, "");
}

function localValue(date) {
  return `${two(date.getFullYear(), 4)}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:`
    + `${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)}`;
}

// A date, with a time behind it or none, as ISO 8601 writes it; `null` for whatever else a browser would guess at.
export function instantOf(text) {
  const [, day, time = "00:00", zone] = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d)?)?$/i.exec(text) ?? [];
  if (!day) return null;
  const ms = zone ? Date.parse(`${day}T${time}${zone.toUpperCase()}`) : fieldInstant(`${day}T${time}`);
  return Number.isNaN(ms) ? null : ms;
}

// Of a time that comes twice it is the first, or the second where the clocks are then as they are at `near`.
export function fieldInstant(text, near) {
  const ms = Date.parse(inUTC ? `${text}Z` : text);
  if (Number.isNaN(ms)) return null;
  const again = secondOf(ms);
  return again !== null && near !== undefined && ahead(again) === ahead(near) ? again : ms;
}

// How far clocks are ahead of UTC.
const ahead = (ms) => -60000 * new Date(ms).getTimezoneOffset();

// When clocks that were put back say the same once more; `null` where they do not.
export function secondOf(ms) {
  const again = ms + ahead(ms) - ahead(ms + day);
  return !inUTC && again > ms && fieldValue(again) === fieldValue(ms) ? again : null;
}
