//! `IPRoute`.

use crate::capture_source::note_link;
use crate::header;
use crate::header6;
use crate::next_hops::{ADDRESSES, Hop, Names, NextHops, nanoseconds};
use crate::values::{Ip6s, Mac, Prefixes, broadcast};
use scalebricks_graph::{Bursts, Chunk, Class, Control, Element, Frame, Graph, Out, element};
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::{self, HEADER_LEN};
use scalebricks_wire::{ipv4, ipv6, protocol};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

element! {
    /// Forwards a burst of Ethernet frames with IP packets in one loop: header check, TTL or hop limit, checksum, route
    /// lookup of all packets at once, MAC addresses of the next hop. It stands between a port and the elements that do the
    /// same for single packets, and gives their result. Everything unusual goes to them unchanged by output 0: other
    /// frames, options, invalid or expired packets, packets longer than the MTU, for the router or back to their port,
    /// without a route, or whose next hop is not resolved. It uses the routes and the neighbours of those elements, which
    /// it finds by name. Output N is port N, to which routes with output N lead; output 0 of the routes is the router.
    pub struct IPRoute<P> as "IPRoute" {
        port: u16, eth: MacAddr, mtu: usize, bad: BadSources, bad6: Vec<Ipv6Addr>,
        names: Names, names6: Option<Names>,
        hops: Option<NextHops<Ipv4Addr>>, hops6: Option<NextHops<Ipv6Addr>>, fault: Option<String>,
        packets: std::marker::PhantomData<fn(P)>,
    }
    inputs { burst "in": "Frames from a port.", }
    outputs {
        push "slow": "Frames that it does not forward.",
        burst "ports" [OneOrMore]: "Frames for the port of this number.",
    }
    params IPRouteParams {
        /// The number of the port that the frames come from. Routes back to it are not fast, since they may cause a
        /// redirect.
        port: u16,
        /// The port's MAC address.
        eth: Mac,
        /// The element with the IPv4 routes, such as `DirectIPLookup`.
        routes: String,
        /// The `ARPQuerier` of each port, from port 1 on.
        arp: String,
        /// The `LookupIP6Route` with the IPv6 routes.
        routes6: Option<String> = None,
        /// The `IP6NDSolicitor` of each port, from port 1 on.
        nd: Option<String> = None,
        /// The router's addresses, as for `CheckIPHeader`: packets from their networks' broadcast addresses are invalid.
        interfaces: Option<Prefixes> = None,
        /// Invalid IPv6 sources, as for `CheckIP6Header`.
        badaddrs: Option<Ip6s> = None,
        /// Longest packet.
        mtu: usize = 1_500,
    }
    example { "1", "2:0:0:0:0:1", "routes", "arp1 arp2", "routes6", "nd1 nd2", "INTERFACES 10.0.0.1/24", }
    counters { FORWARDED = "forwarded": "Packets forwarded; all others left by output 0.", }
    hooks { Between, }
}

impl<P: PacketBuf> Class for IPRoute<P> {
    fn make(params: IPRouteParams) -> Result<Self, String> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let names6 = match (params.routes6, params.nd) {
            (Some(routes), Some(nd)) => Some(Names { routes, neighbours: words(&nd) }),
            (None, None) => None,
            _ => return Err("ROUTES6 and ND belong together".to_owned()),
        };
        let interfaces = params.interfaces.unwrap_or_default().0;
        let mut bad = vec![Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST];
        bad.extend(interfaces.into_iter().filter_map(broadcast));
        Ok(Self {
            port: params.port,
            eth: params.eth.0,
            mtu: params.mtu,
            bad: BadSources::new(bad),
            bad6: params.badaddrs.unwrap_or_default().0,
            names: Names { routes: params.routes, neighbours: words(&params.arp) },
            names6,
            hops: None,
            hops6: None,
            fault: None,
            packets: std::marker::PhantomData,
        })
    }
}

impl<P: PacketBuf + 'static> Control for IPRoute<P> {}

/// Addresses that are no sources, with one bit for each value of the last six bits: few packets have to be compared with
/// all of them.
#[derive(Debug)]
struct BadSources {
    endings: u64,
    all: Vec<Ipv4Addr>,
}

impl BadSources {
    fn new(all: Vec<Ipv4Addr>) -> Self {
        let endings = all.iter().fold(0, |bits, address| bits | Self::ending(*address));
        Self { endings, all }
    }

    #[inline(always)]
    const fn ending(address: Ipv4Addr) -> u64 {
        1 << (address.octets()[3] & 63)
    }

    #[inline(always)]
    fn contains(&self, address: Ipv4Addr) -> bool {
        self.endings & Self::ending(address) != 0 && self.all.contains(&address)
    }
}

/// A frame that may be fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plain {
    No,
    V4,
    V6,
}

/// What the first pass over a burst finds.
struct Batch<A> {
    addresses: [A; BURST],
    len: usize,
}

impl<A: Copy> Batch<A> {
    const fn new(any: A) -> Self {
        Self { addresses: [any; BURST], len: 0 }
    }

    #[inline(always)]
    fn push(&mut self, address: A) {
        self.addresses[self.len % BURST] = address;
        self.len += 1;
    }
}

/// Whether the checksum of a header without options is right: the same as `ipv4::header_checksum_ok`, by words.
#[inline(always)]
fn is_sum_right(header: &[u8; ipv4::MIN_HEADER_LEN]) -> bool {
    let mut sum = 0u64;
    for word in header.as_chunks::<4>().0 {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum == 0xffff
}

impl<P: PacketBuf> IPRoute<P> {
    /// The destination of a frame that may be fast.
    #[inline(always)]
    fn plain(&self, bytes: &[u8], own: u64, v4: &mut Batch<Ipv4Addr>, v6: &mut Batch<Ipv6Addr>) -> Plain {
        if ethernet::destination_bits(bytes) != Some(own) {
            return Plain::No;
        }
        let Some((front, packet)) = bytes.split_first_chunk::<HEADER_LEN>() else { return Plain::No };
        match [front[12], front[13]] {
            [0x08, 0x00] => match self.plain4(packet) {
                Some(dst) => {
                    v4.push(dst);
                    Plain::V4
                }
                None => Plain::No,
            },
            [0x86, 0xdd] => match self.plain6(packet) {
                Some(dst) => {
                    v6.push(dst);
                    Plain::V6
                }
                None => Plain::No,
            },
            _ => Plain::No,
        }
    }

    #[inline(always)]
    fn plain4(&self, packet: &[u8]) -> Option<Ipv4Addr> {
        let header: &[u8; ipv4::MIN_HEADER_LEN] = packet.first_chunk()?;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let offset = usize::from(u16::from_be_bytes([header[6], header[7]]) & 0x1fff) * 8;
        let fits =
            (ipv4::MIN_HEADER_LEN..=packet.len().min(self.mtu)).contains(&total) && offset + total <= 0xffff;
        let [.., a, b, c, d, e, f, g, h] = *header;
        let is_plain = header[0] == 0x45 && header[8] > 1 && fits && is_sum_right(header);
        let is_from_host = !self.bad.contains(Ipv4Addr::new(a, b, c, d));
        (is_plain && is_from_host).then_some(Ipv4Addr::new(e, f, g, h))
    }

    #[inline]
    fn plain6(&self, packet: &[u8]) -> Option<Ipv6Addr> {
        let (header, total) = header6::check(packet).ok()?;
        let (limit, next) = (header[header6::HOP_LIMIT], header[6]);
        // Neighbour discovery.
        let is_local = next == protocol::ICMPV6 && limit == 255;
        let src = header6::src(header);
        let is_plain = limit > 1 && total <= self.mtu && !is_local;
        let is_from_host = !src.is_multicast() && !self.bad6.contains(&src);
        (is_plain && is_from_host).then(|| header6::dst(header))
    }

    /// Forwards or sorts out one burst.
    #[inline(always)]
    fn forward(&mut self, chunk: &mut Chunk<P>, now: u64, frame: &mut Frame<P>, out: &mut Out<'_>) -> u64 {
        let own = self.eth.bits();
        let (mut v4, mut v6) = (Batch::new(Ipv4Addr::UNSPECIFIED), Batch::new(Ipv6Addr::UNSPECIFIED));
        let mut kinds = [Plain::No; BURST];
        for (kind, packet) in kinds.iter_mut().zip(&chunk.packets) {
            *kind = self.plain(packet.data(), own, &mut v4, &mut v6);
        }
        let (mut found4, mut found6) = ([None; BURST], [None; BURST]);
        if let Some(hops) = self.hops.as_mut().filter(|_| v4.len > 0) {
            hops.lookup(&v4.addresses[..v4.len], &mut found4);
        }
        if let Some(hops) = self.hops6.as_mut().filter(|_| v6.len > 0) {
            hops.lookup(&v6.addresses[..v6.len], &mut found6);
        }
        let (mut at4, mut at6, mut forwarded) = (0, 0, 0);
        for (packet, kind) in chunk.packets.drain(..).zip(kinds) {
            let hop = match kind {
                Plain::V4 => {
                    at4 += 1;
                    let at = (at4 - 1) % BURST;
                    self.hops.as_ref().and_then(|hops| hops.hop(found4[at], v4.addresses[at], now))
                }
                Plain::V6 => {
                    at6 += 1;
                    let at = (at6 - 1) % BURST;
                    self.hops6.as_ref().and_then(|hops| hops.hop(found6[at], v6.addresses[at], now))
                }
                Plain::No => None,
            };
            match hop.filter(|hop| hop.output != self.port && usize::from(hop.output) < out.outputs()) {
                Some(hop) => {
                    forwarded += 1;
                    send(packet, kind, &hop, frame);
                }
                None => slow(packet, frame, out),
            }
        }
        forwarded
    }
}

/// Rewrites a frame and sends it.
#[inline(always)]
fn send<P: PacketBuf>(mut packet: P, kind: Plain, hop: &Hop, frame: &mut Frame<P>) {
    let len = packet.data().len();
    let mut end = len;
    if let Some((front, rest)) = packet.data_mut().split_first_chunk_mut::<HEADER_LEN>() {
        front[..ADDRESSES].copy_from_slice(&hop.addresses);
        if kind == Plain::V4 {
            if let Some(fixed) = rest.first_chunk_mut::<{ ipv4::MIN_HEADER_LEN }>() {
                header::set_word(fixed, 8, |word| word - 0x100);
                end = HEADER_LEN + usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
            }
        } else if let Some(fixed) = rest.first_chunk_mut::<{ ipv6::HEADER_LEN }>() {
            fixed[header6::HOP_LIMIT] -= 1;
            end = HEADER_LEN + ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        }
    }
    if end < len {
        packet.truncate(end);
    }
    frame.send(usize::from(hop.output), packet);
}

/// Leaves a frame to other elements.
#[inline(never)]
fn slow<P: PacketBuf>(packet: P, frame: &mut Frame<P>, out: &mut Out<'_>) {
    let Some(slot) = out.put(packet, frame) else { return };
    let (packet, meta) = frame.both_mut(&slot);
    note_link(packet.data(), meta);
    out.push(0, slot);
}

impl<P: PacketBuf + 'static> Element<P> for IPRoute<P> {
    fn burst(&mut self, _: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let is_current = self.hops.as_ref().is_some_and(NextHops::is_current)
            && self.hops6.as_ref().is_none_or(NextHops::is_current);
        if !is_current {
            return bursts.each(|chunk| chunk.packets.drain(..).for_each(|packet| slow(packet, frame, out)));
        }
        let (now, mut forwarded) = (nanoseconds(out.now()), 0);
        bursts.each(|chunk| forwarded += self.forward(chunk, now, frame, out));
        out.count(Self::FORWARDED, forwarded);
    }

    fn between(&mut self, _: &str, graph: &mut Graph<P>, now: Duration) {
        if self.hops.is_none() && self.fault.is_none() {
            match NextHops::of(graph, &self.names) {
                Ok(hops) => self.hops = Some(hops),
                Err(name) => self.fault = Some(format!("{name} is no element with routes or neighbours")),
            }
            match self.names6.as_ref().map(|names| NextHops::of(graph, names)) {
                Some(Ok(hops)) => self.hops6 = Some(hops),
                Some(Err(name)) => {
                    self.fault = Some(format!("{name} is no element with routes or neighbours"));
                }
                None => {}
            }
        }
        if let Some(hops) = &mut self.hops {
            hops.refresh(graph, &self.names, now);
        }
        if let (Some(hops), Some(names)) = (&mut self.hops6, &self.names6) {
            hops.refresh(graph, names, now);
        }
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;
    use proptest::prelude::*;

    proptest! {
        /// The sum by words accepts the headers that the slow check accepts.
        #[test]
        fn sums_are_checked_as_slowly(mut header in any::<[u8; 20]>(), repair in any::<bool>()) {
            header[0] = 0x45;
            if repair {
                header::sum(&mut header);
            }
            prop_assert_eq!(is_sum_right(&header), ipv4::header_checksum_ok(&header));
            prop_assert!(!repair || is_sum_right(&header));
        }
    }

    /// Words of all ones and zeros, where one's-complement sums have two zeros.
    #[test]
    fn sums_at_the_edges_are_checked_as_slowly() {
        for words in 0..1u32 << 10 {
            let mut header = [0; 20];
            (0..10).filter(|at| words & 1 << at != 0).for_each(|at| header[2 * at..2 * at + 2].fill(0xff));
            header[0] = 0x45;
            assert_eq!(is_sum_right(&header), ipv4::header_checksum_ok(&header), "{header:02x?}");
            header::sum(&mut header);
            assert!(is_sum_right(&header), "{header:02x?}");
        }
    }

    #[test]
    fn sources_with_the_ending_of_a_bad_one_are_compared() {
        let bad = ["0.0.0.0", "255.255.255.255", "10.0.0.255"].map(|text| text.parse().unwrap());
        let sources = BadSources::new(bad.to_vec());
        assert!(bad.into_iter().all(|address| sources.contains(address)));
        for good in ["10.0.1.255", "10.0.0.63", "10.0.0.1", "1.0.0.0"] {
            assert!(!sources.contains(good.parse().unwrap()), "{good}");
        }
    }

    #[test]
    fn without_its_elements_everything_is_slow_and_the_user_is_told() {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("r", "IPRoute", &["1", "2:0:0:0:0:1", "none", "ARP none"]);
            builder.chain(&["in", "r", "out0"]).connect("r", 1, "out1", 0);
        });
        rig.turn();
        rig.send([[2; 60]]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.got(1).len()), (1, 0));
        let faults: Vec<_> =
            rig.worker.graph().faults().map(|(name, why)| format!("{name}: {why}")).collect();
        assert_eq!(faults, ["r: none is no element with routes or neighbours"]);
        let built = Rig::with_buffers(5, 2, |builder| {
            builder.declare("r", "IPRoute", &["1", "2:0:0:0:0:1", "none", "ARP none", "ROUTES6 none"]);
            builder.chain(&["in", "r", "out0"]).connect("r", 1, "out1", 0);
        });
        assert!(built.is_err());
    }
}
