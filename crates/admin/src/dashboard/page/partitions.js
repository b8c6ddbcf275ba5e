// Who owns which partition of the key space, and where the tables are in its log.

import { byId, fill, reconcile, say, set, svg } from "./dom.js";
import { count, ranges } from "./format.js";

const CELL = 12;
const PER_ROW = 64;

// A hue per owner; the golden angle keeps neighbours apart.
const colour = (owner) => `hsl(${Math.round((owner * 137.5) % 360)} 55% ${owner % 2 ? 45 : 60}%)`;

function drawStrip(owners) {
  const strip = byId("strip");
  const rows = Math.ceil(owners.length / PER_ROW);
  const columns = Math.min(owners.length, PER_ROW);
  set(strip, "viewBox", `0 0 ${PER_ROW * CELL} ${Math.max(rows, 1) * CELL}`);
  strip.toggleAttribute("hidden", columns === 0);
  reconcile(strip, owners, ({ partition }) => partition, () => svg("rect", { width: CELL - 1, height: CELL - 1 }), (cell, { partition, owner }) => {
    set(cell, "x", (partition % PER_ROW) * CELL);
    set(cell, "y", Math.floor(partition / PER_ROW) * CELL);
    set(cell, "fill", owner === null ? null : colour(owner));
    set(cell, "class", owner === null ? "unowned" : null);
  });
}

export function drawPartitions(cluster) {
  const view = cluster.view;
  const owners = [];
  for (const member of view?.members ?? []) for (const partition of member.partitions) owners.push({ partition, owner: member.node });
  for (const partition of view?.unowned_partitions ?? []) owners.push({ partition, owner: null });
  owners.sort((a, b) => a.partition - b.partition);
  const without = view?.unowned_partitions?.length ?? 0;
  say(byId("partitions-note"), !view ? "The nodes that answer have no control plane: their flows come from a file."
    : `${count(owners.length)} partitions, ${without ? `${count(without)} without an owner` : "all with an owner"}.`);
  drawStrip(owners);

  const positions = new Map((view?.positions ?? []).map((position) => [position.partition, position]));
  const sum = (partitions, name) => partitions.reduce((all, partition) => all + (positions.get(partition)?.[name] ?? 0), 0);
  const rows = (view?.members ?? []).map(({ node, partitions, is_alive: isAlive }) => ({
    cells: [`node ${node}${isAlive ? "" : " (dead)"}`, count(partitions.length), { text: ranges(partitions) || "none", class: "wide" },
      count(sum(partitions, "newest")), count(sum(partitions, "settled"))],
  }));
  if (without) rows.push({ cells: ["no owner", count(without), { text: ranges(view.unowned_partitions), class: "wide" }, null, null] });
  fill(byId("owner-rows"), rows);

  // Thousands of rows cost time; they are made only while they are shown.
  const shown = byId("positions-part").open ? owners : [];
  fill(byId("position-rows"), shown.map(({ partition, owner }) => {
    const position = positions.get(partition);
    return { cells: [String(partition), owner === null ? "none" : `node ${owner}`, count(position?.newest), count(position?.settled)] };
  }));
}
