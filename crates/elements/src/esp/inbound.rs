//! The receiving end of an association.

use super::inner::{Inner, set_dscp_ecn};
use super::replay::ReplayWindow;
use super::sa::Sa;
use super::suite::{Cipher, Work};
use arrayvec::ArrayVec;
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_wire::checksum::upper_layer;
use scalebricks_wire::esp::{self, Esp, HEADER_LEN, UdpPayload};
use scalebricks_wire::ipv4::Ipv4;
use scalebricks_wire::ipv6::Ipv6;
use scalebricks_wire::transport::{UDP_HEADER_LEN, Udp};
use scalebricks_wire::{ecn, protocol};
use std::net::IpAddr;
use std::ops::Range;

/// An outer packet that may be for an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outer {
    /// ESP.
    Esp(EspPacket),
    /// Its UDP packet keeps a NAT's mapping alive.
    Keepalive,
    /// A fragment, which ESP cannot process (RFC 4303 §3.4.1).
    Fragment,
    /// Another packet, such as IKE.
    Other,
    /// A malformed one.
    Malformed,
}

/// The place of an ESP packet in an outer packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EspPacket {
    /// SPI.
    pub spi: u32,
    /// Low 32 bits of the sequence number.
    pub sequence: u32,
    /// Outer destination.
    pub dst: IpAddr,
    /// Whether it came in UDP.
    pub is_in_udp: bool,
    /// DSCP and ECN of the outer header.
    pub dscp_ecn: u8,
    /// From the ESP header on.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

impl Outer {
    /// Reads an outer packet of either version at the start of `bytes`.
    #[inline]
    pub fn read(bytes: &[u8]) -> Self {
        Self::try_read(bytes).unwrap_or(Self::Malformed)
    }

    #[inline]
    fn try_read(bytes: &[u8]) -> Option<Self> {
        let (src, dst, protocol, dscp_ecn, is_fragment, payload, len): (IpAddr, IpAddr, _, _, _, _, _) =
            match bytes.first()? >> 4 {
                4 => {
                    let ip = Ipv4::parse(bytes).ok()?;
                    let is_fragment = ip.more_fragments() || ip.fragment_offset() > 0;
                    let len = ip.total_len();
                    (
                        ip.src().into(),
                        ip.dst().into(),
                        ip.protocol(),
                        ip.dscp_ecn(),
                        is_fragment,
                        ip.payload(),
                        len,
                    )
                }
                6 => {
                    let ip = Ipv6::parse(bytes).ok()?;
                    let len = scalebricks_wire::ipv6::HEADER_LEN + ip.payload_len();
                    let is_fragment = ip.fragment().is_some();
                    (
                        ip.src().into(),
                        ip.dst().into(),
                        ip.protocol(),
                        ip.traffic_class(),
                        is_fragment,
                        ip.payload(),
                        len,
                    )
                }
                _ => return None,
            };
        if !matches!(protocol, protocol::ESP | protocol::UDP) {
            return Some(Self::Other);
        }
        if is_fragment {
            return Some(Self::Fragment);
        }
        let mut start = len.checked_sub(payload.len())?;
        let (mut end, mut secured) = (len, payload);
        let is_in_udp = protocol == protocol::UDP;
        if is_in_udp {
            let udp = Udp::parse(payload).ok()?;
            if udp.dst_port() != esp::UDP_PORT {
                return Some(Self::Other);
            }
            match UdpPayload::classify(udp.payload()).ok()? {
                UdpPayload::Keepalive => return Some(Self::Keepalive),
                UdpPayload::Ike => return Some(Self::Other),
                UdpPayload::Esp => {}
            }
            let datagram = payload.get(..usize::from(udp.len()))?;
            // RFC 3948 §2.1 sends none over IPv4; one that is there holds.
            if udp.checksum() != 0 && upper_layer(src, dst, protocol::UDP, datagram)? != 0 {
                return None;
            }
            (start, end, secured) = (start + UDP_HEADER_LEN, start + datagram.len(), udp.payload());
        }
        let Esp { spi, sequence, .. } = Esp::parse(secured).ok()?;
        Some(Self::Esp(EspPacket { spi, sequence, dst, is_in_udp, dscp_ecn, start, end }))
    }
}

/// Why a packet is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// The hard lifetime is over.
    Expired,
    /// The sequence number was accepted before, or is below the window.
    Replay,
    /// It is not authentic.
    BadIcv,
    /// It is authentic, but padding, next header or inner packet are wrong.
    Malformed,
    /// The inner addresses are outside the association's selectors.
    Policy,
    /// The outer header marks congestion, and the inner transport does not know ECN (RFC 6040 §4.2).
    Ecn,
    /// A packet without content (RFC 4303 §2.6).
    Dummy,
}

/// A packet to decrypt.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// Its place among the packets.
    pub at: usize,
    /// The place of the ESP packet in it.
    pub place: EspPacket,
    /// What became of it. After an error it must be dropped.
    pub result: Result<(), OpenError>,
}

/// The receiving end of an association.
#[derive(Debug)]
pub struct Inbound {
    sa: Sa,
    cipher: Cipher,
    window: ReplayWindow,
    packets: u64,
    bytes: u64,
}

impl Inbound {
    /// An association that has received nothing. `None` if a key is refused, which does not happen.
    pub fn new(sa: Sa) -> Option<Self> {
        let (cipher, window) = (Cipher::new(&sa.keys)?, ReplayWindow::new(sa.window, sa.esn));
        Some(Self { sa, cipher, window, packets: 0, bytes: 0 })
    }

    /// The association.
    pub const fn sa(&self) -> &Sa {
        &self.sa
    }

    /// Packets let in, and octets of the inner packets.
    pub const fn carried(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// The highest sequence number received.
    pub const fn sequence(&self) -> u64 {
        self.window.top()
    }

    /// Whether the soft lifetime is over.
    pub const fn is_ageing(&self) -> bool {
        self.sa.soft.is_over(self.packets, self.bytes)
    }

    /// Continues window and counters of another value of the same association.
    pub fn continue_from(&mut self, before: &mut Self) {
        if before.sa.window == self.sa.window {
            std::mem::swap(&mut self.window, &mut before.window);
        } else {
            // What was below the old top is not accepted again.
            self.window.accept(before.window.top());
        }
        (self.packets, self.bytes) = (before.packets, before.bytes);
    }

    /// Whether a packet is for this association.
    #[inline]
    pub fn takes(&self, packet: &EspPacket) -> bool {
        packet.spi == self.sa.spi.get()
            && packet.dst == self.sa.dst
            && packet.is_in_udp == self.sa.udp.is_some()
    }

    /// Decrypts packets in place, and removes everything around the inner packets (RFC 4303 §3.4): those that `openings`
    /// name, in increasing order. The results are as if they were decrypted one by one. Up to [`BURST`] packets are
    /// decrypted side by side.
    #[inline]
    pub fn open_many<P: PacketBuf>(&mut self, packets: &mut [P], mut openings: &mut [Opening]) {
        while !openings.is_empty() {
            let done = self.open_some(packets, openings);
            openings = &mut openings[done..];
        }
    }

    /// Decrypts some packets, at least one; returns how many.
    #[inline]
    fn open_some<P: PacketBuf>(&mut self, packets: &mut [P], openings: &mut [Opening]) -> usize {
        let (mut works, mut sequences) = (ArrayVec::<Work<'_>, BURST>::new(), ArrayVec::<_, BURST>::new());
        let is_over = self.sa.hard.is_over(self.packets, self.bytes);
        let (mut top, mut rest) = (self.window.top(), packets.iter_mut().enumerate());
        for Opening { at, place, .. } in openings.iter().take(BURST) {
            let sequence = self.window.infer(place.sequence);
            // The packets before may move the window. If that changed this number, it has to wait.
            if self.window.infer_at(top, place.sequence) != sequence {
                break;
            }
            let packet = rest.find(|(number, _)| number == at).map(|(_, packet)| packet.data_mut());
            let esp = packet.and_then(|bytes| bytes.get_mut(place.start..place.end));
            // Before the work of decryption; it is marked only when the packet is authentic.
            let new = sequence.filter(|sequence| !is_over && self.window.is_new(*sequence));
            sequences.push((new, new.is_some() && esp.is_some()));
            if let (Some(sequence), Some(esp)) = (new, esp) {
                top = top.max(sequence);
                works.push(Work { esp, sequence, result: Ok(()) });
            }
        }
        self.cipher.open_many(&mut works, self.sa.esn);
        let opened: ArrayVec<_, BURST> = works.into_iter().map(|work| work.result).collect();
        let mut opened = opened.into_iter();
        for (opening, (sequence, is_tried)) in openings.iter_mut().zip(&sequences) {
            let opened = if *is_tried { opened.next() } else { None };
            opening.result = match (packets.get_mut(opening.at), sequence) {
                _ if self.sa.hard.is_over(self.packets, self.bytes) => Err(OpenError::Expired),
                (Some(packet), Some(sequence)) if self.window.is_new(*sequence) => match opened {
                    Some(Ok(())) => self.accept(packet, &opening.place, *sequence),
                    Some(Err(_)) => Err(OpenError::BadIcv),
                    None => Err(OpenError::Malformed),
                },
                _ => Err(OpenError::Replay),
            };
        }
        sequences.len()
    }

    /// Lets in a packet that is authentic and decrypted.
    #[inline]
    fn accept<P: PacketBuf>(
        &mut self,
        packet: &mut P,
        at: &EspPacket,
        sequence: u64,
    ) -> Result<(), OpenError> {
        self.window.accept(sequence);
        let secured = packet.data_mut().get_mut(at.start..at.end).ok_or(OpenError::Malformed)?;
        let suite = self.sa.suite();
        let end = secured.len().checked_sub(suite.icv_len()).ok_or(OpenError::Malformed)?;
        let range = HEADER_LEN + suite.iv_len()..end;
        let start = at.start + range.start;
        let inner = self.inner(secured, range, at.dscp_ecn)?;
        packet.reframe(start, inner.len, 0).map_err(|_| OpenError::Malformed)?;
        self.packets += 1;
        self.bytes += inner.len as u64;
        Ok(())
    }

    fn inner(&self, secured: &mut [u8], range: Range<usize>, outer_ecn: u8) -> Result<Inner, OpenError> {
        let plain = secured.get_mut(range).ok_or(OpenError::Malformed)?;
        let (len, next_header) = esp::parse_trailer(plain).map_err(|_| OpenError::Malformed)?;
        if next_header == esp::NO_NEXT_HEADER {
            return Err(OpenError::Dummy);
        }
        // What follows the inner packet is padding against traffic analysis (RFC 4303 §2.7).
        let content = plain.get_mut(..len).ok_or(OpenError::Malformed)?;
        let inner = Inner::read(content).map_err(|_| OpenError::Malformed)?;
        if inner.next_header() != next_header {
            return Err(OpenError::Malformed);
        }
        if !self.sa.selects(inner.src, inner.dst) {
            return Err(OpenError::Policy);
        }
        let dscp_ecn = ecn::decapsulate(inner.dscp_ecn, outer_ecn).ok_or(OpenError::Ecn)?;
        if dscp_ecn != inner.dscp_ecn {
            set_dscp_ecn(content, dscp_ecn);
        }
        Ok(inner)
    }
}
