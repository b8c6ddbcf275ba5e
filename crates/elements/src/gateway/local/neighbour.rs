//! One neighbour: what is known of it, and when it is asked.
//!
//! ```text
//!              asks all, 3 times 1 s apart        its time is up: asks it alone, 3 times 1 s apart
//! Incomplete ───────── answer ─────────▶ Reachable ─────────────────────────────────▶ Probe
//!    │  ▲                                    ▲  ▲───────────── answer ─────────────────┘ │
//!    │  └────────────────────────────────────│───────────────── no answer ──────────────┘
//!    └─ no answer ─▶ Missing ─── answer ─────┘      Stale: somebody said so unasked; to be probed
//! ```
//!
//! These are the states of RFC 4861 §7.3.2, for ARP too, without DELAY: nothing is learnt from the packets that pass,
//! so nothing is waited for. In Reachable, Stale and Probe the MAC address is used.

use super::neighbours::Waiting;
use scalebricks_wire::MacAddr;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// Questions before a neighbour counts as not there (RFC 4861 §10).
pub(super) const ATTEMPTS: u8 = 3;
/// Between two questions to one neighbour (RFC 4861 §10; RFC 1122 §2.3.2.1 allows no more than one a second).
pub(super) const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer is believed; a quarter more or less, so that neighbours are not all asked at once.
pub(super) const REACHABLE: Duration = Duration::from_secs(30);
/// Longest time between questions to a missing neighbour.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// After a question, this long an answer is one to it.
const ANSWER_WINDOW: Duration = Duration::from_secs(3);

/// How much is known of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NeighbourState {
    /// Asked for; its MAC address is not known.
    Incomplete,
    /// It answered not long ago.
    Reachable,
    /// Its MAC address was heard without having been asked for, and is about to be probed.
    Stale,
    /// Asked whether it is still there; the MAC address it had is used.
    Probe,
    /// It did not answer, and is asked less and less often: each time after twice as long, up to 30 s.
    Missing,
}

impl NeighbourState {
    /// A name for people: lower case.
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

/// What was said of a neighbour's MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MacEvidence {
    /// As an answer to the node.
    Answer,
    /// Unasked; replaces what is known.
    Update,
    /// Unasked; casts doubt on what is known (RFC 4861 §7.2.5 without O).
    Hint,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LearnOutcome {
    /// Nothing new.
    Nothing,
    /// Nothing: nobody had asked.
    Unsolicited,
    /// The MAC address is known now, or another: frames may go.
    Address {
        /// There was another before.
        moved: bool,
    },
    /// It is as was believed.
    Confirmed,
}

/// What to do when a neighbour's time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerAction {
    /// Ask: this station, or all.
    Ask(Option<MacAddr>),
    /// Ask all: it stopped answering, its MAC address is not used any longer.
    AskLost,
    /// It did not answer: those that are wanted always are missing from now on, others are forgotten.
    GiveUp,
}

/// One neighbour.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: NeighbourState,
    /// Known in Reachable, Stale and Probe.
    pub(super) mac: Option<MacAddr>,
    /// Wanted always: a base station or a next hop of a route.
    pub(super) is_pinned: bool,
    /// When it last answered, or was first asked for.
    pub(super) since: Duration,
    /// When it is its turn.
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

    /// Takes its turn.
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

    /// Whether a packet that has to go there is reason to ask now, before its turn: nobody was asked yet, or not for
    /// a second.
    pub(super) fn is_worth_asking(&self, now: Duration) -> bool {
        let unasked = self.state == NeighbourState::Incomplete && self.asked == 0;
        let rested = self.last_ask.is_none_or(|at| at.saturating_add(ASK_INTERVAL) <= now);
        unasked || (self.state == NeighbourState::Missing && rested)
    }

    /// Asks before its turn. A missing neighbour keeps its turn.
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

    /// Takes in what was said; `lifetime` is how long an answer is believed.
    pub(super) fn hear(
        &mut self,
        mac: Option<MacAddr>,
        said: MacEvidence,
        lifetime: Duration,
        now: Duration,
    ) -> LearnOutcome {
        // RFC 4861 §7.2.5: without an address, the message speaks of the one that is known.
        let Some(mac) = mac.or(self.mac) else { return LearnOutcome::Unsolicited };
        let is_same = self.mac == Some(mac);
        // Who was asked alone and answers with another address has not answered: it has said something new.
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

    /// The monitor asks it alone.
    pub(super) const fn check(&mut self, now: Duration) {
        self.checked = Some(now);
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// It stopped answering: its MAC address is not used any longer, and all are asked for it, no more than once a second.
    pub(super) fn lose(&mut self, now: Duration) {
        self.doubt(now);
        self.state = NeighbourState::Incomplete;
        self.mac = None;
        self.asked = 0;
    }

    /// To be probed soon; whatever is said, no more than once a second.
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

/// A neighbour, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The link.
    pub port: crate::gateway::OutputPort,
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address, if it is known.
    pub mac: Option<MacAddr>,
    /// How much is known of it.
    pub state: NeighbourState,
    /// Time since it last answered, or was first asked for if it never did; at the last call that gave the time.
    pub age: Duration,
    /// Whether it is a base station or a next hop of a route: wanted always.
    pub is_pinned: bool,
}
