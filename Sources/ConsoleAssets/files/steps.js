// A command step by step: filled in, shown before it is done, done, and undone.

import { Unreachable } from "./api.js";
import { announce, blame, button, el, openDialog, show } from "./dom.js";
import { idText } from "./find.js";
import { stateShape } from "./picture.js";
import { screenWords } from "./screenwords.js";
import { grouped, groupSentence } from "./sentence.js";
import { words } from "./words.js";

const say = { ...words.commands, ...screenWords.forms };

const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

// A dialog of three steps: what is to be done, what it would change, what was done.
//
// `preview` answers what shows that; `run` answers `position`, maybe `sides`, each with `before` and `after`, and `undo`.
// `finish` is what is done in place of showing the customer anew.
export function steps(view, title, fields, { preview, run, finish = () => view.again() }) {
  const problem = el("p", { role: "alert", class: "problem" });
  const outcome = el("div", { id: "outcome", "aria-live": "polite" });
  let isBusy = false;
  // One for each command, however often it is tried: where no answer came, it may have been done.
  let key = newKey();
  const submit = el("button", { type: "submit", id: "preview" }, preview ? say.show : say.do);
  const form = el("form", { class: "body" }, fields, submit, problem, outcome);
  // One thing at a time, however often something is pressed.
  const attempt = async (work) => {
    if (isBusy) return;
    isBusy = true;
    problem.textContent = "";
    const enable = (isOn) => { for (const one of form.querySelectorAll("button")) one.disabled = !isOn; };
    enable(false);
    try {
      await work();
    } catch (error) {
      tellProblem(error.code === "idempotency_conflict" ? say.undoneBefore : error.message || words.unreachable);
      // A preview names what is within the command, such as `grant.until`.
      const input = form.elements.namedItem(error.param?.split(".").at(-1) ?? "");
      if (input) {
        blame(input, problem);
        input.focus();
      }
    }
    isBusy = false;
    enable(true);
    // What has the focus had lost it while nothing could be pressed.
    if (document.activeElement === document.body) (form.querySelector("#confirm") ?? submit).focus();
  };
  // Somebody who closed the dialog meanwhile is told on the page.
  const tellProblem = (text) => {
    problem.textContent = text;
    if (form.isConnected) return;
    view.problem.textContent = `${title}: ${text}`;
    announce(view.problem.textContent);
  };
  // What was done has the focus, so that it is read where somebody is.
  const tell = (...children) => {
    show(outcome, children);
    if (form.isConnected) outcome.firstChild.focus();
    else announce(`${title}: ${outcome.firstChild.textContent}`);
  };
  const done = async () => {
    const answer = await run(key).catch((error) => {
      throw error instanceof Unreachable ? new Error(say.maybeDone) : error;
    });
    tell(el("p", { class: "lead", tabindex: "-1" }, say.done, " ", answer.position ? say.recordedAs(answer.position) : ""),
      answer.note && el("div", {}, answer.note), answer.sides && sides(answer.sides),
      answer.undo && button(say.undo, () => attempt(async () => {
        await answer.undo(undoKey(answer.position));
        tell(el("p", { class: "lead", id: "undone", tabindex: "-1" }, say.undone));
        view.again();
      }), { id: "undo" }));
    for (const input of form.querySelectorAll("input, select, textarea")) input.disabled = true;
    submit.hidden = true;
    finish();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async () => {
      if (!preview) {
        await done();
        return;
      }
      const foreseen = await preview();
      const confirm = button(say.do, () => attempt(done), { id: "confirm", class: "main" });
      show(outcome, el("h3", {}, say.would), foreseen, confirm);
      confirm.focus();
    });
  });
  form.addEventListener("input", () => {
    key = newKey();
    show(outcome);
  });
  openDialog([title, " · ", el("span", { class: "id" }, idText(view.view.customer))], words.close, form, "command");
}

export function sides(list) {
  return list.map((side) => el("div", { class: "sides" }, el("h4", { class: "id" }, idText(side.customer_id)),
    el("div", {}, el("h5", {}, say.before), held(side.before)), el("div", {}, el("h5", {}, say.after), held(side.after))));
}

function held(entitlements) {
  if (entitlements.length === 0) return el("p", { class: "soft" }, say.holdsNothing);
  return el("ul", {}, grouped(entitlements).map((group) => el("li", {},
    stateShape(group[0].state), " ", groupSentence(group))));
}

// An event is undone once, whoever presses how often.
export const undoKey = (position) => `undo-${position}`;
