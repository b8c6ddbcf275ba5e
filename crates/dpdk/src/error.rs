//! Errors from DPDK.

use scalebricks_dpdk_sys as sys;
use std::ffi::{CStr, c_int};

/// An error from DPDK.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DpdkError {
    /// A call into DPDK failed.
    #[error("{doing}: {reason} (error {code})")]
    Call {
        /// What was being done, with the name of the device.
        doing: String,
        /// DPDK's text for the code.
        reason: String,
        /// The errno.
        code: i32,
    },
    /// DPDK was started before in this process, or its start failed.
    #[error("DPDK can be started only once in a process")]
    Started,
    /// No interface of this name.
    #[error("no interface '{device}': {hint}")]
    NoDevice {
        /// The name.
        device: String,
        /// A hint.
        hint: &'static str,
    },
    /// The interface is in use.
    #[error("interface '{device}' is in use")]
    InUse {
        /// Its name.
        device: String,
    },
    /// The interface has too few of something.
    #[error("interface '{device}' has at most {most} {what}, not {asked}")]
    TooMany {
        /// Its name.
        device: String,
        /// What.
        what: &'static str,
        /// The requested number.
        asked: u16,
        /// The largest number.
        most: u16,
    },
    /// A text with a zero byte.
    #[error("'{0}' contains a zero byte")]
    Text(String),
}

impl DpdkError {
    /// The error of a negative errno that a call returned.
    pub(crate) fn returned(doing: impl Into<String>, code: c_int) -> Self {
        let code = code.saturating_abs();
        // SAFETY: the returned text lives until the next call on this thread.
        let reason = unsafe { CStr::from_ptr(sys::rte_strerror(code)) };
        Self::Call { doing: doing.into(), reason: reason.to_string_lossy().into_owned(), code }
    }

    /// The error of the calling thread's `rte_errno`.
    pub(crate) fn last(doing: impl Into<String>) -> Self {
        // SAFETY: reads a thread-local.
        Self::returned(doing, unsafe { sys::sb_errno() })
    }
}

/// The code, or the error of a negative one.
pub(crate) fn check(doing: impl FnOnce() -> String, code: c_int) -> Result<c_int, DpdkError> {
    if code < 0 { Err(DpdkError::returned(doing(), code)) } else { Ok(code) }
}
