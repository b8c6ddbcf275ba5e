//! `ARPQuerier`.

use crate::arp_messages::{answer, group, question};
use crate::columns::DstIp;
use crate::resolver::{Discovery, Heard, LinkWay};
use crate::values::{Interface, Ip, Mac, broadcast};
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::ETHERTYPE_IPV4;
use std::net::Ipv4Addr;

crate::resolver_class::resolver! {
    /// Adds Ethernet headers to IPv4 packets, with the MAC addresses of their next hops, which it resolves by ARP (RFC
    /// 826). Packets wait during resolution. A request is repeated every second, three times in total; then the packets
    /// are dropped. Only answers from hosts that were asked count, so unsolicited messages cannot fill the table.
    /// Packets to 255.255.255.255 and to the network's broadcast address are broadcast; packets to groups are sent as
    /// in RFC 1112 §6.4.
    pub struct ARPQuerier as "ARPQuerier" { ArpLink }
    inputs {
        "ip": "IPv4 packets.",
        "arp": "ARP replies, with their Ethernet headers. They end here.",
    }
    requests "ARP requests; if unconnected, they leave by output 0.",
    params ARPQuerierParams {
        /// The router's address on this network. Its prefix, if given, determines the broadcast address.
        ip: Interface,
        /// The router's MAC address on this network.
        eth: Mac,
        /// The network's broadcast address.
        broadcast: Option<Ip> = None,
    }
    example { "10.0.0.1/24", "2:0:0:0:0:1", "CAPACITY 9", "ENTRY_PACKET_CAPACITY 3", "ENTRY_CAPACITY 4", }
    reads DstIp,
    bad_reply crate::shared_names::drops::NO_ARP_REPLY,
    link |params| ArpLink {
        ip: params.ip.address,
        mac: params.eth.0,
        broadcast: params.broadcast.map(|ip| ip.0).or_else(|| params.ip.prefix.and_then(broadcast)),
    },
}

/// An interface that uses ARP.
#[derive(Debug)]
pub(crate) struct ArpLink {
    ip: Ipv4Addr,
    mac: MacAddr,
    broadcast: Option<Ipv4Addr>,
}

impl Discovery for ArpLink {
    type Address = Ipv4Addr;
    type Column = DstIp;
    const ETHERTYPE: u16 = ETHERTYPE_IPV4;

    fn mac(&self) -> MacAddr {
        self.mac
    }

    fn way(&self, ip: Ipv4Addr) -> LinkWay {
        if ip.is_broadcast() || self.broadcast == Some(ip) {
            LinkWay::Mac(MacAddr::BROADCAST)
        } else if ip.is_multicast() {
            LinkWay::Mac(group(ip))
        } else if ip.is_unspecified() {
            LinkWay::None
        } else {
            LinkWay::Neighbour
        }
    }

    fn question(&self, ip: Ipv4Addr) -> Vec<u8> {
        question(self.mac, self.ip, ip)
    }

    fn heard(frame: &[u8]) -> Option<Heard<Ipv4Addr>> {
        let arp = answer(frame)?;
        Some(Heard { address: arp.sender_ip, mac: arp.sender_mac, replaces: true })
    }
}

#[cfg(test)]
#[path = "arp_querier_tests.rs"]
mod tests;
