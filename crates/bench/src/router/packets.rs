//! Packets that use a table of routes, and checks of those that leave.

use super::table::{RouteTable, Routed, gateway_mac, mac};
use crate::gateway::packet_ring::PacketKind;
use scalebricks_io::PacketBuf;
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, HEADER_LEN, header};
use scalebricks_wire::{ipv4, ipv6};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Bytes of a frame's FCS, which memory does not hold.
const FCS: usize = 4;
/// Bytes that forwarding changes, IPv4 and IPv6.
const FRONT: usize = HEADER_LEN + ipv4::MIN_HEADER_LEN;
const FRONT6: usize = HEADER_LEN + ipv6::HEADER_LEN;
/// Places in the front.
const TOTAL: usize = HEADER_LEN + 2;
const TTL: usize = HEADER_LEN + 8;
const SUM: usize = HEADER_LEN + 10;
const SOURCE_NODE: usize = HEADER_LEN + 14;
const DESTINATION: usize = HEADER_LEN + 16;
const LENGTH6: usize = HEADER_LEN + 4;
const HOP_LIMIT: usize = HEADER_LEN + 7;
const DESTINATION6: usize = HEADER_LEN + 24;

/// The fault of a frame whose length and header disagree.
const SHORT: &str = "a frame of another length";

/// The lengths of frames with FCS, by place in the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lengths {
    /// Their name in results.
    pub(super) name: String,
    frames: Arc<[u16]>,
}

impl Lengths {
    /// All of one length.
    pub(super) fn of(bytes: u16) -> Self {
        Self { name: format!("{bytes} bytes"), frames: Arc::new([bytes]) }
    }

    /// These lengths in turn.
    pub(super) fn mix(name: &str, frames: Vec<u16>) -> Self {
        Self { name: name.to_owned(), frames: frames.into() }
    }

    /// The mean.
    pub(super) fn mean(&self) -> f64 {
        self.frames.iter().map(|&bytes| f64::from(bytes)).sum::<f64>() / self.frames.len() as f64
    }

    /// Bytes in memory of the frame at a place.
    fn at(&self, place: usize) -> usize {
        usize::from(self.frames[place % self.frames.len()]).saturating_sub(FCS)
    }
}

/// What must leave, and where.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    exit: usize,
    front: [u8; HEADER_LEN],
}

/// What happens to the packets.
#[derive(Debug, Clone)]
enum Fate {
    /// They leave as they came by port 2.
    Untouched,
    /// They are routed; by destination.
    Routed(HashMap<Vec<u8>, Leaving>),
    /// They leave by port 2 with other addresses, a decremented TTL and this many more bytes in front of the packet,
    /// which encryption has changed.
    Encrypted(usize),
    /// As the same, encrypted and decrypted again: with other addresses and a TTL decremented twice.
    Restored,
}

/// The headers of all packets.
#[derive(Debug, Clone)]
enum Headers {
    V4 {
        front: [u8; FRONT],
        destinations: Arc<[[u8; 4]]>,
        /// By destination: the sum of the header's words without the total length.
        sums: Arc<[u16]>,
    },
    V6 {
        front: [u8; FRONT6],
        destinations: Arc<[[u8; 16]]>,
    },
}

/// The packets: UDP to the destinations of a table in turn.
#[derive(Debug, Clone)]
pub(super) struct RouterPackets {
    headers: Headers,
    lengths: Lengths,
    fate: Fate,
}

/// The one's-complement sum of two words.
#[inline(always)]
const fn sum(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// Writes octets at a place. One store: copies of slices are calls, and all routers would pay for them.
#[inline(always)]
fn put<const AT: usize, const N: usize, const LEN: usize>(front: &mut [u8; LEN], octets: [u8; N]) {
    if let Some(place) = front[AT..].first_chunk_mut() {
        *place = octets;
    }
}

/// The first header of all packets.
const fn ethernet(kind: u16) -> [u8; HEADER_LEN] {
    header(mac(1), MacAddr([2, 9, 9, 9, 9, 9]), kind)
}

impl RouterPackets {
    fn new(table: &RouteTable<Ipv4Addr>, lengths: &Lengths, fate: Fate) -> Self {
        let destinations = table.destinations.iter().map(|(to, _)| to.octets()).collect();
        Self::between(1, destinations, lengths, fate)
    }

    /// Packets that arrive at this port, or node, to these destinations.
    fn between(from: u8, destinations: Vec<[u8; 4]>, lengths: &Lengths, fate: Fate) -> Self {
        let ip = |dst: [u8; 4]| ipv4::Ipv4Header {
            dscp_ecn: 0,
            total_len: 0,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_units: 0,
            ttl: 64,
            protocol: 17,
            src: Ipv4Addr::new(10, 255, from, 200),
            dst: dst.into(),
        };
        let mut front = [0; FRONT];
        front[..HEADER_LEN].copy_from_slice(&ethernet(ETHERTYPE_IPV4));
        front[HEADER_LEN..].copy_from_slice(&ip([0; 4]).to_bytes());
        let sums = destinations.iter().map(|&dst| {
            let bytes = ip(dst).to_bytes();
            !u16::from_be_bytes([bytes[10], bytes[11]])
        });
        let headers = Headers::V4 { front, sums: sums.collect(), destinations: destinations.into() };
        Self { headers, lengths: lengths.clone(), fate }
    }

    /// Packets that are routed to the table's next hops.
    pub(super) fn routed(table: &RouteTable<Ipv4Addr>, lengths: &Lengths) -> Self {
        Self::new(
            table,
            lengths,
            Self::leaving(table, ETHERTYPE_IPV4, |to| to.octets().to_vec(), |number| number),
        )
    }

    /// Packets that are routed to one next hop per port.
    #[cfg(feature = "dpdk")]
    pub(super) fn routed_by_port(table: &RouteTable<Ipv4Addr>, lengths: &Lengths) -> Self {
        Self::new(table, lengths, Self::leaving(table, ETHERTYPE_IPV4, |to| to.octets().to_vec(), |_| 0))
    }

    /// IPv6 packets that are routed to the table's next hops.
    pub(super) fn routed6(table: &RouteTable<Ipv6Addr>, lengths: &Lengths) -> Self {
        let mut front = [0; FRONT6];
        front[..HEADER_LEN].copy_from_slice(&ethernet(ETHERTYPE_IPV6));
        front[HEADER_LEN] = 0x60;
        // UDP, and a hop limit of 64.
        (front[HEADER_LEN + 6], front[HOP_LIMIT]) = (17, 64);
        front[HEADER_LEN + 8..DESTINATION6].copy_from_slice(&Ipv6Addr::gateway(1, 200).octets());
        let destinations = table.destinations.iter().map(|(to, _)| to.octets()).collect();
        let fate = Self::leaving(table, ETHERTYPE_IPV6, |to| to.octets().to_vec(), |number| number);
        Self { headers: Headers::V6 { front, destinations }, lengths: lengths.clone(), fate }
    }

    fn leaving<A: Routed>(
        table: &RouteTable<A>,
        kind: u16,
        octets: impl Fn(A) -> Vec<u8>,
        number: impl Fn(usize) -> usize,
    ) -> Fate {
        let leaving = table.destinations.iter().map(|(to, hop)| {
            let front = header(gateway_mac(hop.port, number(hop.number)), mac(hop.port), kind);
            (octets(*to), Leaving { exit: hop.port, front })
        });
        Fate::Routed(leaving.collect())
    }

    /// Packets that arrive at a node of a cluster, to these destinations: the node by which each leaves, and the Ethernet
    /// header that it then has.
    pub(super) fn through_cluster(
        node: u8,
        destinations: impl Iterator<Item = (Ipv4Addr, usize, [u8; HEADER_LEN])>,
        lengths: &Lengths,
    ) -> Self {
        let all: Vec<_> =
            destinations.map(|(to, exit, front)| (to.octets(), Leaving { exit, front })).collect();
        let addresses = all.iter().map(|(to, _)| *to).collect();
        let leaving = all.into_iter().map(|(to, leaving)| (to.to_vec(), leaving)).collect();
        Self::between(node, addresses, lengths, Fate::Routed(leaving))
    }

    /// Packets that are forwarded untouched from port 1 to port 2.
    pub(super) fn untouched(table: &RouteTable<Ipv4Addr>, lengths: &Lengths) -> Self {
        Self::new(table, lengths, Fate::Untouched)
    }

    /// Packets that are encrypted, with this many bytes of outer headers.
    pub(super) fn encrypted(table: &RouteTable<Ipv4Addr>, lengths: &Lengths, front: usize) -> Self {
        Self::new(table, lengths, Fate::Encrypted(front))
    }

    /// Packets that are encrypted and decrypted.
    pub(super) fn restored(table: &RouteTable<Ipv4Addr>, lengths: &Lengths) -> Self {
        Self::new(table, lengths, Fate::Restored)
    }

    /// Number of distinct packets.
    pub(super) fn len(&self) -> usize {
        match &self.headers {
            Headers::V4 { destinations, .. } => destinations.len(),
            Headers::V6 { destinations, .. } => destinations.len(),
        }
    }

    /// The node of [`Self::through_cluster`] at which a frame has arrived.
    #[inline]
    pub(super) fn node_of(frame: &[u8]) -> usize {
        frame.get(SOURCE_NODE).map_or(0, |&node| node.into())
    }

    /// Mean bytes of a frame with its FCS.
    pub(super) fn frame_bytes(&self) -> f64 {
        self.lengths.mean()
    }
}

impl PacketKind for Arc<RouterPackets> {
    /// The port.
    type Exit = usize;

    fn count(&self) -> usize {
        self.len()
    }

    fn room(&self, place: usize) -> usize {
        self.lengths.at(place)
    }

    /// The packet keeps its length.
    #[inline]
    fn renew<P: PacketBuf>(&self, packet: &mut P, number: usize) {
        if let Fate::Encrypted(front) = self.fate {
            super::ipsec::shrink(packet, front);
        }
        let total = (packet.data().len() - HEADER_LEN) as u16; // at most a frame
        match &self.headers {
            Headers::V4 { front: new, destinations, sums } => {
                if let Some(front) = packet.data_mut().first_chunk_mut::<FRONT>() {
                    *front = *new;
                    put::<TOTAL, _, _>(front, total.to_be_bytes());
                    put::<SUM, _, _>(front, (!sum(sums[number], total)).to_be_bytes());
                    put::<DESTINATION, _, _>(front, destinations[number]);
                }
            }
            Headers::V6 { front: new, destinations } => {
                let payload = total.saturating_sub(ipv6::HEADER_LEN as u16); // 40
                if let Some(front) = packet.data_mut().first_chunk_mut::<FRONT6>() {
                    *front = *new;
                    put::<LENGTH6, _, _>(front, payload.to_be_bytes());
                    put::<DESTINATION6, _, _>(front, destinations[number]);
                }
            }
        }
    }

    fn fault(&self, exit: usize, frame: &[u8]) -> Option<&'static str> {
        let is_v6 = matches!(self.headers, Headers::V6 { .. });
        let (length, dst, ttl) = if is_v6 {
            let Some(front) = frame.first_chunk::<FRONT6>() else { return Some(SHORT) };
            let payload = usize::from(u16::from_be_bytes([front[LENGTH6], front[LENGTH6 + 1]]));
            (FRONT6 + payload, &front[DESTINATION6..], front[HOP_LIMIT])
        } else {
            let Some(front) = frame.first_chunk::<FRONT>() else { return Some(SHORT) };
            let total = usize::from(u16::from_be_bytes([front[TOTAL], front[TOTAL + 1]]));
            (HEADER_LEN + total, &front[DESTINATION..], front[TTL])
        };
        match &self.fate {
            _ if length != frame.len() => Some(SHORT),
            _ if !is_v6 && !ipv4::header_checksum_ok(&frame[HEADER_LEN..FRONT]) => Some("a wrong checksum"),
            Fate::Untouched => {
                let is_same = frame[..HEADER_LEN] == ethernet(ETHERTYPE_IPV4) && ttl == 64 && exit == 2;
                (!is_same).then_some("a changed frame, or another port")
            }
            Fate::Routed(hops) => {
                let Some(leaving) = hops.get(dst) else { return Some("an unknown destination") };
                match () {
                    () if exit != leaving.exit => Some("another port than that of the longest prefix"),
                    () if frame[..HEADER_LEN] != leaving.front => Some("another next hop"),
                    () if ttl != 63 => Some("a wrong TTL"),
                    () => None,
                }
            }
            Fate::Encrypted(_) => super::ipsec::outer_fault(exit, frame),
            Fate::Restored => match () {
                () if exit != 2 => Some("another port"),
                () if ttl != 62 => Some("a wrong TTL"),
                () if !frame[FRONT..].iter().all(|&byte| byte == 0xAB) => Some("another payload"),
                () => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::packet_slab::{Slab, SlabPacket};

    fn packet(kind: &Arc<RouterPackets>, number: usize) -> SlabPacket {
        let mut packet = Slab::new(1).packets.remove(0);
        packet.append(&[0xAB; 2000][..kind.room(number)]).unwrap();
        kind.renew(&mut packet, number);
        packet
    }

    fn table<A: Routed>() -> RouteTable<A> {
        RouteTable::new(Vec::new(), 500, 64).unwrap()
    }

    /// Forwards a packet right, and then spoils one byte.
    fn faults<A: Routed>(
        kind: &Arc<RouterPackets>,
        table: &RouteTable<A>,
        sum: Option<usize>,
        ttl: usize,
    ) -> Vec<Option<&'static str>> {
        let (_, hop) = table.destinations[5];
        let forwarded = |spoil: Option<usize>, exit: usize| {
            let mut packet = packet(kind, 5);
            let data = packet.data_mut();
            data[..6].copy_from_slice(&gateway_mac(hop.port, hop.number).0);
            data[6..12].copy_from_slice(&mac(hop.port).0);
            data[ttl] -= 1;
            if let Some(sum) = sum {
                // The sum of a header whose high byte became smaller by one.
                let word = u16::from_be_bytes([data[sum], data[sum + 1]]);
                data[sum..sum + 2].copy_from_slice(&super::sum(word, 0x100).to_be_bytes());
            }
            if let Some(spoil) = spoil {
                data[spoil] ^= 1;
            }
            kind.fault(exit, packet.data())
        };
        let other = hop.port % 4 + 1;
        vec![
            forwarded(None, hop.port),
            forwarded(None, other),
            forwarded(Some(0), hop.port),
            forwarded(Some(ttl), hop.port),
            forwarded(Some(ttl + 9), hop.port),
        ]
    }

    #[test]
    fn what_was_routed_wrong_is_found() {
        for lengths in [Lengths::of(64), Lengths::mix("mix", vec![64, 594, 1518])] {
            let table4 = table::<Ipv4Addr>();
            let kind = Arc::new(RouterPackets::routed(&table4, &lengths));
            let found = faults(&kind, &table4, Some(SUM), TTL);
            assert_eq!(
                found[..3],
                [None, Some("another port than that of the longest prefix"), Some("another next hop")]
            );
            assert_eq!(found[3..], [Some("a wrong checksum"); 2]);
            let table6 = table::<Ipv6Addr>();
            let kind = Arc::new(RouterPackets::routed6(&table6, &lengths));
            let found = faults(&kind, &table6, None, HOP_LIMIT);
            assert_eq!(
                found[..4],
                [
                    None,
                    Some("another port than that of the longest prefix"),
                    Some("another next hop"),
                    Some("a wrong TTL")
                ]
            );
            let mut cut = packet(&kind, 0);
            cut.truncate(58);
            assert_eq!(kind.fault(2, cut.data()), Some(SHORT));
        }
    }

    #[test]
    fn an_encrypted_packet_becomes_as_long_as_it_was() {
        let kind = Arc::new(RouterPackets::encrypted(&table(), &Lengths::of(128), 36));
        let mut packet = packet(&kind, 0);
        let before = packet.data().to_vec();
        // What a tunnel adds in front and behind.
        packet.prepend(36).unwrap();
        packet.append(&[7; 22]).unwrap();
        assert_eq!(kind.fault(2, packet.data()), Some(SHORT));
        kind.renew(&mut packet, 0);
        assert_eq!(packet.data(), before);
    }
}
