//! Results of functions, and their texts.

use scalebricks_tables::FibError;
use scalebricks_tables::compact::{ParamsError, SnapshotError};
use scalebricks_tables::published::{BuildError, UpdateError};
use scalebricks_types::{ApplyError, DeltaError, IdError};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

/// The result of a function.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum sb_status {
    /// Success.
    Ok = 0,
    /// A pointer is NULL, or a parameter is out of range.
    Argument = 1,
    /// The key to insert is already in the table.
    Exists = 2,
    /// The key to update or remove is not in the table.
    Missing = 3,
    /// The table has no room: build it for more keys.
    Full = 4,
    /// A value has more bits than the table's values.
    Value = 5,
    /// Two keys of a build have the same hash.
    Duplicate = 6,
    /// A snapshot or a delta is damaged, truncated, or of another version.
    Corrupt = 7,
    /// The changes before this delta are missing: apply them first, or load a snapshot.
    Gap = 8,
    /// A delta is for another kind of table, or for a partition that this table does not have.
    Mismatch = 9,
    /// The operating system refused something, such as a thread.
    System = 10,
    /// A defect of the library. The objects of the call may only be freed.
    Internal = 11,
}

/// Why a function did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: sb_status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: sb_status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(sb_status::Argument, message)
    }
}

/// Implements the conversion of an error, whose text stays, by its status.
macro_rules! failure {
    ($($error:ty => $status:expr),+ $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let status: fn(&$error) -> sb_status = $status;
                Self::new(status(&error), error.to_string())
            }
        })+
    };
}

failure! {
    ParamsError => |_| sb_status::Argument,
    IdError => |_| sb_status::Argument,
    DeltaError => |_| sb_status::Corrupt,
    SnapshotError => |_| sb_status::Corrupt,
    std::io::Error => |_| sb_status::System,
    FibError => |error| match error {
        FibError::Full { .. } => sb_status::Full,
        FibError::Exists => sb_status::Exists,
        FibError::Missing => sb_status::Missing,
        FibError::ZeroKey => sb_status::Argument,
    },
    BuildError => |error| match error {
        BuildError::Duplicate(_) => sb_status::Duplicate,
        BuildError::Value { .. } => sb_status::Value,
        BuildError::NotHeld(_) => sb_status::Argument,
        BuildError::Full(_) => sb_status::Full,
        BuildError::Threads(_) => sb_status::System,
    },
    UpdateError => |error| match error {
        UpdateError::Exists { .. } => sb_status::Exists,
        UpdateError::Missing { .. } => sb_status::Missing,
        UpdateError::Value { .. } => sb_status::Value,
        UpdateError::Full(_) => sb_status::Full,
        UpdateError::OutOfStep { .. } => sb_status::Gap,
        UpdateError::Structure { .. } => sb_status::Mismatch,
        UpdateError::NotHeld { .. } | UpdateError::Position { .. } => sb_status::Argument,
    },
    ApplyError => |error| match error {
        ApplyError::Kind { .. } | ApplyError::Partition(_) => sb_status::Mismatch,
        ApplyError::Gap { .. } => sb_status::Gap,
        ApplyError::Malformed(_) => sb_status::Corrupt,
        ApplyError::Full(_) => sb_status::Full,
    },
}

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Stores the text that `sb_last_error` returns to this thread.
pub(crate) fn remember(message: &str) {
    // A text has no NUL; one that had would be cut there.
    let text: Vec<u8> = message.bytes().take_while(|&byte| byte != 0).collect();
    LAST.with(|last| *last.borrow_mut() = CString::new(text).ok());
}

/// What a status means, in words: a constant text, also for a number that is no status.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn sb_status_message(status: i32) -> *const c_char {
    let text = match status {
        0 => c"success",
        1 => c"a pointer is NULL, or a parameter is out of range",
        2 => c"the key is already in the table",
        3 => c"the key is not in the table",
        4 => c"the table has no room",
        5 => c"a value has too many bits",
        6 => c"two keys have the same hash",
        7 => c"a snapshot or delta is damaged, truncated, or of another version",
        8 => c"changes before this delta are missing",
        9 => c"the delta is for another kind of table or partition",
        10 => c"the operating system refused a request",
        11 => c"a defect of the library",
        _ => c"no such status",
    };
    text.as_ptr()
}

/// Why the last function that failed in this thread failed, with numbers: "operation 3: the key is not there".
/// Empty if none has failed. The text is valid until the next function of this library that fails in this
/// thread.
///
/// Threads: each has its own text.
#[unsafe(no_mangle)]
pub extern "C" fn sb_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ref().map_or(c"".as_ptr(), |text| text.as_ptr()))
}

/// The version of the library, such as "0.2.0".
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn sb_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}
