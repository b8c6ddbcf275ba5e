//! Segments that are made of a stream's bytes.

use scalebricks_graph::Meta;
use scalebricks_io::PacketBuf;
use scalebricks_types::FiveTuple;
use scalebricks_wire::ipv4::Ipv4Header;
use scalebricks_wire::ipv6::Ipv6Header;
use scalebricks_wire::transport::TcpFlags;
use scalebricks_wire::{checksum, ipv4, ipv6, protocol};
use std::net::IpAddr;

/// Longest header before IP, bytes: Ethernet with two VLAN tags.
pub(crate) const MOST_LINK: usize = 22;
/// TCP header without options.
const TCP_LEN: usize = 20;
/// Most data of a segment: with both headers it is at most as long as an IPv4 packet.
const MOST_DATA: usize = 0xffff - ipv6::HEADER_LEN - TCP_LEN;
/// The window in made segments, which have no meaning for an endpoint.
const WINDOW: u16 = u16::MAX;

/// What a direction of a connection has beside its flow's record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Way {
    /// The header before IP of its first packet, and that packet's metadata.
    link: [u8; MOST_LINK],
    link_len: u8,
    is_noted: bool,
    /// A part of the stream has left.
    pub(crate) has_begun: bool,
    /// The stream's end has left.
    pub(crate) has_ended: bool,
    pub(crate) meta: Meta,
}

impl Way {
    /// Keeps the header before IP, and the metadata, of the first packet.
    pub(crate) fn note(&mut self, link: &[u8], meta: Meta) {
        if self.is_noted {
            return;
        }
        if let Some(kept) = self.link.get_mut(..link.len()) {
            kept.copy_from_slice(link);
            self.link_len = link.len() as u8; // at most MOST_LINK
        }
        (self.is_noted, self.meta) = (true, meta);
    }

    fn link(&self) -> &[u8] {
        self.link.get(..usize::from(self.link_len)).unwrap_or_default()
    }
}

/// The headers of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    /// The sender is its source.
    pub(crate) tuple: FiveTuple,
    pub(crate) way: Way,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: Option<u32>,
    /// Besides ACK.
    pub(crate) flags: TcpFlags,
}

impl Head {
    /// Writes a segment with as much of `bytes` as fits into an empty packet; returns how much. `None` if there is no room for
    /// the headers and a byte.
    pub(crate) fn write<P: PacketBuf>(&self, bytes: &[u8], packet: &mut P) -> Option<usize> {
        let ip_len = if self.tuple.src.is_ipv4() { ipv4::MIN_HEADER_LEN } else { ipv6::HEADER_LEN };
        let l3 = self.way.link().len();
        let l4 = l3 + ip_len;
        packet.append(self.way.link()).ok()?;
        packet.append(&[0; ipv6::HEADER_LEN + TCP_LEN][..ip_len + TCP_LEN]).ok()?;
        let (mut data, _) = bytes.split_at(bytes.len().min(MOST_DATA));
        if let Err(error) = packet.append(data) {
            (data, _) = data.split_at_checked(error.room).filter(|(data, _)| !data.is_empty())?;
            packet.append(data).ok()?;
        }
        let segment_len = (TCP_LEN + data.len()) as u16; // at most MOST_DATA
        let all = packet.data_mut();
        match (self.tuple.src, self.tuple.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = Ipv4Header {
                    dscp_ecn: 0,
                    total_len: ip_len as u16 + segment_len,
                    identification: 0,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_units: 0,
                    ttl: 64,
                    protocol: protocol::TCP,
                    src,
                    dst,
                };
                all.get_mut(l3..l4)?.copy_from_slice(&header.to_bytes());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = Ipv6Header {
                    traffic_class: 0,
                    flow_label: 0,
                    payload_len: segment_len,
                    next_header: protocol::TCP,
                    hop_limit: 64,
                    src,
                    dst,
                };
                all.get_mut(l3..l4)?.copy_from_slice(&header.to_bytes());
            }
            _ => return None, // not reached: both addresses of a flow are of one family
        }
        let segment = all.get_mut(l4..)?;
        self.write_tcp(segment.first_chunk_mut()?);
        let sum = checksum::upper_layer(self.tuple.src, self.tuple.dst, protocol::TCP, segment)?;
        segment.get_mut(16..18)?.copy_from_slice(&sum.to_be_bytes());
        Some(data.len())
    }

    fn write_tcp(&self, header: &mut [u8; TCP_LEN]) {
        let ack = if self.acknowledgment.is_some() { TcpFlags::ACK.0 } else { 0 };
        header[..2].copy_from_slice(&self.tuple.src_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.tuple.dst_port.to_be_bytes());
        header[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        header[8..12].copy_from_slice(&self.acknowledgment.unwrap_or(0).to_be_bytes());
        header[12] = (TCP_LEN as u8 / 4) << 4;
        header[13] = self.flags.0 | ack;
        header[14..16].copy_from_slice(&WINDOW.to_be_bytes());
    }

    /// Offset of the IP header, and length of that header.
    pub(crate) fn l3(&self) -> (usize, usize) {
        let ip_len = if self.tuple.src.is_ipv4() { ipv4::MIN_HEADER_LEN } else { ipv6::HEADER_LEN };
        (self.way.link().len(), ip_len)
    }
}
