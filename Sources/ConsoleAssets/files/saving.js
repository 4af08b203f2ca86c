// What is saved as a file.

import { call, path } from "./api.js";
import { announce, el } from "./dom.js";
import { screenWords } from "./screenwords.js";
import { words } from "./words.js";

const mostOfName = 160;
const bytes = (text) => [...new TextEncoder().encode(text)].map((byte) => `=${byte.toString(16).padStart(2, "0")}`).join("");
// What may stand in no name of a file is written by its bytes: two ids have two names.
export const fileName = (text) => text.replace(/[^\p{L}\p{N}._-]+/gu, bytes).slice(0, mostOfName);

// It is asked for as all else is, so that a session that has ended is told.
export async function save(where, type, name, problem) {
  problem.textContent = "";
  try {
    const text = await call("GET", where, { isText: true });
    const href = URL.createObjectURL(new Blob([text], { type }));
    el("a", { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60000);
    announce(screenWords.forms.exported);
  } catch (error) {
    problem.textContent = error.message || words.unreachable;
  }
}

// Everything about a customer, of both environments, in a file that bears the id.
export async function exportAll(view) {
  const { customer } = view.view;
  await save(`v1/customers/${path(customer)}/export`, "application/json", `${fileName(customer)}-export.json`, view.problem);
}
