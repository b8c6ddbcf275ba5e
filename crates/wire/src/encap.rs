//! Writes the outer headers of a G-PDU in front of a packet: Ethernet, IPv4, UDP, GTP-U.
//!
//! The outer UDP header has no checksum, which RFC 768 allows: the inner packet has its own.

use crate::ethernet::{self, ETHERTYPE_IPV4, MacAddr};
use crate::gtpu::{self, message};
use crate::ipv4::{self, Ipv4Header};
use crate::transport::{UDP_HEADER_LEN, udp_header};
use crate::{WriteError, protocol};
use scalebricks_types::{Qfi, Teid};
use std::net::Ipv4Addr;

/// Length of the outer headers, octets.
pub const OUTER_V4_LEN: usize = ethernet::HEADER_LEN + OUTER_V4_IP_LEN;
/// Length of the outer headers without Ethernet, octets: the MTU that a tunnel costs.
pub const OUTER_V4_IP_LEN: usize = ipv4::MIN_HEADER_LEN + UDP_HEADER_LEN + gtpu::HEADER_LEN;
/// Length that a PDU session container adds, octets.
pub const CONTAINER_LEN: usize = gtpu::CONTAINER_HEADER_LEN - gtpu::HEADER_LEN;

/// The tunnel of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// The TEID of the receiver.
    pub teid: Teid,
    /// The QoS flow, sent in a downlink PDU session container (TS 38.415 §5.5.2.1).
    pub qfi: Option<Qfi>,
    /// UDP source port, different per flow so that routers spread flows over paths (TS 29.281 §4.4.2.0).
    pub src_port: u16,
}

impl Tunnel {
    const fn container_len(self) -> usize {
        if self.qfi.is_some() { CONTAINER_LEN } else { 0 }
    }

    /// Writes UDP and GTP-U headers at the start of `out`, which is 16 or 24 octets long.
    #[inline]
    fn write(self, out: &mut [u8], inner_len: usize) -> Result<(), WriteError> {
        let (udp, gtpu) = out.split_first_chunk_mut::<UDP_HEADER_LEN>().ok_or(WriteError::NoRoom)?;
        let udp_len = (UDP_HEADER_LEN + gtpu.len()).saturating_add(inner_len);
        let udp_len = u16::try_from(udp_len).map_err(|_| WriteError::TooLong)?;
        *udp = udp_header(self.src_port, gtpu::PORT, udp_len, 0);
        match self.qfi {
            None => copy(gtpu, &message::gpdu_header(self.teid, inner_len)?),
            Some(qfi) => copy(gtpu, &message::gpdu_header_with_container(self.teid, qfi, false, inner_len)?),
        }
    }
}

#[inline]
fn copy(out: &mut [u8], bytes: &[u8]) -> Result<(), WriteError> {
    out.get_mut(..bytes.len()).ok_or(WriteError::NoRoom)?.copy_from_slice(bytes);
    Ok(())
}

/// The outer headers of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OuterV4 {
    /// MAC address of the next hop.
    pub dst_mac: MacAddr,
    /// MAC address of this node.
    pub src_mac: MacAddr,
    /// Address of this node.
    pub src: Ipv4Addr,
    /// Address of the base station.
    pub dst: Ipv4Addr,
    /// DSCP and ECN of the outer header. ECN is copied from the inner header (RFC 6040 §4.1, normal mode).
    pub dscp_ecn: u8,
    /// Identification; unique for packets that may be fragmented (RFC 6864).
    pub identification: u16,
    /// DF of the outer header.
    pub dont_fragment: bool,
    /// Time to live of the outer header.
    pub ttl: u8,
    /// The tunnel.
    pub tunnel: Tunnel,
}

impl OuterV4 {
    /// Length of the headers, 50 or 58 octets.
    #[inline]
    pub const fn header_len(&self) -> usize {
        OUTER_V4_LEN + self.tunnel.container_len()
    }

    /// Writes the headers into the first [`header_len`](Self::header_len) octets of `frame`, before an inner packet of
    /// `inner_len` octets, which is not read. Returns the header length.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`] if `frame` is shorter than the headers; [`WriteError::TooLong`] if the outer packet
    /// would be longer than 65,535 octets. `frame` may then hold part of the headers.
    #[inline]
    pub fn write(&self, frame: &mut [u8], inner_len: usize) -> Result<usize, WriteError> {
        let header_len = self.header_len();
        let headers = frame.get_mut(..header_len).ok_or(WriteError::NoRoom)?;
        let total_len = (header_len - ethernet::HEADER_LEN).saturating_add(inner_len);
        let ip = Ipv4Header {
            dscp_ecn: self.dscp_ecn,
            total_len: u16::try_from(total_len).map_err(|_| WriteError::TooLong)?,
            identification: self.identification,
            dont_fragment: self.dont_fragment,
            more_fragments: false,
            fragment_units: 0,
            ttl: self.ttl,
            protocol: protocol::UDP,
            src: self.src,
            dst: self.dst,
        };
        let (eth, rest) = headers.split_first_chunk_mut().ok_or(WriteError::NoRoom)?;
        let (ipv4, rest) = rest.split_first_chunk_mut().ok_or(WriteError::NoRoom)?;
        *eth = ethernet::header(self.dst_mac, self.src_mac, ETHERTYPE_IPV4);
        *ipv4 = ip.to_bytes();
        self.tunnel.write(rest, inner_len)?;
        Ok(header_len)
    }
}

/// The constant part of the outer headers of one sender. Writes the same octets as [`OuterV4`], in whole words and with
/// most of the checksum computed beforehand.
#[derive(Debug, Clone, Copy)]
pub struct OuterV4Template {
    /// The first two octets of the source, in the high bits, and the others followed by the Ethertype.
    src_mac: [u64; 2],
    src: u64,
    ttl: u64,
    /// The checksum of the constant fields.
    sum: u32,
}

/// The variable fields of the outer headers.
#[derive(Debug, Clone, Copy)]
pub struct OuterV4Fields {
    /// MAC address of the next hop.
    pub dst_mac: MacAddr,
    /// Address of the base station.
    pub dst: Ipv4Addr,
    /// DSCP and ECN of the outer header.
    pub dscp_ecn: u8,
    /// The identification of a packet that will be fragmented: DF is clear, and the number must be unique for source,
    /// destination and protocol within a datagram's lifetime (RFC 6864 §4.3). `None`: an atomic packet, which has DF
    /// set and identification 0 (RFC 6864 §4.1: any value will do).
    pub identification: Option<u16>,
    /// The tunnel.
    pub tunnel: Tunnel,
}

/// The first octets of an IPv4 header.
const VERSION_AND_LEN: u64 = 0x45;
/// DF in the 16 bits of flags and fragment offset (RFC 791 §3.1).
const DONT_FRAGMENT: u16 = 0x4000;

impl OuterV4Template {
    /// The headers of packets from `src` and `src_mac` with this time to live.
    pub fn new(src_mac: MacAddr, src: Ipv4Addr, ttl: u8) -> Self {
        let [a, b, c, d, e, f] = src_mac.0;
        let [t0, t1] = ETHERTYPE_IPV4.to_be_bytes();
        let sum = 0x4500 + (u32::from(ttl) << 8 | u32::from(protocol::UDP)) + halves(src);
        Self {
            src_mac: [
                u64::from_le_bytes([0, 0, 0, 0, 0, 0, a, b]),
                u64::from_le_bytes([c, d, e, f, t0, t1, 0, 0]),
            ],
            src: u64::from(src.to_bits().swap_bytes()),
            ttl: u64::from(ttl),
            sum,
        }
    }

    /// Writes the headers into the first 50 octets of `frame`, or 58 with a QFI, before an inner packet of `inner_len`
    /// octets, which is not read.
    ///
    /// # Errors
    /// As [`OuterV4::write`]; `frame` is then unchanged.
    #[inline(always)]
    pub fn write(
        &self,
        fields: &OuterV4Fields,
        frame: &mut [u8],
        inner_len: usize,
    ) -> Result<(), WriteError> {
        let container_len = fields.tunnel.container_len();
        let payload_len = container_len.saturating_add(inner_len);
        let total_len = OUTER_V4_IP_LEN.saturating_add(payload_len);
        if total_len > usize::from(u16::MAX) {
            return Err(WriteError::TooLong);
        }
        if frame.len() < OUTER_V4_LEN + container_len {
            return Err(WriteError::NoRoom);
        }
        if let Some(qfi) = fields.tunnel.qfi {
            let options = message::container_options(qfi, false);
            copy(frame.get_mut(OUTER_V4_LEN..).ok_or(WriteError::NoRoom)?, &options)?;
        }
        let head = frame.first_chunk_mut::<OUTER_V4_LEN>().ok_or(WriteError::NoRoom)?;
        let (teid, dst) = (fields.tunnel.teid.get(), fields.dst.to_bits());
        // Octets in memory order, the first in the lowest bits.
        let short = |number: u16| u64::from(number.swap_bytes());
        // Identification, flags and fragment offset in header order, and their part of the checksum. They are constant for
        // atomic packets, which nearly all packets are.
        let (fragment_fields, fragment_sum) = match fields.identification {
            None => (short(DONT_FRAGMENT) << 32, u32::from(DONT_FRAGMENT)),
            Some(identification) => (short(identification) << 16, u32::from(identification)),
        };
        // The sum of ten 16-bit numbers does not overflow.
        let sum =
            self.sum + u32::from(fields.dscp_ecn) + total_len as u32 + fragment_sum + halves(fields.dst);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        let [a, b, c, d, e, f] = fields.dst_mac.0;
        let flags = message::gpdu_flags(fields.tunnel.qfi.is_some());
        let words = [
            u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) | self.src_mac[0],
            self.src_mac[1] | (VERSION_AND_LEN | u64::from(fields.dscp_ecn) << 8) << 48,
            short(total_len as u16) | fragment_fields | self.ttl << 48 | u64::from(protocol::UDP) << 56,
            short(sum) | self.src << 16 | short((dst >> 16) as u16) << 48,
            short(dst as u16)
                | short(fields.tunnel.src_port) << 16
                | short(gtpu::PORT) << 32
                | short((total_len - ipv4::MIN_HEADER_LEN) as u16) << 48,
            // No UDP checksum.
            u64::from(flags) << 16 | short(payload_len as u16) << 32 | short((teid >> 16) as u16) << 48,
        ];
        let (whole, last) = head.split_at_mut(48);
        for (into, word) in whole.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *into = word.to_le_bytes();
        }
        last.copy_from_slice(&(teid as u16).to_be_bytes());
        Ok(())
    }
}

/// The sum of an address's two halves.
const fn halves(address: Ipv4Addr) -> u32 {
    (address.to_bits() >> 16) + (address.to_bits() & 0xffff)
}
