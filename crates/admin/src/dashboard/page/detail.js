// The chosen node: its workers, ports, tables and peers.

import { Rates, traffic } from "./cluster.js";
import { byId, facts, fill, say } from "./dom.js";
import { bytes, count, rate, time } from "./format.js";

const rates = new Rates();

function about(node, { status, stats, cluster }) {
  const control = stats?.control;
  const moved = stats?.moved_counters;
  return [
    ["process", node.process.target],
    ["version", status?.version],
    ["state", node.state],
    ["up for", time(status?.uptime_s)],
    ["flows here", count(status?.flows?.here)],
    ["flows from", status?.flows?.file],
    ["buffers", stats?.pool && `${count(stats.pool.free)} free, ${count(stats.pool.in_use)} in use`],
    ["lease", control?.lease && `${control.lease.state}, forwards for ${time(control.lease.forwards_ms / 1000)} without renewal`],
    ["log entries applied as owner", count(control?.entries)],
    ["its view of membership", cluster && `epoch ${count(cluster.epoch)}, ${cluster.has_caught_up ? "caught up" : "not caught up"}`],
    ["counters of moved flows", moved && Object.entries(moved).filter(([, value]) => value > 0).map(([name, value]) =>
      `${name.replaceAll("_", " ")} ${count(value)}`).join(", ")],
  ].filter(([, text]) => text);
}

function workers(key, stats) {
  return (stats?.workers ?? []).map(({ worker, counters }) => {
    const now = traffic(rates.of(`${key}/${worker.worker}`, stats.uptime_s, counters));
    return { cells: [`worker ${worker.worker}`, worker.core ?? "any", `${(100 * worker.busy_share).toFixed(1)} %`,
      worker.mean_batch_fill.toFixed(2), rate(now?.in), rate(now?.out), rate(now?.dropped)] };
  });
}

function ports(key, status, stats) {
  const counters = new Map((stats?.ports ?? []).map((port) => [port.role, port]));
  return (status?.ports ?? []).map((port) => {
    const now = rates.of(`${key}:${port.role}`, stats?.uptime_s, counters.get(port.role));
    const speed = port.speed_mbps ? `, ${count(port.speed_mbps)} Mbit/s` : "";
    const errors = now && now.rx_errors + now.tx_errors + now.rx_no_buffer + now.rx_shared + now.rx_unusable;
    return { cells: [port.role, `${port.is_link_up ? "up" : "down"}${speed}`, port.device, port.addresses.join(", "),
      rate(now?.rx_packets), rate(now?.rx_bytes), rate(now?.rx_missed), rate(now?.tx_packets), rate(now?.tx_bytes), rate(errors)] };
  });
}

const way = (peer) => (peer.via !== null ? `through node ${peer.via}` : peer.is_reached ? "directly" : "nowhere");

function peers(status, stats) {
  const mesh = new Map((stats?.control?.peers ?? []).map((peer) => [peer.node, peer]));
  const fabric = new Map((status?.fabric ?? []).map((peer) => [peer.node, peer]));
  const numbers = [...new Set([...mesh.keys(), ...fabric.keys()])].sort((a, b) => a - b);
  return numbers.map((number) => {
    const [probe, link] = [fabric.get(number), mesh.get(number)];
    const trip = probe?.round_trip_us ?? null;
    return { cells: [`node ${number}`, probe ? way(probe) : null, trip === null ? null : `${Math.round(trip)} µs`,
      link && (link.is_connected ? `connected, ${count(link.waiting)} waiting` : "not connected")] };
  });
}

// Shows an answer of /api/nodes/ID; none for a node without a process here.
export function drawDetail(node, answer) {
  say(byId("node-title"), node ? `Selected node: ${node.name}` : "Selected node");
  const shows = Boolean(node?.process && answer?.status);
  byId("node-detail").hidden = !shows;
  const why = node?.process?.error;
  say(byId("node-note"), !node ? "None: choose one in the topology or in the table."
    : !node.process ? "The dashboard has no address of this node."
    : why ? `It does not answer: ${why}. What is shown here is its last status.` : "");
  if (!shows) return;
  const { status, stats } = answer;
  facts(byId("node-facts"), about(node, answer));
  fill(byId("workers"), workers(node.key, stats));
  fill(byId("ports"), ports(node.key, status, stats));
  fill(byId("tables"), (status.tables ?? []).map((table) => ({ cells: [table.table, bytes(table.table_bytes), count(table.keys)] })));
  fill(byId("peers"), peers(status, stats));
  fill(byId("neighbours"), (status.neighbours ?? []).map((next) => ({
    cells: [next.address, next.port, next.state, next.age_s === null ? null : `${time(next.age_s)} ago`],
  })));
}
