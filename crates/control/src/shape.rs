//! The shape of the GPT, as the cluster has agreed on it, and when it changes.
//!
//! ```text
//! now ──▶ now, next ──▶ each owner logs a Reshape ──▶ all tables have it ──▶ now
//! ```
//!
//! One record, changed by compare-and-set. Whoever starts makes its tables in the shape that all have, and applies logs from
//! the shape that they began in. One change at a time: a table is in two shapes at most.

use crate::engine::Revision;
use crate::membership::View;
use crate::record::codec::Reader;
use crate::record::{DecodeError, Reshape};
use scalebricks_tables::compact::Params;
use scalebricks_types::NodeId;

/// Version of the record's form.
const VERSION: u16 = 1;

/// A partition with less than this share of its room left has the table grow.
const GROW_BELOW: u64 = 8;

/// And one with less room than this for each node: a call that brings so many keys at once is not to be turned away for good.
const ROOM_PER_NODE: u64 = 128;

/// What is agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Counts the changes that were begun.
    pub number: u32,
    /// What all logs begin with.
    pub first: Params,
    /// What every table has, or is on its way from.
    pub now: Params,
    /// What every table is on its way to, if the shape changes.
    pub next: Option<Params>,
}

/// Why bytes are no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record of the table's shape cannot be read: {0}")]
pub struct ShapeError(String);

impl From<DecodeError> for ShapeError {
    fn from(error: DecodeError) -> Self {
        Self(error.to_string())
    }
}

impl Shape {
    /// That of a cluster that begins.
    pub const fn new(first: Params) -> Self {
        Self { number: 0, first, now: first, next: None }
    }

    /// On the way to another; `None` if it is on the way already, or has it.
    #[must_use]
    pub fn towards(self, next: Params) -> Option<Self> {
        let number = self.number.checked_add(1)?;
        (self.next.is_none() && next != self.now).then_some(Self { number, next: Some(next), ..self })
    }

    /// What partitions are to log, if the shape changes.
    pub fn reshape(&self) -> Option<Reshape> {
        Some(Reshape { number: self.number, to: self.next? })
    }

    /// All have come there.
    #[must_use]
    pub fn arrived(self) -> Option<Self> {
        Some(Self { now: self.next?, next: None, ..self })
    }

    /// Whether tables can name this node, now and on the way.
    pub fn can_name(&self, node: NodeId) -> bool {
        std::iter::once(self.now).chain(self.next).all(|params| names(&params, node))
    }

    /// The shape that the table should have for these nodes, and for partitions of which one has only so much room left:
    /// `None` if it has it, or if there is none.
    pub(crate) fn wanted(&self, view: &View, least_room: u64) -> Option<Params> {
        let mut params = self.now;
        let highest = view.members().map(|(node, _)| node.get()).max().unwrap_or(0);
        let bits = (8 - highest.leading_zeros() as u8).max(1); // at most 8
        if bits > params.value_bits() {
            params = params.with_value_bits(bits).ok()?;
        }
        let least =
            (params.keys_per_partition() / GROW_BELOW).max(ROOM_PER_NODE * view.alive().count() as u64);
        if least_room < least {
            // It cannot grow beyond what a delta carries.
            params = params.doubled().unwrap_or(params);
        }
        (params != self.now).then_some(params)
    }

    /// The record as bytes: version `u16`, number (4), whether the shape changes (1 octet), and the shapes, as tables write them.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        out.extend_from_slice(&self.number.to_le_bytes());
        out.push(u8::from(self.next.is_some()));
        for params in [self.first, self.now].into_iter().chain(self.next) {
            params.put(&mut out);
        }
        out
    }

    /// The record in exactly these bytes.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ShapeError> {
        let mut reader = Reader::new(bytes);
        let version = u16::from_le_bytes(reader.take()?);
        if version != VERSION {
            return Err(ShapeError(format!("its version {version} is not {VERSION}")));
        }
        let number = u32::from_le_bytes(reader.take()?);
        let [is_changing] = reader.take()?;
        let (first, now) = (params(&mut reader)?, params(&mut reader)?);
        let next = match is_changing {
            0 => None,
            1 => Some(params(&mut reader)?),
            _ => return Err(ShapeError("it changes, or it does not".to_owned())),
        };
        let is_one = |params: Params| {
            (params.partitions(), params.structure()) == (first.partitions(), first.structure())
        };
        if !reader.rest().is_empty() {
            Err(ShapeError("it is too long".to_owned()))
        } else if is_one(now) && next.is_none_or(is_one) {
            Ok(Self { number, first, now, next })
        } else {
            Err(ShapeError("its shapes have different partitions, or are of different structures".to_owned()))
        }
    }
}

/// Whether a table of this shape can name a node.
pub(crate) fn names(params: &Params, node: NodeId) -> bool {
    u32::from(node.get()) >> params.value_bits() == 0
}

/// A table's parameters, as they lie in records.
pub(crate) fn params(reader: &mut Reader<'_>) -> Result<Params, DecodeError> {
    let (params, rest) =
        Params::take(reader.rest()).ok_or(DecodeError::Malformed(0, "no shape of a table"))?;
    reader.go_to(rest);
    Ok(params)
}

/// The record, as a node knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) shape: Shape,
    pub(crate) revision: Revision,
    /// What was proposed for this revision, if anything was, and when.
    pub(crate) proposed: Option<std::time::Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;
    use proptest::prelude::*;
    use scalebricks_tables::compact::Structure;
    use scalebricks_types::PartitionCount;

    fn params(keys: u64, bits: u8) -> Params {
        Params::for_keys(Structure::SetSep, keys, bits, PartitionCount::new(4).unwrap()).unwrap()
    }

    #[test]
    fn one_change_at_a_time() {
        let (small, large) = (params(100, 2), params(100_000, 2));
        let shape = Shape::new(small);
        assert_eq!((shape.arrived(), shape.towards(small)), (None, None));
        let changing = shape.towards(large).unwrap();
        assert_eq!(changing.towards(params(5, 3)), None);
        for shape in [shape, changing, changing.arrived().unwrap()] {
            assert_eq!(Shape::decode(&shape.encode()), Ok(shape));
            assert_eq!(shape.first, small);
        }
        assert_eq!(changing.arrived().unwrap().now, large);
        let again = changing.arrived().unwrap().towards(small).unwrap();
        assert_eq!((changing.number, again.number), (1, 2));
        assert_eq!(again.reshape(), Some(Reshape { number: 2, to: small }));
    }

    #[test]
    fn it_grows_with_keys_and_nodes() {
        let shape = Shape::new(params(100_000, 2));
        let partitions = PartitionCount::new(4).unwrap();
        let view = |nodes: &[u8]| {
            nodes
                .iter()
                .fold(View::empty(partitions), |view, &node| view.with(NodeId::new(node), 1, Version::NEWEST))
        };
        let room = shape.now.keys_per_partition();
        assert_eq!(shape.wanted(&view(&[0, 3]), room), None);
        assert_eq!(shape.wanted(&view(&[0, 4]), room).unwrap().value_bits(), 3);
        assert_eq!(shape.wanted(&view(&[255]), room).unwrap().value_bits(), 8);
        assert_eq!(shape.wanted(&view(&[0]), room / 8), None);
        let grown = shape.wanted(&view(&[0, 9]), room / 8 - 1).unwrap();
        assert_eq!(grown, shape.now.doubled().unwrap().with_value_bits(4).unwrap());
        assert!(shape.can_name(NodeId::new(3)) && !shape.can_name(NodeId::new(4)));
        let changing = shape.towards(grown).unwrap();
        assert!(!changing.can_name(NodeId::new(4)) && changing.arrived().unwrap().can_name(NodeId::new(15)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_a_shape_or_an_error(at: prop::sample::Index, octet: u8, len in 0..100_usize) {
            let mut bytes = Shape::new(params(100, 2)).towards(params(100, 3)).unwrap().encode();
            let at = at.index(bytes.len());
            bytes[at] = octet;
            bytes.truncate(len);
            if let Ok(shape) = Shape::decode(&bytes) {
                prop_assert_eq!(shape.encode(), bytes);
            }
        }
    }
}
