// What the key that is signed in may put right.

import { fileProblem, may, mayEverywhere, mayInEveryApp } from "./api.js";
import { announce, button, el, styled } from "./dom.js";
import { isOfAppStore } from "./find.js";
import { ownerOf } from "./lanes.js";
import { words } from "./words.js";

const say = words.commands;

// Nothing, where the key may do none of it.
export function commands(view) {
  const [, , then] = view.answered;
  const offered = [...mayWrite(view, then), ...mayMore(view)].filter(Boolean);
  if (offered.length === 0) return null;
  return el("section", { class: "card", "aria-label": say.title }, el("h2", {}, say.title),
    el("div", { class: "buttons" }, offered), el("p", { class: "soft" }, say.text));
}

function mayWrite(view, then) {
  if (!may("customers:write")) return [];
  const form = formOpener(view);
  const originals = [...then.purchases.keys(), ...[...then.others].filter(([, purchase]) => purchase).map(([id]) => id)];
  const grants = (then.grants ?? []).filter((one) => !one.isRevoked && (one.until === null || one.until > Date.now()));
  // What is another customer's is seen here by its name alone: it is moved, and given days, on the page of whose it is.
  const owned = originals.filter((id) => {
    const purchase = then.purchases.get(id) ?? then.others.get(id);
    // What gives nothing has no period: its events say whose it is.
    return purchase.periods.length === 0 ? view.history.hasOwn(id, view.ids()) : view.isOwn(ownerOf(purchase));
  });
  const ofStore = owned.filter(isOfAppStore);
  // What is nobody's is given to them as well, by a key of every app.
  const mayTransfer = owned.length > 0 || mayInEveryApp("customers:write");
  return [
    mayInEveryApp("customers:write") && button(say.grant, form("grant"), { id: "do-grant" }),
    mayInEveryApp("customers:write") && may("events:read") && grants.length > 0
      && button(say.revoke, form("revoke", grants), { id: "do-revoke" }),
    mayInEveryApp("customers:write") && button(say.link, form("link"), { id: "do-link" }),
    mayTransfer && button(say.transfer, form("transfer", owned), { id: "do-transfer" }),
    originals.length > 0 && button(say.check, form("check", originals), { id: "do-check" }),
    ofStore.length > 0 && button(say.extend, form("extend", ofStore), { id: "do-extend" }),
  ];
}

function mayMore(view) {
  const form = formOpener(view);
  const isKnown = (view.history?.events.length ?? 0) > 0;
  return [
    may("admin") && isKnown && button(say.resend, form("resend"), { id: "do-resend" }),
    mayEverywhere("events:read") && isKnown && button(say.export, form("exportAll"), { id: "do-export" }),
    mayEverywhere("admin") && isKnown && button(say.forget, form("forget"), { id: "do-forget" }),
  ];
}

// The forms come when one is opened.
function formOpener(view) {
  return (name, ...needed) => async () => {
    if (view.isOpening) return;
    view.isOpening = true;
    try {
      const forms = await styled(import("./forms.js"));
      if (view.isClosed) return;
      view.problem.textContent = "";
      forms[name](view, ...needed);
    } catch (error) {
      view.problem.textContent = fileProblem(error);
      announce(view.problem.textContent);
    } finally {
      view.isOpening = false;
    }
  };
}
