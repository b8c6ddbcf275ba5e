//! The record of the GPT's shape, and its changes.
//!
//! ```text
//! now ──▶ now, next ──▶ each owner logs a Reshape ──▶ all tables have it ──▶ now
//! ```
//!
//! One record, changed by compare-and-set. A starting node creates its tables in the current shape, and applies logs from the
//! shape in which they began. One change at a time: a table is in two shapes at most.

use crate::codec::{Encoded, checked};
use crate::engine::Revision;
use crate::membership::View;
use crate::record::Reshape;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_tables::compact::Params;
use scalebricks_types::NodeId;
use std::io::{self, Read};

/// A partition with less than this share of its room left has the table grow.
const GROW_BELOW: u64 = 8;

/// And one with less room than this per node, so that a call with so many new keys is not refused forever.
const ROOM_PER_NODE: u64 = 128;

/// The record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize)]
pub struct Shape {
    /// Counts the changes that were begun.
    pub number: u32,
    /// The shape in which all logs begin.
    pub first: Params,
    /// The shape that every table has, or is leaving.
    pub now: Params,
    /// The shape that every table is changing to, if any.
    pub next: Option<Params>,
}

impl Encoded for Shape {
    const NAME: &'static str = "shape of the table";
}

impl BorshDeserialize for Shape {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        checked(reader, |(number, first, now, next): (_, Params, Params, Option<Params>)| {
            let is_of_first = |params: Params| {
                (params.partitions(), params.structure()) == (first.partitions(), first.structure())
            };
            if is_of_first(now) && next.is_none_or(is_of_first) {
                Ok(Self { number, first, now, next })
            } else {
                Err("its shapes have different partitions or structures")
            }
        })
    }
}

impl Shape {
    /// The record of a new cluster.
    pub const fn new(first: Params) -> Self {
        Self { number: 0, first, now: first, next: None }
    }

    /// On the way to another; `None` if it is on the way already, or has it.
    #[must_use]
    pub fn towards(self, next: Params) -> Option<Self> {
        let number = self.number.checked_add(1)?;
        (self.next.is_none() && next != self.now).then_some(Self { number, next: Some(next), ..self })
    }

    /// The change that partitions have to log, if any.
    pub fn reshape(&self) -> Option<Reshape> {
        Some(Reshape { number: self.number, to: self.next? })
    }

    /// The record after all tables have the next shape.
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
            // It cannot grow beyond the size of a delta.
            params = params.doubled().unwrap_or(params);
        }
        (params != self.now).then_some(params)
    }
}

/// Whether a table of this shape can name a node.
pub(crate) fn names(params: &Params, node: NodeId) -> bool {
    u32::from(node.get()) >> params.value_bits() == 0
}

/// The record, as a node knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) shape: Shape,
    pub(crate) revision: Revision,
    /// When a change was proposed at this revision, if one was.
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
