// Somebody signs in.

import { signIn, Unreachable } from "./api.js";
import { announce, blame, el, field } from "./dom.js";
import { screenWords } from "./screenwords.js";
import { words } from "./words.js";

const say = screenWords.signIn;

// The key goes to the service once, in a body, and is kept nowhere in the page. `done` is called when somebody is signed in.
export function signInForm(notice, done) {
  const key = el("input", {
    type: "password", id: "key", name: "key", autocomplete: "off", spellcheck: "false", required: true,
    placeholder: "rightful_sk_…",
  });
  const problem = el("p", { role: "alert", id: "sign-in-problem" }, notice);
  const submit = el("button", { type: "submit", class: "main" }, words.signIn);
  const form = el("form", { class: "card sign-in", method: "post", action: "console/session" },
    el("h1", {}, words.name), el("p", {}, say.why), problem, field(say.apiKey, key, say.apiKeyHint), submit);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    const secret = key.value.trim();
    key.value = "";
    try {
      await signIn({ key: secret });
      announce(say.done);
      done();
    } catch (error) {
      problem.textContent = error instanceof Unreachable ? words.unreachable : error.message;
      blame(key, problem);
      key.focus();
    } finally {
      submit.disabled = false;
    }
  });
  setTimeout(() => key.focus(), 0);
  return form;
}
