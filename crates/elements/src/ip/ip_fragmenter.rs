//! `IPFragmenter`.

use crate::annotations::exceeded_mtu;
use crate::columns::IpHeader;
use crate::header;
use crate::plain::without_options;
use crate::shared_names::drops;
use crate::side_output::SideOutput;
use scalebricks_graph::{Class, Control, DropId, Element, Frame, Meta, Out, SLOTS, Slot, SlotList, element};
use scalebricks_io::{PacketBuf, Tag};
use scalebricks_wire::fragment::{FragmentPlan, MIN_MTU, Piece};
use scalebricks_wire::ipv4::MAX_HEADER_LEN;

element! {
    /// Cuts IPv4 packets that are too long into fragments (RFC 791 §3.2). Packets that must not be fragmented go to
    /// output 1. Each fragment keeps the bytes before the IP header. Fragments leave in order; Click sends the first
    /// one last. Either all fragments of a packet leave, or none.
    pub struct IPFragmenter<P> as "IPFragmenter" {
        pub(crate) mtu: usize, marked: bool, honours_df: bool, side: SideOutput,
        // Fragments in preparation, and slots to send.
        later: Vec<(P, Header)>, rest: SlotList,
    }
    inputs { push "in": "IPv4 packets.", }
    outputs {
        push "out": "Packets that are short enough, and fragments.",
        push "unfragmentable" [Optional]: "Packets that are too long but must not be fragmented; dropped if unconnected.",
    }
    params IPFragmenterParams {
        /// Most bytes of a packet from its IP header on; at least 68.
        mtu: usize,
        /// Whether to honour the "don't fragment" bit.
        honor_df: bool = true,
        /// No effect: such packets are counted, not printed.
        verbose: bool = false,
        /// Whether the MTU in a packet's mark, if there is one, replaces MTU: `RouterInput` notes it.
        marked: bool = false,
    }
    example { "68", "HONOR_DF false", }
    reads { IpHeader, }
    drops {
        DONT_FRAGMENT = "dont_fragment": "The packet is too long but must not be fragmented.",
        MALFORMED = drops::MALFORMED,
        NO_BUFFER = "not_fragmented": "Not enough slots or buffers for all fragments, or a fragment does not fit its buffer.",
    }
    counters {
        FRAGMENTS = "fragments" [Made]: "Fragments made.",
        FRAGMENTED = "fragmented" [Ended]: "Packets that were fragmented.",
        DROPS = "drops": "Packets not sent to output 0.",
    }
    binds { side, }
}

impl<P: PacketBuf> Class for IPFragmenter<P> {
    fn make(params: IPFragmenterParams) -> Result<Self, String> {
        let IPFragmenterParams { mtu, honor_df, verbose: _, marked } = params;
        if mtu < MIN_MTU {
            return Err(format!("an MTU is at least {MIN_MTU}, not {mtu}"));
        }
        Ok(Self {
            mtu,
            marked,
            honours_df: honor_df,
            side: SideOutput::default(),
            later: Vec::new(),
            rest: SlotList::new(),
        })
    }
}

impl<P: PacketBuf + 'static> Control for IPFragmenter<P> {}

impl<P: PacketBuf> IPFragmenter<P> {
    /// The MTU for a packet.
    fn mtu(&self, meta: &Meta) -> usize {
        exceeded_mtu(meta).filter(|_| self.marked).map_or(self.mtu, usize::from)
    }

    /// Makes all fragments of a packet except the first, which remains in the packet itself.
    fn cut(&mut self, slot: &Slot, frame: &mut Frame<P>) -> Result<(), DropId> {
        let l3 = usize::from(frame.meta(slot).l3);
        if !self.honours_df
            && let Some(flags) = frame.packet_mut(slot).data_mut().get_mut(l3 + 6)
        {
            *flags &= !0x40;
        }
        let mtu = self.mtu(frame.meta(slot));
        let count = plan(frame.packet(slot).data(), l3, mtu).ok_or(Self::MALFORMED)?.count();
        if count > SLOTS - frame.used() + 1 {
            return Err(Self::NO_BUFFER);
        }
        for _ in 1..count {
            self.later.push((frame.alloc().ok_or(Self::NO_BUFFER)?, Header::default()));
        }
        let whole = frame.packet(slot);
        let first = self.write(whole, l3, mtu).ok_or(Self::NO_BUFFER)?;
        let (packet, meta) = frame.both_mut(slot);
        packet.truncate(l3 + first.len + first.payload_len);
        if let Some(header) = packet.data_mut().get_mut(l3..l3 + first.len) {
            header.copy_from_slice(&first.bytes[..first.len]);
        }
        header::note(meta, l3, first.len, first.len + first.payload_len);
        Ok(())
    }

    /// Writes the later fragments: the bytes before the IP header, the fragment's header, and its part of the payload.
    /// Returns the header of the first.
    fn write(&mut self, whole: &P, l3: usize, mtu: usize) -> Option<Header> {
        let (data, tag) = (whole.data(), whole.tag());
        let plan = plan(data, l3, mtu)?;
        let payload = l3 + usize::from(data.get(l3)? & 0xf) * 4;
        let mut pieces = plan.clone();
        let first = Header::of(&plan, pieces.next()?)?;
        for (number, ((packet, header), piece)) in self.later.iter_mut().zip(pieces).enumerate() {
            *header = Header::of(&plan, piece)?;
            let start = payload + piece.offset;
            for part in [data.get(..l3)?, &header.bytes[..header.len], data.get(start..start + piece.len)?] {
                packet.append(part).ok()?;
            }
            packet.set_tag(Tag { piece: u8::try_from(number + 1).unwrap_or(u8::MAX), ..tag });
        }
        Some(first)
    }

    fn send(&mut self, first: Slot, frame: &mut Frame<P>, out: &mut Out<'_>) {
        out.count(Self::FRAGMENTED, 1);
        out.count(Self::FRAGMENTS, 1 + self.later.len() as u64);
        let l3 = usize::from(frame.meta(&first).l3);
        for (packet, header) in self.later.drain(..) {
            // There are enough slots: they were counted.
            let Ok(slot) = frame.put_like(packet, &first) else { continue };
            header::note(frame.meta_mut(&slot), l3, header.len, header.len + header.payload_len);
            self.rest.push(slot);
        }
        out.push(0, first);
        out.all(0, &mut self.rest);
    }
}

fn plan(data: &[u8], l3: usize, mtu: usize) -> Option<FragmentPlan<'_>> {
    FragmentPlan::new(data.get(l3..)?, mtu).ok()
}

/// A fragment's header.
#[derive(Debug, Clone, Copy)]
struct Header {
    bytes: [u8; MAX_HEADER_LEN],
    len: usize,
    payload_len: usize,
}

impl Default for Header {
    fn default() -> Self {
        Self { bytes: [0; MAX_HEADER_LEN], len: 0, payload_len: 0 }
    }
}

impl Header {
    fn of(plan: &FragmentPlan<'_>, piece: Piece) -> Option<Self> {
        let mut header = Self { payload_len: piece.len, ..Self::default() };
        header.len = plan.write_header(piece, &mut header.bytes).ok()?;
        Some(header)
    }
}

/// What to do with a packet.
enum Size {
    Fits,
    Cut,
    DontFragment,
    Malformed,
}

impl<P: PacketBuf + 'static> Element<P> for IPFragmenter<P> {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let fits = |slot: &Slot| {
            let (packet, meta) = (frame.packet(slot), frame.meta(slot));
            let bytes = header::bytes(packet.data(), meta);
            without_options(bytes).is_some_and(|(_, total)| total <= self.mtu(meta))
        };
        if batch.iter().all(fits) {
            return out.all(0, batch);
        }
        for slot in batch.drain() {
            let mtu = self.mtu(frame.meta(&slot));
            let size = match header::packet(frame.packet(&slot).data(), frame.meta(&slot)) {
                Some(ip) if ip.total_len() <= mtu => Size::Fits,
                Some(ip) if ip.dont_fragment() && self.honours_df => Size::DontFragment,
                Some(_) => Size::Cut,
                None => Size::Malformed,
            };
            let result = match size {
                Size::Fits => {
                    out.push(0, slot);
                    continue;
                }
                Size::DontFragment => {
                    out.count(Self::DROPS, 1);
                    self.side.send(slot, Self::DONT_FRAGMENT, out);
                    continue;
                }
                Size::Cut => self.cut(&slot, frame),
                Size::Malformed => Err(Self::MALFORMED),
            };
            if let Err(reason) = result {
                self.later.clear();
                out.count(Self::DROPS, 1);
                out.drop(slot, reason);
                continue;
            }
            self.send(slot, frame, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4, ipv4_of, ipv4_with_options};
    use proptest::prelude::*;
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;
    use scalebricks_wire::ipv4::{Ipv4, header_checksum_ok};

    fn fill(mark: &'static [&'static str], args: Vec<String>) -> impl Fn(&mut Builder<Packet>) {
        move |builder| {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            builder.declare("m", "MarkIPHeader", mark).declare("f", "IPFragmenter", &args);
            builder.chain(&["in", "m", "f", "out0"]);
        }
    }

    #[test]
    fn the_mark_replaces_the_mtu() {
        let mut rig = Rig::new(1, fill(&[], vec!["100".into(), "MARKED true".into()]));
        let marked = |mark| {
            let mut meta = scalebricks_graph::Meta::default();
            meta.mark = mark;
            (ipv4(9, &[1; 120]), meta)
        };
        rig.send_noted([0, 68, 140].map(marked));
        rig.turn();
        let lengths: Vec<usize> = rig.got(0).iter().map(Vec::len).collect();
        assert_eq!(lengths, [100, 60, 68, 68, 44, 140]);
    }

    #[test]
    fn packets_that_must_not_be_cut_are_told_or_dropped() {
        let whole = |len: usize| ipv4_of(|header| header.dont_fragment = true, &vec![1; len]);
        for ends in [1, 2] {
            let mut rig = Rig::new(ends, |builder| {
                fill(&[], vec!["100".into()])(builder);
                if ends == 2 {
                    builder.connect("f", 1, "out1", 0);
                }
            });
            rig.send([whole(80), whole(81)]);
            rig.turn();
            assert_eq!(rig.got(0), [whole(80)]);
            assert_eq!((rig.number("f", "drops"), rig.number("f", "dont_fragment")), (1, [1, 0][ends - 1]));
            if ends == 2 {
                assert_eq!(rig.got(1), [whole(81)]);
            }
        }
        let mut rig = Rig::new(1, fill(&[], vec!["100".into(), "HONOR_DF false".into()]));
        rig.send([whole(81)]);
        rig.turn();
        assert!(rig.got(0).iter().all(|packet| packet[6] & 0x40 == 0));
        assert_eq!((rig.number("f", "fragmented"), rig.number("f", "fragments")), (1, 2));
        assert!(Rig::with_buffers(5, 1, fill(&[], vec!["67".into()])).is_err());
    }

    #[test]
    fn nothing_leaves_of_a_packet_that_cannot_be_cut_whole() {
        let mut rig = Rig::with_buffers(9, 1, fill(&[], vec!["68".into()])).unwrap();
        rig.send([ipv4(9, &[1; 480]), ipv4(9, &[2; 432])]);
        rig.turn();
        assert_eq!(
            (rig.got(0).len(), rig.number("f", "not_fragmented"), rig.number("f", "fragmented")),
            (0, 2, 0)
        );
        rig.send([ipv4(9, &[2; 432])]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.number("f", "fragments")), (9, 9));
        // A hundred packets of ten fragments want more slots than there are; those that fit leave whole.
        let mut rig = Rig::with_buffers(2_000, 1, fill(&[], vec!["68".into()])).unwrap();
        rig.send((0..100).map(|n| ipv4(n, &[1; 480])));
        rig.turn();
        let (whole, lost) = (rig.number("f", "fragmented"), rig.number("f", "not_fragmented"));
        assert_eq!((whole + lost, rig.got(0).len() as u64), (100, whole * 10));
        assert!(whole > 10);
        rig.send([[&[0x46, 0][..], &[0; 14], &[9; 100]].concat()]);
        rig.turn();
        assert_eq!(rig.number("f", "malformed"), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn fragments_are_valid_and_make_the_packet_again(
            payload in prop::collection::vec(any::<u8>(), 0..1_500),
            mtu in 68..1_600usize,
            options in prop_oneof![Just(vec![]), Just(vec![0x83, 3, 4, 1]), Just(vec![7, 7, 4, 0, 0, 0, 0, 0x88, 4, 1, 2, 0])],
            units in 0..1_000u16,
            more: bool,
        ) {
            let mut packet = ipv4_with_options(&options, &payload);
            packet[6..8].copy_from_slice(&(u16::from(more) << 13 | units).to_be_bytes());
            let len = 20 + options.len();
            crate::header::sum(&mut packet[..len]);
            let mut rig = Rig::new(1, fill(&["3"], vec![mtu.to_string()]));
            rig.send([[b"abc", &packet[..]].concat()]);
            rig.turn();
            let got = rig.noted(0);
            let (mut again, last) = (Vec::new(), got.len() - 1);
            for (number, (bytes, meta)) in got.iter().enumerate() {
                prop_assert_eq!(&bytes[..3], b"abc");
                let ip = Ipv4::parse(&bytes[3..]).unwrap();
                prop_assert!(header_checksum_ok(&bytes[3..]));
                prop_assert!(ip.total_len() <= mtu && ip.total_len() == bytes.len() - 3);
                prop_assert_eq!((meta.l3, usize::from(meta.l4), usize::from(meta.length)), (3, 3 + ip.header_len(), ip.total_len()));
                prop_assert_eq!(ip.fragment_offset(), usize::from(units) * 8 + again.len());
                prop_assert_eq!(ip.more_fragments(), more || number < last);
                prop_assert_eq!((ip.src(), ip.dst(), ip.identification(), ip.ttl()), ([10, 0, 0, 1].into(), [10, 0, 9, 9].into(), 7, 64));
                let copied = options.iter().any(|octet| octet & 0x80 != 0);
                prop_assert_eq!(ip.options().is_empty(), if number == 0 { options.is_empty() } else { !copied });
                again.extend_from_slice(ip.payload());
            }
            prop_assert_eq!(again, payload);
            prop_assert_eq!(last == 0, packet.len() <= mtu);
        }
    }
}
