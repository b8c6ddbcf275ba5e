//! Answers a trace request: builds the packet, lets the node's own code process it, and formats the result.

mod format;
mod packet;

use super::inspect::TraceError;
use super::model::{Dropped, FlowView, Hint, KeyView, Step, Trace, TraceRequest};
use scalebricks_apps::gateway::NodeTables;
use scalebricks_apps::gateway::trace::{TraceReport, trace as follow};
use scalebricks_elements::gateway::{FlowCount, FlowState, NodeConfig};
use scalebricks_types::NodeId;

/// Traces a packet through a node with this configuration and these tables, with its own readers. The running node is
/// not affected: nothing is sent or counted.
///
/// # Errors
/// [`TraceError`] if the request does not describe a packet.
pub fn answer(config: NodeConfig, tables: NodeTables, request: &TraceRequest) -> Result<Trace, TraceError> {
    let arrival = packet::make(&config, &request.packet)?;
    let (id, profile, gateway) = (config.id, config.policy.key_profile, config.policy.gateway_address);
    let traced = follow(config, tables, arrival.port.port(), &arrival.frame)
        .map_err(|error| TraceError::BadPacket(error.to_string()))?;
    let key = traced.key.map(|(_, hash)| KeyView {
        text: format::key(arrival.port, &arrival.frame, profile),
        hash_hex: format!("{:016x}", hash.get()),
    });
    let outputs: Vec<_> =
        traced.sent.iter().map(|(port, frame)| format::output((*port).into(), frame, gateway)).collect();
    let dropped = traced
        .dropped
        .map(|reason| Dropped { reason: reason.name().to_owned(), meaning: reason.meaning().to_owned() });
    let mut steps = format::headers(arrival.port, &arrival.frame);
    steps.extend(lookups(id, &traced, key.as_ref()));
    steps.extend(outputs.iter().map(|output| step("out", format!("{}: {}", output.port, output.summary))));
    steps.extend(dropped.iter().map(|drop| step("drop", format!("{}: {}", drop.reason, drop.meaning))));
    Ok(Trace {
        node: u16::from(id.get()),
        port: arrival.port,
        frame_hex: hex(&arrival.frame),
        verdict: format::verdict(id, &outputs, dropped.as_ref()),
        steps,
        key,
        gpt: traced.gpt.map(hint),
        lookup: traced.lookup.map(hint),
        flow: traced.flow.map(|(flow, count)| flow_view(&flow, count)),
        outputs,
        dropped,
    })
}

/// The tables' answers as text.
fn lookups(id: NodeId, traced: &TraceReport, key: Option<&KeyView>) -> Vec<Step> {
    let names = |node: Option<NodeId>| match node {
        Some(node) if node == id => format!("node {}, this one", node.get()),
        Some(node) => format!("node {}", node.get()),
        None => "no node".to_owned(),
    };
    let mut steps = Vec::new();
    match key {
        Some(key) => steps.push(step("key", format!("{}, hash {}", key.text, key.hash_hex))),
        None => return vec![step("key", "none: the packet is not steered by a key".to_owned())],
    }
    steps.extend(traced.gpt.map(|node| step("gpt", format!("names {}", names(node)))));
    steps.extend(traced.lookup.map(|node| step("lookup", format!("names {}", names(node)))));
    steps.push(step(
        "fib",
        match &traced.flow {
            None => "does not hold the key".to_owned(),
            Some((flow, count)) => format::flow(flow, *count),
        },
    ));
    steps
}

fn step(at: &str, found: String) -> Step {
    Step { at: at.to_owned(), found }
}

fn hint(node: Option<NodeId>) -> Hint {
    Hint { node: node.map(|node| u16::from(node.get())) }
}

fn flow_view(flow: &FlowState, count: Option<FlowCount>) -> FlowView {
    FlowView {
        node: u16::from(flow.node.get()),
        downlink_teid: flow.teid.get(),
        base_station: flow.base_station.0,
        qfi: flow.qfi.map(scalebricks_types::Qfi::get),
        downstream_packets: count.map(|count| count.downstream_packets),
        downstream_bytes: count.map(|count| count.downstream_bytes),
        upstream_packets: count.map(|count| count.upstream_packets),
        upstream_bytes: count.map(|count| count.upstream_bytes),
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of hexadecimal digits; spaces, colons and line ends are ignored.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().strip_prefix("0x").unwrap_or(text.trim());
    let ignored = |c: &char| !c.is_whitespace() && *c != ':';
    let digits: Vec<u8> =
        digits.chars().filter(ignored).map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_their_digits() {
        assert_eq!(hex(&[0, 0xab, 0xff]), "00abff");
        for text in ["00abff", "0x00ABFF", " 00:ab:ff\n", "00 a b ff"] {
            assert_eq!(unhex(text), Some(vec![0, 0xab, 0xff]), "{text}");
        }
        for text in ["00abf", "0g", "ä0"] {
            assert_eq!(unhex(text), None, "{text}");
        }
        assert_eq!(unhex(""), Some(Vec::new()));
    }
}
