//! The sources of routes of a node. Each has a number in the log, and logs only differences to what the log has of it.
//!
//! | module | source |
//! |---|---|
//! | `table` | a table that is known as a whole: the networks at ports, a file of static routes |
//! | [`fpm`] | a BGP speaker that connects to a forwarding plane manager |

pub mod fpm;
pub(crate) mod table;

use crate::replica::{Appender, LogError};
use scalebricks_apps::router::feed::FeedPrefix;
use scalebricks_control::codec::Encoded;
use scalebricks_control::routes::{ApplyCounts, IpPrefix, RouteRecord, batches};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most bytes of a batch: applying it takes some ten milliseconds, in which no other batch and no question is served.
const BATCH_BYTES: usize = 256 << 10;

/// Time before the next attempt after the log refused or lost a batch.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// Appends records of a feeder to the log.
#[derive(Clone)]
pub(crate) struct FeederLog {
    appender: Appender<ApplyCounts>,
    has_caught_up: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for FeederLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FeederLog").finish_non_exhaustive()
    }
}

impl FeederLog {
    /// `has_caught_up` tells whether all entries that the log had at the start are applied here: before, a difference
    /// would withdraw or repeat what was not read yet.
    pub(crate) fn new(
        appender: Appender<ApplyCounts>,
        has_caught_up: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { appender, has_caught_up: Arc::new(has_caught_up) }
    }

    /// Waits until the log was read to its end.
    pub(crate) async fn caught_up(&self) {
        while !(self.has_caught_up)() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Appends records, in order, and returns when this node has applied them.
    ///
    /// # Errors
    /// [`LogError`] of the first batch that is not known to be applied. Later ones are not appended.
    pub(crate) async fn append(&self, records: Vec<RouteRecord>) -> Result<(), LogError> {
        for batch in batches(records, BATCH_BYTES) {
            let (_, counts) = self.appender.append(batch.encode().into()).await?;
            if counts.refused + counts.without_number > 0 {
                tracing::error!(
                    full = counts.refused,
                    without_number = counts.without_number,
                    "routes refused: the router has no room for more prefixes, or a node for more next hops"
                );
            }
        }
        Ok(())
    }
}

/// The state of a feeder, for the admin interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeederStatus {
    /// Its kind.
    pub name: &'static str,
    /// What it is doing.
    pub state: String,
    /// Routes that it has.
    pub routes: u64,
    /// Next hops of routes that are in no network of a port.
    pub unresolved: u64,
    /// Paths beyond the limit of a prefix.
    pub surplus: u64,
    /// Records that it logged.
    pub logged: u64,
    /// Events by name, such as messages that it could not use.
    pub counts: Vec<(&'static str, u64)>,
    /// What was wrong with the last message that it could not read.
    pub last_error: Option<String>,
    /// Why it cannot work now.
    pub fault: Option<String>,
}

/// The state of a feeder, shared with its task.
#[derive(Debug, Clone, Default)]
pub struct SharedStatus(Arc<Mutex<FeederStatus>>);

impl SharedStatus {
    /// The state of a feeder that has not begun.
    pub fn new(name: &'static str) -> Self {
        let state = "waiting for the log".to_owned();
        Self(Arc::new(Mutex::new(FeederStatus { name, state, ..FeederStatus::default() })))
    }

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, FeederStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // each field is valid on its own
    }
}

/// A feed's prefix as that of a record.
const fn ip_prefix(prefix: FeedPrefix) -> IpPrefix {
    match prefix {
        FeedPrefix::V4(prefix) => IpPrefix::V4(prefix),
        FeedPrefix::V6(prefix) => IpPrefix::V6(prefix),
    }
}
