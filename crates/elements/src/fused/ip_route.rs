//! `IPRoute`.

use crate::burst_headers::{Headers, ROUND, Sorted};
use crate::bypass::Bypass;
use crate::header6;
use crate::next_hops::{Hop, Names, NextHops, nanoseconds};
use crate::plain::{Batch, Plain4, leave, prefetch_first_lines};
use crate::values::{Ip6s, Mac, Prefixes};
use scalebricks_graph::element::BindError;
use scalebricks_graph::{Binder, Bursts, Chunk, Class, Control, Element, Frame, Graph, Out, element};
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_tables::lpm::NextHop;
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::{self, HEADER_LEN};
use scalebricks_wire::{ipv6, protocol};
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
        port: u16, eth: MacAddr, mtu: usize, four: Plain4, bad6: Vec<Ipv6Addr>,
        names: Names, names6: Option<Names>,
        hops: Option<NextHops<Ipv4Addr>>, hops6: Option<NextHops<Ipv6Addr>>, fault: Option<String>,
        headers: Box<Headers>, found: Box<[Option<NextHop>; ROUND]>, outputs: usize,
        bypass: Option<Bypass>, has_left: bool,
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
        Ok(Self {
            port: params.port,
            eth: params.eth.0,
            mtu: params.mtu,
            four: Plain4::new(params.interfaces.unwrap_or_default(), params.mtu),
            bad6: params.badaddrs.unwrap_or_default().0,
            names: Names { routes: params.routes, neighbours: words(&params.arp) },
            names6,
            hops: None,
            hops6: None,
            fault: None,
            headers: Box::default(),
            found: Box::new([None; ROUND]),
            outputs: 0,
            bypass: None,
            has_left: false,
            packets: std::marker::PhantomData,
        })
    }
}

impl<P: PacketBuf + 'static> Control for IPRoute<P> {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.outputs = binder.outputs();
        Ok(())
    }
}

impl<P: PacketBuf> IPRoute<P> {
    /// An element that does the work of others in a graph, for IPv4 alone. Routes with output `port` are not fast.
    pub(crate) fn instead(port: u16, eth: MacAddr, four: Plain4, names: Names, bypass: Bypass) -> Self {
        Self {
            port,
            eth,
            mtu: four.mtu(),
            four,
            bad6: Vec::new(),
            names,
            names6: None,
            hops: None,
            hops6: None,
            fault: None,
            headers: Box::default(),
            found: Box::new([None; ROUND]),
            outputs: 0,
            bypass: Some(bypass),
            has_left: false,
            packets: std::marker::PhantomData,
        }
    }

    /// The destination of an IPv6 frame that may be fast.
    #[inline]
    fn plain6(&self, frame: &[u8]) -> Option<Ipv6Addr> {
        if ethernet::destination_bits(frame) != Some(self.eth.bits()) {
            return None;
        }
        let (front, packet) = frame.split_first_chunk::<HEADER_LEN>()?;
        if [front[12], front[13]] != [0x86, 0xdd] {
            return None;
        }
        let (header, total) = header6::check(packet).ok()?;
        let (limit, next) = (header[header6::HOP_LIMIT], header[6]);
        // Neighbour discovery.
        let is_local = next == protocol::ICMPV6 && limit == 255;
        let src = header6::src(header);
        let is_plain = limit > 1 && total <= self.mtu && !is_local;
        let is_from_host = !src.is_multicast() && !self.bad6.contains(&src);
        (is_plain && is_from_host).then(|| header6::dst(header))
    }

    /// Looks up the IPv6 packets among those whose bits are set.
    #[inline(never)]
    fn six(&mut self, packets: &[P], mut among: u32) -> Six {
        let mut six = Six { plain: 0, to: [Ipv6Addr::UNSPECIFIED; BURST], found: [None; BURST] };
        let mut batch = Batch::new(Ipv6Addr::UNSPECIFIED);
        while among != 0 && self.hops6.is_some() {
            let at = among.trailing_zeros() as usize % BURST;
            among &= among - 1;
            if let Some(to) = packets.get(at).and_then(|packet| self.plain6(packet.data())) {
                (six.plain, six.to[at]) = (six.plain | 1 << at, to);
                batch.push(to);
            }
        }
        let mut found = [None; BURST];
        if let Some(hops) = self.hops6.as_mut().filter(|_| batch.len > 0) {
            hops.lookup(&batch.addresses[..batch.len], &mut found);
        }
        let (mut left, mut number) = (six.plain, 0);
        while left != 0 {
            six.found[left.trailing_zeros() as usize % BURST] = found[number % BURST];
            (left, number) = (left & (left - 1), number + 1);
        }
        six
    }

    /// Forwards or sorts out as many bursts as a round takes: at least one.
    fn round(&mut self, bursts: &mut Bursts<P>, now: u64, frame: &mut Frame<P>, out: &mut Out<'_>) -> u64 {
        let (mut count, mut has_room) = (0, true);
        bursts.each(|chunk| {
            has_room &= count + chunk.packets.len() <= ROUND;
            if has_room {
                self.headers.read(count, &chunk.packets);
                count += chunk.packets.len();
            }
        });
        let sorted = self.headers.sort(count, self.eth.bits(), &self.four);
        if let Some(hops) = self.hops.as_mut().filter(|_| sorted.plain != 0) {
            // Addresses of other packets are looked up too, for nothing.
            hops.lookup(&self.headers.to[..count], &mut self.found[..count]);
        }
        let (mut from, mut forwarded) = (0, 0);
        bursts.each(|chunk| {
            let to = from + chunk.packets.len();
            if to <= count {
                forwarded += self.forward(chunk, from, sorted, now, frame, out);
                from = to;
            }
        });
        forwarded
    }

    /// Forwards or sorts out one burst, whose packets are those of the round from `from` on.
    #[inline(always)]
    fn forward(
        &mut self,
        chunk: &mut Chunk<P>,
        from: usize,
        sorted: Sorted,
        now: u64,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) -> u64 {
        let count = chunk.packets.len();
        let all = ((1u64 << count) - 1) as u32; // up to 32 bits
        let [plain, padded] = [sorted.plain, sorted.padded].map(|bits| (bits >> (from % ROUND)) as u32 & all);
        if plain != all || self.has_left {
            return self.forward_mixed(chunk, from, [plain, padded], now, frame, out);
        }
        let Self { hops: Some(hops), found, headers, bypass, has_left, .. } = self else { return 0 };
        let (found, headers): (&[_; ROUND], &Headers) = (found, headers);
        let (mut forwarded, mut padded) = (0, padded);
        let mut packets = chunk.packets.drain(..).zip(from..);
        while let Some((mut packet, at)) = packets.next() {
            let (at, is_padded) = (at % ROUND, padded & 1 != 0);
            padded >>= 1;
            let Some(hop) = hops.hop(found[at], headers.to[at], now) else {
                leave(packet, 0, frame, out);
                if bypass.is_some() {
                    *has_left = true;
                    packets.for_each(|(packet, _)| leave(packet, 0, frame, out));
                    break;
                }
                continue;
            };
            forwarded += 1;
            rewrite(&mut packet, at, is_padded, headers, hop);
            frame.send(usize::from(hop.output), packet);
        }
        forwarded
    }

    /// Forwards or sorts out a burst in which not all are ordinary IPv4 packets. `plain` and `padded` are those of
    /// [`Sorted`] for this burst.
    #[inline(never)]
    fn forward_mixed(
        &mut self,
        chunk: &mut Chunk<P>,
        from: usize,
        [plain, padded]: [u32; 2],
        now: u64,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) -> u64 {
        let six = self.six(&chunk.packets, !plain);
        let Self { headers, hops, hops6, found, bypass, has_left, .. } = self;
        let mut forwarded = 0;
        for (n, mut packet) in chunk.packets.drain(..).enumerate() {
            let (bit, n, at) = (1 << (n % BURST), n % BURST, (from + n) % ROUND);
            let mut way = None;
            if six.plain & bit != 0 {
                let hop = hops6.as_ref().and_then(|hops| hops.hop(six.found[n], six.to[n], now));
                way = hop.map(|hop| {
                    rewrite6(&mut packet, hop);
                    hop.output
                });
            } else {
                // Packets of a flow keep their order past other elements.
                if plain & bit != 0 && !*has_left {
                    let hop = hops.as_ref().and_then(|hops| hops.hop(found[at], headers.to[at], now));
                    way = hop.map(|hop| {
                        rewrite(&mut packet, at, padded & bit != 0, headers, hop);
                        hop.output
                    });
                }
                let is_v4 = || packet.data().get(12..14) == Some(&[8, 0]);
                *has_left |= way.is_none() && bypass.is_some() && is_v4();
            }
            match way {
                Some(output) => {
                    forwarded += 1;
                    frame.send(usize::from(output), packet);
                }
                None => leave(packet, 0, frame, out),
            }
        }
        forwarded
    }
}

/// The IPv6 packets of a burst.
struct Six {
    /// One bit for each that may be fast.
    plain: u32,
    to: [Ipv6Addr; BURST],
    found: [Option<NextHop>; BURST],
}

/// Rewrites a frame of a round.
#[inline(always)]
fn rewrite<P: PacketBuf>(packet: &mut P, at: usize, is_padded: bool, headers: &Headers, hop: &Hop) {
    headers.forward(at, &hop.addresses, packet.data_mut());
    if is_padded {
        packet.truncate(headers.end(at));
    }
}

/// The same for an IPv6 packet.
#[inline(always)]
fn rewrite6<P: PacketBuf>(packet: &mut P, hop: &Hop) {
    let len = packet.data().len();
    let mut end = len;
    if let Some((front, rest)) = packet.data_mut().split_first_chunk_mut::<HEADER_LEN>() {
        if let Some(place) = front.first_chunk_mut() {
            *place = hop.addresses;
        }
        if let Some(fixed) = rest.first_chunk_mut::<{ ipv6::HEADER_LEN }>() {
            fixed[header6::HOP_LIMIT] -= 1;
            end = HEADER_LEN + ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        }
    }
    if end < len {
        packet.truncate(end);
    }
}

impl<P: PacketBuf + 'static> Element<P> for IPRoute<P> {
    fn burst(&mut self, _: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let is_current = self.hops.as_ref().is_some_and(NextHops::is_current)
            && self.hops6.as_ref().is_none_or(NextHops::is_current)
            && self.bypass.as_ref().is_none_or(|bypass| bypass.is_right() && !frame.is_watched());
        if !is_current {
            return bursts
                .each(|chunk| chunk.packets.drain(..).for_each(|packet| leave(packet, 0, frame, out)));
        }
        self.has_left = false;
        prefetch_first_lines(bursts);
        let (now, mut forwarded) = (nanoseconds(out.now()), 0);
        while !bursts.is_empty() {
            forwarded += self.round(bursts, now, frame, out);
        }
        out.count(Self::FORWARDED, forwarded);
        if let Some(bypass) = &self.bypass {
            bypass.count(forwarded, |output| frame.bursts(output).len());
        }
    }

    fn between(&mut self, _: &str, graph: &mut Graph<P>, now: Duration) {
        if self.hops.is_none() && self.fault.is_none() {
            match NextHops::of(graph, &self.names) {
                Ok(hops) => self.hops = Some(hops.only(self.outputs, self.port)),
                Err(name) => self.fault = Some(format!("{name} is no element with routes or neighbours")),
            }
            match self.names6.as_ref().map(|names| NextHops::of(graph, names)) {
                Some(Ok(hops)) => self.hops6 = Some(hops.only(self.outputs, self.port)),
                Some(Err(name)) => {
                    self.fault = Some(format!("{name} is no element with routes or neighbours"));
                }
                None => {}
            }
        }
        if let Some(bypass) = &mut self.bypass {
            bypass.bind(graph);
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
    use crate::rig::{Rig, ipv4_of};
    use scalebricks_wire::MacAddr;
    use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, header};

    /// What one call brings in several rounds leaves in order, the ordinary packets past the others.
    #[test]
    fn more_packets_than_a_round_takes_are_routed() {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("r", "IPRoute", &["2", "2:0:0:0:0:1", "routes", "arp"]);
            builder.declare("routes", "DirectIPLookup", &["10.0.0.0/8 10.0.1.9 1"]);
            builder.declare("arp", "ARPQuerier", &["10.0.1.1/24", "2:0:0:0:0:2"]);
            builder.declare("copy", "Tee", &[]).declare("idle", "Idle", &[]).declare("end", "Discard", &[]);
            builder.declare("address", "GetIPAddress", &["16"]);
            builder.chain(&["idle", "address", "routes", "arp", "end"]).connect("routes", 1, "end", 0);
            builder.connect("idle", 1, "arp", 1);
            builder.chain(&["in", "copy", "r", "out0"]).connect("copy", 1, "r", 0).connect("r", 1, "out1", 0);
        });
        rig.write("arp", "insert", "10.0.1.9 2:0:0:0:0:9").unwrap();
        rig.turn();
        let frame = |to: u8, from: u8, ttl: u8, number: u8| {
            let mac = |last: u8| MacAddr([2, 0, 0, 0, 0, last]);
            let packet =
                ipv4_of(|header| (header.ttl, header.dst) = (ttl, [10, 1, 2, number].into()), &[number]);
            [&header(mac(to), mac(from), ETHERTYPE_IPV4)[..], &packet].concat()
        };
        // The second hundred are copies. Some are too old.
        let ttl = |number: u8| if number.is_multiple_of(7) { 1 } else { 64 };
        rig.send((0..100).map(|number| frame(1, 7, ttl(number), number)));
        rig.turn();
        let both = |ttl: u8| {
            (0..2).flat_map(|_| 0..100u8).filter(move |number| number.is_multiple_of(7) == (ttl == 1))
        };
        assert_eq!(rig.got(1), both(64).map(|number| frame(9, 2, 63, number)).collect::<Vec<_>>());
        assert_eq!(rig.got(0), both(1).map(|number| frame(1, 7, 1, number)).collect::<Vec<_>>());
        assert_eq!(rig.number("r", "forwarded"), 170);
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
