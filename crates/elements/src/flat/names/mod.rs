//! The names of a switch and their actions: the control side, without I/O.
//!
//! [`NameTable`] holds every name in full, and keeps a [`FlatFib`], which holds none, as it should be. Changes are all or
//! nothing, and names that a change does not touch answer right all the while.

mod commit;
mod interner;
mod plan;
#[cfg(test)]
mod tests;

use super::action::{Action, ActionId, LiveActions, PortNo};
use super::fib::{FlatFib, Generation};
use super::name::{FlatName, NameKind};
use arc_swap::ArcSwapOption;
use interner::Interner;
use scalebricks_tables::Spread;
use scalebricks_tables::filter::{CountingFilter, FilterParams, FilterParamsError, Layout};
use scalebricks_tables::othello::{BuildError, OthelloControl, Params, ParamsError};
use scalebricks_types::{KeyHasher, PartitionCount};
use std::collections::HashMap;
use std::sync::Arc;

/// Update streams of a switch's table: what is reshaped at once.
const PARTITIONS: u32 = 64;

/// Most bits of a checksum: beside the 16 bits of a value, 8 fit a slot.
pub const MAX_CHECK_BITS: u8 = 8;

/// Bits of the checksum in each slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckBits(u8);

impl CheckBits {
    /// So many bits, up to [`MAX_CHECK_BITS`]; 0 for none.
    pub const fn new(bits: u8) -> Option<Self> {
        if bits <= MAX_CHECK_BITS { Some(Self(bits)) } else { None }
    }

    /// The number of bits.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// What a name table is made for.
#[derive(Debug, Clone, Copy)]
pub struct NameConfig {
    /// What names are.
    pub kind: NameKind,
    /// Their keyed hash.
    pub hasher: KeyHasher,
    /// Ports of the switch.
    pub ports: usize,
    /// Names expected; more make it grow.
    pub expected: u64,
    /// Checksums in the slots.
    pub check_bits: CheckBits,
    /// Share of names not in the table that a Bloom filter beside it may let through; `None`: no filter.
    pub filter_rate: Option<f64>,
    /// Whether names not in the table are to be spread evenly over the actions in use: for
    /// [`UnknownNamePolicy::Answer`](super::Unknown::Answer). Then the table is made anew whenever actions need wider numbers.
    pub spreads_aliens: bool,
}

/// One change, as an operator asks for it. In Concise's words: add, alter and delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameOp {
    /// Adds a name that is not there.
    Add(FlatName, Action),
    /// Changes the action of a name that is there.
    Alter(FlatName, Action),
    /// Takes out a name that is there.
    Remove(FlatName),
}

impl NameOp {
    /// The name it is about.
    pub const fn name(&self) -> &FlatName {
        match self {
            Self::Add(name, _) | Self::Alter(name, _) | Self::Remove(name) => name,
        }
    }
}

/// Why names cannot be what they were to be. The table is as it was.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NameError {
    /// Added twice.
    #[error("the name is already there")]
    Exists {
        /// Place among the operations.
        op: usize,
    },
    /// Altered or removed without being there.
    #[error("the name is not there")]
    Missing {
        /// Place among the operations.
        op: usize,
    },
    /// A name that no frame of this switch can have.
    #[error("not a name of this switch, whose names are of the kind {kind}")]
    Kind {
        /// Place among the operations.
        op: usize,
        /// The switch's kind.
        kind: &'static str,
    },
    /// An action with a port that the switch does not have.
    #[error("{port} is none of the switch's {ports}")]
    NoSuchPort {
        /// Place among the operations.
        op: usize,
        /// The port.
        port: PortNo,
        /// How many there are.
        ports: usize,
    },
    /// More different actions than ids.
    #[error("{0} different actions are more than {max}", max = super::action::MAX_ACTIONS)]
    TooManyActions(usize),
    /// Two names of one hash: by chance once in 2^64 pairs. Another secret sets them apart.
    #[error("its hash is that of another name; choose another secret")]
    Collision {
        /// Place among the operations.
        op: usize,
    },
    /// A table that cannot be made so large.
    #[error("table: {0}")]
    Params(#[from] ParamsError),
    /// A filter that cannot be made so large.
    #[error("filter: {0}")]
    Filter(#[from] FilterParamsError),
    /// Names that fit no table.
    #[error("table: {0}")]
    Build(#[from] BuildError),
}

impl NameError {
    /// The place among operations of the one that was refused, if it was one.
    pub const fn op(&self) -> Option<usize> {
        match *self {
            Self::Exists { op }
            | Self::Missing { op }
            | Self::Kind { op, .. }
            | Self::NoSuchPort { op, .. }
            | Self::Collision { op } => Some(op),
            Self::TooManyActions(_) | Self::Params(_) | Self::Filter(_) | Self::Build(_) => None,
        }
    }
}

/// What a change did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Names that were not there.
    pub added: usize,
    /// Names with another action than before.
    pub altered: usize,
    /// Names that are gone.
    pub removed: usize,
    /// Names that stay as they were.
    pub kept: usize,
}

/// Sizes of a name table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NameStats {
    /// Names.
    pub names: usize,
    /// Different actions.
    pub actions: usize,
    /// Bits of an action's number in a slot.
    pub value_bits: u8,
    /// Bits of a checksum in a slot.
    pub check_bits: u8,
    /// Bytes that lookups may touch.
    pub table_bytes: usize,
    /// Bytes of Othello's control structure and of the filter's; the names themselves are not counted.
    pub control_bytes: usize,
    /// How often the table was given another shape, or made anew.
    pub reshaped: u64,
}

/// All names with their actions, and the table that switches look them up in.
#[derive(Debug)]
pub struct NameTable {
    config: NameConfig,
    names: HashMap<FlatName, ActionId>,
    interner: Interner,
    control: OthelloControl,
    filter: Option<CountingFilter>,
    fib: Arc<FlatFib>,
    reshaped: u64,
}

impl NameTable {
    /// A table without names.
    ///
    /// # Errors
    /// [`NameError::Params`], [`NameError::Filter`] if it cannot be made as large as expected.
    pub fn new(config: NameConfig) -> Result<Self, NameError> {
        let control = OthelloControl::new(params(&config, config.expected, 1)?);
        let filter = config.filter_rate.map(|rate| filter_params(rate, config.expected)).transpose()?;
        let filter = filter.map(CountingFilter::new);
        let interner = Interner::default();
        let fib = Arc::new(FlatFib::new(generation(&config, &control, &interner, filter.as_ref())));
        Ok(Self { config, names: HashMap::new(), interner, control, filter, fib, reshaped: 0 })
    }

    /// What it was made for.
    pub const fn config(&self) -> &NameConfig {
        &self.config
    }

    /// What switches look names up in. It stays the same for as long as this table lives.
    pub const fn fib(&self) -> &Arc<FlatFib> {
        &self.fib
    }

    /// The action of a name: exact.
    pub fn get(&self, name: &FlatName) -> Option<Action> {
        self.names.get(name).and_then(|&id| self.interner.action(id))
    }

    /// All names with their actions, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&FlatName, Action)> + '_ {
        self.names.iter().filter_map(|(name, &id)| Some((name, self.interner.action(id)?)))
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Sizes. Cost: a pass over the table's ranges.
    pub fn stats(&self) -> NameStats {
        let params = self.control.params();
        NameStats {
            names: self.names.len(),
            actions: self.interner.live(),
            value_bits: params.value_bits(),
            check_bits: params.check_bits(),
            table_bytes: self.fib.table_bytes(),
            control_bytes: self.control.control_bytes()
                + self.filter.as_ref().map_or(0, CountingFilter::control_bytes),
            reshaped: self.reshaped,
        }
    }

    /// Does operations one after another: all, or none.
    ///
    /// # Errors
    /// [`NameError`] of the first that cannot be done.
    pub fn apply(&mut self, ops: &[NameOp]) -> Result<Changes, NameError> {
        let plan = plan::of_ops(self, ops)?;
        let mut done = self.commit(plan)?;
        done.kept = self.names.len() - done.added - done.altered;
        Ok(done)
    }

    /// Brings the table to a list, by difference: names that are in both with one action are not touched.
    ///
    /// # Errors
    /// [`NameError`]; [`NameError::Exists`] for a name that is in the list twice.
    pub fn change_to(&mut self, list: &[(FlatName, Action)]) -> Result<Changes, NameError> {
        let plan = plan::of_list(self, list)?;
        let mut done = self.commit(plan)?;
        done.kept = self.names.len() - done.added - done.altered;
        Ok(done)
    }
}

/// The shape for so many names and ids.
fn params(config: &NameConfig, names: u64, ids: usize) -> Result<Params, NameError> {
    let Ok(partitions) = PartitionCount::new(PARTITIONS) else { unreachable!("a power of two") };
    let bits = usize::BITS - ids.saturating_sub(1).leading_zeros();
    let value_bits = bits.clamp(1, 16) as u8; // ids are at most 2^16
    Ok(Params::for_keys(names.max(1), value_bits, partitions)?.with_check_bits(config.check_bits.get())?)
}

/// How values of a table of this shape are stored.
const fn spread(config: &NameConfig, params: &Params) -> Spread {
    if config.spreads_aliens { Spread::over(params.value_bits(), 0) } else { Spread::NONE }
}

fn filter_params(rate: f64, names: u64) -> Result<FilterParams, FilterParamsError> {
    FilterParams::for_names(names.max(1), rate, Layout::Blocked)
}

fn generation(
    config: &NameConfig,
    control: &OthelloControl,
    interner: &Interner,
    filter: Option<&CountingFilter>,
) -> Generation {
    Generation {
        othello: Arc::new(control.export()),
        actions: LiveActions::new(interner.export()),
        filter: ArcSwapOption::new(filter.map(|filter| Arc::new(filter.export()))),
        is_checked: config.check_bits.get() > 0,
        spread: spread(config, control.params()),
    }
}
