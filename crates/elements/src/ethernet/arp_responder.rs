//! `ARPResponder`.

use crate::shared_names::counters;
use crate::side_output::SideOutput;
use crate::values::{Mac, value};
use scalebricks_click::values::Prefix;
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{Class, Control, HandlerId, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::arp::{Arp, MESSAGE_LEN, Operation};
use scalebricks_wire::ethernet::{ETHERTYPE_ARP, HEADER_LEN, header};
use scalebricks_wire::{MacAddr, parse_frame};
use std::net::Ipv4Addr;

element! {
    /// Turns ARP requests for configured addresses into replies (RFC 826): for the router's own addresses, and for
    /// others as proxy. Of several matching networks the longest prefix counts. Requests for other addresses, and
    /// packets that are not requests, go to output 1.
    pub struct ARPResponder as "ARPResponder" { entries: Vec<(Prefix, MacAddr)>, side: SideOutput, }
    inputs { agnostic "in": "ARP requests, with their Ethernet headers.", }
    outputs { agnostic "out": "Replies.", push "other" [Optional]: "Packets without a reply; dropped if unconnected.", }
    params ARPResponderParams {
        /// Addresses and networks, each with the MAC address to answer.
        entries: Vec<Entry> = Vec::new(),
    }
    example { "10.0.0.0/8 2:0:0:0:0:1", }
    drops {
        NOT_KNOWN = "unknown_address": "The requested address is not configured.",
        NO_REQUEST = "no_request": "The packet is not an ARP request over Ethernet from a single host.",
    }
    counters { REPLIES = counters::REPLIES, }
    handlers {
        read TABLE = "table": "Networks and their MAC addresses, one per line.",
        write ADD = "add": "Adds networks and their MAC address, replacing existing entries: `IP/MASK… ETH`.",
        write REMOVE = "remove": "Forgets networks: `IP/MASK…`.",
    }
    binds { side, }
}

/// Networks, and the MAC address of all hosts in them.
#[derive(Debug, Clone)]
pub struct Entry {
    prefixes: Vec<Prefix>,
    mac: MacAddr,
}

impl Param for Entry {
    const KIND: &'static str = "IP addresses or prefixes and a MAC address";

    fn read(text: &str) -> Option<Self> {
        let (prefixes, mac) = text.trim().rsplit_once(char::is_whitespace)?;
        Some(Self { prefixes: networks(prefixes)?, mac: Mac::read(mac)?.0 })
    }
}

/// Networks, and addresses, which count as networks of one host.
fn networks(text: &str) -> Option<Vec<Prefix>> {
    let host = |text| value(text).map(|address: Ipv4Addr| Prefix { address, length: 32 });
    text.split_whitespace().map(|text| host(text).or_else(|| value(text))).collect()
}

impl ListItem for Entry {
    const KINDS: &'static str = "IP addresses or prefixes and a MAC address, …";
}

impl ARPResponder {
    fn remove(&mut self, networks: &[Prefix]) {
        let is_same = |a: &Prefix, b: &Prefix| a.network() == b.network() && a.length == b.length;
        self.entries.retain(|(there, _)| !networks.iter().any(|network| is_same(network, there)));
    }

    fn add(&mut self, entry: Entry) {
        self.remove(&entry.prefixes);
        self.entries.extend(entry.prefixes.into_iter().map(|prefix| (prefix, entry.mac)));
        self.entries.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.length));
    }
}

impl Class for ARPResponder {
    fn make(params: ARPResponderParams) -> Result<Self, String> {
        let mut responder = Self { entries: Vec::new(), side: SideOutput::default() };
        // If a network is given twice, the first entry counts.
        params.entries.into_iter().rev().for_each(|entry| responder.add(entry));
        Ok(responder)
    }
}

impl Control for ARPResponder {
    fn read(&self, _: HandlerId) -> String {
        let lines: Vec<String> = self.entries.iter().map(|(prefix, mac)| format!("{prefix} {mac}")).collect();
        lines.join("\n")
    }

    fn write(&mut self, handler: HandlerId, text: &str) -> Result<(), HandlerError> {
        let wrong = || HandlerError::Value(format!("no networks: {text:?}"));
        if handler == Self::ADD {
            self.add(Entry::read(text).ok_or_else(wrong)?);
        } else {
            self.remove(&networks(text).ok_or_else(wrong)?);
        }
        Ok(())
    }
}

/// The ARP request in an untagged Ethernet frame, if it is one.
fn request(frame: &[u8]) -> Option<Arp> {
    let is_arp = parse_frame(frame)
        .is_ok_and(|frame| frame.ethertype == ETHERTYPE_ARP && frame.l3_offset == HEADER_LEN);
    let arp = Arp::parse(frame.get(HEADER_LEN..).filter(|_| is_arp)?).ok()?;
    (arp.operation == Operation::Request && !arp.sender_mac.is_multicast()).then_some(arp)
}

impl<P: PacketBuf> PerPacket<P> for ARPResponder {
    fn each(&mut self, packet: &mut P, _: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        let frame = packet.data_mut();
        let Some(request) = request(frame) else { return self.side.verdict(Self::NO_REQUEST) };
        let entry = self.entries.iter().find(|(prefix, _)| prefix.contains(request.target_ip));
        let Some(&(_, mac)) = entry else { return self.side.verdict(Self::NOT_KNOWN) };
        let Some((front, rest)) = frame.split_first_chunk_mut::<HEADER_LEN>() else {
            return Verdict::Drop(Self::NO_REQUEST);
        };
        let Some(message) = rest.first_chunk_mut::<MESSAGE_LEN>() else {
            return Verdict::Drop(Self::NO_REQUEST);
        };
        *front = header(request.sender_mac, mac, ETHERTYPE_ARP);
        *message = request.reply(mac).to_bytes();
        tally.count(Self::REPLIES, 1);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;

    const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

    fn asks(target: [u8; 4], change: impl FnOnce(&mut Arp)) -> Vec<u8> {
        let mut arp = Arp {
            operation: Operation::Request,
            sender_mac: ASKER,
            sender_ip: [18, 26, 4, 1].into(),
            target_mac: MacAddr([0; 6]),
            target_ip: target.into(),
        };
        change(&mut arp);
        [&header(MacAddr::BROADCAST, ASKER, ETHERTYPE_ARP)[..], &arp.to_bytes(), &[0; 18]].concat()
    }

    const ENTRIES: [&str; 2] = ["18.26.4.24 18.26.7.0/24 00:00:C0:AE:67:EF", "18.26.7.128/25 2:2:2:2:2:2"];

    #[test]
    fn known_addresses_get_replies_of_the_longest_prefix() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("a", "ARPResponder", &ENTRIES).chain(&["in", "a", "out0"]);
        });
        rig.send([
            asks([18, 26, 4, 24], |_| {}),
            asks([18, 26, 7, 200], |_| {}),
            asks([18, 26, 4, 25], |_| {}),
        ]);
        rig.turn();
        let got = rig.got(0);
        let reply = Arp::parse(&got[0][14..]).unwrap();
        let mac = MacAddr([0, 0, 0xc0, 0xae, 0x67, 0xef]);
        assert_eq!(
            (reply.operation, reply.sender_mac, reply.sender_ip),
            (Operation::Reply, mac, [18, 26, 4, 24].into())
        );
        assert_eq!((reply.target_mac, reply.target_ip), (ASKER, [18, 26, 4, 1].into()));
        assert_eq!((got[0].len(), &got[0][..14]), (60, &header(ASKER, mac, ETHERTYPE_ARP)[..]));
        assert_eq!((got.len(), &got[1][6..12]), (2, &[2; 6][..]));
        assert_eq!((rig.number("a", "replies"), rig.number("a", "unknown_address")), (2, 1));
        let table = "18.26.4.24/32 00:00:c0:ae:67:ef\n18.26.7.128/25 02:02:02:02:02:02\n18.26.7.0/24 00:00:c0:ae:67:ef";
        assert_eq!(rig.read("a", "table"), table);
    }

    #[test]
    fn networks_come_and_go() {
        let mut rig = Rig::new(1, |builder| {
            let entries = ["1.0.0.0/24 0:1:2:3:4:6", "1.0.0.2 0:1:2:3:4:5", "1.0.0.2 0:1:2:3:4:7"];
            builder.declare("a", "ARPResponder", &entries).chain(&["in", "a", "out0"]);
        });
        assert_eq!(rig.read("a", "table"), "1.0.0.2/32 00:01:02:03:04:05\n1.0.0.0/24 00:01:02:03:04:06");
        rig.write("a", "remove", "1.0.0.2").unwrap();
        rig.write("a", "add", "1.0.0.0/24 2.0.0.0/8 0:1:2:3:4:8").unwrap();
        assert_eq!(rig.read("a", "table"), "1.0.0.0/24 00:01:02:03:04:08\n2.0.0.0/8 00:01:02:03:04:08");
        assert!(rig.write("a", "add", "1.0.0.0/24").is_err() && rig.write("a", "remove", "x").is_err());
    }

    #[test]
    fn what_is_no_request_gets_no_reply() {
        let mut rig = Rig::new(2, |builder| {
            builder
                .declare("a", "ARPResponder", &ENTRIES)
                .chain(&["in", "a", "out0"])
                .connect("a", 1, "out1", 0);
        });
        let good = asks([18, 26, 4, 24], |_| {});
        let mut ip = good.clone();
        ip[12..14].copy_from_slice(&[8, 0]);
        rig.send([
            ip,
            good[..41].to_vec(),
            asks([18, 26, 4, 24], |arp| arp.operation = Operation::Reply),
            asks([18, 26, 4, 24], |arp| arp.sender_mac = MacAddr::BROADCAST),
            asks([18, 26, 4, 25], |_| {}),
        ]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.got(1).len(), rig.number("a", "no_request")), (0, 5, 0));
    }

    #[test]
    fn entries_have_addresses_and_a_mac_address() {
        for wrong in
            ["", "1.2.3.4", "2:2:2:2:2:2", "1.2.3.4 1.2.3", "1.2.3.4/33 2:2:2:2:2:2", "x 2:2:2:2:2:2"]
        {
            assert!(Entry::read(wrong).is_none(), "{wrong:?}");
        }
    }
}
