//! The state of one neighbour, and when it is asked.
//!
//! ```text
//!              asks all, 3 times 1 s apart        lifetime over: asks it alone, 3 times 1 s apart
//! Incomplete ───────── answer ─────────▶ Reachable ─────────────────────────────────▶ Probe
//!    │  ▲                                    ▲  ▲───────────── answer ─────────────────┘ │
//!    │  └────────────────────────────────────│───────────────── no answer ──────────────┘
//!    └─ no answer ─▶ Missing ─── answer ─────┘      Stale: learnt from an unsolicited message; to be probed
//! ```
//!
//! These are the states of RFC 4861 §7.3.2, also for ARP, without DELAY: nothing is learnt from forwarded packets, so
//! there is nothing to wait for. In Reachable, Stale and Probe the MAC address is used.

use super::neighbours::Waiting;
use scalebricks_wire::MacAddr;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// Requests before a neighbour counts as missing (RFC 4861 §10).
pub(super) const ATTEMPTS: u8 = 3;
/// Time between two requests to one neighbour (RFC 4861 §10; RFC 1122 §2.3.2.1 allows at most one per second).
pub(super) const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer is valid, varied by up to a quarter, so that neighbours are not all asked at once.
pub(super) const REACHABLE: Duration = Duration::from_secs(30);
/// Longest time between requests to a missing neighbour.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// An answer that arrives within this time of a request counts as its answer.
const ANSWER_WINDOW: Duration = Duration::from_secs(3);

/// The resolution state of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NeighbourState {
    /// It was asked for; its MAC address is unknown.
    Incomplete,
    /// It answered recently.
    Reachable,
    /// Its MAC address came unsolicited and will be probed.
    Stale,
    /// It is being asked whether it is still there; its previous MAC address is used.
    Probe,
    /// It did not answer. It is asked with exponential back-off, up to every 30 s.
    Missing,
}

impl NeighbourState {
    /// A lower-case name for display.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Reachable => "reachable",
            Self::Stale => "stale",
            Self::Probe => "probe",
            Self::Missing => "missing",
        }
    }
}

/// How a neighbour's MAC address was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MacEvidence {
    /// In answer to the node's request.
    Answer,
    /// Unsolicited; replaces the known address.
    Update,
    /// Unsolicited; makes the known address doubtful (RFC 4861 §7.2.5 without O).
    Hint,
}

/// The result of processing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LearnOutcome {
    /// Nothing new.
    Nothing,
    /// Nothing: the node had not asked.
    Unsolicited,
    /// The MAC address is now known, or has changed: frames can be sent.
    Address {
        /// Another address was known before.
        moved: bool,
    },
    /// The known address was confirmed.
    Confirmed,
}

/// What to do when a neighbour's timer expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerAction {
    /// Ask this station, or all.
    Ask(Option<MacAddr>),
    /// Ask all: it stopped answering, and its MAC address is no longer used.
    AskLost,
    /// It did not answer: a pinned neighbour becomes missing, another one is forgotten.
    GiveUp,
}

/// The state of one neighbour.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: NeighbourState,
    /// Known in Reachable, Stale and Probe.
    pub(super) mac: Option<MacAddr>,
    /// Always needed: a base station, or a next hop of a route.
    pub(super) is_pinned: bool,
    /// When it last answered, or was first asked for.
    pub(super) since: Duration,
    /// When its timer expires.
    pub(super) due: Duration,
    /// When a packet last had to be held for it.
    pub(super) wanted: Duration,
    /// Frames that wait for it, oldest first.
    pub(super) held: VecDeque<Waiting>,
    /// The MAC address it had last.
    pub(super) last_mac: Option<MacAddr>,
    /// When the [monitor](super::monitor) last asked it alone, and how often it did since it last answered.
    pub(super) checked: Option<Duration>,
    pub(super) unanswered: u8,
    asked: u8,
    last_ask: Option<Duration>,
    backoff: Duration,
}

impl Entry {
    pub(super) fn new(is_pinned: bool, now: Duration) -> Self {
        Self {
            state: NeighbourState::Incomplete,
            mac: None,
            is_pinned,
            since: now,
            due: now,
            wanted: now,
            held: VecDeque::new(),
            last_mac: None,
            checked: None,
            unanswered: 0,
            asked: 0,
            last_ask: None,
            backoff: ASK_INTERVAL,
        }
    }

    /// Handles its timer.
    pub(super) fn take_turn(&mut self, now: Duration) -> TimerAction {
        use NeighbourState::{Incomplete, Missing, Probe, Reachable, Stale};
        match self.state {
            Reachable | Stale => {
                self.state = Probe;
                self.asked = 0;
                self.ask(now, ASK_INTERVAL)
            }
            Incomplete | Probe if self.asked < ATTEMPTS => self.ask(now, ASK_INTERVAL),
            Probe => {
                self.state = Incomplete;
                self.mac = None;
                self.asked = 0;
                self.ask(now, ASK_INTERVAL);
                TimerAction::AskLost
            }
            Incomplete => {
                self.state = Missing;
                self.backoff = ASK_INTERVAL * 2;
                self.due = now.saturating_add(self.backoff);
                TimerAction::GiveUp
            }
            Missing => {
                self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
                self.ask(now, self.backoff)
            }
        }
    }

    /// Whether a packet to it justifies a request before its timer expires: it was not asked yet, or not within the
    /// last second.
    pub(super) fn is_worth_asking(&self, now: Duration) -> bool {
        let unasked = self.state == NeighbourState::Incomplete && self.asked == 0;
        let rested = self.last_ask.is_none_or(|at| at.saturating_add(ASK_INTERVAL) <= now);
        unasked || (self.state == NeighbourState::Missing && rested)
    }

    /// Asks before its timer expires. The timer of a missing neighbour does not change.
    pub(super) fn ask_now(&mut self, now: Duration) {
        let due = self.due;
        self.ask(now, ASK_INTERVAL);
        if self.state == NeighbourState::Missing {
            self.due = due;
        }
    }

    fn ask(&mut self, now: Duration, next: Duration) -> TimerAction {
        self.asked = self.asked.saturating_add(1);
        self.last_ask = Some(now);
        self.due = now.saturating_add(next);
        TimerAction::Ask(self.mac)
    }

    /// Processes an announcement; `lifetime` is how long an answer is valid.
    pub(super) fn hear(
        &mut self,
        mac: Option<MacAddr>,
        said: MacEvidence,
        lifetime: Duration,
        now: Duration,
    ) -> LearnOutcome {
        // RFC 4861 §7.2.5: a message without an address concerns the known one.
        let Some(mac) = mac.or(self.mac) else { return LearnOutcome::Unsolicited };
        let is_same = self.mac == Some(mac);
        // A unicast request that is answered with another address is not answered; it is an announcement of the new
        // address.
        if said == MacEvidence::Answer && self.is_awaiting(now) && (is_same || self.mac.is_none()) {
            self.state = NeighbourState::Reachable;
            self.mac = Some(mac);
            self.last_mac = Some(mac);
            self.unanswered = 0;
            self.since = now;
            self.due = now.saturating_add(lifetime);
            return if is_same { LearnOutcome::Confirmed } else { LearnOutcome::Address { moved: false } };
        }
        if is_same {
            return if said == MacEvidence::Answer {
                LearnOutcome::Unsolicited
            } else {
                LearnOutcome::Nothing
            };
        }
        let moved = self.mac.is_some();
        match (said, self.state) {
            (MacEvidence::Hint, NeighbourState::Reachable) => self.doubt(now),
            (MacEvidence::Hint, _) if moved => {}
            _ => {
                self.mac = Some(mac);
                self.last_mac = Some(mac);
                self.doubt(now);
                return LearnOutcome::Address { moved };
            }
        }
        LearnOutcome::Nothing
    }

    /// Whether it answered at this moment.
    pub(super) fn answered_at(&self, now: Duration) -> bool {
        self.state == NeighbourState::Reachable && self.since == now
    }

    /// Records that the monitor asks it by unicast.
    pub(super) const fn check(&mut self, now: Duration) {
        self.checked = Some(now);
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// It stopped answering: its MAC address is no longer used, and all stations are asked for it, at most once per
    /// second.
    pub(super) fn lose(&mut self, now: Duration) {
        self.doubt(now);
        self.state = NeighbourState::Incomplete;
        self.mac = None;
        self.asked = 0;
    }

    /// Schedules a probe, at most once per second whatever is announced.
    pub(super) fn doubt(&mut self, now: Duration) {
        self.state = NeighbourState::Stale;
        self.due = self.last_ask.map_or(now, |at| at.saturating_add(ASK_INTERVAL).max(now));
    }

    fn is_awaiting(&self, now: Duration) -> bool {
        use NeighbourState::{Incomplete, Missing, Probe};
        let is_recent = |at: Option<Duration>| at.is_some_and(|at| at.saturating_add(ANSWER_WINDOW) >= now);
        let is_asked = matches!(self.state, Incomplete | Probe | Missing) && is_recent(self.last_ask);
        is_asked || is_recent(self.checked)
    }
}

/// A neighbour, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The link.
    pub port: crate::gateway::OutputPort,
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address, if it is known.
    pub mac: Option<MacAddr>,
    /// Its resolution state.
    pub state: NeighbourState,
    /// Time since it last answered, or since it was first asked for if it never did; as of the last call that passed
    /// the time.
    pub age: Duration,
    /// Whether it is a base station or a next hop of a route, and thus always needed.
    pub is_pinned: bool,
}
