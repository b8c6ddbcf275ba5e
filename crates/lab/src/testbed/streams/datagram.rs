//! One datagram of a paced stream.

/// Octets of a datagram.
pub const LEN: usize = 64;

/// What each begins with.
const MAGIC: [u8; 4] = *b"sbpd";

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the phone.
    Up = 0,
    /// To it.
    Down = 1,
}

/// What a datagram says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Its flow.
    pub flow: u16,
    /// Its direction.
    pub way: Way,
    /// Which of this flow and direction it is, from 0.
    pub sequence: u64,
    /// When it was sent, as Unix time in microseconds.
    pub sent_us: u64,
}

impl Datagram {
    /// Its octets; the rest is 0.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.flow.to_be_bytes());
        bytes[6] = self.way as u8;
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.sent_us.to_be_bytes());
        bytes
    }

    /// Reads one; `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let way = match bytes[6] {
            0 => Way::Up,
            1 => Way::Down,
            _ => return None,
        };
        let word = |at: usize| {
            let octets = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_be_bytes(octets))
        };
        let flow = u16::from_be_bytes([bytes[4], bytes[5]]);
        let datagram = Self { flow, way, sequence: word(8)?, sent_us: word(16)? };
        (datagram.to_bytes() == *bytes).then_some(datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_datagram_is_read_as_it_was_written(
            flow: u16, is_down: bool, sequence: u64, sent_us: u64, at in 0..LEN, change in 1_u8..,
        ) {
            let way = if is_down { Way::Down } else { Way::Up };
            let datagram = Datagram { flow, way, sequence, sent_us };
            let mut bytes = datagram.to_bytes();
            prop_assert_eq!(Datagram::parse(&bytes), Some(datagram));
            prop_assert_eq!(Datagram::parse(&bytes[1..]), None);
            bytes[at] ^= change;
            prop_assert_ne!(Datagram::parse(&bytes), Some(datagram));
        }

        #[test]
        fn any_octets_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2 * LEN)) {
            if let Some(datagram) = Datagram::parse(&bytes) {
                prop_assert_eq!(&datagram.to_bytes()[..], &bytes[..]);
            }
        }
    }
}
