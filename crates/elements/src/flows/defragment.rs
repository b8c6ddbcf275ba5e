//! `Defragment`.

use crate::header;
use crate::shared_names::drops;
use scalebricks_flows::fragments::{Config, Defragmented, Defragmenter, Refusal};
use scalebricks_flows::named::Named;
use scalebricks_graph::element::BindError;
use scalebricks_graph::{
    Binder, Class, Control, DropId, Element, Frame, HandlerId, Meta, Out, SLOTS, Slot, SlotList, element,
};
use scalebricks_io::PacketBuf;
use scalebricks_wire::{ipv4_header_checksum_ok, parse_ip};
use std::any::Any;
use std::time::Duration;

/// Slots that may be in use when another packet is made: the rest is for copies.
const MOST_USED: usize = SLOTS * 3 / 4;
/// Output of packets that timed out.
const EXPIRED_OUT: usize = 1;

element! {
    /// Completes IPv4 and IPv6 packets from their fragments (RFC 791, RFC 8200). Other packets pass unchanged and in order.
    /// A fragment is copied and its buffer freed; the last one that arrives leaves as the whole packet, with the header
    /// that it had before IP. So a whole packet may be as long as a buffer of the pool, which `graph run --packet-bytes`
    /// sets; longer ones are dropped as `whole_packet_too_long`. A packet whose fragments overlap or contradict each other
    /// is refused with all that comes later of it (RFC 5722); only exact repetitions are ignored. When a limit on all
    /// packets is reached, the oldest incomplete packet goes. A new configuration goes on with the incomplete packets. The
    /// same as Click's IPReassembler, but for IPv6, the limits and output 1.
    pub struct Defragment as "Defragment" {
        defragmenter: Defragmenter<Meta>, config: Config, offset: usize, checksums: bool, has_expired: bool,
    }
    inputs { push "in": "Packets with an IP header.", }
    outputs {
        push "out": "Whole packets.",
        push "expired" [Optional]: "The first fragment of each packet that did not become complete in time, from its IP header on, for ICMPError(…, timeexceeded, reassembly) or ICMP6Error(…, timeexceeded, 1) behind a check of the header. There is none if the first fragment is missing (RFC 792, RFC 8200 §4.5).",
    }
    fresh { "expired", }
    params DefragmentParams {
        /// Offset of the IP header.
        offset: u16 = 0,
        /// How long an incomplete IPv4 packet waits.
        ipv4_timeout: Duration = Duration::from_secs(30),
        /// How long an incomplete IPv6 packet waits.
        ipv6_timeout: Duration = Duration::from_secs(60),
        /// Most incomplete packets.
        packets: usize = 4_096,
        /// Most incomplete packets of a source address.
        source_packets: u32 = 64,
        /// Most fragments of a packet.
        packet_fragments: usize = 128,
        /// Most bytes of all incomplete packets, with 256 for each packet and 64 for each fragment.
        memory: u64 = 16_777_216,
        /// Whether to refuse fragments with a wrong IPv4 header checksum.
        checksums: bool = true,
    }
    example { "14", }
    drops {
        MALFORMED_IP = drops::MALFORMED_IP,
        IP_CHECKSUM = drops::IP_CHECKSUM,
        FRAGMENT_REFUSED = drops::FRAGMENT_REFUSED,
        TOO_LONG = drops::WHOLE_TOO_LONG,
        REPEATED = "fragment_repeated": "The fragment repeats another one exactly.",
        NO_BUFFER = "not_shown": "No slot or buffer was free for the first fragment of a packet that timed out, or it does not fit one.",
    }
    counters {
        HELD = "fragments_held" [Ended]: "Fragments of which the element has a copy until their packet is complete.",
        WHOLE = "packets_completed": "Packets completed.",
        EXPIRED = "packets_expired" [Made]: "First fragments of packets that did not become complete in time.",
    }
    handlers {
        read PACKETS = "packets": "Incomplete packets now; refused ones count until their time is over.",
        read BYTES = "bytes": "Bytes of all incomplete packets now, as MEMORY counts them.",
        read COUNTS = "counts": "Counters of refused fragments and of packets that are not zero, one per line.",
    }
    hooks { End, }
}

impl Class for Defragment {
    fn make(params: DefragmentParams) -> Result<Self, String> {
        let config = Config {
            ipv4_lifetime: params.ipv4_timeout,
            ipv6_lifetime: params.ipv6_timeout,
            packet_fragments: params.packet_fragments,
            source_packets: params.source_packets,
            packets: params.packets,
            bytes: params.memory,
        };
        let limits = [params.packets, params.source_packets as usize, params.packet_fragments];
        if limits.contains(&0) {
            return Err("PACKETS, SOURCE_PACKETS and PACKET_FRAGMENTS must be at least 1".to_owned());
        }
        Ok(Self {
            defragmenter: Defragmenter::with_notes(config),
            config,
            offset: usize::from(params.offset),
            checksums: params.checksums,
            has_expired: false,
        })
    }
}

/// Counters that are not zero, one per line.
fn lines<E: Named>(tally: &scalebricks_flows::Tally<E>) -> impl Iterator<Item = String> {
    tally.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name}\t{count}"))
}

impl Control for Defragment {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.has_expired = binder.is_connected(EXPIRED_OUT);
        Ok(())
    }

    fn read(&self, handler: HandlerId) -> String {
        match handler {
            Self::PACKETS => self.defragmenter.packets().to_string(),
            Self::BYTES => self.defragmenter.bytes().to_string(),
            _ => {
                let all = lines(self.defragmenter.refusals()).chain(lines(self.defragmenter.events()));
                all.collect::<Vec<_>>().join("\n")
            }
        }
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        std::mem::swap(&mut self.defragmenter, &mut before.defragmenter);
        self.defragmenter.set_config(self.config);
    }
}

/// What becomes of a fragment.
enum Fate {
    /// It is no fragment.
    Passes,
    /// It has become the whole packet.
    Whole,
    /// It was copied.
    Ends,
    Drops(DropId),
}

impl Defragment {
    /// Adds a fragment; if it completes its packet, the packet takes its place.
    fn fragment<P: PacketBuf>(&mut self, slot: &Slot, frame: &mut Frame<P>, now: Duration) -> Fate {
        let (packet, meta) = frame.both_mut(slot);
        let Ok(parsed) = parse_ip(packet.data().get(self.offset..).unwrap_or_default()) else {
            return Fate::Drops(Self::MALFORMED_IP);
        };
        let ip = &parsed.summary;
        if ip.fragment.is_none() {
            return Fate::Passes;
        }
        if self.checksums && ip.is_ipv4() && !ipv4_header_checksum_ok(parsed.bytes()) {
            return Fate::Drops(Self::IP_CHECKSUM);
        }
        match self.defragmenter.add_noted(parsed.bytes(), ip, *meta, now) {
            // The first is not reached: it is a fragment.
            Defragmented::NoFragment | Defragmented::Held => Fate::Ends,
            Defragmented::Refused(Refusal::Repeated) => Fate::Drops(Self::REPEATED),
            Defragmented::Refused(_) => Fate::Drops(Self::FRAGMENT_REFUSED),
            Defragmented::Whole(whole) => {
                packet.truncate(self.offset);
                if packet.append(whole).is_err() {
                    return Fate::Drops(Self::TOO_LONG);
                }
                let header_len = parse_ip(whole).map_or(0, |whole| usize::from(whole.summary.header_len));
                header::note(meta, self.offset, header_len, whole.len());
                Fate::Whole
            }
        }
    }

    /// Forgets packets whose time is over.
    fn expire<P: PacketBuf>(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if !self.has_expired {
            return self.defragmenter.expire(out.now());
        }
        self.defragmenter.expire_each(out.now(), |first, meta| {
            let room = frame.used() < MOST_USED;
            let packet = room.then(|| frame.alloc()).flatten();
            let filled = packet.and_then(|mut packet| packet.append(first).ok().map(|()| packet));
            let slot = filled.and_then(|packet| frame.put_with(packet, meta).ok());
            out.count(Self::EXPIRED, 1);
            let Some(slot) = slot else { return out.count_drops(Self::NO_BUFFER, 1) };
            let header_len = parse_ip(first).map_or(0, |first| usize::from(first.summary.header_len));
            header::note(frame.meta_mut(&slot), 0, header_len, first.len());
            out.push(EXPIRED_OUT, slot);
        });
    }
}

impl<P: PacketBuf> Element<P> for Defragment {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.expire(frame, out);
        for slot in batch.drain() {
            match self.fragment(&slot, frame, out.now()) {
                Fate::Passes => out.push(0, slot),
                Fate::Whole => {
                    out.count(Self::WHOLE, 1);
                    out.push(0, slot);
                }
                Fate::Ends => {
                    out.count(Self::HELD, 1);
                    drop(frame.take(slot));
                }
                Fate::Drops(reason) => out.drop(slot, reason),
            }
        }
    }

    fn end(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.expire(frame, out);
    }
}

#[cfg(test)]
#[path = "defragment_tests.rs"]
mod tests;
