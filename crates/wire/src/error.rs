//! Why bytes are no packet, and why a packet was not written.

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

/// Why bytes are not the header they were read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParseError {
    /// The buffer, or the enclosing packet, ends before the header or the length it states.
    #[error("the bytes end before the header or the length it states")]
    Truncated,
    /// Not the version the reader knows (IPv4, IPv6; GTP version 1).
    #[error("unknown version")]
    BadVersion,
    /// A header length below the protocol's minimum.
    #[error("header length below the minimum")]
    BadHeaderLength,
    /// A total or payload length that does not cover the header.
    #[error("total length does not cover the header")]
    BadTotalLength,
    /// A fragment that ends behind octet 65,535, or an IPv6 fragment not made of 8-octet units.
    #[error("fragment outside the largest packet or not in 8-octet units")]
    BadFragment,
    /// More extension headers than the limit.
    #[error("too many extension headers")]
    TooManyExtensions,
    /// An extension header where it may not be, or of zero length.
    #[error("malformed extension header")]
    BadExtension,
    /// More than two VLAN tags.
    #[error("more than two VLAN tags")]
    TooManyVlanTags,
    /// A hardware or protocol type the reader does not know (ARP other than IPv4 over Ethernet, GTP').
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

/// Why a packet was not written. The output is unchanged or holds part of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WriteError {
    /// The output buffer is too short.
    #[error("the output buffer is too short")]
    NoRoom,
    /// A length does not fit its field.
    #[error("a length does not fit its field")]
    TooLong,
    /// Source and destination are of different IP versions, or not of the one needed.
    #[error("addresses of the wrong IP version")]
    AddressFamily,
    /// The packet must not be answered with an ICMP error (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e)).
    #[error("the packet must not be answered with an ICMP error")]
    NoErrorAllowed,
    /// The packet to work on is malformed.
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
