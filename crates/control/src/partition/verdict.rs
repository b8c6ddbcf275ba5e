//! What became of a call, as its caller is told and as the partition remembers it.

use super::effects::{Outcome, Void};
use crate::record::codec::{Reader, put_words};
use crate::record::{CallId, DecodeError};
use scalebricks_types::Position;

/// Void changes of a call that are remembered one by one; the others are counted.
pub const VOIDS_TOLD: usize = 64;

/// What became of a call: a function of the log up to the entry that has it, the same whoever tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The entry in which it was executed, or found to be void.
    pub position: Position,
    /// The call as a whole.
    pub outcome: Outcome,
    /// Changes of an executed call that did nothing, by their number in the call, ascending: the first [`VOIDS_TOLD`] of them.
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
        voids.truncate(VOIDS_TOLD);
        Self { position, outcome: Outcome::Done, voids, void_changes }
    }

    /// Whether nobody knows any more what became of the call: it is not executed now, and may have been before.
    pub const fn is_forgotten(&self) -> bool {
        matches!(self.outcome, Outcome::Void(Void::WriterRetired | Void::BelowWindow))
    }

    /// Position (8), outcome (1: 0, or why it is void), void changes (4), how many are told (1), each: number (4), why (1).
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_words(out, &[self.position.0]);
        out.push(match self.outcome {
            Outcome::Done => 0,
            Outcome::Void(why) => why.code(),
        });
        out.extend_from_slice(&self.void_changes.to_le_bytes());
        out.push(self.voids.len() as u8); // VOIDS_TOLD at the most
        for (number, why) in &self.voids {
            out.extend_from_slice(&number.to_le_bytes());
            out.push(why.code());
        }
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let strange = DecodeError::Malformed(0, "no verdict of a call");
        let why = |code: u8| Void::of_code(code).ok_or(strange);
        let [position] = reader.words()?;
        let outcome = match reader.take()? {
            [0] => Outcome::Done,
            [code] => Outcome::Void(why(code)?),
        };
        let void_changes = u32::from_le_bytes(reader.take()?);
        let [told] = reader.take()?;
        let is_whole = u32::from(told) == void_changes.min(VOIDS_TOLD as u32);
        if !is_whole || outcome != Outcome::Done && void_changes > 0 {
            return Err(strange);
        }
        let mut voids: Vec<(u32, Void)> = Vec::with_capacity(usize::from(told));
        for _ in 0..told {
            let number = u32::from_le_bytes(reader.take()?);
            let [code] = reader.take()?;
            if voids.last().is_some_and(|(last, _)| *last >= number) {
                return Err(strange);
            }
            voids.push((number, why(code)?));
        }
        Ok(Self { position: Position(position), outcome, voids, void_changes })
    }
}

/// The verdict of a call that an entry has.
pub type Judged = (CallId, Verdict);
