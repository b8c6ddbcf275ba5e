// The nodes' answers put together: who is in the cluster, in which state, and what changed since the last answer.

const IN = ["internet_in", "base_station_in"];
const OUT = ["internet_out", "base_station_out"];

const sum = (values, names) => names.reduce((all, name) => all + (values?.[name] ?? 0), 0);

// The differences of all counters of two answers, per second of the node's own clock. None if it restarted.
export function rates(before, after, seconds) {
  if (!before || !after || !(seconds > 0)) return null;
  const result = {};
  for (const [name, value] of Object.entries(after)) {
    if (typeof value === "number") result[name] = Math.max(0, value - (before[name] ?? 0)) / seconds;
    else if (value && typeof value === "object" && !Array.isArray(value)) result[name] = rates(before[name] ?? {}, value, seconds);
  }
  return result;
}

// Remembers counters by name, and gives their rates between the two newest answers.
export class Rates {
  #last = new Map();

  of(name, uptime, counters) {
    const last = this.#last.get(name);
    if (!counters || !Number.isFinite(uptime)) {
      this.#last.delete(name);
      return null;
    }
    if (last && last.uptime === uptime) return last.rates;
    const result = last ? rates(last.counters, counters, uptime - last.uptime) : null;
    this.#last.set(name, { uptime, counters, rates: result });
    return result;
  }
}

// What a node counts, and its sums.
export const traffic = (counters) => counters && {
  in: sum(counters, IN),
  out: sum(counters, OUT),
  fabric: counters.fabric_out ?? 0,
  dropped: Object.values(counters.dropped ?? {}).reduce((all, value) => all + value, 0),
};

function stateOf(process, member, drained) {
  if (member && !member.is_alive) return ["dead", "dead"];
  if (process?.was_asked && !process.is_answering) return ["silent", "no answer"];
  if (member?.suspended_for?.length) return ["unfit", `unfit: ${member.suspended_for.join(", ")}`];
  const status = process?.is_answering ? process.status : null;
  if (status?.reasons?.length) return ["unfit", `not ready: ${status.reasons.map((reason) => reason.reason).join(", ")}`];
  if (status && status.state !== "ready") return ["unfit", String(status.state)];
  if (drained) return ["drained", "drained"];
  if (!process) return member ? ["silent", "alive, not asked"] : ["silent", "unknown"];
  return process.is_answering ? ["ready", "ready"] : ["silent", "asking…"];
}

const WORST = ["direct", "relayed", "none"];
const wayOf = (peer) => (peer.via !== null && peer.via !== undefined ? "relayed" : peer.is_reached ? "direct" : "none");

// The links between living nodes: the worse of both directions.
function linksOf(nodes) {
  const alive = new Set(nodes.filter((node) => node.kind !== "dead").map((node) => node.number));
  const links = new Map();
  for (const node of nodes.filter((each) => each.process?.is_answering)) {
    for (const peer of node.process.status?.fabric ?? []) {
      if (!alive.has(peer.node)) continue;
      const ends = [node.number, peer.node].sort((a, b) => a - b);
      const way = wayOf(peer);
      const known = links.get(ends.join());
      const via = peer.via ?? known?.via ?? null;
      if (!known || WORST.indexOf(way) >= WORST.indexOf(known.way)) links.set(ends.join(), { ends, way, via });
    }
  }
  return [...links.values()];
}

export class Cluster {
  #rates = new Rates();
  view = null;
  nodes = [];
  links = [];
  drops = [];

  // Takes an answer of /api/nodes.
  update({ cluster, nodes }) {
    this.view = cluster;
    const members = new Map((cluster?.members ?? []).map((member) => [member.node, member]));
    const drained = new Set(cluster?.drained ?? []);
    const merged = nodes.map((process) => {
      const number = process.status?.node ?? null;
      const member = members.get(number) ?? null;
      members.delete(number);
      return { key: `p${process.id}`, number, process, member };
    });
    for (const [number, member] of members) merged.push({ key: `m${number}`, number, process: null, member });
    for (const node of merged) {
      const stats = node.process?.stats;
      [node.kind, node.state] = stateOf(node.process, node.member, drained.has(node.number));
      node.name = node.number === null ? node.process.target : `node ${node.number}`;
      node.rates = this.#rates.of(node.key, stats?.uptime_s, stats?.total);
      node.traffic = traffic(node.rates);
      node.isDrained = drained.has(node.number);
    }
    this.nodes = merged.sort((a, b) => (a.number ?? 1e9) - (b.number ?? 1e9) || a.key.localeCompare(b.key));
    this.links = linksOf(this.nodes);
    this.drops = this.#drops();
    return this;
  }

  #drops() {
    const reasons = new Map();
    for (const node of this.nodes) {
      for (const [reason, packets] of Object.entries(node.process?.stats?.total?.dropped ?? {})) {
        if (packets === 0) continue;
        const entry = reasons.get(reason) ?? { reason, packets: 0, rate: 0, nodes: [] };
        entry.packets += packets;
        entry.rate += node.rates?.dropped?.[reason] ?? 0;
        entry.nodes.push(node.number);
        reasons.set(reason, entry);
      }
    }
    return [...reasons.values()].sort((a, b) => b.packets - a.packets);
  }

  byNumber(number) {
    return this.nodes.find((node) => node.number === number) ?? null;
  }

  byKey(key) {
    return this.nodes.find((node) => node.key === key) ?? null;
  }

  // Sums of the rates of all nodes that answer.
  get total() {
    const all = this.nodes.map((node) => node.traffic).filter(Boolean);
    const add = (name) => (all.length ? all.reduce((value, each) => value + each[name], 0) : null);
    return { in: add("in"), out: add("out"), fabric: add("fabric"), dropped: add("dropped") };
  }
}
