//! The headers of up to [`ROUND`] frames, checked together.
//!
//! A first loop copies the words of each frame's headers into arrays, one array per word. A second loop checks and rewrites
//! them for all packets. It has a fixed number of steps and no branch, so the compiler uses vector instructions.

use crate::header;
use crate::plain::Plain4;
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_wire::ethernet::HEADER_LEN;
use scalebricks_wire::ipv4;
use std::net::Ipv4Addr;

/// Most frames that are looked at together: the more, the more misses of the lookup of their routes overlap.
pub(crate) const ROUND: usize = 4 * BURST;

/// Octets of an Ethernet header and an IPv4 header without options.
pub(crate) const FRONT: usize = HEADER_LEN + ipv4::MIN_HEADER_LEN;

/// Where the word with TTL, protocol and checksum begins in a frame.
const TTL: usize = HEADER_LEN + header::TTL;

/// Words of a frame in front of its IPv4 header: the destination MAC address in two words that overlap.
const MAC_LOW: usize = 0;
const MAC_HIGH: usize = 2;
/// The ethertype with the first two octets of the packet.
const KIND: usize = 12;

/// The ethertype of IPv4 and a first octet of a header without options, and the octets of the word that they take.
const IPV4: u32 = 0x0045_0008;
const IPV4_MASK: u32 = 0x00ff_ffff;

/// What stands for a frame that is too short for both headers: it is no IPv4 packet.
const SHORT: [u8; FRONT] = [0; FRONT];

/// One bit per packet of a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sorted {
    /// Ordinary IPv4 packets for this router.
    pub(crate) plain: u128,
    /// Of these, frames with octets behind the packet.
    pub(crate) padded: u128,
}

const _: () = assert!(ROUND <= u128::BITS as usize, "each packet of a round has its bit");

/// Words of the frames of a round, little-endian, and what follows from them. Entries of packets that the last round did not
/// have are stale.
#[derive(Debug)]
pub(crate) struct Headers {
    mac_low: [u32; ROUND],
    mac_high: [u32; ROUND],
    kind: [u32; ROUND],
    words: [[u32; ROUND]; 4],
    /// Destinations.
    pub(crate) to: [Ipv4Addr; ROUND],
    /// Octets of the frame.
    len: [u32; ROUND],
    /// The word with TTL, protocol and checksum after the TTL was lowered.
    lowered: [u32; ROUND],
}

impl Default for Headers {
    fn default() -> Self {
        const NONE: [u32; ROUND] = [0; ROUND];
        let to = [Ipv4Addr::UNSPECIFIED; ROUND];
        Self { mac_low: NONE, mac_high: NONE, kind: NONE, words: [NONE; 4], to, len: NONE, lowered: NONE }
    }
}

/// The word at a place.
#[inline(always)]
fn word<const AT: usize>(front: &[u8; FRONT]) -> u32 {
    // One load; four octets put together are several.
    front[AT..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

/// The words of one burst.
struct Lanes<'a> {
    mac_low: &'a [u32; BURST],
    mac_high: &'a [u32; BURST],
    kind: &'a [u32; BURST],
    words: [&'a [u32; BURST]; 4],
    to: &'a [Ipv4Addr; BURST],
    len: &'a [u32; BURST],
    lowered: &'a mut [u32; BURST],
}

/// Two octets in network order, the low half of a little-endian word.
#[inline(always)]
const fn number(low: u32) -> u32 {
    (low & 0xff) << 8 | low >> 8 & 0xff
}

impl Headers {
    /// Copies the words of a burst to the places from `from` on. At most [`ROUND`] packets count.
    #[inline(always)]
    pub(crate) fn read<P: PacketBuf>(&mut self, from: usize, packets: &[P]) {
        for (at, packet) in (from..ROUND).zip(packets) {
            let (at, data) = (at % ROUND, packet.data());
            let front: &[u8; FRONT] = data.first_chunk().unwrap_or(&SHORT);
            self.mac_low[at] = word::<MAC_LOW>(front);
            self.mac_high[at] = word::<MAC_HIGH>(front);
            self.kind[at] = word::<KIND>(front);
            self.words[0][at] = word::<HEADER_LEN>(front);
            self.words[1][at] = word::<{ HEADER_LEN + 4 }>(front);
            self.words[2][at] = word::<TTL>(front);
            self.words[3][at] = word::<{ HEADER_LEN + 12 }>(front);
            self.to[at] = Ipv4Addr::from(word::<{ HEADER_LEN + 16 }>(front).to_le_bytes());
            self.len[at] = data.len() as u32; // a packet is shorter than 4 GiB
        }
    }

    /// Sorts the packets that were read: the first `count`. `own` is the router's MAC address as
    /// [`MacAddr::bits`](scalebricks_wire::MacAddr::bits) gives it.
    #[inline(always)]
    pub(crate) fn sort(&mut self, count: usize, own: u64, rules: &Plain4) -> Sorted {
        let mut all = Sorted::default();
        for from in (0..count.min(ROUND)).step_by(BURST) {
            let [plain, padded] = self.sort_burst(from, count - from, own, rules);
            all.plain |= u128::from(plain) << from;
            all.padded |= u128::from(padded) << from;
        }
        all
    }

    /// The arrays of a burst from a place on.
    #[inline(always)]
    fn lanes(&mut self, from: usize) -> Option<Lanes<'_>> {
        let Self { mac_low, mac_high, kind, words: [first, second, third, source], to, len, lowered } = self;
        Some(Lanes {
            mac_low: mac_low[from..].first_chunk()?,
            mac_high: mac_high[from..].first_chunk()?,
            kind: kind[from..].first_chunk()?,
            words: [
                first[from..].first_chunk()?,
                second[from..].first_chunk()?,
                third[from..].first_chunk()?,
                source[from..].first_chunk()?,
            ],
            to: to[from..].first_chunk()?,
            len: len[from..].first_chunk()?,
            lowered: lowered[from..].first_chunk_mut()?,
        })
    }

    /// Sorts `count` packets, but at most a burst, from a place on.
    #[inline(always)]
    #[expect(clippy::needless_bitwise_bool, reason = "with branches, the compiler would not use vectors")]
    fn sort_burst(&mut self, from: usize, count: usize, own: u64, rules: &Plain4) -> [u32; 2] {
        let [own_low, own_high] = [own as u32, (own >> 16) as u32]; // octets 0 to 3, and 2 to 5
        let mtu = rules.mtu().min(0xffff) as u32;
        let [suspects_low, suspects_high] = rules.suspects();
        let (mut plain, mut padded, mut suspect) = (0u32, 0u32, 0u32);
        let Some(Lanes { mac_low, mac_high, kind, words, to, len, lowered }) = self.lanes(from) else {
            return [0; 2];
        };
        for at in 0..BURST {
            // No array method: the compiler would call it instead of using vectors.
            let (first, second, third, source) = (words[0][at], words[1][at], words[2][at], words[3][at]);
            let to = u32::from_le_bytes(to[at].octets());
            let low = |word: u32| word & 0xffff;
            let sum = low(first) + low(second) + low(third) + low(source) + low(to);
            let sum = sum + (first >> 16) + (second >> 16) + (third >> 16) + (source >> 16) + (to >> 16);
            let sum = low(sum) + (sum >> 16);
            let sum = low(sum) + (sum >> 16);
            let total = number(first >> 16);
            let end = total + HEADER_LEN as u32;
            let offset = (number(second >> 16) & 0x1fff) * 8;
            let is_plain = (mac_low[at] == own_low)
                & (mac_high[at] == own_high)
                & (kind[at] & IPV4_MASK == IPV4)
                & (sum == 0xffff)
                & (total >= ipv4::MIN_HEADER_LEN as u32)
                & (total <= mtu)
                & (end <= len[at])
                & (offset + total <= 0xffff)
                & (third & 0xff > 1);
            let ending = source >> 24;
            let row = if ending & 32 == 0 { suspects_low } else { suspects_high };
            let bit = 1 << at;
            plain |= if is_plain { bit } else { 0 };
            padded |= if end < len[at] { bit } else { 0 };
            suspect |= if row >> (ending & 31) & 1 != 0 { bit } else { 0 };
            lowered[at] = header::lowered(third);
        }
        plain &= ((1u64 << count.min(BURST)) - 1) as u32; // up to 32 bits
        suspect &= plain;
        while suspect != 0 {
            let at = suspect.trailing_zeros() as usize % BURST;
            suspect &= suspect - 1;
            let source = Ipv4Addr::from(words[3][at].to_le_bytes());
            plain &= !(u32::from(rules.is_bad(source)) << at);
        }
        [plain, padded & plain]
    }

    /// Writes the lowered TTL and its checksum into a packet of [`Sorted::plain`], and the addresses of its next frame.
    #[inline(always)]
    pub(crate) fn forward<const N: usize>(&self, at: usize, addresses: &[u8; N], data: &mut [u8]) {
        let Some(front) = data.first_chunk_mut::<FRONT>() else { return };
        if let Some(place) = front.first_chunk_mut() {
            *place = *addresses;
        }
        [front[TTL], front[TTL + 1], front[TTL + 2], front[TTL + 3]] = self.lowered[at % ROUND].to_le_bytes();
    }

    /// Octets of the frame of a packet of [`Sorted::plain`] without what follows the packet.
    #[inline(always)]
    pub(crate) fn end(&self, at: usize) -> usize {
        HEADER_LEN + number(self.words[0][at % ROUND] >> 16) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scalebricks_io::{Packet, Pool};
    use scalebricks_wire::MacAddr;

    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    /// The slow twin: the destination of an ordinary packet, as elements for single packets take it.
    fn destination(rules: &Plain4, frame: &[u8]) -> Option<Ipv4Addr> {
        let (front, packet) = frame.split_first_chunk::<HEADER_LEN>()?;
        (front[..6] == OWN.0 && front[12..] == [8, 0]).then(|| rules.destination(packet))?
    }

    /// A frame that is ordinary, or has one thing wrong or unusual.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let fields = (any::<[u8; 20]>(), 20..1_600usize, 0..40usize, any::<u8>());
        (fields, 0..14u8, any::<[u8; 4]>()).prop_map(|((mut header, total, pad, ttl), what, src)| {
            header[0] = if what == 1 { 0x46 } else { 0x45 };
            let stated = if what == 2 { total + 41 } else { total };
            header[2..4].copy_from_slice(&(stated as u16).to_be_bytes());
            header[6..8].copy_from_slice(&if what == 3 { [0x1f, 0xff] } else { [0x40, 0] });
            header[8] = if what == 4 { ttl % 3 } else { ttl.max(2) };
            header[12..16].copy_from_slice(match what {
                5 => &[255; 4],
                6 => &[0; 4],
                7 => &[10, 0, 0, 255],
                8 => &[10, 0, 0, 63],
                _ => &src,
            });
            if what == 9 {
                header[2..4].copy_from_slice(&19u16.to_be_bytes());
            }
            header::sum(&mut header);
            header[10] ^= u8::from(what == 10);
            let mut front = [0; HEADER_LEN];
            front[..6].copy_from_slice(&OWN.0);
            front[5] ^= u8::from(what == 11);
            front[12] = if what == 12 { 0x86 } else { 8 };
            let mut frame = [&front[..], &header].concat();
            frame.resize(HEADER_LEN + total + pad, 0xab);
            if what == 13 {
                frame.truncate(usize::from(ttl % 34));
            }
            frame
        })
    }

    proptest! {
        /// Packets are sorted and rewritten as single ones are, whatever earlier rounds left behind.
        #[test]
        fn rounds_are_sorted_as_single_packets(
            rounds in prop::collection::vec(prop::collection::vec(frame(), 0..=ROUND), 1..4),
            cut in 0..=BURST,
            mtu in 60..1_600usize,
        ) {
            let interfaces = crate::values::Prefixes(vec![crate::values::value("10.0.0.1/24").unwrap()]);
            let rules = Plain4::new(interfaces, mtu);
            let (mut headers, mut pool) = (Headers::default(), Pool::new(ROUND, 2_048).unwrap());
            for frames in rounds {
                let mut packets: Vec<Packet> = frames.iter().map(|frame| pool.packet(frame).unwrap()).collect();
                let (first, rest) = packets.split_at(cut.min(packets.len()));
                headers.read(0, first);
                headers.read(first.len(), rest);
                let Sorted { plain, padded } = headers.sort(packets.len(), OWN.bits(), &rules);
                prop_assert!(frames.len() == ROUND || plain >> frames.len() == 0);
                for (at, (frame, packet)) in frames.iter().zip(&mut packets).enumerate() {
                    let slow = destination(&rules, frame);
                    prop_assert_eq!((plain >> at & 1 != 0).then(|| headers.to[at]), slow, "{:?}", frame);
                    if slow.is_none() {
                        prop_assert_eq!(padded >> at & 1, 0);
                        continue;
                    }
                    let mut expected = frame.clone();
                    expected[..12].copy_from_slice(&[9; 12]);
                    if let Some(fixed) = expected[HEADER_LEN..].first_chunk_mut() {
                        header::set_word(fixed, 8, |word| word - 0x100);
                    }
                    expected.truncate(HEADER_LEN + usize::from(u16::from_be_bytes([frame[16], frame[17]])));
                    headers.forward(at, &[9; 12], packet.data_mut());
                    prop_assert_eq!(padded >> at & 1 != 0, expected.len() < frame.len());
                    if padded >> at & 1 != 0 {
                        packet.truncate(headers.end(at));
                    }
                    prop_assert_eq!(packet.data(), &expected[..]);
                }
            }
        }
    }
}
