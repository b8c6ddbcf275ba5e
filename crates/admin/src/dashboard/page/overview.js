// Totals of the cluster, the table of nodes, and drops by reason.

import { byId, facts, fill } from "./dom.js";
import { bytes, count, rate } from "./format.js";

const tableOf = (node, role) => node.process?.status?.tables?.find((table) => table.table === role);
const largest = (cluster, role) => Math.max(...cluster.nodes.map((node) => tableOf(node, role)?.table_bytes ?? Number.NEGATIVE_INFINITY));
const behind = (node) => {
  const log = node.process?.stats?.control?.log;
  return log ? Math.max(0, log.newest - log.reached) : null;
};

export function drawTiles(cluster) {
  const { view, total } = cluster;
  const nodes = cluster.nodes.filter((node) => node.number !== null);
  const ready = nodes.filter((node) => node.kind === "ready" || node.kind === "drained").length;
  const unowned = view?.unowned_partitions?.length;
  const status = nodes.find((node) => node.process?.is_answering)?.process.status;
  const lags = nodes.map(behind).filter((lag) => lag !== null);
  facts(byId("tiles"), [
    ["nodes ready", `${ready} of ${nodes.length}`, ready < nodes.length ? "bad" : null],
    ["architecture", status?.architecture],
    ["flows", count(view?.flows ?? status?.flows?.in_cluster)],
    ["packets in", rate(total.in)],
    ["packets out", rate(total.out)],
    ["dropped", rate(total.dropped)],
    ["hops per packet", total.in > 0 ? (total.fabric / total.in).toFixed(2) : null],
    ["largest GPT", bytes(largest(cluster, "gpt"))],
    ["largest FIB", bytes(largest(cluster, "fib"))],
    ["epoch of membership", count(view?.epoch)],
    ["partitions without an owner", count(unowned), unowned ? "bad" : null],
    ["log entries behind", lags.length ? count(Math.max(...lags)) : null],
  ]);
}

function links(node, cluster) {
  const own = cluster.links.filter(({ ends }) => ends.includes(node.number));
  if (!own.length) return null;
  const bad = ["relayed", "none"].map((way) => [own.filter((link) => link.way === way).length, way]).filter(([number]) => number);
  return bad.length ? bad.map(([number, way]) => `${number} ${way === "none" ? "broken" : way}`).join(", ") : "direct";
}

export function drawNodes(cluster, chosen, choose) {
  const rows = cluster.nodes.map((node) => {
    const { process, member, traffic } = node;
    const log = process?.stats?.control?.log;
    const live = process?.is_answering ? process : null;
    return {
      key: node.key,
      cells: [
        node.name,
        { text: node.kind === "silent" && process?.error ? `${node.state}: ${process.error}` : node.state, class: `state ${node.kind}` },
        count(live?.status?.flows?.here),
        rate(traffic?.in),
        rate(traffic?.out),
        rate(traffic?.fabric),
        rate(traffic?.dropped),
        bytes(live && tableOf(node, "gpt")?.table_bytes),
        bytes(live && tableOf(node, "fib")?.table_bytes),
        count(member?.partitions?.length),
        log ? `${count(log.reached)}${behind(node) ? `, ${count(behind(node))} behind` : ""}` : null,
        links(node, cluster),
      ],
    };
  });
  fill(byId("node-rows"), rows, { key: (row) => row.key, choose, isChosen: (key) => key === chosen });
}

export function drawDrops(cluster) {
  byId("drops-none").hidden = cluster.drops.length > 0;
  const rows = cluster.drops.map(({ reason, packets, rate: now, nodes }) => ({
    cells: [reason, count(packets), rate(now), { text: nodes.join(", "), class: "wide" }],
  }));
  fill(byId("drop-rows"), rows);
}
