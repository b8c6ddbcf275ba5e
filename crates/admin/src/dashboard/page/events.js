// What happened to nodes while the page was open, and the moves of flows that the cluster reports.

import { byId, el, fill, reconcile, say } from "./dom.js";
import { count, time } from "./format.js";

const KEPT = 100;
const WHY = { died: "it died", drained: "it is drained", unfit: "it cannot do its work" };

const before = new Map();
const events = [];
let number = 0;

// Notes the nodes whose state changed, and announces it.
export function noteChanges(cluster) {
  const news = [];
  for (const node of cluster.nodes) {
    const known = before.get(node.key);
    if (known !== undefined && known !== node.state && known !== "asking…") news.push(`${node.name}: ${known} → ${node.state}`);
    before.set(node.key, node.state);
  }
  for (const text of news) events.unshift({ key: (number += 1), text: `${new Date().toLocaleTimeString("en-GB")} ${text}` });
  events.length = Math.min(events.length, KEPT);
  if (news.length) say(byId("announcer"), news.map((text) => text.replace(" → ", " is now ")).join("; "));
}

export function drawEvents(cluster) {
  byId("events-none").hidden = events.length > 0;
  reconcile(byId("event-list"), events, ({ key }) => key, () => el("li"), (item, { text }) => say(item, text));
  const repins = [...(cluster.view?.repins ?? [])].reverse();
  const rows = repins.map(({ node, life, cause, keys, heirs, at_unix_ms: at }) => ({
    key: `${node}/${life}/${cause}/${at}`,
    cells: [`node ${node}`, WHY[cause] ?? String(cause), keys === null ? "unknown" : count(keys),
      heirs.map((heir) => `node ${heir}`).join(", "), `${time(Math.max(0, (Date.now() - at) / 1000))} ago`],
  }));
  fill(byId("repins"), rows, { key: (row) => row.key });
}
