//! Reading ICMP (RFC 792) and ICMPv6 (RFC 4443).

use crate::ParseError;

/// Length of the header, octets; an error quotes the packet behind it.
pub const HEADER_LEN: usize = 8;

/// Types and codes of ICMP for IPv4 (RFC 792).
pub mod v4 {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Code of [`UNREACHABLE`]: network.
    pub const CODE_NET: u8 = 0;
    /// Code of [`UNREACHABLE`]: host.
    pub const CODE_HOST: u8 = 1;
    /// Code of [`UNREACHABLE`]: port.
    pub const CODE_PORT: u8 = 3;
    /// Code of [`UNREACHABLE`]: fragmentation needed and DF set (RFC 1191).
    pub const CODE_FRAGMENTATION_NEEDED: u8 = 4;
    /// Code of [`UNREACHABLE`]: administratively prohibited (RFC 1812 §5.2.7.1).
    pub const CODE_PROHIBITED: u8 = 13;
    /// Source quench (deprecated, RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Types and codes of ICMP for IPv6 (RFC 4443).
pub mod v6 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Code of [`UNREACHABLE`]: no route.
    pub const CODE_NO_ROUTE: u8 = 0;
    /// Code of [`UNREACHABLE`]: administratively prohibited.
    pub const CODE_PROHIBITED: u8 = 1;
    /// Code of [`UNREACHABLE`]: address.
    pub const CODE_ADDRESS: u8 = 3;
    /// Code of [`UNREACHABLE`]: port.
    pub const CODE_PORT: u8 = 4;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Redirect (RFC 4861 §4.5): informational by number, yet never answered with an error.
    pub const REDIRECT: u8 = 137;
}

/// Whether a type of ICMP for IPv4 reports an error and quotes a packet (RFC 1122 §3.2.2).
#[inline]
pub const fn is_error_v4(kind: u8) -> bool {
    matches!(
        kind,
        v4::UNREACHABLE | v4::SOURCE_QUENCH | v4::REDIRECT | v4::TIME_EXCEEDED | v4::PARAMETER_PROBLEM
    )
}

/// Whether a type of ICMPv6 reports an error: the high bit is clear (RFC 4443 §2.1).
#[inline]
pub const fn is_error_v6(kind: u8) -> bool {
    kind < 128
}

/// The IP version an ICMP message belongs to: types mean different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// ICMP for IPv4.
    V4,
    /// ICMPv6.
    V6,
}

/// A message whose header is proven to be there.
#[derive(Debug, Clone, Copy)]
pub struct Icmp<'a> {
    version: Version,
    header: &'a [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> Icmp<'a> {
    /// Reads a message. The checksum is not looked at.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] below 8 octets.
    #[inline]
    pub fn parse(version: Version, bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, body) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        Ok(Self { version, header, body })
    }

    /// Type.
    #[inline]
    pub const fn kind(&self) -> u8 {
        self.header[0]
    }

    /// Code.
    #[inline]
    pub const fn code(&self) -> u8 {
        self.header[1]
    }

    /// The checksum field.
    #[inline]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// The second half of the header: identifier and sequence of an echo, MTU, pointer or unused.
    #[inline]
    pub const fn rest_of_header(&self) -> [u8; 4] {
        let [.., a, b, c, d] = *self.header;
        [a, b, c, d]
    }

    /// Whether the message reports an error.
    #[inline]
    pub const fn is_error(&self) -> bool {
        match self.version {
            Version::V4 => is_error_v4(self.kind()),
            Version::V6 => is_error_v6(self.kind()),
        }
    }

    /// The next-hop MTU, octets, of "fragmentation needed" (RFC 1191 §4; 0 from old routers) and "packet too big"
    /// (RFC 4443 §3.2).
    pub const fn mtu(&self) -> Option<u32> {
        let [a, b, c, d] = self.rest_of_header();
        match (self.version, self.kind(), self.code()) {
            (Version::V4, v4::UNREACHABLE, v4::CODE_FRAGMENTATION_NEEDED) => {
                Some(u32::from_be_bytes([0, 0, c, d]))
            }
            (Version::V6, v6::PACKET_TOO_BIG, _) => Some(u32::from_be_bytes([a, b, c, d])),
            _ => None,
        }
    }

    /// The packet an error quotes: from its IP header, cut off anywhere. For [`parse_quoted`](crate::parse_quoted).
    #[inline]
    pub const fn quoted(&self) -> Option<&'a [u8]> {
        if self.is_error() { Some(self.body) } else { None }
    }

    /// What follows the header.
    #[inline]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }
}
