// Everything about a customer, as a file.

import { call, path } from "./api.js";
import { announce, el } from "./dom.js";
import { screenWords } from "./screenwords.js";
import { words } from "./words.js";

// Of both environments, in a file that bears the id. It is asked for as all else is, so that a session that has ended is told.
export async function exportAll(view) {
  const { customer } = view.view;
  view.problem.textContent = "";
  try {
    const text = await call("GET", `v1/customers/${path(customer)}/export`, { isText: true });
    const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    el("a", { href, download: `${customer.replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 80)}-export.json` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60000);
    announce(screenWords.forms.exported);
  } catch (error) {
    view.problem.textContent = error.message || words.unreachable;
  }
}
