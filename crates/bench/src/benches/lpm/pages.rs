//! Pages of the same size for our tables and DPDK's: a random access to a table on ordinary pages costs a page walk too.
//!
//! DPDK takes huge pages that the system has reserved; our tables ask for transparent ones. If too few are reserved, the
//! benchmark reserves them for its own time, which needs root. If it may not, no table is on huge pages.

use crate::error::BenchError;
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use scalebricks_console::Console;

/// Restores the system's settings when dropped.
#[derive(Debug)]
pub struct EqualPages {
    /// The number of pages that it has reserved.
    #[cfg(feature = "dpdk")]
    reserved: Option<u64>,
    /// Whether it has switched transparent huge pages off.
    has_disabled: bool,
}

/// The pages of our tables, for the names of results.
pub fn ours() -> &'static str {
    if transparent_huge_pages_are_disabled().unwrap_or(false) {
        "ordinary pages"
    } else {
        "transparent huge pages"
    }
}

#[cfg(not(feature = "dpdk"))]
impl EqualPages {
    /// There are no tables of DPDK.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::unnecessary_wraps, reason = "it can fail with DPDK")]
    pub const fn settle(_: &str, _: &Console) -> Result<Self, BenchError> {
        Ok(Self { has_disabled: false })
    }
}

#[cfg(feature = "dpdk")]
impl EqualPages {
    /// Starts DPDK, on huge pages if there can be enough of them, and otherwise switches transparent ones off.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if DPDK does not start.
    pub fn settle(name: &str, console: &Console) -> Result<Self, BenchError> {
        use crate::gateway::dpdk;
        let is_started = dpdk::has_huge_pages().is_some();
        let mut equal = Self { reserved: None, has_disabled: false };
        let lock = dpdk::HugePagesLock::take();
        if !is_started && dpdk::free_huge_mib() < dpdk::HUGE_MIB_FOR_ROUTES {
            equal.reserved = reserve(dpdk::HUGE_MIB_FOR_ROUTES);
        }
        dpdk::start_alone(0, &lock)?;
        drop(lock);
        if dpdk::has_huge_pages() == Some(false) {
            equal.has_disabled = disable_transparent_huge_pages(true).is_ok();
            console.note(&format!(
                "{name}: {}",
                if equal.has_disabled {
                    "cannot reserve huge pages for DPDK: all tables are on ordinary pages"
                } else {
                    "DPDK's tables are on ordinary pages, ours on transparent huge ones: ratios are upper limits"
                }
            ));
        }
        Ok(equal)
    }
}

/// Where the number of reserved huge pages is read and changed.
#[cfg(feature = "dpdk")]
const RESERVED: &str = "/proc/sys/vm/nr_hugepages";

/// Reserves pages until `mib` MiB are free. Returns how many more are reserved, if it changed that.
#[cfg(feature = "dpdk")]
fn reserve(mib: u64) -> Option<u64> {
    let missing_kib = mib.saturating_sub(crate::gateway::dpdk::free_huge_mib()) << 10;
    let more = missing_kib.div_ceil(huge_page_kib()?);
    let before = reserved()?;
    std::fs::write(RESERVED, (before + more).to_string()).ok()?;
    Some(more)
}

/// The number of reserved pages.
#[cfg(feature = "dpdk")]
fn reserved() -> Option<u64> {
    std::fs::read_to_string(RESERVED).ok()?.trim().parse().ok()
}

/// The size of reserved huge pages.
#[cfg(feature = "dpdk")]
fn huge_page_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Hugepagesize:"))?;
    line.split_whitespace().next()?.parse().ok().filter(|&kib| kib > 0)
}

impl Drop for EqualPages {
    fn drop(&mut self) {
        if self.has_disabled {
            let _ = disable_transparent_huge_pages(false);
        }
        #[cfg(feature = "dpdk")]
        if let Some(more) = self.reserved {
            // Another process may have reserved pages meanwhile; these stay. The system takes pages that DPDK still uses
            // back when this process ends.
            let _lock = crate::gateway::dpdk::HugePagesLock::take();
            if let Some(now) = reserved() {
                let _ = std::fs::write(RESERVED, now.saturating_sub(more).to_string());
            }
        }
    }
}
