//! The heartbeat: what a node says about itself and about whom it hears.

use super::fitness::Fitness;
use crate::record::DecodeError;
use scalebricks_types::NodeSet;

/// What a node reports with a heartbeat, from [`Version::WITNESSES`](crate::version::Version::WITNESSES) on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HearingReport {
    /// Epoch of the newest view that the sender has read.
    pub epoch: u64,
    /// Nodes whose heartbeats the sender received in the last [`HEARING`](super::HEARING), whatever their life.
    pub hears: NodeSet,
    /// Whether the sender can do its work, and if not, why.
    pub fitness: Fitness,
    /// Nodes to which the sender grants their leases: members that are alive in that view, in the life in which the sender hears
    /// them. See [`crate::lease`].
    pub grants: NodeSet,
}

/// A heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// The sender's life.
    pub life: u64,
    /// `None` from a node that speaks an older version. Its receivers then assume that it hears what they hear.
    pub report: Option<HearingReport>,
}

/// Bytes of a heartbeat without a report.
const LIFE_BYTES: usize = 8;

/// Bytes of a heartbeat with a report.
const REPORT_BYTES: usize = LIFE_BYTES + 8 + 32 + 1 + 32;

impl Beat {
    /// The heartbeat as bytes: life `u64`; with a report also epoch `u64`, the sets of nodes heard and of grants as four `u64` each
    /// (bit n of word w is node 64w + n), [`Fitness::bits`] `u8`. Integers are little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.life.to_le_bytes().to_vec();
        if let Some(report) = self.report {
            out.extend_from_slice(&report.epoch.to_le_bytes());
            let sets = [report.hears, report.grants];
            out.extend(sets.iter().flat_map(NodeSet::words).flat_map(u64::to_le_bytes));
            out.push(report.fitness.bits());
        }
        out
    }

    /// The heartbeat in exactly these bytes.
    ///
    /// # Errors
    /// [`DecodeError`] for any other length than those two.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (&life, rest) = bytes.split_first_chunk::<LIFE_BYTES>().ok_or(DecodeError::Truncated(0))?;
        let life = u64::from_le_bytes(life);
        if rest.is_empty() {
            return Ok(Self { life, report: None });
        }
        let (words, tail) = rest.as_chunks::<8>();
        match (words, tail) {
            (&[epoch, a, b, c, d, e, f, g, h], &[fitness]) => {
                let [hears, grants] = [[a, b, c, d], [e, f, g, h]]
                    .map(|words| NodeSet::from_words(words.map(u64::from_le_bytes)));
                let (epoch, fitness) = (u64::from_le_bytes(epoch), Fitness::from_bits(fitness));
                let report = HearingReport { epoch, hears, fitness, grants };
                Ok(Self { life, report: Some(report) })
            }
            _ if bytes.len() < REPORT_BYTES => Err(DecodeError::Truncated(0)),
            _ => Err(DecodeError::Trailing(bytes.len() - REPORT_BYTES)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fitness::Unfitness;
    use super::*;
    use proptest::prelude::*;
    use scalebricks_types::NodeId;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_beat_survives_its_bytes(life: u64, epoch: u64, fitness: u8, nodes: Vec<u8>, granted: Vec<u8>) {
            let hears: NodeSet = nodes.iter().copied().map(NodeId::new).collect();
            prop_assert!((0..=255).all(|node| hears.contains(NodeId::new(node)) == nodes.contains(&node)));
            let fitness = Fitness::from_bits(fitness);
            let grants = granted.iter().copied().map(NodeId::new).collect();
            let beat = Beat { life, report: Some(HearingReport { epoch, hears, fitness, grants }) };
            prop_assert_eq!(Beat::decode(&beat.encode()), Ok(beat));
            let old = Beat { life, report: None };
            prop_assert_eq!(old.encode(), life.to_le_bytes());
            prop_assert_eq!(Beat::decode(&old.encode()), Ok(old));
        }

        #[test]
        fn any_bytes_are_a_beat_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let is_beat = [LIFE_BYTES, REPORT_BYTES].contains(&bytes.len());
            prop_assert_eq!(Beat::decode(&bytes).is_ok(), is_beat);
        }
    }

    #[test]
    fn the_encoding_does_not_change() {
        let hears = [NodeId::new(1), NodeId::new(64), NodeId::new(255)].into_iter().collect();
        let grants = [NodeId::new(8), NodeId::new(200)].into_iter().collect();
        let fitness = Fitness::FIT.with(Unfitness::Fabric);
        let beat = Beat { life: 2, report: Some(HearingReport { epoch: 3, hears, fitness, grants }) };
        let mut bytes = [0; 81];
        (bytes[0], bytes[8], bytes[80]) = (2, 3, 4);
        (bytes[49], bytes[73]) = (1, 1);
        (bytes[16], bytes[24], bytes[47]) = (2, 1, 0x80);
        assert_eq!(beat.encode(), bytes);
    }
}
