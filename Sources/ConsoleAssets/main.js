// Puts the page together: who is signed in, what is looked at.

import { currentSession, may, readSession, signIn, signOut, Unreachable } from "./api.js";
import { goTo, readAddress, replace } from "./address.js";
import { announce, announcer, button, el, show } from "./dom.js";
import { setUTC, usesUTC, zoneName } from "./time.js";
import { words } from "./words.js";
import { environmentChoice, finder, forgetAll, start } from "./find.js";
import { signInForm } from "./signin.js";
import { CustomerView } from "./customer.js";
import { Overview } from "./overview.js";

const page = document.getElementById("page");
const main = el("main", { id: "main", tabindex: "-1" });
let view = null;

function header() {
  const session = currentSession();
  return el("header", {},
    el("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } },
      words.skip),
    el("h1", {}, button(words.name, () => open({ customer: null }), { class: "plain" })),
    may("customers:read") && finder(open, environment), environmentChoice(open, environment),
    el("div", { class: "account" },
      may("events:read") && may("customers:read") && button(words.overview.link, () => open({ isOverview: true }), { class: "quiet", id: "open-overview" }),
      button(usesUTC() ? words.timesUTC : words.timesLocal(zoneName), () => {
        setUTC(!usesUTC());
        draw();
      }, { class: "quiet", title: words.timesTitle }),
      el("span", { class: "who" }, words.signedInAs(session.key)),
      button(words.signOut, leave, { class: "quiet" })));
}

// The environment that is looked at: the key's own where it has one.
function environment() {
  return currentSession().key.environment ?? readAddress().environment;
}

function open(part) {
  const now = { customer: null, environment: environment(), at: null, knownAt: null, ...part };
  goTo(now);
  draw();
  main.focus({ preventScroll: true });
}

async function leave() {
  forgetAll();
  replace({ customer: null, environment: "production", at: null, knownAt: null });
  try {
    await signOut();
  } catch {
    announce(words.unreachable);
  }
  askToSignIn(words.signedOut);
}

function askToSignIn(notice) {
  view?.close();
  view = null;
  document.title = words.name;
  show(page, announcer(), signInForm(notice, draw));
}

function draw() {
  view?.close();
  view = null;
  const address = readAddress();
  const session = currentSession();
  show(page, header(), announcer(), main);
  if (address.isOverview || !may("customers:read")) {
    document.title = words.titleOf(words.overview.title);
    view = new Overview(session.key.environment ?? address.environment, main, open);
    return;
  }
  if (!address.customer) {
    document.title = words.name;
    show(main, start(open, environment));
    return;
  }
  document.title = words.titleOf(address.customer);
  view = new CustomerView({ ...address, environment: session.key.environment ?? address.environment }, main, open);
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

document.addEventListener("signed-out", () => askToSignIn(words.sessionOver));
window.addEventListener("popstate", () => { if (currentSession()) draw(); });
window.addEventListener("hashchange", begin);

async function begin() {
  const { link } = readAddress();
  try {
    if (link) {
      // Gone from the address before anything else: it is good once.
      replace({ customer: null, environment: "production", at: null, knownAt: null });
      await signIn({ link });
    } else if (!currentSession()) {
      await readSession();
    } else {
      return;
    }
  } catch (error) {
    askToSignIn(error instanceof Unreachable ? words.unreachable : error.message);
    return;
  }
  if (currentSession()) draw();
  else askToSignIn();
}

begin();
