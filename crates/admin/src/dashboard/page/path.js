// Follows a packet from node to node: each traces the frame that the one before would send. Nothing is sent.

import { ask } from "./api.js";
import { el } from "./dom.js";

// A packet crosses the fabric once, or twice with VLB and hash partition; more would be a loop.
const MOST_NODES = 4;

const named = (hint) => (hint.node === null ? "names no node" : `names node ${hint.node}`);

function flowText({ node, base_station: station, downlink_teid: teid, qfi }) {
  return `pinned to node ${node}, base station ${station}, downlink TEID 0x${teid.toString(16)}${qfi === null ? "" : `, QFI ${qfi}`}`;
}

// The stations of a trace at one node: {kind, title, texts}.
function stations(trace, isFirst) {
  const here = `node ${trace.node}`;
  const arrival = isFirst ? { kind: "ingress", title: `Enters at ${here}`, texts: [`port ${trace.port}`] }
    : { kind: "arrival", title: `Crosses the fabric to ${here}`, texts: [] };
  arrival.texts.push(...trace.steps.filter(({ at }) => at.endsWith("ip")).map(({ at, found }) => `${at}: ${found}`));
  const found = [arrival];
  if (isFirst && trace.key) arrival.texts.push(`key: ${trace.key.text}`);
  if (trace.gpt && isFirst) found.push({ kind: "gpt", title: `GPT of ${here}`, texts: [named(trace.gpt)] });
  if (trace.lookup) found.push({ kind: "lookup", title: `Lookup table of ${here}`, texts: [named(trace.lookup)] });
  if (trace.flow) found.push({ kind: "handling", title: `Handling node: ${here}`, texts: [`FIB: ${flowText(trace.flow)}`] });
  return found;
}

const PORTS = { internet: "Leaves to the Internet", "base-station": "Leaves to the base station" };

function ending(trace) {
  if (trace.dropped) {
    return { kind: "dropped", title: `Dropped at node ${trace.node}`, texts: [trace.dropped.reason, trace.dropped.meaning] };
  }
  const output = trace.outputs[0];
  if (!output) return { kind: "unknown", title: `Nothing leaves node ${trace.node}`, texts: [trace.verdict] };
  return { kind: "output", title: PORTS[output.port] ?? `Leaves at port ${output.port}`, texts: [output.summary] };
}

// Traces a packet from a node on. Returns the stations, and the pairs of nodes between which it crosses the fabric.
export async function follow(cluster, node, packet) {
  const path = [];
  const crossings = [];
  for (let hop = 0; hop < MOST_NODES; hop += 1) {
    const trace = await ask(`/api/nodes/${node.process.id}/trace`, { packet });
    path.push(...stations(trace, hop === 0));
    const across = trace.outputs.find((output) => output.what.kind === "fabric");
    if (!across || trace.dropped) {
      path.push(ending(trace));
      return { path, crossings };
    }
    const next = cluster.byNumber(across.what.node);
    crossings.push([trace.node, across.what.node]);
    if (!next?.process?.is_answering) {
      const texts = [`It does not answer, so what it does with the packet is not known. ${across.summary}`];
      path.push({ kind: "unknown", title: `Crosses the fabric to node ${across.what.node}`, texts });
      return { path, crossings };
    }
    node = next;
    packet = { kind: "frame", port: "fabric", frame_hex: across.frame_hex, readdress: false };
  }
  path.push({ kind: "unknown", title: "Crosses the fabric again", texts: [`Not followed further than ${MOST_NODES} nodes.`] });
  return { path, crossings };
}

export function drawPath(list, path) {
  list.replaceChildren(...path.map(({ kind, title, texts }) =>
    el("li", { class: kind }, el("h4", {}, title), ...texts.map((text) => el("p", {}, text)))));
  list.hidden = path.length === 0;
}
