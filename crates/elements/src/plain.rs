//! What elements that handle whole bursts agree on: which packets are ordinary. All others are left to elements for single
//! packets.

use crate::capture_source::note_link;
use crate::values::{Prefixes, broadcast};
use scalebricks_graph::{Bursts, Frame, Out};
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_tables::prefetch_in_front;
use scalebricks_wire::ipv4;
use std::net::Ipv4Addr;

/// The header and the length of a packet without options, whose lengths are valid as for
/// [`Ipv4::parse`](ipv4::Ipv4::parse). The checksum is not looked at.
#[inline(always)]
pub(crate) fn without_options(packet: &[u8]) -> Option<(&[u8; ipv4::MIN_HEADER_LEN], usize)> {
    let header: &[u8; ipv4::MIN_HEADER_LEN] = packet.first_chunk()?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let offset = usize::from(u16::from_be_bytes([header[6], header[7]]) & 0x1fff) * 8;
    let fits = (ipv4::MIN_HEADER_LEN..=packet.len()).contains(&total) && offset + total <= 0xffff;
    (header[0] == 0x45 && fits).then_some((header, total))
}

/// The ordinary IPv4 packets: valid as for `CheckIPHeader`, without options, not expired, not longer than the MTU.
#[derive(Debug)]
pub(crate) struct Plain4 {
    /// Invalid sources.
    bad: BadSources,
    mtu: usize,
}

impl Plain4 {
    /// `interfaces` are the router's addresses: packets from their networks' broadcast addresses are invalid.
    pub(crate) fn new(interfaces: Prefixes, mtu: usize) -> Self {
        let mut bad = vec![Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST];
        bad.extend(interfaces.0.into_iter().filter_map(broadcast));
        Self { bad: BadSources::new(bad), mtu }
    }

    /// The same with these invalid sources.
    pub(crate) const fn without(bad: BadSources, mtu: usize) -> Self {
        Self { bad, mtu }
    }

    /// The longest packet.
    pub(crate) const fn mtu(&self) -> usize {
        self.mtu
    }

    /// Whether packets from an address are invalid.
    pub(crate) fn is_bad(&self, source: Ipv4Addr) -> bool {
        self.bad.contains(source)
    }

    /// The last six bits of invalid sources, one bit for each value: the low and the high half.
    pub(crate) const fn suspects(&self) -> [u32; 2] {
        [self.bad.endings as u32, (self.bad.endings >> 32) as u32] // halves
    }

    /// Whether a valid packet without options is at the start of `packet`, whatever its TTL and the MTU; and its header and
    /// length.
    #[inline(always)]
    pub(crate) fn header<'a>(&self, packet: &'a [u8]) -> Option<(&'a [u8; ipv4::MIN_HEADER_LEN], usize)> {
        let (header, total) = without_options(packet)?;
        let [.., a, b, c, d, _, _, _, _] = *header;
        let is_from_host = !self.bad.contains(Ipv4Addr::new(a, b, c, d));
        (is_from_host && is_sum_right(header)).then_some((header, total))
    }

    /// The destination of an ordinary packet.
    #[inline(always)]
    pub(crate) fn destination(&self, packet: &[u8]) -> Option<Ipv4Addr> {
        let (header, total) = self.header(packet)?;
        let [.., a, b, c, d] = *header;
        (header[8] > 1 && total <= self.mtu).then_some(Ipv4Addr::new(a, b, c, d))
    }
}

/// Addresses that are no sources, with one bit for each value of the last six bits: few packets have to be compared with
/// all of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct BadSources {
    endings: u64,
    all: Vec<Ipv4Addr>,
}

impl BadSources {
    pub(crate) fn new(all: Vec<Ipv4Addr>) -> Self {
        let endings = all.iter().fold(0, |bits, address| bits | Self::ending(*address));
        Self { endings, all }
    }

    /// Adds addresses.
    pub(crate) fn extend(&mut self, more: impl IntoIterator<Item = Ipv4Addr>) {
        let mut all = std::mem::take(&mut self.all);
        all.extend(more);
        *self = Self::new(all);
    }

    #[inline(always)]
    const fn ending(address: Ipv4Addr) -> u64 {
        1 << (address.octets()[3] & 63)
    }

    #[inline(always)]
    pub(crate) fn contains(&self, address: Ipv4Addr) -> bool {
        self.endings & Self::ending(address) != 0 && self.all.contains(&address)
    }
}

/// What the first pass over a burst finds: the destinations of its ordinary packets.
pub(crate) struct Batch<A> {
    pub(crate) addresses: [A; BURST],
    pub(crate) len: usize,
}

impl<A: Copy> Batch<A> {
    pub(crate) const fn new(any: A) -> Self {
        Self { addresses: [any; BURST], len: 0 }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, address: A) {
        self.addresses[self.len % BURST] = address;
        self.len += 1;
    }
}

/// Whether the checksum of a header without options is right: the same as `ipv4::header_checksum_ok`, by words.
#[inline(always)]
pub(crate) fn is_sum_right(header: &[u8; ipv4::MIN_HEADER_LEN]) -> bool {
    let mut sum = 0u64;
    for word in header.as_chunks::<4>().0 {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum == 0xffff
}

/// Prefetches the first line of each packet, so that the loads of the pass over the frames overlap.
#[inline(always)]
pub(crate) fn prefetch_first_lines<P: PacketBuf>(bursts: &mut Bursts<P>) {
    bursts.each(|chunk| chunk.packets.iter().for_each(|packet| prefetch_in_front(packet.data(), 0)));
}

/// Leaves a frame to the elements behind an output.
#[inline(never)]
pub(crate) fn leave<P: PacketBuf>(packet: P, output: usize, frame: &mut Frame<P>, out: &mut Out<'_>) {
    let Some(slot) = out.put(packet, frame) else { return };
    let (packet, meta) = frame.both_mut(&slot);
    note_link(packet.data(), meta);
    out.push(output, slot);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header;
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
}
