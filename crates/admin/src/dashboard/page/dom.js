// Builds elements. Text from nodes becomes text nodes and attribute values only, never markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children);
  return element;
}

export const el = (name, attributes = {}, ...children) => build(document.createElement(name), attributes, children);

export const svg = (name, attributes = {}, ...children) => build(document.createElementNS(SVG, name), attributes, children);

// Sets an attribute only if it changes, so that screen readers and selections are not disturbed.
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

export function say(element, text) {
  if (element.textContent !== String(text)) element.textContent = String(text);
}

// Makes the children of `parent` those of `items`: existing ones stay in the document, and keep the focus.
export function reconcile(parent, items, key, make, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let child = known.get(name);
    known.delete(name);
    if (!child) {
      child = make(item);
      child.dataset.key = name;
    }
    update(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const gone of known.values()) gone.remove();
}

// Fills a table. A cell is a text, or {text, class}; numbers are aligned to the right. With `choose`, the first cell is a
// button.
export function fill(body, rows, { key = (row) => row.cells[0], choose, isChosen } = {}) {
  const make = (row) => {
    const name = el("th", { scope: "row" });
    if (choose) {
      const button = el("button", { type: "button" });
      button.addEventListener("click", () => choose(row.key));
      name.append(button);
    }
    return el("tr", {}, name, ...row.cells.slice(1).map(() => el("td")));
  };
  reconcile(body, rows, key, make, (line, row) => {
    row.cells.forEach((cell, at) => {
      const { text, class: kind } = typeof cell === "object" && cell !== null ? cell : { text: cell };
      const shown = text ?? "–";
      const element = line.cells[at];
      if (at === 0 && choose) {
        say(element.firstChild, shown);
        set(element.firstChild, "aria-pressed", isChosen(row.key));
      } else say(element, shown);
      set(element, "class", kind ?? (at > 0 && /^[\d.,–]+( ?[kMGT])?(\/s| B| [KMGT]iB)?$/.test(shown) ? "number" : null));
    });
  });
}

// Fills a list of definitions: [name, text, class].
export function facts(list, pairs) {
  const make = () => el("div", {}, el("dt"), el("dd"));
  reconcile(list, pairs, ([name]) => name, make, (pair, [name, text, kind]) => {
    say(pair.firstChild, name);
    say(pair.lastChild, text ?? "–");
    set(pair.lastChild, "class", kind);
  });
}
