// Finds a flow of the cluster, and traces a packet.

import { ask } from "./api.js";
import { byId, el, facts, reconcile, say, set } from "./dom.js";
import { count } from "./format.js";
import { drawPath, follow } from "./path.js";

const flowForm = byId("flow-form");
const traceForm = byId("trace-form");

const hex = (number) => `0x${Number(number).toString(16)}`;

function number(text, name, most) {
  const value = Number(text.trim());
  if (text.trim() === "" || !Number.isInteger(value) || value < 0 || value > most) {
    throw new Error(`${name}: ${text.trim() || "nothing"} is not a number from 0 to ${most}`);
  }
  return value;
}

// The fields with a text; the TEID alone if it is given.
function flowQuery() {
  const given = [...new FormData(flowForm)].map(([name, text]) => [name, text.trim()]).filter(([, text]) => text);
  const teid = given.filter(([name]) => name === "uplink_teid");
  return new URLSearchParams(teid.length ? teid : given);
}

function showFlow(flow, query) {
  const list = el("dl", { class: "facts" });
  const carried = flow.carried;
  facts(list, [
    ["handling node", `node ${flow.node}`],
    ["base station", flow.base_station],
    ["uplink TEID", hex(flow.uplink_teid)],
    ["downlink TEID", hex(flow.downlink_teid)],
    ["QFI", flow.qfi === null ? "none" : String(flow.qfi)],
    ["downstream", carried && `${count(carried.downstream_packets)} packets, ${count(carried.downstream_bytes)} bytes`],
    ["upstream", carried && `${count(carried.upstream_packets)} packets, ${count(carried.upstream_bytes)} bytes`],
  ]);
  const button = el("button", { type: "button" }, "Trace a packet of this flow");
  button.addEventListener("click", () => {
    const fields = traceForm.elements;
    const ue = query.get("ue");
    fields.kind.value = ue ? "downstream" : "upstream";
    fields.kind.dispatchEvent(new Event("change"));
    fields.teid.value = hex(flow.uplink_teid);
    if (ue) fields.dst.value = ue;
    if (query.get("remote")) fields.src.value = query.get("remote");
    (ue && !query.get("remote") ? fields.src : fields.src.value ? fields.dst : fields.src).focus();
  });
  byId("flow-answer").replaceChildren(list, button);
}

function showProblem(place, error) {
  place.replaceChildren(el("span", { class: "problem" }, `${error.message}`));
}

function packet() {
  const value = (name) => traceForm.elements[name].value.trim();
  const ports = { src_port: number(value("src_port"), "source port", 65535), dst_port: number(value("dst_port"), "destination port", 65535) };
  const protocol = number(value("protocol"), "protocol", 255);
  if (value("kind") === "downstream") return { kind: "downstream", src: value("src"), dst: value("dst"), protocol, ...ports };
  const teid = number(value("teid"), "TEID", 0xffffffff);
  return { kind: "upstream", teid, inner_src: value("src"), inner_dst: value("dst"), protocol, ...ports };
}

// Starts the forms. `cluster` gives the present state, `topology` shows the path too.
export function startSearch(cluster, topology, redraw) {
  flowForm.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = flowQuery();
    try {
      if (!query.size) throw new Error("name the flow by its UE address or its uplink TEID");
      showFlow(await ask(`/api/flow?${query}`), query);
    } catch (error) {
      showProblem(byId("flow-answer"), error);
    }
  });
  traceForm.elements.kind.addEventListener("change", () => {
    const isUp = traceForm.elements.kind.value === "upstream";
    byId("teid-field").hidden = !isUp;
    set(traceForm.elements.src, "placeholder", isUp ? "10.45.0.7" : "192.0.2.1");
    set(traceForm.elements.dst, "placeholder", isUp ? "192.0.2.1" : "10.45.0.7");
  });
  traceForm.addEventListener("submit", async (event) => {
    event.preventDefault();
    const verdict = byId("verdict");
    topology.path.clear();
    drawPath(byId("path"), []);
    try {
      const node = cluster.byKey(traceForm.elements.node.value);
      if (!node) throw new Error("choose the node where the packet enters");
      say(verdict, "Tracing…");
      const { path, crossings } = await follow(cluster, node, packet());
      for (const ends of crossings) topology.path.add([...ends].sort((a, b) => a - b).join());
      drawPath(byId("path"), path);
      say(verdict, path.map(({ title }) => title).join(" → "));
    } catch (error) {
      showProblem(verdict, error);
    }
    redraw();
  });
}

// The nodes where a packet can enter, and the fields that name a flow.
export function drawSearch(cluster) {
  const entries = cluster.nodes.filter((node) => node.process?.is_answering);
  const choice = traceForm.elements.node;
  reconcile(choice, entries, (node) => node.key, (node) => el("option", { value: node.key }), (option, node) => say(option, node.name));
  const key = cluster.view?.key ?? entries[0]?.process.status?.key;
  byId("five-tuple").hidden = key !== "flow5";
}
