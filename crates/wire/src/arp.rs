//! ARP for IPv4 over Ethernet (RFC 826).

use crate::{MacAddr, ParseError};
use std::net::Ipv4Addr;

/// Length of a message, octets; Ethernet padding may follow it.
pub const MESSAGE_LEN: usize = 28;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A request for the MAC address of the target.
    Request,
    /// A reply.
    Reply,
    /// Any other operation number.
    Other(u16),
}

impl Operation {
    const fn number(self) -> u16 {
        match self {
            Self::Request => 1,
            Self::Reply => 2,
            Self::Other(number) => number,
        }
    }
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// Its kind.
    pub operation: Operation,
    /// Hardware address of the sender.
    pub sender_mac: MacAddr,
    /// IPv4 address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Hardware address of the target; zero in a request.
    pub target_mac: MacAddr,
    /// IPv4 address of the target.
    pub target_ip: Ipv4Addr,
}

/// Hardware type 1, protocol type 0x0800, address lengths 6 and 4.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

impl Arp {
    /// Reads a message from an Ethernet payload.
    ///
    /// # Errors
    /// [`ParseError::Truncated`]; [`ParseError::BadProtocolType`] unless it is IPv4 over Ethernet.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let message = bytes.first_chunk::<MESSAGE_LEN>().ok_or(ParseError::Truncated)?;
        let &[t0, t1, t2, t3, t4, t5, o0, o1, sender @ .., a, b, c, d, e, f, w, x, y, z] = message;
        if [t0, t1, t2, t3, t4, t5] != ETHERNET_IPV4 {
            return Err(ParseError::BadProtocolType);
        }
        let [g, h, i, j, k, l, s0, s1, s2, s3]: [u8; 10] = sender;
        Ok(Self {
            operation: match u16::from_be_bytes([o0, o1]) {
                1 => Operation::Request,
                2 => Operation::Reply,
                other => Operation::Other(other),
            },
            sender_mac: MacAddr([g, h, i, j, k, l]),
            sender_ip: Ipv4Addr::new(s0, s1, s2, s3),
            target_mac: MacAddr([a, b, c, d, e, f]),
            target_ip: Ipv4Addr::new(w, x, y, z),
        })
    }

    /// The message as bytes.
    pub fn to_bytes(&self) -> [u8; MESSAGE_LEN] {
        let mut out = [0; MESSAGE_LEN];
        out[..6].copy_from_slice(&ETHERNET_IPV4);
        out[6..8].copy_from_slice(&self.operation.number().to_be_bytes());
        out[8..14].copy_from_slice(&self.sender_mac.0);
        out[14..18].copy_from_slice(&self.sender_ip.octets());
        out[18..24].copy_from_slice(&self.target_mac.0);
        out[24..].copy_from_slice(&self.target_ip.octets());
        out
    }

    /// The reply to this request from `mac`.
    pub const fn reply(&self, mac: MacAddr) -> Self {
        Self {
            operation: Operation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }
}
