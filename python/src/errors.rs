//! Exceptions: `TableFull`, `Gap`, and those of Python.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyError, PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use scalebricks_tables::FibError;
use scalebricks_tables::cuckoo::RunError;
use scalebricks_tables::dhash::ConfigError;
use scalebricks_tables::lpm::{self, LpmError, PrefixError};
use scalebricks_tables::published::{BuildError, SnapshotError, UpdateError};
use scalebricks_tables::{othello, setsep};
use scalebricks_types::{ApplyError, DeltaError, IdError};

create_exception!(scalebricks, TableFull, PyException, "The table has no room. Make it for more keys.");
create_exception!(
    scalebricks,
    Gap,
    PyException,
    "Deltas before this one are missing. Apply them first, or restore a snapshot."
);

/// A failure of a table, until the thread holds the interpreter again.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Full,
    Gap,
    Key,
    Value,
    Memory,
    System,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn value(message: impl Into<String>) -> Self {
        Self::new(Kind::Value, message)
    }
}

impl From<Failure> for PyErr {
    fn from(Failure { kind, message }: Failure) -> Self {
        match kind {
            Kind::Full => TableFull::new_err(message),
            Kind::Gap => Gap::new_err(message),
            Kind::Key => PyKeyError::new_err(message),
            Kind::Value => PyValueError::new_err(message),
            Kind::Memory => PyMemoryError::new_err(message),
            Kind::System => PyOSError::new_err(message),
        }
    }
}

/// Implements the conversion of an error, whose text stays, by its kind.
macro_rules! failure {
    ($($error:ty => $kind:expr),+ $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let kind: fn(&$error) -> Kind = $kind;
                Self::new(kind(&error), error.to_string())
            }
        })+
    };
}

const fn of_fib(error: &FibError) -> Kind {
    match error {
        FibError::Full { .. } => Kind::Full,
        FibError::Missing => Kind::Key,
        FibError::Exists | FibError::ZeroKey => Kind::Value,
    }
}

failure! {
    setsep::ParamsError => |_| Kind::Value,
    othello::ParamsError => |_| Kind::Value,
    lpm::ParamsError => |_| Kind::Value,
    PrefixError => |_| Kind::Value,
    IdError => |_| Kind::Value,
    DeltaError => |_| Kind::Value,
    SnapshotError => |_| Kind::Value,
    std::io::Error => |_| Kind::System,
    LpmError => |_| Kind::Full,
    FibError => of_fib,
    RunError => |error| of_fib(&error.error),
    ConfigError => |error| match error {
        ConfigError::OutOfMemory { .. } => Kind::Memory,
        _ => Kind::Value,
    },
    BuildError => |error| match error {
        BuildError::Full(_) => Kind::Full,
        BuildError::Threads(_) => Kind::System,
        BuildError::Duplicate(_) | BuildError::Value { .. } | BuildError::NotHeld(_) => Kind::Value,
    },
    UpdateError => |error| match error {
        UpdateError::Missing { .. } => Kind::Key,
        UpdateError::Full(_) => Kind::Full,
        UpdateError::OutOfStep { .. } => Kind::Gap,
        _ => Kind::Value,
    },
    ApplyError => |error| match error {
        ApplyError::Gap { .. } => Kind::Gap,
        ApplyError::Full(_) => Kind::Full,
        ApplyError::Kind { .. } | ApplyError::Partition(_) | ApplyError::Malformed(_) => Kind::Value,
    },
}
