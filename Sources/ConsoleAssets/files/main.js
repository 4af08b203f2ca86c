// Puts the page together: who is signed in, what is looked at.

import { currentSession, fileProblem, may, readSession, signIn, signOut, Unreachable } from "./api.js";
import { goTo, nowhere, readAddress, replace } from "./address.js";
import { announce, announcer, button, el, openDialog, show, styled } from "./dom.js";
import { setUTC, usesUTC, zoneName } from "./time.js";
import { words } from "./words.js";
import { environmentChoice, finder, forgetAll } from "./find.js";
import { CustomerView } from "./customer.js";

const page = document.getElementById("page");
const main = el("main", { id: "main", tabindex: "-1" });
let view = null;
let drawn = 0;

// The screens that are not that of a customer: who may see each, and what shows it, which comes when it is wanted.
const screens = {
  service: {
    isOffered: () => may("events:read"),
    load: async () => (await styled(import("./overview.js"))).Overview,
  },
  charts: {
    isOffered: () => may("events:read"),
    load: async () => (await styled(import("./charts.js"))).ChartsView,
  },
  catalog: {
    isOffered: () => may("customers:read"),
    load: async () => (await styled(import("./catalog.js"))).CatalogView,
  },
};

function header() {
  const session = currentSession();
  const { view: shown } = readAddress();
  return el("header", {},
    el("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } },
      words.skip),
    el("h1", {}, button(words.name, () => open({ customer: null }), { class: "plain" })),
    may("customers:read") && finder(open), environmentChoice(open, environment),
    el("div", { class: "under" },
      el("nav", { class: "screens", "aria-label": words.screens }, Object.entries(screens).map(([name, { isOffered }]) => isOffered()
        && button(words.screen[name].link, () => open({ view: name }), {
          class: "quiet", id: `open-${name}`, "aria-current": name === shown ? "page" : null,
        }))),
      el("div", { class: "account" },
        button(usesUTC() ? words.timesUTC : words.timesLocal(zoneName), () => {
          setUTC(!usesUTC());
          draw();
        }, { class: "quiet", id: "times", title: words.timesTitle }),
        el("span", { class: "who" }, words.signedInAs(session.key)),
        button(words.signOut, leave, { class: "quiet" }))));
}

// The environment that is looked at: the key's own where it has one.
function environment() {
  return currentSession().key.environment ?? readAddress().environment;
}

function open(part) {
  const now = { ...nowhere, environment: environment(), ...part };
  goTo(now);
  draw();
  main.focus({ preventScroll: true });
}

async function leave() {
  forgetAll();
  replace(nowhere);
  // What is under way ends first: it would be refused.
  view?.close();
  view = null;
  document.dispatchEvent(new Event("signing-out"));
  try {
    await signOut();
  } catch {
    // The browser still bears the session: whoever comes next must not find it open.
    if (!currentSession()) return;
    draw();
    warn(words.notSignedOut);
    return;
  }
  askToSignIn(words.signedOut);
}

// Above whatever is on the page.
function warn(text, name) {
  main.before(el("p", { role: "alert", class: name ? `problem ${name}` : "problem" }, text));
}

// How somebody signs in comes when nobody is.
function signInForm(notice, done) {
  const host = el("div", {}, el("p", { role: "alert" }, notice));
  styled(import("./signin.js")).then((module) => show(host, module.signInForm(notice, done)),
    (error) => show(host, el("p", { role: "alert", class: "problem" }, fileProblem(error))));
  return host;
}

function askToSignIn(notice) {
  drawn += 1;
  view?.close();
  view = null;
  document.title = words.name;
  closeDialogs();
  show(page, announcer(), el("main", { id: "main" }, signInForm(notice, () => {
    draw();
    main.focus();
  })));
}

// In the middle of a form nothing that was written is lost: who signs in again goes on with it.
function askAbove() {
  if (document.querySelector("dialog.again")) return;
  const dialog = openDialog(words.signIn, words.close, signInForm(words.sessionOver, () => dialog.close()), "again");
  dialog.addEventListener("close", () => {
    if (!currentSession()) {
      askToSignIn(words.sessionOver);
      return;
    }
    drawRights();
    goOn();
  });
}

function drawHeader() {
  show(page, header(), announcer(), main);
}

// Whoever has signed in again goes on in the form that is open, which says so.
function goOn() {
  const form = document.querySelector("dialog[open] .body");
  if (!form) return;
  for (const problem of form.querySelectorAll("[role=alert]")) problem.textContent = "";
  form.querySelector(".signed-in-again")?.remove();
  form.append(el("p", { role: "status", class: "soft signed-in-again" }, words.signedInAgain));
  const next = [...form.querySelectorAll("#confirm, #preview")].find((one) => !one.hidden && !one.disabled);
  (next ?? form.closest("dialog").querySelector("button")).focus();
}

// Who is signed in, and what the key may do: of a form that is open nothing is lost.
function drawRights() {
  drawHeader();
  view?.showRight?.();
}

const closeDialogs = () => { for (const dialog of document.querySelectorAll("dialog")) dialog.remove(); };

async function draw() {
  const mine = ++drawn;
  view?.close();
  view = null;
  const session = currentSession();
  const asked = readAddress();
  const address = { ...asked, environment: session.key.environment ?? asked.environment };
  drawHeader();
  if (address.customer && !may("customers:read")) {
    show(main, el("p", { role: "alert", class: "problem" }, words.mayNotSeeCustomers));
    return;
  }
  const name = address.view ?? (may("customers:read") ? null : "service");
  const screen = screens[name];
  if (screen) {
    document.title = words.titleOf(words.screen[name].title);
    show(main, el("p", { class: "soft" }, words.loading));
    try {
      const Screen = await screen.load();
      if (mine === drawn) view = new Screen(address, main, open);
      tellBroken(address);
    } catch (error) {
      if (mine === drawn) show(main, el("p", { role: "alert", class: "problem" }, fileProblem(error)));
    }
    return;
  }
  if (!address.customer) {
    document.title = words.name;
    show(main);
    try {
      const { start } = await styled(import("./look.js"));
      if (mine === drawn) show(main, start(open));
    } catch (error) {
      if (mine === drawn) show(main, el("p", { role: "alert", class: "problem" }, fileProblem(error)));
    }
    if (mine === drawn) tellBroken(address);
    return;
  }
  document.title = words.titleOf(address.customer);
  view = new CustomerView(address, main, open);
  tellBroken(address);
}

function tellBroken({ isBroken }) {
  if (isBroken) main.prepend(el("p", { role: "alert", class: "problem" }, words.brokenAddress));
}

// "/" goes to the field, unless somebody is writing.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select, dialog")) return;
  const field = document.getElementById("find");
  if (field) {
    event.preventDefault();
    field.focus();
  }
});

document.addEventListener("signed-out", () => {
  if (document.querySelector("dialog[open]")) askAbove();
  else askToSignIn(words.sessionOver);
});
// Somebody signed in in another tab: a form that is open stays, and says in whose name it goes on.
document.addEventListener("other-session", ({ detail: isOther }) => {
  document.querySelector("dialog.again")?.close();
  const form = document.querySelector("dialog:not(.again) .body");
  if (form) drawRights();
  else draw();
  if (!isOther) return;
  const text = words.otherKey(currentSession().key.name);
  announce(text);
  document.querySelector(".other-key")?.remove();
  if (form) form.prepend(el("p", { role: "alert", class: "problem other-key" }, text));
  else warn(text, "other-key");
});
// A form is about whoever was looked at when it was opened, and goes with them.
window.addEventListener("popstate", () => {
  if (currentSession()) {
    closeDialogs();
    draw();
  } else if (document.querySelector("dialog")) askToSignIn(words.sessionOver);
});
window.addEventListener("hashchange", begin);

async function begin() {
  const { link } = readAddress();
  let problem = "";
  try {
    if (link) {
      // Gone from the address before anything else: it is good once.
      replace(nowhere);
      await signIn({ link });
    } else if (!currentSession()) {
      await readSession();
    } else {
      return;
    }
  } catch (error) {
    problem = error instanceof Unreachable ? words.unreachable : error.message;
    // A link that is good for nothing ends no session.
    if (link) await readSession().catch(() => null);
  }
  if (!currentSession()) {
    askToSignIn(problem);
    return;
  }
  draw();
  if (problem) warn(problem);
}

begin();
