//! The sending end of an association.

use super::inner::Inner;
use super::sa::{OuterDf, Sa, Suite};
use super::suite::{Cipher, Work};
use arrayvec::ArrayVec;
use rand::rngs::StdRng;
use rand::{Rng, RngCore};
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_wire::checksum::{udp, upper_layer};
use scalebricks_wire::esp::{self, HEADER_LEN, TRAILER_LEN};
use scalebricks_wire::ipv4::Ipv4Header;
use scalebricks_wire::ipv6::Ipv6Header;
use scalebricks_wire::transport::{UDP_HEADER_LEN, udp_header};
use scalebricks_wire::{ecn, ipv6, protocol};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Room for the longest padding, trailer and ICV, octets.
const TAIL: usize = 48;

/// Why a packet is not encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealError {
    /// The hard lifetime is over.
    Expired,
    /// All sequence numbers were used (RFC 4303 §3.3.3).
    Exhausted,
    /// The outer packet would be longer than its length field allows.
    TooLong,
    /// The buffer has too little room before or behind the packet.
    NoRoom,
}

/// A packet to encrypt.
#[derive(Debug, Clone, Copy)]
pub struct Sealing {
    /// Its place among the packets.
    pub at: usize,
    /// Its description.
    pub inner: Inner,
    /// What became of it. After an error it must be dropped.
    pub result: Result<(), SealError>,
}

/// The sending end of an association.
///
/// A value of one association must be the only one: two would send the same sequence numbers, which the receiver drops as
/// replays. IVs of GCM start at a random number of 64 bits and count up, so that none repeats in one value, and a process
/// that starts again with the same key repeats one with probability 2^-31 if both send 2^32 packets.
#[derive(Debug)]
pub struct Outbound {
    sa: Sa,
    cipher: Cipher,
    /// The last number used.
    sequence: u64,
    first_iv: u64,
    /// For IVs of CBC, which nobody may predict (RFC 3602 §3).
    random: StdRng,
    packets: u64,
    bytes: u64,
    identification: u16,
}

impl Outbound {
    /// An association that has sent nothing. `random` must be seeded by the system outside tests. `None` if a key is
    /// refused, which does not happen.
    pub fn new(sa: Sa, mut random: StdRng) -> Option<Self> {
        let cipher = Cipher::new(&sa.keys)?;
        let (first_iv, identification) = (random.random(), random.random());
        Some(Self { sa, cipher, sequence: 0, first_iv, random, packets: 0, bytes: 0, identification })
    }

    /// The association.
    pub const fn sa(&self) -> &Sa {
        &self.sa
    }

    /// Packets encrypted, and octets of the inner packets.
    pub const fn carried(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// The last sequence number used.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether the soft lifetime is over.
    pub const fn is_ageing(&self) -> bool {
        self.sa.soft.is_over(self.packets, self.bytes)
    }

    /// Continues numbers, counters and IVs of another value of the same association.
    pub fn continue_from(&mut self, before: &mut Self) {
        (self.sequence, self.first_iv) = (before.sequence, before.first_iv);
        (self.packets, self.bytes) = (before.packets, before.bytes);
        self.identification = before.identification;
    }

    /// Takes the sequence numbers of `packets` packets, or of fewer if no more are left. Numbers that are not used are
    /// left out, which receivers permit.
    ///
    /// # Errors
    /// [`SealError::Expired`], [`SealError::Exhausted`] if none is left.
    #[inline]
    pub(super) const fn reserve(&mut self, packets: u64) -> Result<RangeInclusive<u64>, SealError> {
        let last = if self.sa.esn { u64::MAX } else { u32::MAX as u64 };
        let left = last - self.sequence;
        if left == 0 {
            return Err(SealError::Exhausted);
        }
        if self.sa.hard.is_over(self.packets, self.bytes) {
            return Err(SealError::Expired);
        }
        let first = self.sequence + 1;
        self.sequence += if packets < left { packets } else { left };
        Ok(first..=self.sequence)
    }

    /// Encrypts packets in place and puts the outer headers before them: those that `sealings` name, in increasing order.
    /// Takes their sequence numbers. Up to [`BURST`] packets are encrypted side by side.
    #[inline]
    pub fn seal_many<P: PacketBuf>(&mut self, packets: &mut [P], sealings: &mut [Sealing]) {
        let mut numbers = match self.reserve(sealings.len() as u64) {
            Ok(numbers) => numbers,
            Err(error) => return sealings.iter_mut().for_each(|sealing| sealing.result = Err(error)),
        };
        for chunk in sealings.chunks_mut(BURST) {
            self.seal_chunk(packets, chunk, &mut numbers);
        }
    }

    #[inline]
    fn seal_chunk<P: PacketBuf>(
        &mut self,
        packets: &mut [P],
        sealings: &mut [Sealing],
        numbers: &mut RangeInclusive<u64>,
    ) {
        let (outer_len, mut works) = (self.sa.outer_len(), ArrayVec::<Work<'_>, BURST>::new());
        let mut rest = packets.iter_mut().enumerate();
        for Sealing { at, inner, result } in sealings.iter_mut() {
            let packet = rest.find(|(place, _)| place == at).map(|(_, packet)| packet);
            *result = match (packet, numbers.next()) {
                (Some(packet), Some(sequence)) => self.prepare(packet, inner, sequence).and_then(|()| {
                    let esp = packet.data_mut().get_mut(outer_len..).ok_or(SealError::NoRoom)?;
                    works.push(Work { esp, sequence, result: Ok(()) });
                    Ok(())
                }),
                (None, _) => Err(SealError::NoRoom),
                (_, None) => Err(SealError::Exhausted),
            };
        }
        self.cipher.seal_many(&mut works, self.sa.esn);
        let prepared = sealings.iter_mut().filter(|sealing| sealing.result.is_ok());
        for (sealing, work) in prepared.zip(works) {
            sealing.result = work.result.map_err(|_| SealError::TooLong);
        }
        if let (Some(_), IpAddr::V6(_)) = (self.sa.udp, self.sa.dst) {
            for sealing in sealings.iter().filter(|sealing| sealing.result.is_ok()) {
                let packet = packets.get_mut(sealing.at).map(PacketBuf::data_mut);
                if let Some(datagram) = packet.and_then(|packet| packet.get_mut(ipv6::HEADER_LEN..)) {
                    fill_udp_checksum(self.sa.src, self.sa.dst, datagram);
                }
            }
        }
    }

    /// Puts everything around an inner packet; then all is left to encrypt and to authenticate.
    #[inline]
    fn prepare<P: PacketBuf>(
        &mut self,
        packet: &mut P,
        inner: &Inner,
        sequence: u64,
    ) -> Result<(), SealError> {
        if self.sa.hard.is_over(self.packets, self.bytes) {
            return Err(SealError::Expired);
        }
        let (suite, outer_len) = (self.sa.suite(), self.sa.outer_len());
        let total_len = u16::try_from(self.sa.packet_len(inner.len)).map_err(|_| SealError::TooLong)?;
        packet.truncate(inner.len);
        let padding_len = esp::padding_len(inner.len, suite.alignment());
        let tail: [u8; TAIL] = esp::trailer(padding_len, inner.next_header());
        let tail = tail.get(..padding_len + TRAILER_LEN + suite.icv_len()).ok_or(SealError::TooLong)?;
        packet.append(tail).map_err(|_| SealError::NoRoom)?;
        packet.prepend(self.sa.front_len()).map_err(|_| SealError::NoRoom)?;
        let (outer, secured) = packet.data_mut().split_at_mut_checked(outer_len).ok_or(SealError::NoRoom)?;
        let (header, iv) = secured.split_first_chunk_mut::<HEADER_LEN>().ok_or(SealError::NoRoom)?;
        *header = esp::header(self.sa.spi, sequence as u32);
        let iv = iv.get_mut(..suite.iv_len()).ok_or(SealError::NoRoom)?;
        match suite {
            Suite::AesGcm => iv.copy_from_slice(&self.first_iv.wrapping_add(sequence).to_be_bytes()),
            Suite::AesCbcSha1 => self.random.fill_bytes(iv),
        }
        let udp_len = (secured.len() + UDP_HEADER_LEN) as u16;
        self.write_outer(outer, inner, total_len, udp_len);
        self.packets += 1;
        self.bytes += inner.len as u64;
        Ok(())
    }

    #[inline]
    fn write_outer(&mut self, outer: &mut [u8], inner: &Inner, total_len: u16, udp_len: u16) {
        let sa = &self.sa;
        // RFC 6040 §4.1, normal mode: ECN is copied.
        let dscp_ecn = sa.dscp.map_or(inner.dscp_ecn, |dscp| dscp << 2 | inner.dscp_ecn & ecn::MASK);
        let protocol = if sa.udp.is_some() { protocol::UDP } else { protocol::ESP };
        if let (Some(ports), Some(header)) = (sa.udp, outer.last_chunk_mut::<UDP_HEADER_LEN>()) {
            *header = udp_header(ports.src, ports.dst, udp_len, 0);
        }
        match (sa.src, sa.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let dont_fragment = match sa.df {
                    OuterDf::Copy => inner.dont_fragment,
                    OuterDf::Set => true,
                    OuterDf::Clear => false,
                };
                // RFC 6864: of use only for packets that may be fragmented.
                self.identification = self.identification.wrapping_add(1);
                let header = Ipv4Header {
                    dscp_ecn,
                    total_len,
                    identification: if dont_fragment { 0 } else { self.identification },
                    dont_fragment,
                    more_fragments: false,
                    fragment_units: 0,
                    ttl: sa.ttl,
                    protocol,
                    src,
                    dst,
                };
                if let Some(front) = outer.first_chunk_mut() {
                    *front = header.to_bytes();
                }
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = Ipv6Header {
                    traffic_class: dscp_ecn,
                    flow_label: 0,
                    payload_len: total_len.saturating_sub(ipv6::HEADER_LEN as u16),
                    next_header: protocol,
                    hop_limit: sa.ttl,
                    src,
                    dst,
                };
                if let Some(front) = outer.first_chunk_mut() {
                    *front = header.to_bytes();
                }
            }
            // A file with two versions is refused.
            _ => {}
        }
    }
}

/// The UDP checksum that IPv6 requires (RFC 8200 §8.1), in an outer packet of IPv6, UDP and ESP. IPv4 sends 0, as RFC
/// 3948 §2.1 advises.
fn fill_udp_checksum(src: IpAddr, dst: IpAddr, datagram: &mut [u8]) {
    let sum = upper_layer(src, dst, protocol::UDP, datagram).map(udp);
    if let (Some(sum), Some(field)) = (sum, datagram.get_mut(6..8)) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}
