//! Shared by several targets: frames in an input, and correct checksums.

pub mod tables;

use scalebricks_wire::{checksum, parse_frame, parse_ip, protocol};

/// The steps of an input. Each has an action, a delay, the length of a frame in two octets, and the frame.
#[derive(Debug)]
pub struct Steps<'a>(pub &'a [u8]);

impl<'a> Iterator for Steps<'a> {
    type Item = (u8, u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let [what, later, high, low, rest @ ..] = self.0 else { return None };
        let (frame, rest) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(rest.len()));
        self.0 = rest;
        Some((*what, *later, frame))
    }
}

/// Corrects the checksums of a frame, so that the input reaches more than the parsers.
pub fn mend(frame: &mut [u8]) {
    let Ok(header) = parse_frame(frame) else { return };
    let Some(packet) = frame.get_mut(header.l3_offset..) else { return };
    let Ok(parsed) = parse_ip(packet) else { return };
    let (ip, l4_len) = (parsed.summary, parsed.l4().len());
    let l4 = usize::from(ip.l4_offset)..usize::from(ip.l4_offset) + l4_len;
    if ip.is_ipv4() {
        packet[10..12].fill(0);
        let sum = checksum::checksum(&packet[..usize::from(ip.header_len)]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let at = match ip.protocol {
        protocol::ICMPV4 | protocol::ICMPV6 => 2,
        protocol::UDP => 6,
        _ => return,
    };
    let Some(message) = packet.get_mut(l4).filter(|message| message.len() >= 8) else { return };
    message[at..at + 2].fill(0);
    let sum = match ip.protocol {
        protocol::ICMPV4 => Some(checksum::checksum(message)),
        other => checksum::upper_layer(ip.src, ip.dst, other, message),
    };
    message[at..at + 2].copy_from_slice(&sum.unwrap_or(0).to_be_bytes());
}
