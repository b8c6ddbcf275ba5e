//! Errors of parsing and writing.

macro_rules! named {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every variant, in order of declaration: one counter each.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// A name for counters: lower case, words joined by `_`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}

/// An error of parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParseError {
    /// The buffer, or the enclosing packet, ends before the header or the length it states.
    #[error("the bytes end before the header or the length it states")]
    Truncated,
    /// Neither IPv4 nor IPv6, or not GTP version 1.
    #[error("unknown version")]
    BadVersion,
    /// A header length below the protocol's minimum.
    #[error("header length below the minimum")]
    BadHeaderLength,
    /// A total or payload length that does not cover the header.
    #[error("total length does not cover the header")]
    BadTotalLength,
    /// A fragment that ends beyond octet 65,535, or an IPv6 fragment whose length is not a multiple of 8 octets.
    #[error("fragment outside the largest packet or not in 8-octet units")]
    BadFragment,
    /// More extension headers than the limit.
    #[error("too many extension headers")]
    TooManyExtensions,
    /// An extension header in a wrong place, or of zero length.
    #[error("malformed extension header")]
    BadExtension,
    /// More than two VLAN tags.
    #[error("more than two VLAN tags")]
    TooManyVlanTags,
    /// An unsupported hardware or protocol type (ARP other than IPv4 over Ethernet, GTP').
    #[error("unsupported protocol type")]
    BadProtocolType,
    /// An information element that is missing, too short or of unknown length.
    #[error("malformed information element")]
    BadElement,
}

named!(ParseError {
    Truncated => "truncated",
    BadVersion => "bad_version",
    BadHeaderLength => "bad_header_length",
    BadTotalLength => "bad_total_length",
    BadFragment => "bad_fragment",
    TooManyExtensions => "too_many_extensions",
    BadExtension => "bad_extension",
    TooManyVlanTags => "too_many_vlan_tags",
    BadProtocolType => "bad_protocol_type",
    BadElement => "bad_element",
});

/// An error of writing a packet. The output is unchanged or holds part of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WriteError {
    /// The output buffer is too short.
    #[error("the output buffer is too short")]
    NoRoom,
    /// A length does not fit its field.
    #[error("a length does not fit its field")]
    TooLong,
    /// Source and destination are of different IP versions, or not of the required one.
    #[error("addresses of the wrong IP version")]
    AddressFamily,
    /// The packet must not be answered with an ICMP error (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e)).
    #[error("the packet must not be answered with an ICMP error")]
    NoErrorAllowed,
    /// The given packet is malformed.
    #[error("malformed packet: {0}")]
    Malformed(#[from] ParseError),
    /// The MTU leaves no room for 8 octets of payload.
    #[error("the MTU leaves no room for 8 octets of payload")]
    MtuTooSmall,
    /// The packet has DF set.
    #[error("the packet must not be fragmented")]
    DontFragment,
}

impl WriteError {
    /// A name for counters: lower case, words joined by `_`. A malformed packet has its [`ParseError`]'s name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoRoom => "no_room",
            Self::TooLong => "too_long",
            Self::AddressFamily => "address_family",
            Self::NoErrorAllowed => "no_error_allowed",
            Self::Malformed(error) => error.name(),
            Self::MtuTooSmall => "mtu_too_small",
            Self::DontFragment => "dont_fragment",
        }
    }
}
