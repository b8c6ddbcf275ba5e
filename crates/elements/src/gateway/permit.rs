//! Whether the node may forward.

use crate::gateway::fabric::lease::Lease;
use std::sync::Arc;
use std::time::Duration;

/// A node's lease, as elements check it. Without a lease the node may always forward.
#[derive(Debug, Clone, Default)]
pub(super) struct Permit(Option<Arc<Lease>>);

impl Permit {
    /// Checks this lease.
    pub(super) const fn of(lease: Arc<Lease>) -> Self {
        Self(Some(lease))
    }

    /// Whether packets that wait for a lookup may be forwarded. Checks the turn's time and the clock, since the worker
    /// may have been stopped since its turn began.
    pub(super) fn forwards(&self, now: Duration) -> bool {
        self.0.as_ref().is_none_or(|lease| lease.may_forward(now) && lease.still_lets_forward())
    }

    /// The same for packets from outside: also false until the tables were filled once.
    pub(super) fn takes_new(&self, now: Duration) -> bool {
        self.0.as_ref().is_none_or(|lease| lease.is_filled()) && self.forwards(now)
    }
}
