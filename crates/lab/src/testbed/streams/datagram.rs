//! One datagram of a paced stream.

use serde::{Deserialize, Serialize};

/// Most octets of a datagram.
pub const LEN: usize = 128;

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// From the phone.
    Up,
    /// To it.
    Down,
}

/// The content of a datagram, sent as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Datagram {
    /// Its flow.
    pub flow: u16,
    /// Its direction.
    pub way: Way,
    /// Its number within flow and direction, from 0.
    pub sequence: u64,
    /// When it was sent, as Unix time in microseconds.
    pub sent_us: u64,
}

impl Datagram {
    /// Its octets.
    pub fn to_bytes(self) -> Vec<u8> {
        serde_json::to_vec(&self).unwrap_or_default() // numbers and names always serialise
    }

    /// Parses the octets of a datagram; `None` if they differ from what [`to_bytes`](Self::to_bytes) writes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|datagram: &Self| datagram.to_bytes() == bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_datagram_is_parsed_as_it_was_written(
            flow: u16, is_down: bool, sequence: u64, sent_us: u64, at in 0..LEN, change in 1_u8..,
        ) {
            let way = if is_down { Way::Down } else { Way::Up };
            let datagram = Datagram { flow, way, sequence, sent_us };
            let mut bytes = datagram.to_bytes();
            prop_assert!(bytes.len() <= LEN);
            prop_assert_eq!(Datagram::parse(&bytes), Some(datagram));
            prop_assert_eq!(Datagram::parse(&bytes[1..]), None);
            let len = bytes.len();
            bytes[at % len] ^= change;
            prop_assert_ne!(Datagram::parse(&bytes), Some(datagram));
        }

        #[test]
        fn any_octets_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2 * LEN)) {
            if let Some(datagram) = Datagram::parse(&bytes) {
                prop_assert_eq!(&datagram.to_bytes()[..], &bytes[..]);
            }
        }
    }
}
