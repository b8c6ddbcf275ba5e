//! UDP (RFC 768) and TCP (RFC 9293).

use crate::ParseError;

/// Length of a UDP header, octets.
pub const UDP_HEADER_LEN: usize = 8;
/// Length of a TCP header without options, octets.
pub const TCP_MIN_HEADER_LEN: usize = 20;

/// A UDP datagram with a valid length.
#[derive(Debug, Clone, Copy)]
pub struct Udp<'a> {
    header: &'a [u8; UDP_HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Reads a header, and removes what follows the datagram. The checksum is not checked.
    ///
    /// # Errors
    /// [`ParseError::Truncated`]; [`ParseError::BadTotalLength`] below 8 (0 means a jumbogram, RFC 2675, which is not supported).
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        let view = Self { header, payload: rest };
        let len = usize::from(view.len()).checked_sub(UDP_HEADER_LEN).ok_or(ParseError::BadTotalLength)?;
        Ok(Self { payload: rest.get(..len).ok_or(ParseError::Truncated)?, ..view })
    }

    /// Source port.
    #[inline]
    pub const fn src_port(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }

    /// Destination port.
    #[inline]
    pub const fn dst_port(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// The length field: header and payload, octets, at least 8.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a datagram has a header and is never empty")]
    pub const fn len(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    /// The checksum field; 0 means none.
    #[inline]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    /// The payload.
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A UDP header; `len` counts header and payload, `checksum` 0 means none.
#[inline]
pub const fn udp_header(src_port: u16, dst_port: u16, len: u16, checksum: u16) -> [u8; UDP_HEADER_LEN] {
    let ([s0, s1], [d0, d1]) = (src_port.to_be_bytes(), dst_port.to_be_bytes());
    let ([l0, l1], [c0, c1]) = (len.to_be_bytes(), checksum.to_be_bytes());
    [s0, s1, d0, d1, l0, l1, c0, c1]
}

/// The control bits of a TCP segment (RFC 9293 §3.1), CWR to FIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// The sender has finished sending.
    pub const FIN: Self = Self(0x01);
    /// Starts a connection.
    pub const SYN: Self = Self(0x02);
    /// Resets it.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is valid.
    pub const URG: Self = Self(0x20);

    /// Whether all bits of `flags` are set.
    #[inline]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// A TCP segment with a valid header length.
#[derive(Debug, Clone, Copy)]
pub struct Tcp<'a> {
    fixed: &'a [u8; TCP_MIN_HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Tcp<'a> {
    /// Reads a header. The checksum is not checked.
    ///
    /// # Errors
    /// [`ParseError::Truncated`]; [`ParseError::BadHeaderLength`] for a data offset below 5.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (fixed, rest) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        let fixed: &[u8; TCP_MIN_HEADER_LEN] = fixed;
        // RFC 9293 §3.1: the data offset is in 32-bit words, at least 5.
        let options_len = (usize::from(fixed[12] >> 4) * 4)
            .checked_sub(TCP_MIN_HEADER_LEN)
            .ok_or(ParseError::BadHeaderLength)?;
        let (options, payload) = rest.split_at_checked(options_len).ok_or(ParseError::Truncated)?;
        Ok(Self { fixed, options, payload })
    }

    /// Source port.
    #[inline]
    pub const fn src_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[0], self.fixed[1]])
    }

    /// Destination port.
    #[inline]
    pub const fn dst_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// Sequence number.
    #[inline]
    pub const fn sequence(&self) -> u32 {
        u32::from_be_bytes([self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]])
    }

    /// Acknowledgment number; valid if the flags contain [`TcpFlags::ACK`].
    #[inline]
    pub const fn acknowledgment(&self) -> u32 {
        u32::from_be_bytes([self.fixed[8], self.fixed[9], self.fixed[10], self.fixed[11]])
    }

    /// The window field, not scaled.
    #[inline]
    pub const fn window(&self) -> u16 {
        u16::from_be_bytes([self.fixed[14], self.fixed[15]])
    }

    /// Control bits.
    #[inline]
    pub const fn flags(&self) -> TcpFlags {
        TcpFlags(self.fixed[13])
    }

    /// Length of the header (the data offset), 20 to 60 octets.
    #[inline]
    pub const fn header_len(&self) -> usize {
        TCP_MIN_HEADER_LEN + self.options.len()
    }

    /// The checksum field.
    #[inline]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[16], self.fixed[17]])
    }

    /// The options, 0 to 40 octets.
    #[inline]
    pub const fn options(&self) -> &'a [u8] {
        self.options
    }

    /// The payload.
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
