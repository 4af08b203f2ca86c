// Speaks to the service. Everything is relative to the page, so that it may stand behind a path prefix.

import { endEarly, forgetEarly, longestWait, takeEarly } from "./early.js";
import { words } from "./words.js";

const root = new URL("./", document.baseURI);

// An answer that is no success.
export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `The service answered ${status}.`);
    this.status = status;
    this.code = problem.code ?? "unknown";
    this.param = problem.param;
  }
}

// Nobody answered in time, or nothing that can be read.
export class Unreachable extends Error {}

// In milliseconds, of what is done, asked of a store, or a long file.
const longestWork = 120000;

const tokenHeader = "Console-Token";
let session = null;
// In whose name the page was drawn last.
let lastKey = null;

export function currentSession() {
  return session;
}

// Whether the key that somebody signed in with may do what a scope allows.
export function may(scope) {
  return session !== null && (session.key.scopes.includes(scope) || session.key.scopes.includes("admin"));
}

// Whether it may do what holds for all apps.
export function mayInEveryApp(scope) {
  return may(scope) && session.key.app === null;
}

// Whether it may do what holds for all apps and both environments.
export function mayEverywhere(scope) {
  return mayInEveryApp(scope) && session.key.environment === null;
}

// Where something is, for a link as well.
export function addressOf(path, query = {}) {
  const url = new URL(path, root);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  return url;
}

export async function call(method, path, { query, body, signal, isText, isSlow = isText || method !== "GET", headers = {} } = {}, isAgain = false) {
  const url = addressOf(path, query);
  const mine = session;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && session) headers[tokenHeader] = session.token;
  // A service that hangs, or a network that is gone, says nothing by itself.
  const limit = new AbortController();
  const end = (wait) => setTimeout(() => limit.abort(), wait);
  let timer = end(isSlow ? longestWork : longestWait);
  let response, text;
  try {
    response = await ((method === "GET" && takeEarly(url)) || fetch(url, {
      method, headers, credentials: "same-origin", cache: "no-store", redirect: "error",
      signal: signal ? AbortSignal.any([signal, limit.signal]) : limit.signal,
      body: body === undefined ? undefined : JSON.stringify(body),
    }));
    // What has begun to come may take long on a slow line.
    clearTimeout(timer);
    timer = end(longestWork);
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError" && !limit.signal.aborted) throw error;
    throw new Unreachable();
  } finally {
    clearTimeout(timer);
  }
  // As it came, such as a file of which each byte counts.
  if (response.ok && isText) return text;
  let json = null;
  try {
    json = text === "" ? {} : JSON.parse(text);
  } catch {
    if (response.ok) return text;
    throw new Unreachable();
  }
  if (response.ok) return json;
  const isOver = response.status === 401 && path !== "console/session";
  // Of a session that was left meanwhile it says nothing new.
  if (isOver && session?.key.id !== mine?.key.id) throw new Refusal(response.status, { ...json, detail: words.sessionOver });
  if ((isOver || json.param === tokenHeader) && mine && !isAgain) {
    // Somebody signed in anew in another tab, or out. What was to be done in one key's name is not done in another's unasked.
    forgetEarly();
    const found = session === mine && (await get("console/session")).session;
    // Of those that were refused together one tells the page.
    const isFirst = session === mine;
    if (isFirst) keep(found);
    // Whoever signs out ends the session of the browser, whosever it is.
    if (session?.key.id === mine.key.id || (session && path === "console/session")) return call(method, path, { query, body, signal, isText, isSlow, headers }, true);
    if (isFirst) tellOfSession(mine.key.id);
    throw new Refusal(response.status, { ...json, detail: session ? words.otherKey(session.key.name) : words.sessionOver });
  }
  if (isOver) {
    session = null;
    document.dispatchEvent(new Event("signed-out"));
    throw new Refusal(response.status, { ...json, detail: words.sessionOver });
  }
  throw new Refusal(response.status, json);
}

// Another session holds than the page was drawn for, or none; `detail` is whether it is of another key.
function tellOfSession(before) {
  const isOther = before !== null && session?.key.id !== before;
  document.dispatchEvent(session ? new CustomEvent("other-session", { detail: isOther }) : new Event("signed-out"));
}

// All tabs of a browser have one session, and each learns of another.
const tabs = new BroadcastChannel("rightful-session");
tabs.addEventListener("message", async () => {
  const [before, hadOne] = [lastKey, session !== null];
  forgetEarly();
  try {
    await readSession();
  } catch {
    return;
  }
  if (hadOne ? session?.key.id !== before : session) tellOfSession(before);
});

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body, query) => call("POST", path, { body, query });

// Why a file of the page, asked for when it was wanted, did not come: that of a newer page does not fit into this one.
export const fileProblem = (error) => (error instanceof SyntaxError ? words.olderPage : words.unreachable);

// A path of segments, each encoded.
export function path(...segments) {
  if (segments.includes(".") || segments.includes("..")) throw new Refusal(404, { detail: words.noDots });
  return segments.map((segment) => encodeURIComponent(segment)).join("/");
}

function keep(found) {
  session = found;
  lastKey = session?.key.id ?? lastKey;
}

export async function readSession() {
  keep((await get("console/session")).session);
  return session;
}

// With `key`, or with `link`.
export async function signIn(proof) {
  forgetEarly();
  keep((await call("POST", "console/session", { body: { ...proof, path: root.pathname } })).session);
  tabs.postMessage("signed in");
  return session;
}

export async function signOut() {
  endEarly();
  await call("DELETE", "console/session", { query: { path: root.pathname } });
  session = null;
  tabs.postMessage("signed out");
}
