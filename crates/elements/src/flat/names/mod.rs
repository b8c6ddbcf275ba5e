//! The names of a switch and their actions: the control side, without I/O.
//!
//! [`NameTable`] holds every name in full and keeps a [`FlatFib`], which holds none, up to date. Changes are all or
//! nothing, and lookups of unaffected names stay correct throughout.

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
use scalebricks_tables::filter::{CountingFilter, FilterParams, FilterParamsError};
use scalebricks_tables::othello::{BuildError, OthelloControl, Params, ParamsError};
use scalebricks_types::{KeyHasher, PartitionCount};
use std::collections::HashMap;
use std::sync::Arc;

/// Partitions of a switch's table: each is reshaped as a whole.
const PARTITIONS: u32 = 64;

/// Most checksum bits: 8 fit a slot beside the 16 bits of a value.
pub const MAX_CHECK_BITS: u8 = 8;

/// Bits of the checksum in each slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckBits(u8);

impl CheckBits {
    /// This many bits, up to [`MAX_CHECK_BITS`]; 0 for none.
    pub const fn new(bits: u8) -> Option<Self> {
        if bits <= MAX_CHECK_BITS { Some(Self(bits)) } else { None }
    }

    /// The number of bits.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Configuration of a name table.
#[derive(Debug, Clone, Copy)]
pub struct NameConfig {
    /// The kind of names.
    pub kind: NameKind,
    /// Their keyed hash.
    pub hasher: KeyHasher,
    /// Ports of the switch.
    pub ports: usize,
    /// Expected number of names; the table grows beyond it.
    pub expected: u64,
    /// Checksums in the slots.
    pub check_bits: CheckBits,
    /// False-positive rate of an optional Bloom filter in front of the table; `None`: no filter.
    pub filter_rate: Option<f64>,
    /// Whether names not in the table are spread evenly over the actions in use, for
    /// [`UnknownNamePolicy::Answer`](super::UnknownNamePolicy::Answer). Then the table is rebuilt whenever actions need
    /// wider numbers.
    pub spreads_aliens: bool,
}

/// One change, as an operator requests it. Concise's terms are add, alter and delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameOp {
    /// Adds a new name.
    Add(FlatName, Action),
    /// Changes the action of an existing name.
    Alter(FlatName, Action),
    /// Removes an existing name.
    Remove(FlatName),
}

impl NameOp {
    /// The name that it changes.
    pub const fn name(&self) -> &FlatName {
        match self {
            Self::Add(name, _) | Self::Alter(name, _) | Self::Remove(name) => name,
        }
    }
}

/// Why a change was refused. The table is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NameError {
    /// Added twice.
    #[error("the name already exists")]
    Exists {
        /// Index of the operation.
        op: usize,
    },
    /// A name to alter or remove does not exist.
    #[error("the name does not exist")]
    Missing {
        /// Index of the operation.
        op: usize,
    },
    /// A name of another kind than the switch's.
    #[error("not a valid name for this switch, whose names are of kind {kind}")]
    Kind {
        /// Index of the operation.
        op: usize,
        /// The switch's kind.
        kind: &'static str,
    },
    /// An action with a port that the switch does not have.
    #[error("{port} is not one of the switch's {ports} ports")]
    NoSuchPort {
        /// Index of the operation.
        op: usize,
        /// The port.
        port: PortNo,
        /// How many there are.
        ports: usize,
    },
    /// More different actions than IDs.
    #[error("{0} different actions exceed the maximum of {max}", max = super::action::MAX_ACTIONS)]
    TooManyActions(usize),
    /// Two names have the same hash, which happens by chance once in 2^64 pairs. Another secret separates them.
    #[error("the name's hash equals that of another name; choose another secret")]
    Collision {
        /// Index of the operation.
        op: usize,
    },
    /// The table cannot be this large.
    #[error("table: {0}")]
    Params(#[from] ParamsError),
    /// The filter cannot be this large.
    #[error("filter: {0}")]
    Filter(#[from] FilterParamsError),
    /// No table can hold these names.
    #[error("table: {0}")]
    Build(#[from] BuildError),
}

impl NameError {
    /// The index of the refused operation, if one was refused.
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

/// The effect of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Names added.
    pub added: usize,
    /// Names whose action changed.
    pub altered: usize,
    /// Names removed.
    pub removed: usize,
    /// Names left unchanged.
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
    /// Bytes of the data that lookups read.
    pub table_bytes: usize,
    /// Bytes of the control structures of Othello and the filter, without the names themselves.
    pub control_bytes: usize,
    /// How often the table was reshaped or rebuilt.
    pub reshaped: u64,
}

/// All names with their actions, and the table in which switches look them up.
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
    /// Creates an empty table.
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

    /// Its configuration.
    pub const fn config(&self) -> &NameConfig {
        &self.config
    }

    /// The table in which switches look names up. It stays the same for the life of this name table.
    pub const fn fib(&self) -> &Arc<FlatFib> {
        &self.fib
    }

    /// The exact action of a name.
    pub fn get(&self, name: &FlatName) -> Option<Action> {
        self.names.get(name).and_then(|&id| self.interner.action(id))
    }

    /// All names with their actions, unordered.
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

    /// Executes operations in order: all, or none.
    ///
    /// # Errors
    /// [`NameError`] of the first operation that fails.
    pub fn apply(&mut self, ops: &[NameOp]) -> Result<Changes, NameError> {
        let plan = plan::of_ops(self, ops)?;
        let mut done = self.commit(plan)?;
        done.kept = self.names.len() - done.added - done.altered;
        Ok(done)
    }

    /// Changes the table to a list by difference: names in both with the same action are not touched.
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

/// The shape for this many names and IDs.
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
    FilterParams::for_names(names.max(1), rate)
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
