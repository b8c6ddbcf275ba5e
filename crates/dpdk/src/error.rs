//! What DPDK refuses, and what it said.

use scalebricks_dpdk_sys as sys;
use std::ffi::{CStr, c_int};

/// A refused call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DpdkError {
    /// A call into DPDK failed.
    #[error("{doing}: {reason} (error {code})")]
    Call {
        /// What was being done, with the device's name where there is one.
        doing: String,
        /// DPDK's words for the code.
        reason: String,
        /// The errno.
        code: i32,
    },
    /// The environment exists already, or could not be made earlier in this process.
    #[error("DPDK can be started once in a process, and was")]
    Started,
    /// No interface of this name.
    #[error("no interface '{device}': {hint}")]
    NoDevice {
        /// The name asked for.
        device: String,
        /// What to look at.
        hint: &'static str,
    },
    /// Someone has the interface already.
    #[error("interface '{device}' is in use")]
    InUse {
        /// Its name.
        device: String,
    },
    /// The interface cannot do what was asked.
    #[error("interface '{device}' has at most {most} {what}, {asked} asked for")]
    TooMany {
        /// Its name.
        device: String,
        /// Of what.
        what: &'static str,
        /// Asked for.
        asked: u16,
        /// There are.
        most: u16,
    },
    /// A text with a zero byte in it.
    #[error("'{0}' has a zero byte in it")]
    Text(String),
}

impl DpdkError {
    /// Of a negative errno that a call returned.
    pub(crate) fn returned(doing: impl Into<String>, code: c_int) -> Self {
        let code = code.saturating_abs();
        // SAFETY: returns a text that lives until the thread's next call.
        let reason = unsafe { CStr::from_ptr(sys::rte_strerror(code)) };
        Self::Call { doing: doing.into(), reason: reason.to_string_lossy().into_owned(), code }
    }

    /// Of the calling thread's `rte_errno`.
    pub(crate) fn last(doing: impl Into<String>) -> Self {
        // SAFETY: reads a thread-local.
        Self::returned(doing, unsafe { sys::sb_errno() })
    }
}

/// The value, or the error of a negative one.
pub(crate) fn check(doing: impl FnOnce() -> String, code: c_int) -> Result<c_int, DpdkError> {
    if code < 0 { Err(DpdkError::returned(doing(), code)) } else { Ok(code) }
}
