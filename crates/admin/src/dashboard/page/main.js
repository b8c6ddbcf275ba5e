// The page: asks the server every second, and draws what changed.

import { Refused, ask, findToken, useToken } from "./api.js";
import { Cluster } from "./cluster.js";
import { drawDetail } from "./detail.js";
import { byId, say, set } from "./dom.js";
import { drawEvents, noteChanges } from "./events.js";
import { drawDrops, drawNodes, drawTiles } from "./overview.js";
import { drawPartitions } from "./partitions.js";
import { drawSearch, startSearch } from "./search.js";
import { startTheme } from "./theme.js";
import { Topology, drawLinks } from "./topology.js";

const EVERY_MS = 1000;
// Until every node was asked once.
const SOON_MS = 200;

const cluster = new Cluster();
let chosen = null;
let detail = null;
let timer = null;
// Of the newest turn: only that one plans the next.
let turns = 0;

function choose(key) {
  chosen = chosen === key ? null : key;
  detail = null;
  draw();
  turn();
}

const topology = new Topology(choose);

function draw() {
  drawTiles(cluster);
  topology.draw(cluster, chosen);
  drawLinks(cluster);
  drawNodes(cluster, chosen, choose);
  const node = cluster.byKey(chosen);
  drawDetail(node, detail && detail.id === node?.process?.id ? detail : null);
  drawSearch(cluster);
  drawDrops(cluster);
  drawPartitions(cluster);
  drawEvents(cluster);
}

function connection(text, isBad) {
  say(byId("connection"), text);
  set(byId("connection"), "class", isBad ? "bad" : null);
}

function showLogin(isOpen) {
  byId("login").hidden = !isOpen;
  byId("content").hidden = isOpen;
}

async function turn() {
  clearTimeout(timer);
  turns += 1;
  const mine = turns;
  let wait = EVERY_MS;
  try {
    if (!document.hidden) {
      cluster.update(await ask("/api/nodes"));
      const process = cluster.byKey(chosen)?.process;
      detail = process ? await ask(`/api/nodes/${process.id}`) : null;
      noteChanges(cluster);
      draw();
      showLogin(false);
      const asked = cluster.nodes.map((node) => node.process).filter(Boolean);
      const silent = asked.filter((process) => process.was_asked && !process.is_answering).length;
      wait = asked.every((process) => process.was_asked) && asked.length ? EVERY_MS : SOON_MS;
      const text = asked.length === 0 ? "No node was found yet." : silent ? `${silent} of ${asked.length} nodes do not answer.` : "All nodes answer.";
      connection(text, silent > 0);
    }
  } catch (error) {
    if (error instanceof Refused && error.status === 401) {
      const wasOpen = !byId("login").hidden;
      showLogin(true);
      connection("Not connected: the token is missing or wrong.", true);
      if (!wasOpen) byId("token").focus();
      return;
    }
    console.error(error);
    connection(`The dashboard does not answer: ${error.message}`, true);
  }
  if (mine === turns) timer = setTimeout(turn, wait);
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token").value.trim());
  byId("token").value = "";
  ask("/api/nodes").then(turn, (error) => say(byId("login-error"), error.message));
});
byId("positions-part").addEventListener("toggle", draw);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) turn();
});

findToken();
startTheme();
startSearch(cluster, topology, draw);
turn();
