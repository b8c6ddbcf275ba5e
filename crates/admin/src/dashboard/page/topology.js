// The picture of the cluster: nodes on a ring around the fabric. Each node is a button; arrow keys move between them.

import { byId, el, reconcile, say, set, svg } from "./dom.js";
import { rate } from "./format.js";

const CENTRE = { x: 360, y: 260 };
// Up to here all links are drawn; beyond, those of the chosen node and those that are not direct.
const ALL_LINKS = 16;
const STAGGERED = 32;

// Where the nodes are: two staggered rings if there are many.
function places(count) {
  const isMany = count > STAGGERED;
  return Array.from({ length: count }, (_, at) => {
    const angle = (2 * Math.PI * at) / Math.max(count, 1) - Math.PI / 2;
    const ring = isMany && at % 2 ? 165 : 212;
    return { x: CENTRE.x + 1.4 * ring * Math.cos(angle), y: CENTRE.y + ring * Math.sin(angle), angle };
  });
}

export function describe(node) {
  const traffic = node.traffic ? `, ${rate(node.traffic.in)} in, ${rate(node.traffic.out)} out` : "";
  return `${node.name}, ${node.state}${traffic}`;
}

const port = (node, role) => node.process?.is_answering && node.process.status?.ports?.find((each) => each.role === role);

export class Topology {
  #map = byId("map");
  #lines = svg("g", { "aria-hidden": "true" });
  #buttons = svg("g");
  #current = null;
  // Pairs of nodes that the drawn path uses, as "0,3".
  path = new Set();

  constructor(choose) {
    this.choose = choose;
    this.#map.append(this.#lines, this.#buttons);
    this.#map.addEventListener("keydown", (event) => this.#key(event));
  }

  draw(cluster, chosen) {
    const { links } = cluster;
    // A process that never answered has no number; it is in the table only.
    const nodes = cluster.nodes.filter((node) => node.number !== null);
    const at = places(nodes.length);
    const place = new Map(nodes.map((node, index) => [node.number, at[index]]));
    const radius = nodes.length > STAGGERED ? 13 : nodes.length > ALL_LINKS ? 20 : 32;
    set(this.#map, "class", nodes.length > ALL_LINKS ? "many" : null);
    const own = cluster.byKey(chosen)?.number ?? null;
    const shown = links.filter(({ ends, way }) => nodes.length <= ALL_LINKS || way !== "direct" || ends.includes(own));
    for (const pair of this.path) {
      const ends = pair.split(",").map(Number);
      if (!shown.some((link) => link.ends.join() === pair)) shown.push({ ends, way: "direct" });
    }
    const drawn = shown.filter(({ ends }) => ends.every((end) => place.has(end)));
    reconcile(this.#lines, drawn, ({ ends }) => ends.join(), () => svg("line"), (line, { ends, way }) => {
      const [from, to] = ends.map((end) => place.get(end));
      for (const [name, value] of [["x1", from.x], ["y1", from.y], ["x2", to.x], ["y2", to.y]]) set(line, name, value.toFixed(1));
      const kinds = [way, ends.includes(own) && "chosen", this.path.has(ends.join()) && "path"];
      set(line, "class", kinds.filter(Boolean).join(" "));
    });
    if (!nodes.some((node) => node.key === this.#current)) this.#current = nodes[0]?.key ?? null;
    reconcile(this.#buttons, nodes, (node) => node.key, (node) => this.#button(node), (group, node) => {
      const { x, y, angle } = at[nodes.indexOf(node)];
      const [body, focus, internet, ran, number, text] = group.children;
      set(group, "transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      set(group, "class", node.kind);
      set(group, "aria-label", describe(node));
      set(group, "aria-pressed", node.key === chosen);
      set(group, "tabindex", node.key === this.#current ? 0 : -1);
      set(body, "r", radius);
      set(focus, "r", radius + 5);
      for (const [circle, role, turn] of [[internet, "internet", -0.25], [ran, "base-station", 0.25]]) {
        const link = port(node, role);
        set(circle, "class", link ? (link.is_link_up ? "port" : "port down") : "hidden");
        set(circle, "r", link ? radius / 6 : 0);
        set(circle, "cx", ((radius + 9) * Math.cos(angle + turn)).toFixed(1));
        set(circle, "cy", ((radius + 9) * Math.sin(angle + turn)).toFixed(1));
      }
      say(number, node.number);
      say(text, radius > 20 ? (node.traffic ? rate(node.traffic.in) : node.kind === "ready" ? "" : node.kind) : "");
      set(number, "y", text.textContent ? -8 : 0);
      set(text, "y", 10);
    });
  }

  #button(node) {
    const group = svg("g", { role: "button", tabindex: -1 });
    group.append(svg("circle", { class: "body" }), svg("circle", { class: "focus" }), svg("circle"), svg("circle"),
      svg("text", { class: "number" }), svg("text", { class: "rate" }));
    group.addEventListener("click", () => {
      this.#current = node.key;
      this.choose(node.key);
    });
    return group;
  }

  #key(event) {
    const buttons = [...this.#buttons.children];
    const now = buttons.indexOf(document.activeElement);
    if (now < 0) return;
    const steps = { ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: buttons.length - 1 };
    if (event.key in steps) {
      const next = buttons.at(steps[event.key] % buttons.length);
      set(buttons[now], "tabindex", -1);
      set(next, "tabindex", 0);
      this.#current = next.dataset.key;
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") this.choose(buttons[now].dataset.key);
    else return;
    event.preventDefault();
  }
}

// The links that are not direct, as a table.
export function drawLinks(cluster) {
  const broken = cluster.links.filter((link) => link.way !== "direct");
  say(byId("links-count"), broken.length);
  reconcile(byId("links"), broken, ({ ends }) => ends.join(), () => el("tr", {}, el("th", { scope: "row" }), el("td")), (row, link) => {
    say(row.cells[0], `node ${link.ends[0]} and node ${link.ends[1]}`);
    say(row.cells[1], link.way === "relayed" ? `through node ${link.via}` : "nowhere: no path is known");
  });
}
