//! The addresses of other nodes on the outside links, which this node takes over when they die.

use super::ports::{is_host, is_in};
use super::{Port, Problems, Role, sections};
use crate::config::Spanned;
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The other nodes' addresses, each with its port: Internet or base stations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeoverFile {
    /// By node; nodes without addresses are left out.
    pub addresses: BTreeMap<NodeId, Vec<(Role, IpAddr)>>,
}

/// Checks the peers' addresses; `None` if there are none, or takeover is off.
pub(super) fn takeover(
    section: &sections::Control,
    ports: &[Port; 3],
    problems: &mut Problems<'_>,
) -> Option<TakeoverFile> {
    let mut addresses: BTreeMap<NodeId, Vec<(Role, IpAddr)>> = BTreeMap::new();
    let own = ports.iter().flat_map(|port| &port.addresses).map(|(address, _)| *address);
    let next_hops = ports.iter().flat_map(|port| &port.gateways).copied();
    let mut used: BTreeSet<IpAddr> = own.chain(next_hops).collect();
    for peer in &section.peer {
        let Ok(node) = u8::try_from(*peer.node.get_ref()).map(NodeId::new) else { continue };
        for (role, key, given) in [
            (Role::Internet, "control.peer.internet", &peer.internet),
            (Role::BaseStation, "control.peer.base_station", &peer.base_station),
        ] {
            let port = ports.iter().find(|port| port.role == role);
            let networks = port.map(|port| port.addresses.as_slice()).unwrap_or_default();
            for address in given {
                match refused(address, networks, &mut used) {
                    Some(what) => problems.add(address.span(), key, what),
                    None => addresses.entry(node).or_default().push((role, *address.get_ref())),
                }
            }
        }
    }
    let wanted = section.takeover.as_ref();
    if let Some(wanted) = wanted.filter(|wanted| *wanted.get_ref() && addresses.is_empty()) {
        let what = "no peer has addresses: set internet = [\"ADDRESS\"], base_station = [\"ADDRESS\"]";
        problems.add(wanted.span(), "control.takeover", what);
    }
    let is_wanted = wanted.is_none_or(|wanted| *wanted.get_ref());
    (is_wanted && !addresses.is_empty()).then_some(TakeoverFile { addresses })
}

/// Why the address of another node is refused.
fn refused(
    address: &Spanned<IpAddr>,
    networks: &[(IpAddr, u8)],
    used: &mut BTreeSet<IpAddr>,
) -> Option<String> {
    let address = *address.get_ref();
    if !is_host(address) || !networks.iter().any(|&(network, length)| is_in(address, network, length)) {
        Some(format!("{address} is not a host address in the networks of this node's port"))
    } else if !used.insert(address) {
        Some(format!("{address} is used twice: by this node, a next hop or another peer"))
    } else {
        None
    }
}
