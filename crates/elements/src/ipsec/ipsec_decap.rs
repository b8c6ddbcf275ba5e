//! `IPsecDecap`.

use crate::esp::frames::{Found, Frames, Given, lower_ttl, put_front};
use crate::esp::inbound::Outer;
use crate::esp::load::{line, load};
use crate::esp::receivers::{Fate, Receivers};
use crate::next_hops::{Hop, nanoseconds};
use crate::plain::{leave, prefetch_first_lines};
use crate::shared_names::{counters, drops, handlers};
use crate::side_output::SideOutput;
use crate::values::{Mac, Prefixes};
use arrayvec::ArrayVec;
use scalebricks_graph::{
    Bursts, Chunk, Class, Control, Element, Environment, Frame, Graph, HandlerId, Meta, Out, SLOTS, SlotList,
    element,
};
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_wire::ethernet::HEADER_LEN;
use std::any::Any;
use std::time::Duration;

element! {
    /// Decrypts ESP packets of tunnel mode (RFC 4303), alone or in UDP (RFC 3948), over both IP versions. Packets must
    /// start with the outer IP header. What leaves was authentic, new, and within the selectors of the association of its
    /// SPI. Combines ECN of both headers (RFC 6040). Outer fragments are not reassembled. A new configuration reads the
    /// file again, and continues the windows of associations whose SPI, destination and keys are the same.
    ///
    /// Input 1 takes bursts of Ethernet frames from a port. Their ordinary IPv4 packets are decrypted and routed in one
    /// loop, with the result that `CheckIPHeader`, input 0, `CheckIPHeader`, the routes, `DecIPTTL` and `ARPQuerier` give.
    /// A packet that turns out not to be ordinary once it is decrypted leaves by output 0, and all other frames by output
    /// 2 unchanged, for those elements.
    pub struct IPsecDecap as "IPsecDecap" {
        file: String, names: Vec<String>, is_open: bool, tunnels: Receivers, side: SideOutput,
        frames: Option<Frames>,
    }
    inputs {
        push "in": "IP packets with ESP, alone or in UDP to port 4500.",
        burst "frames" [Optional]: "Frames from a port.",
    }
    outputs {
        push "out": "The inner packets, of either IP version.",
        push "other" [Optional]: "Packets without ESP, such as IKE; dropped if unconnected.",
        push "slow" [Optional]: "Frames that it does not handle, unchanged.",
        burst "fast" [Optional]: "Frames with decrypted packets.",
    }
    params IPsecDecapParams {
        /// The file with security associations and keys, readable by its owner only.
        filename: String,
        /// The names of associations in it.
        sa: Vec<String>,
        /// The MAC address of the port whose frames come by input 1. This and the next three keywords belong together.
        eth: Option<Mac> = None,
        /// The output of routes to which decrypted packets may lead.
        port: Option<u16> = None,
        /// The element with the routes of decrypted packets.
        routes: Option<String> = None,
        /// The `ARPQuerier` of each output of routes, from output 1 on.
        arp: Option<String> = None,
        /// The router's addresses, as for `CheckIPHeader`.
        interfaces: Option<Prefixes> = None,
        /// Longest decrypted packet that is not left to output 0.
        mtu: usize = 1_500,
    }
    example { "sa.toml", "left-to-right", }
    drops {
        NO_SA = drops::NO_SA,
        EXPIRED = drops::SA_EXPIRED,
        REPLAY = "replay": "The sequence number was received before, or is older than the anti-replay window.",
        BAD_ICV = "bad_icv": "The packet is not authentic.",
        MALFORMED = drops::MALFORMED,
        POLICY = "policy_mismatch": "The inner addresses are outside the selectors of the packet's security association.",
        ECN = "congestion_unknown": "The outer header marks congestion, and the inner packet's transport does not know ECN.",
        FRAGMENT = "esp_fragment": "The outer packet is a fragment.",
        DUMMY = "dummy": "The packet has no content: its sender hides how much it sends.",
        KEEPALIVE = "nat_keepalive": "The packet only keeps a mapping of a NAT alive.",
        NOT_ESP = "not_esp": "The packet is not ESP.",
    }
    counters {
        PACKETS = "decrypted": "Packets decrypted.",
        BYTES = "decrypted_bytes": "Bytes of these packets after decryption.",
        AGEING = counters::SA_AGEING,
        FORWARDED = "fast": "Packets of these that came and left as whole frames.",
    }
    handlers { read SAS = handlers::SAS, }
    hooks { Between, }
    binds { side, }
}

impl Class for IPsecDecap {
    fn make(params: IPsecDecapParams) -> Result<Self, String> {
        let IPsecDecapParams { filename: file, sa: names, eth, port, routes, arp, interfaces, mtu } = params;
        let given = Given { eth, port, routes, outer: None, arp, interfaces, mtu };
        let (tunnels, side) = (Receivers::default(), SideOutput::default());
        Ok(Self { file, names, is_open: false, tunnels, side, frames: Frames::new(given, false)? })
    }
}

/// Outputs of frames.
const SLOW: usize = 2;
const FAST: usize = 3;

impl IPsecDecap {
    /// Decrypts the ordinary packets of a burst; returns how many, their bytes, and how many of them left as frames.
    #[inline]
    fn decrypt<P: PacketBuf>(
        &mut self,
        chunk: &mut Chunk<P>,
        now: u64,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) -> (u64, u64, u64) {
        let mut fates: ArrayVec<_, BURST> = chunk.packets.iter().map(|_| Fate::Other).collect();
        let mut hops = [None; BURST];
        if out.outputs() > FAST {
            self.open_ordinary(&mut chunk.packets, now, &mut fates, &mut hops);
        }
        let (mut packets, mut bytes, mut fast) = (0, 0, 0);
        for ((mut packet, fate), hop) in chunk.packets.drain(..).zip(fates).zip(&hops) {
            match (fate, hop) {
                (Fate::Other, _) => leave(packet, SLOW, frame, out),
                (Fate::Drop(reason), _) => out.drop_packet(packet, reason, frame),
                (Fate::Opened, hop) => {
                    (packets, bytes) = (packets + 1, bytes + packet.data().len() as u64);
                    if let Some(hop) = hop {
                        fast += 1;
                        lower_ttl(&mut packet);
                        // There is room where the outer headers were.
                        if put_front(&mut packet, hop) {
                            frame.send(FAST, packet);
                        } else {
                            out.drop_packet(packet, Self::MALFORMED, frame);
                        }
                    } else if let Some(slot) = out.put(packet, frame) {
                        out.push(0, slot);
                    }
                }
            }
        }
        (packets, bytes, fast)
    }

    /// Decrypts the ordinary packets of a burst, and finds where those go that then are ordinary too.
    #[inline]
    fn open_ordinary<P: PacketBuf>(
        &mut self,
        packets: &mut [P],
        now: u64,
        fates: &mut [Fate],
        hops: &mut [Option<Hop>; BURST],
    ) {
        let Some(Frames { gate, port, inner, .. }) = &mut self.frames else { return };
        let Some(inner) = inner.current() else { return };
        for (at, packet) in packets.iter_mut().enumerate() {
            let outer = gate.packet(packet.data()).filter(|outer| gate.four.header(outer).is_some());
            if let Some(Outer::Esp(place)) = outer.map(Outer::read)
                && self.tunnels.takes(&place)
                && packet.trim_front(HEADER_LEN).is_ok()
            {
                fates[at] = self.tunnels.add(at, place);
            }
        }
        self.tunnels.open_added(packets, fates);
        let opened = |at: usize, bytes: &[u8]| {
            let is_opened = matches!(fates.get(at), Some(Fate::Opened));
            gate.four.destination(bytes).filter(|_| is_opened)
        };
        let found = Found::new(packets, inner, opened);
        for (at, hop) in hops.iter_mut().enumerate().take(packets.len()) {
            let known = found.at(at).and_then(|(next, to)| inner.hop(next, to, now).copied());
            *hop = known.filter(|hop| hop.output == *port);
        }
    }

    fn count(&self, packets: u64, bytes: u64, out: &Out<'_>) {
        out.count(Self::PACKETS, packets);
        out.count(Self::BYTES, bytes);
        out.set(Self::AGEING, self.tunnels.ageing());
    }
}

impl Control for IPsecDecap {
    fn read(&self, _: HandlerId) -> String {
        self.tunnels
            .ends()
            .map(|end| line(end.sa(), end.carried(), end.sequence(), end.is_ageing()))
            .collect()
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        if !self.is_open {
            (self.tunnels, self.is_open) = (std::mem::take(&mut before.tunnels), before.is_open);
        }
        self.tunnels.continue_from(&mut before.tunnels);
    }
}

impl<P: PacketBuf + 'static> Element<P> for IPsecDecap {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (mut packets, mut bytes, mut fates) = (0, 0, ArrayVec::<_, SLOTS>::new());
        for slots in batch.as_slice().chunks(BURST) {
            frame.together(slots, |packets| self.tunnels.open(packets, &mut fates));
        }
        for (slot, fate) in batch.drain().zip(fates) {
            match fate {
                Fate::Opened => {
                    let (packet, Meta { l3, l4, length, .. }) = frame.both_mut(&slot);
                    (packets, bytes) = (packets + 1, bytes + packet.data().len() as u64);
                    (*l3, *l4, *length) = (0, 0, 0);
                    out.push(0, slot);
                }
                Fate::Other => self.side.send(slot, Self::NOT_ESP, out),
                Fate::Drop(reason) => out.drop(slot, reason),
            }
        }
        self.count(packets, bytes, out);
    }

    fn burst(&mut self, _: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (now, mut packets, mut bytes, mut fast) = (nanoseconds(out.now()), 0, 0, 0);
        prefetch_first_lines(bursts);
        bursts.each(|chunk| {
            let (more, more_bytes, more_fast) = self.decrypt(chunk, now, frame, out);
            (packets, bytes, fast) = (packets + more, bytes + more_bytes, fast + more_fast);
        });
        out.count(Self::FORWARDED, fast);
        self.count(packets, bytes, out);
    }

    fn between(&mut self, _: &str, graph: &mut Graph<P>, now: Duration) {
        if let Some(frames) = &mut self.frames {
            frames.refresh(graph, now);
        }
    }

    fn fault(&self) -> Option<String> {
        self.frames.as_ref().and_then(Frames::fault)
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.tunnels = Receivers::new(load(world, &self.file, &self.names)?)?;
        self.is_open = true;
        Ok(())
    }
}
