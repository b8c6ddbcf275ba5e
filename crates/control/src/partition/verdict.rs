//! Verdicts of calls, as callers receive them and as partitions remember them.

use super::effects::{Outcome, Void};
use crate::codec::checked;
use crate::record::CallId;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::Position;
use std::io::{self, Read};

/// Void changes of a call that are remembered one by one; the others are counted.
pub const MAX_VOIDS: usize = 64;

/// The verdict of a call: a function of the log up to the call's entry, the same at every owner.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize)]
pub struct Verdict {
    /// The entry in which it was executed, or found to be void.
    pub position: Position,
    /// The call as a whole.
    pub outcome: Outcome,
    /// Changes of an executed call that did nothing, by their number in the call, ascending: the first [`MAX_VOIDS`] of them.
    pub voids: Vec<(u32, Void)>,
    /// How many did nothing in all.
    pub void_changes: u32,
}

impl Verdict {
    /// A call that did nothing.
    pub const fn void(position: Position, why: Void) -> Self {
        Self { position, outcome: Outcome::Void(why), voids: Vec::new(), void_changes: 0 }
    }

    /// A call that was executed, but for these changes.
    pub fn done(position: Position, mut voids: Vec<(u32, Void)>) -> Self {
        let void_changes = voids.len() as u32; // as many as changes in an entry, at the most
        voids.truncate(MAX_VOIDS);
        Self { position, outcome: Outcome::Done, voids, void_changes }
    }

    /// Whether the call's result is forgotten: it is not executed now, but may have been before.
    pub const fn is_forgotten(&self) -> bool {
        matches!(self.outcome, Outcome::Void(Void::WriterRetired | Void::BelowWindow))
    }
}

impl BorshDeserialize for Verdict {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        checked(reader, |(position, outcome, voids, void_changes): (_, _, Vec<(u32, Void)>, u32)| {
            let has_all = voids.len() == MAX_VOIDS.min(void_changes as usize);
            let is_ascending = voids.is_sorted_by(|(one, _), (next, _)| one < next);
            if !has_all || !is_ascending || outcome != Outcome::Done && void_changes > 0 {
                return Err("inconsistent verdict of a call");
            }
            Ok(Self { position, outcome, voids, void_changes })
        })
    }
}

/// The verdict of a call that an entry has.
pub type Judged = (CallId, Verdict);
