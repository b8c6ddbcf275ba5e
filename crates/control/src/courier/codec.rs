//! The courier's packets as bytes.
//!
//! All integers little-endian. Version `u16`, kind `u8`, reserved `u8` (0), the sender's process `u64`, and then
//!
//! | kind | packet | content |
//! |---|---|---|
//! | 1 | hello | nothing |
//! | 2 | parcel | the receiver's process (8), number (8), number of flows (4), each: uplink TEID (4) and four counters (8 each) |
//! | 3 | receipt | the receiver's process (8), number (8) |
//!
//! Numbers of parcels are 1 or more, flows ascend by TEID and are [`PARCEL_FLOWS`] at most. One packet has one encoding.

use super::{Count, PARCEL_FLOWS, Packet, Parcel, ProcessId, Receipt};
use crate::record::DecodeError;
use crate::record::codec::{Reader, put_words};
use scalebricks_types::Teid;

/// Version of the encoding. A receiver refuses others.
pub const COURIER_VERSION: u16 = 1;

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const PARCEL: u8 = 2;
    pub(super) const RECEIPT: u8 = 3;
}

/// Octets of a flow.
const FLOW_BYTES: usize = 4 + 4 * 8;

fn start(kind: u8, from: ProcessId) -> Vec<u8> {
    let [low, high] = COURIER_VERSION.to_le_bytes();
    let mut out = vec![low, high, kind, 0];
    put_words(&mut out, &[from.0]);
    out
}

impl Packet {
    /// The packet as bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello(from) => start(kind::HELLO, *from),
            Self::Parcel(Parcel { from, to, number, counts }) => {
                let mut out = start(kind::PARCEL, *from);
                out.reserve(20 + counts.len() * FLOW_BYTES);
                put_words(&mut out, &[to.0, *number]);
                out.extend_from_slice(&(counts.len() as u32).to_le_bytes()); // at most PARCEL_FLOWS
                for (flow, count) in counts {
                    out.extend_from_slice(&flow.get().to_le_bytes());
                    put_words(&mut out, &count.0);
                }
                out
            }
            Self::Receipt(Receipt { from, to, number }) => {
                let mut out = start(kind::RECEIPT, *from);
                put_words(&mut out, &[to.0, *number]);
                out
            }
        }
    }

    /// The packet in exactly these bytes. Allocates no more than a parcel of [`PARCEL_FLOWS`] takes, and nothing before
    /// that many bytes are known to be there.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = u16::from_le_bytes(reader.take()?);
        if version != COURIER_VERSION {
            return Err(DecodeError::Version(version));
        }
        let [kind, reserved] = reader.take()?;
        if reserved != 0 {
            return Err(DecodeError::Malformed(0, "the reserved octet is not 0"));
        }
        let [from] = reader.words()?.map(ProcessId);
        let packet = match kind {
            kind::HELLO => Self::Hello(from),
            kind::PARCEL => {
                let [to, number] = reader.words()?;
                if number == 0 {
                    return Err(DecodeError::Malformed(0, "parcels are numbered from 1"));
                }
                Self::Parcel(Parcel { from, to: ProcessId(to), number, counts: counts(&mut reader)? })
            }
            kind::RECEIPT => {
                let [to, number] = reader.words()?;
                Self::Receipt(Receipt { from, to: ProcessId(to), number })
            }
            _ => return Err(DecodeError::Kind(0, kind)),
        };
        let left = reader.rest().len();
        if left == 0 { Ok(packet) } else { Err(DecodeError::Trailing(left)) }
    }
}

fn counts(reader: &mut Reader<'_>) -> Result<Vec<(Teid, Count)>, DecodeError> {
    let flows = u32::from_le_bytes(reader.take()?) as usize;
    if flows == 0 || flows > PARCEL_FLOWS {
        return Err(DecodeError::Malformed(0, "a parcel of no flows, or of too many"));
    }
    if reader.rest().len() < flows * FLOW_BYTES {
        return Err(DecodeError::Truncated(0));
    }
    let mut counts: Vec<(Teid, Count)> = Vec::with_capacity(flows);
    for _ in 0..flows {
        let flow = Teid::new(u32::from_le_bytes(reader.take()?));
        if counts.last().is_some_and(|(last, _)| *last >= flow) {
            return Err(DecodeError::Malformed(0, "flows are not in ascending order"));
        }
        counts.push((flow, Count(reader.words()?)));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet() -> impl Strategy<Value = Packet> {
        let process = || any::<u64>().prop_map(ProcessId);
        let counts = prop::collection::btree_map(any::<u32>(), any::<[u64; 4]>(), 1..20);
        prop_oneof![
            process().prop_map(Packet::Hello),
            (process(), process(), 1..u64::MAX, counts).prop_map(|(from, to, number, counts)| {
                let counts =
                    counts.into_iter().map(|(flow, count)| (Teid::new(flow), Count(count))).collect();
                Packet::Parcel(Parcel { from, to, number, counts })
            }),
            (process(), process(), any::<u64>()).prop_map(|(from, to, number)| Packet::Receipt(Receipt {
                from,
                to,
                number
            })),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn packets_survive_and_no_part_of_one_is_one(packet in packet()) {
            let bytes = packet.encode();
            for len in 0..bytes.len() {
                prop_assert!(Packet::decode(&bytes[..len]).is_err(), "cut to {} of {}", len, bytes.len());
            }
            let longer = [&bytes[..], &[0]].concat();
            prop_assert_eq!(Packet::decode(&longer), Err(DecodeError::Trailing(1)));
            prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
        }

        #[test]
        fn one_encoding_each(packet in packet(), at: prop::sample::Index, octet: u8) {
            let mut bytes = packet.encode();
            let at = at.index(bytes.len());
            bytes[at] = octet;
            if let Ok(packet) = Packet::decode(&bytes) {
                prop_assert_eq!(packet.encode(), bytes);
            }
        }
    }

    #[test]
    fn golden_bytes() {
        let counts = vec![(Teid::new(0x0a0b_0c0d), Count([1, 2, 3, 0x0405]))];
        let parcel = Parcel { from: ProcessId(7), to: ProcessId(8), number: 9, counts };
        #[rustfmt::skip]
        let bytes = [
            1, 0, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
            0x0d, 0x0c, 0x0b, 0x0a, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
            3, 0, 0, 0, 0, 0, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(Packet::Parcel(parcel).encode(), bytes);
    }

    #[test]
    fn what_no_courier_sends_is_refused() {
        let parcel = |number, flows: &[u32]| {
            let counts = flows.iter().map(|flow| (Teid::new(*flow), Count::default())).collect();
            Packet::Parcel(Parcel { from: ProcessId(1), to: ProcessId(2), number, counts }).encode()
        };
        assert!(Packet::decode(&parcel(1, &[3, 4])).is_ok());
        assert!(matches!(Packet::decode(&parcel(0, &[3, 4])), Err(DecodeError::Malformed(..))));
        assert!(matches!(Packet::decode(&parcel(1, &[4, 4])), Err(DecodeError::Malformed(..))));
        assert!(matches!(Packet::decode(&parcel(1, &[])), Err(DecodeError::Malformed(..))));
        let many: Vec<u32> = (0..=PARCEL_FLOWS as u32).collect();
        assert!(matches!(Packet::decode(&parcel(1, &many)), Err(DecodeError::Malformed(..))));
        assert!(Packet::decode(&parcel(1, &many[1..])).is_ok());
        // A number of flows that are not there.
        let mut hostile = parcel(1, &[3]);
        hostile[28..32].copy_from_slice(&[0, 4, 0, 0]);
        assert_eq!(Packet::decode(&hostile), Err(DecodeError::Truncated(0)));
    }
}
