//! External ports, and links to the other nodes.

use super::{Link, Port, sections};
use crate::config::Spanned;
use crate::node::config::{Devices, Network, Problems, is_host};
use scalebricks_apps::switch::text::parse_mac;
use scalebricks_elements::fabric::mac::PORTS;
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The ports, and the links by the other node.
pub(super) fn ports(
    given: Vec<Spanned<sections::Port>>,
    links: Vec<Spanned<sections::Link>>,
    id: usize,
    nodes: usize,
    problems: &mut Problems<'_>,
) -> (Vec<Port>, Vec<Link>) {
    if !(1..=PORTS).contains(&given.len()) {
        let what = format!("{} [[port]] sections; a node has 1 to {PORTS} external ports", given.len());
        problems.add(problems.end(), "port", what);
    }
    let (mut devices, mut used) = (Devices::default(), BTreeSet::new());
    let ports = given
        .into_iter()
        .map(|section| {
            let section = section.into_inner();
            devices.add(&section.device, section.vlan.as_ref(), section.mac.as_ref(), problems);
            port(section, &mut used, problems)
        })
        .collect();
    let mut by_node = BTreeMap::new();
    for section in links {
        let span = section.span();
        let section = section.into_inner();
        devices.add(&section.device, section.vlan.as_ref(), None, problems);
        let what = |node| format!("{node} is not another node of the router");
        let node = problems.check(&section.node, "link.node", |node| node < nodes && node != id, what);
        let link = Link {
            node: NodeId::new(u8::try_from(node).unwrap_or(u8::MAX)),
            device: section.device.into_inner(),
            vlan: section.vlan.map(Spanned::into_inner),
        };
        if by_node.insert(node, link).is_some() {
            problems.add(span, "link.node", format!("a second link to node {node}"));
        }
    }
    let missing: Vec<String> = (0..nodes.min(256))
        .filter(|node| *node != id && !by_node.contains_key(node))
        .map(|node| node.to_string())
        .collect();
    if !missing.is_empty() {
        let what = format!("no [[link]] to node {}: the nodes are a full mesh", missing.join(", "));
        problems.add(problems.end(), "link", what);
    }
    (ports, by_node.into_values().collect())
}

fn port(section: sections::Port, used: &mut BTreeSet<IpAddr>, problems: &mut Problems<'_>) -> Port {
    let mac = section.mac.as_ref().and_then(|text| parse_mac(text.get_ref()));
    let mut addresses = Vec::new();
    for text in &section.addresses {
        let Some(Network(address, length)) = problems.parse(text, "port.addresses") else { continue };
        if !is_host(address) {
            problems.add(text.span(), "port.addresses", format!("{address} is not the address of a host"));
        } else if !used.insert(address) {
            problems.add(text.span(), "port.addresses", format!("{address} occurs twice"));
        }
        addresses.push((address, length));
    }
    let of_ipv4 = addresses.iter().filter(|(address, _)| address.is_ipv4()).count();
    if of_ipv4 != 1 || addresses.len() > 2 {
        let what = "a port has one IPv4 address, like \"192.0.2.1/24\", and at most one IPv6 address";
        problems.add(section.device.span(), "port.addresses", what);
    }
    Port { device: section.device.into_inner(), mac, vlan: section.vlan.map(Spanned::into_inner), addresses }
}
