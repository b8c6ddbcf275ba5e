//! Packets of the usual form, read without the general parser.

use super::Untracked;
use super::batch::Need;
use crate::tcp::Segment;
use scalebricks_tables::dhash::Key4;
use scalebricks_wire::tcp_options::{TcpOptions, Timestamps};
use scalebricks_wire::transport::TcpFlags;
use scalebricks_wire::{checksum, ipv4_header_checksum_ok, protocol};
use std::net::Ipv4Addr;

/// Octets of both headers without options.
const HEADERS: usize = 40;

/// A packet with IPv4 and TCP headers whose lengths are right: no fragment, no IPv4 options, and no TCP options but
/// timestamps in the layout of RFC 7323 appendix A. The general parser reads the same of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plain<'a> {
    /// The packet, and perhaps padding.
    bytes: &'a [u8],
    headers: &'a [u8; HEADERS],
    payload: &'a [u8],
    timestamps: Option<Timestamps>,
}

impl<'a> Plain<'a> {
    /// Reads the packet at the start of `bytes`; padding may follow it. `None` if it has another form, or is malformed.
    #[inline(always)]
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (headers, rest) = bytes.split_first_chunk::<HEADERS>()?;
        let is_fragment = headers[6] & 0x3f | headers[7] != 0;
        if headers[0] != 0x45 || headers[9] != protocol::TCP || is_fragment {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([headers[2], headers[3]]));
        let rest = rest.get(..total.checked_sub(HEADERS)?)?;
        match (headers[32] >> 4, rest) {
            (5, payload) => Some(Self { bytes, headers, payload, timestamps: None }),
            (8, &[1, 1, 8, 10, a, b, c, d, e, f, g, h, ref payload @ ..]) => {
                let (value, echo) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
                Some(Self { bytes, headers, payload, timestamps: Some(Timestamps { value, echo }) })
            }
            _ => None,
        }
    }

    #[inline(always)]
    const fn word(&self, at: usize) -> u32 {
        let headers = self.headers;
        u32::from_be_bytes([headers[at], headers[at + 1], headers[at + 2], headers[at + 3]])
    }

    #[inline(always)]
    const fn half(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.headers[at], self.headers[at + 1]])
    }

    #[inline(always)]
    pub(super) const fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.word(12))
    }

    #[inline(always)]
    pub(super) const fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.word(16))
    }

    /// The key of its flow.
    #[inline(always)]
    pub(super) const fn key(&self, zone: u16) -> Key4 {
        let (from, to) = (self.half(20), self.half(22));
        Key4::new(self.source(), self.destination(), protocol::TCP, from, to, zone)
    }

    /// The fields that a tracker reads.
    #[inline(always)]
    pub(super) fn segment(&self) -> Segment {
        Segment {
            sequence: self.word(24),
            acknowledgment: self.word(28),
            flags: TcpFlags(self.headers[33]),
            window: self.half(34),
            payload_len: self.payload.len() as u32, // a packet has at most 65,535 octets
            options: TcpOptions { timestamps: self.timestamps, ..TcpOptions::default() },
        }
    }

    /// What it needs of its flow's record, as far as its flags say: data and acknowledgments are expected.
    #[inline(always)]
    pub(super) const fn need(&self) -> Need {
        const PLAIN: u8 = TcpFlags::ACK.0;
        const CONTROL: u8 = TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0 | PLAIN;
        if self.headers[33] & CONTROL == PLAIN { Need::Expected } else { Need::All }
    }

    /// The segment's data.
    #[inline(always)]
    pub(super) const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Octets of the packet.
    #[inline(always)]
    pub(super) const fn len(&self) -> usize {
        self.half(2) as usize
    }

    /// Checks both checksums.
    pub(super) fn verify(&self) -> Result<(), Untracked> {
        if !ipv4_header_checksum_ok(self.bytes) {
            return Err(Untracked::IpChecksum);
        }
        let (from, to) = (self.source().into(), self.destination().into());
        let segment = self.bytes.get(20..self.len()).unwrap_or_default();
        if checksum::upper_layer(from, to, protocol::TCP, segment) != Some(0) {
            return Err(Untracked::TransportChecksum);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::key::tuple;
    use crate::tracker::packet::Transport;
    use proptest::prelude::*;
    use scalebricks_wire::parse_ip;

    /// Packets of the usual form, with few octets changed, and cut or padded.
    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let options = prop::sample::select(vec![
            Vec::new(),
            vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            vec![8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1],
            vec![2, 4, 5, 0xb4],
        ]);
        let payload = prop::collection::vec(any::<u8>(), 0..20);
        let changes = prop::collection::vec((0_usize..56, any::<u8>()), 0..3);
        (options, payload, changes, -3_isize..4).prop_map(|(options, payload, changes, padding)| {
            let total = HEADERS + options.len() + payload.len();
            let mut bytes =
                vec![0x45, 0, 0, total as u8, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 192, 0, 2, 7];
            bytes.extend([
                0,
                7,
                0,
                80,
                0,
                0,
                0,
                9,
                0,
                0,
                0,
                4,
                (5 + options.len() as u8 / 4) << 4,
                16,
                1,
                0,
                0,
                0,
                0,
                0,
            ]);
            bytes.extend(options.into_iter().chain(payload));
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bytes.resize(total.saturating_add_signed(padding), 0xee);
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_096, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_general_parser_reads_the_same(bytes in packet()) {
            let Some(plain) = Plain::read(&bytes) else { return Ok(()) };
            let parsed = parse_ip(&bytes).unwrap();
            let Ok(Transport::Tcp(segment, payload)) = Transport::parse(&parsed.summary, parsed.l4(), false) else {
                return Err(TestCaseError::fail("no TCP"));
            };
            prop_assert_eq!(plain.segment(), segment);
            prop_assert_eq!(plain.payload(), payload);
            prop_assert_eq!(plain.len(), parsed.bytes().len());
            prop_assert_eq!(parsed.summary.fragment, None);
            prop_assert_eq!(Some(plain.key(3)), Key4::of(&tuple(&parsed.summary, parsed.l4()), 3));
        }

        /// Only unusual packets take the general parser.
        #[test]
        fn the_usual_form_is_read(len in 0_usize..100, padding in 0_usize..10, has_timestamps: bool) {
            let options: &[u8] = if has_timestamps { &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2] } else { &[] };
            let total = HEADERS + options.len() + len;
            let mut bytes = vec![0; HEADERS];
            (bytes[0], bytes[3], bytes[6], bytes[9]) = (0x45, total as u8, 0x40, 6);
            bytes[32] = (5 + options.len() as u8 / 4) << 4;
            bytes.extend(options);
            bytes.resize(total + padding, 1);
            prop_assert_eq!(Plain::read(&bytes).map(|plain| plain.payload().len()), Some(len));
        }
    }
}
