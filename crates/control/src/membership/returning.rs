//! When a node that is out may come in.

use std::time::Duration;

/// A member that was in for this long starts without a history of flaps.
pub const CALM: Duration = Duration::from_secs(600);

/// How long a node waits that half of the members hear, but fewer than three quarters.
pub const HALF_HEARD: Duration = Duration::from_secs(60);

/// The first wait of a node that was removed, and that most members hear. Longer than a report counts: a report of before the
/// removal must not bring a node back.
const HOLD: Duration = Duration::from_secs(1);

/// The longest wait of a node that most members hear, and of one that is fit again.
pub const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// Most doublings of [`HALF_HEARD`]: a wait of 64 minutes.
const DOUBLINGS: u32 = 6;

/// How a node that is out comes back, damped by how often it was removed.
#[derive(Debug, Default)]
pub(super) struct RejoinDelay {
    /// Removals with less than [`CALM`] between each and the return before it.
    flaps: u32,
    joined: Option<Duration>,
    /// Since when three quarters, and half, of the members have heard this node and been heard.
    most_since: Option<Duration>,
    half_since: Option<Duration>,
}

impl RejoinDelay {
    /// This process has been a member.
    pub(super) const fn has_been_in(&self) -> bool {
        self.flaps > 0 || self.joined.is_some()
    }

    /// This node is a member now.
    pub(super) fn joined(&mut self, now: Duration) {
        if self.joined.is_none() {
            (self.joined, self.most_since, self.half_since) = (Some(now), None, None);
        }
    }

    /// This node was removed.
    pub(super) fn removed(&mut self, now: Duration) {
        if let Some(joined) = self.joined.take() {
            self.flaps = if now < joined + CALM { self.flaps + 1 } else { 1 };
        }
    }

    /// Whether this node may join, given the number of members and how many of them hear it and are heard by it.
    pub(super) fn may_join(&mut self, members: usize, mutual: usize, now: Duration) -> bool {
        let since = |since: Option<Duration>, holds: bool| holds.then(|| since.unwrap_or(now));
        self.most_since = since(self.most_since, mutual * 4 >= members * 3);
        self.half_since = since(self.half_since, mutual * 2 >= members);
        self.most_since.is_some_and(|since| now >= since + self.hold())
            || self.half_since.is_some_and(|since| now >= since + self.half_wait())
    }

    fn hold(&self) -> Duration {
        let doublings = self.flaps.saturating_sub(1).min(DOUBLINGS);
        if self.flaps == 0 { Duration::ZERO } else { (HOLD * 2_u32.pow(doublings)).min(LONGEST_HOLD) }
    }

    fn half_wait(&self) -> Duration {
        HALF_HEARD * 2_u32.pow(self.flaps.saturating_sub(1).min(DOUBLINGS))
    }
}
