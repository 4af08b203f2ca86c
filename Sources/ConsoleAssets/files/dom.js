// Makes elements. Whatever comes from elsewhere becomes text nodes and attributes, never markup.

const svgNamespace = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else if (name === "disabled" || name === "checked" || name === "open") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

// Nothing, a text, a number, a node, or a list of these.
function add(node, child) {
  if (child === null || child === undefined || child === false) return;
  if (Array.isArray(child)) for (const one of child) add(node, one);
  else node.append(child instanceof Node ? child : String(child));
}

export function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(svgNamespace, tag), properties, children);
}

// Finds a control again after what it stands in was made anew: by its id, or as the one that says the same, at the same
// place among its like.
function successor(node) {
  const home = node?.closest?.("[id]");
  if (!home) return () => node;
  const alike = (root) => [...root.querySelectorAll(node.localName)].filter((one) => one.textContent === node.textContent);
  const place = alike(home).indexOf(node);
  return () => {
    if (node.isConnected) return node;
    const now = document.getElementById(home.id);
    return home === node || !now ? now : alike(now)[place];
  };
}

// Puts other children in the place of those that are there; what has the focus keeps it, and what it stood in has it where
// there is nothing like it any more.
export function show(node, ...children) {
  const held = node !== document.activeElement && node.contains(document.activeElement) ? document.activeElement : null;
  const find = successor(held);
  const made = document.createDocumentFragment();
  add(made, children);
  node.replaceChildren(made);
  if (!held) return;
  const next = find() ?? node;
  if (next === node && !node.hasAttribute("tabindex")) node.tabIndex = -1;
  next.focus({ preventScroll: true });
}

// The same, where anything differs: what is read aloud when it changes is not read again as it was.
export function showChanged(node, ...children) {
  const made = node.cloneNode(false);
  add(made, children);
  if (!made.isEqualNode(node)) show(node, [...made.childNodes]);
}

// One that cannot be used says so by `aria-disabled`: it keeps the focus, and does nothing.
export function button(text, onclick, properties) {
  const press = (event) => event.currentTarget.ariaDisabled !== "true" && onclick(event);
  return el("button", { type: "button", onclick: press, ...properties }, text);
}

// What may be wider than the screen: it is moved by itself, by the keyboard as well.
export function wide(label, ...children) {
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, children);
}

// The number of an event, which opens it where whoever is signed in may read events.
export function eventNumber(position, open) {
  const text = `#${position}`;
  return open ? button(text, () => open(position), { class: "link" }) : el("span", { class: "soft" }, text);
}

// What other screens and dialogs look like comes with the first of them that is opened.
let looks;
export function styled(module) {
  looks ??= new Promise((done) => {
    const onerror = () => done(looks = null);
    document.head.append(el("link", { rel: "stylesheet", href: new URL("screens.css", import.meta.url), onload: done, onerror }));
  });
  return Promise.all([module, looks]).then(([loaded]) => loaded);
}

let lastID = 0;

// A label and its field, tied to one another; `within` is what the field stands in, where that is more than itself.
export function field(label, input, hint, within = input) {
  input.id ||= `field-${++lastID}`;
  const parts = [el("label", { for: input.id }, label), within];
  if (hint) {
    const id = `${input.id}-hint`;
    input.setAttribute("aria-describedby", id);
    parts.push(el("small", { id }, hint));
  }
  return el("div", { class: "field" }, parts);
}

// Says of a field that what stands in it is wrong, and where it is told why, until something else is written there.
export function blame(input, problem) {
  problem.id ||= `problem-${++lastID}`;
  input.setAttribute("aria-errormessage", problem.id);
  input.ariaInvalid = "true";
  input.addEventListener("input", () => { input.ariaInvalid = null; }, { once: true });
}

// Told to who hears the page rather than sees it, and gone when it was heard: soon it is so no more.
const heardAfter = 5000;
let silence;
const status = el("div", { role: "status", class: "aside" });

export function announcer() {
  return status;
}

export function announce(text) {
  status.textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => { status.textContent = ""; }, heardAfter);
}

// A list of which a page is shown at a time. `place` has its number, for whoever makes the list anew.
export function paged(items, size, words, render, place = {}) {
  const list = el("div");
  const draw = (step) => {
    const last = Math.max(0, Math.ceil(items.length / size) - 1);
    const page = place.page = Math.min(Math.max((place.page ?? 0) + step, 0), last);
    const shown = items.slice(page * size, (page + 1) * size);
    show(
      list, render(shown, page * size),
      last > 0 && el("nav", { class: "pages", "aria-label": words.pages },
        button(words.newer, () => draw(-1), { "aria-disabled": page === 0 && "true" }),
        el("span", {}, words.pageOf(page + 1, last + 1, items.length)),
        button(words.older, () => draw(1), { "aria-disabled": page === last && "true" })));
  };
  draw(0);
  return list;
}

// A dialog; whoever opened it has the focus again when it is closed.
export function openDialog(title, closeText, body, name) {
  const opener = successor(document.activeElement);
  const id = `dialog-${++lastID}`;
  const dialog = el("dialog", { class: name, "aria-labelledby": id },
    button(closeText, () => dialog.close(), { class: "quiet close" }), el("h2", { id }, title), body);
  dialog.addEventListener("close", () => {
    dialog.remove();
    // It may have been made anew in the meantime, as everything is that shows the present.
    (opener() ?? document.getElementById("main"))?.focus?.();
  });
  document.body.append(dialog);
  dialog.showModal();
  // Who opened a form is about to fill it in; who opened something to read begins at its top.
  if (name !== "event") body.querySelector("input, select, textarea")?.focus();
  return dialog;
}
