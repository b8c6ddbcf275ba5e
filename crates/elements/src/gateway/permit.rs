//! Whether the node may forward.

use crate::gateway::fabric::lease::Lease;
use std::sync::Arc;
use std::time::Duration;

/// A node's lease, as an element looks at it. Without one the node may forward for ever.
#[derive(Debug, Clone, Default)]
pub(super) struct Permit(Option<Arc<Lease>>);

impl Permit {
    /// That of this lease.
    pub(super) const fn of(lease: Arc<Lease>) -> Self {
        Self(Some(lease))
    }

    /// Whether packets that wait for a lookup may be forwarded: by the turn's time, and by the clock, as the worker may have been stopped
    /// since its turn began.
    pub(super) fn forwards(&self, now: Duration) -> bool {
        self.0.as_ref().is_none_or(|lease| lease.may_forward(now) && lease.still_lets_forward())
    }

    /// The same of packets that come from outside: not before the tables were ever filled.
    pub(super) fn takes_new(&self, now: Duration) -> bool {
        self.0.as_ref().is_none_or(|lease| lease.is_filled()) && self.forwards(now)
    }
}
