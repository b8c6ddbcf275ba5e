//! The ARP messages of `ARPQuerier` (RFC 826), and the MAC addresses of multicast groups.

use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::ethernet::{ETHERTYPE_ARP, HEADER_LEN, header};
use scalebricks_wire::{MacAddr, parse_frame};
use std::net::Ipv4Addr;

/// The Ethernet address of a multicast group (RFC 1112 §6.4).
pub(crate) const fn group(ip: Ipv4Addr) -> MacAddr {
    let [_, b, c, d] = ip.octets();
    MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}

/// A broadcast request for a host's MAC address, as an Ethernet frame.
pub(crate) fn question(sender_mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Vec<u8> {
    let target_mac = MacAddr([0; 6]);
    let arp = Arp { operation: Operation::Request, sender_mac, sender_ip, target_mac, target_ip };
    [&header(MacAddr::BROADCAST, sender_mac, ETHERTYPE_ARP)[..], &arp.to_bytes()].concat()
}

/// The ARP reply in an untagged Ethernet frame, if it names a single host (RFC 1812 §3.3.2).
pub(crate) fn answer(frame: &[u8]) -> Option<Arp> {
    let is_arp = parse_frame(frame)
        .is_ok_and(|frame| frame.ethertype == ETHERTYPE_ARP && frame.l3_offset == HEADER_LEN);
    let arp = Arp::parse(frame.get(HEADER_LEN..).filter(|_| is_arp)?).ok()?;
    (arp.operation == Operation::Reply && !arp.sender_mac.is_multicast()).then_some(arp)
}
