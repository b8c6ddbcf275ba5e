//! All neighbours of a node: bounded, each with the frames that wait for it, ordered by their timers.

use super::Occupancy;
use super::config::LocalLimits;
use super::monitor::{LinkSilence, Monitor};
use super::neighbour::{Entry, LearnOutcome, MacEvidence, NeighbourState, REACHABLE, TimerAction};
use super::outbox::{FrameKind, Outbox};
use super::stats::LocalStats;
use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::reason::DropReason;
use scalebricks_types::Bucket;
use scalebricks_wire::MacAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// A neighbour: its link's number and its address.
pub(super) type Key = (u8, IpAddr);

/// A frame that waits for a neighbour; its destination MAC is still missing.
pub(super) type Waiting = (Vec<u8>, FrameKind);

/// What happened to a frame that needs a neighbour's MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// The address is known: send the frame.
    Send(MacAddr),
    /// It waits.
    Waits,
    /// It was counted and dropped.
    Lost,
}

/// The outcome, and whether to send a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HoldDecision {
    pub(super) fate: SendOutcome,
    /// Whether to ask for the neighbour.
    pub(super) asks: bool,
}

/// Which neighbour to ask for: by unicast to its MAC address, or by multicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NeighbourQuery {
    pub(super) key: Key,
    pub(super) mac: Option<MacAddr>,
}

/// The neighbours.
#[derive(Debug)]
pub(super) struct Neighbours {
    pub(super) entries: BTreeMap<Key, Entry>,
    /// Timers. Pinned neighbours are separate, as they have their own rate limit.
    pub(super) turns: [BTreeSet<(Duration, Key)>; 2],
    learnt: usize,
    held_frames: usize,
    held_bytes: usize,
    /// Held frames that will not be sent, until [`Self::tell_lost`] takes them.
    lost: Vec<Waiting>,
    /// By [`OutputPort`].
    pub(super) monitors: [Monitor; 2],
    limits: LocalLimits,
    asks: Bucket,
    demand_asks: Bucket,
    random: u64,
    /// A MAC address appeared, changed or disappeared since this was last cleared.
    pub(super) is_changed: bool,
}

impl Neighbours {
    pub(super) fn new(limits: LocalLimits) -> Self {
        Self {
            entries: BTreeMap::new(),
            turns: Default::default(),
            learnt: 0,
            held_frames: 0,
            held_bytes: 0,
            lost: Vec::new(),
            monitors: Default::default(),
            limits,
            asks: limits.asks.bucket(),
            demand_asks: limits.demand_asks.bucket(),
            random: 0,
            is_changed: false,
        }
    }

    /// Pins these neighbours: always resolves and monitors them.
    pub(super) fn pin(&mut self, keys: &BTreeSet<Key>, now: Duration) {
        for key in keys {
            if !self.entries.contains_key(key) {
                self.insert(*key, Entry::new(true, now));
            }
        }
        self.monitors = OutputPort::ALL.map(|port| {
            let on_link = keys.iter().filter(|(link, _)| *link == port as u8);
            Monitor::new(&on_link.map(|(_, address)| *address).collect::<Vec<_>>(), now)
        });
    }

    /// Whether the next hops of a link are silent.
    pub(super) const fn silence(&self, port: OutputPort) -> Option<&LinkSilence> {
        self.monitors[port as usize].silence()
    }

    /// Moves the packets that will not be sent to the outbox, where they are counted.
    pub(super) fn tell_lost(&mut self, out: &mut Outbox) {
        for (frame, kind) in self.lost.drain(..) {
            out.lose(frame, kind, DropReason::Unresolved);
        }
    }

    /// All neighbours, ordered by link and address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// The MAC address of a neighbour, if it is known.
    pub(super) fn mac(&self, key: &Key) -> Option<MacAddr> {
        self.entries.get(key)?.mac
    }

    /// Holds a frame for a neighbour, unless its MAC address is known.
    pub(super) fn hold(
        &mut self,
        key: Key,
        frame: &[u8],
        kind: FrameKind,
        now: Duration,
        stats: &mut LocalStats,
    ) -> HoldDecision {
        const LOST: HoldDecision = HoldDecision { fate: SendOutcome::Lost, asks: false };
        if !self.entries.contains_key(&key) && !self.learn(key, now, stats) {
            return LOST;
        }
        let Some(entry) = self.entries.get_mut(&key) else { return LOST };
        entry.wanted = now;
        if let Some(mac) = entry.mac {
            return HoldDecision { fate: SendOutcome::Send(mac), asks: false };
        }
        let asks = entry.is_worth_asking(now) && self.demand_asks.take(now);
        if asks {
            let before = entry.due;
            entry.ask_now(now);
            reschedule(&mut self.turns, key, entry, before);
        }
        let is_kept = if entry.state == NeighbourState::Missing {
            stats.dropped_missing += 1;
            false
        } else {
            self.keep(key, frame, kind, stats)
        };
        HoldDecision { fate: if is_kept { SendOutcome::Waits } else { SendOutcome::Lost }, asks }
    }

    /// Makes room for a neighbour to which a packet goes, if it may be asked for.
    fn learn(&mut self, key: Key, now: Duration, stats: &mut LocalStats) -> bool {
        if self.limits.neighbours == 0 || !self.demand_asks.has_token(now) {
            stats.dropped_rate += 1;
            return false;
        }
        while self.learnt >= self.limits.neighbours {
            let learnt = self.entries.iter().filter(|(_, entry)| !entry.is_pinned);
            let Some(oldest) = learnt.min_by_key(|(_, entry)| entry.wanted).map(|(key, _)| *key) else {
                break;
            };
            stats.dropped_held_forgotten += self.remove(oldest);
        }
        self.insert(key, Entry::new(false, now));
        true
    }

    /// Stores a frame if there is room.
    fn keep(&mut self, key: Key, frame: &[u8], kind: FrameKind, stats: &mut LocalStats) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else { return false };
        while entry.held.len() >= self.limits.held_a_neighbour.max(1) {
            // Evicts the oldest frame that does not count as a packet, or else the oldest packet; only a packet may
            // evict a packet.
            let other = entry.held.iter().position(|(_, kind)| *kind != FrameKind::Packet);
            if other.is_none() && kind != FrameKind::Packet {
                stats.dropped_held_full += 1;
                return false;
            }
            let Some(replaced) = entry.held.remove(other.unwrap_or(0)) else { break };
            self.held_frames -= 1;
            self.held_bytes -= replaced.0.len();
            self.lost.push(replaced);
            stats.dropped_held_replaced += 1;
        }
        let bytes = self.held_bytes.saturating_add(frame.len());
        if self.held_frames >= self.limits.held_frames || bytes > self.limits.held_bytes {
            stats.dropped_held_full += 1;
            return false;
        }
        entry.held.push_back((frame.to_vec(), kind));
        self.held_frames += 1;
        self.held_bytes = bytes;
        stats.held += 1;
        true
    }

    /// Processes an announced MAC address. Returns the frames that waited for it.
    pub(super) fn hear(
        &mut self,
        key: Key,
        mac: Option<MacAddr>,
        said: MacEvidence,
        now: Duration,
        stats: &mut LocalStats,
    ) -> VecDeque<Waiting> {
        let lifetime = self.lifetime();
        let Some(entry) = self.entries.get_mut(&key) else {
            // All stations' requests and announcements arrive here; only an unrequested answer is suspicious.
            stats.dropped_unsolicited += u64::from(said == MacEvidence::Answer);
            return VecDeque::new();
        };
        let before = entry.due;
        let learnt = entry.hear(mac, said, lifetime, now);
        reschedule(&mut self.turns, key, entry, before);
        if entry.is_pinned && said == MacEvidence::Answer && entry.answered_at(now) {
            self.monitors[usize::from(key.0 & 1)].heard(now);
        }
        match learnt {
            LearnOutcome::Address { moved } => {
                self.is_changed = true;
                stats.neighbours_moved += u64::from(moved);
                self.release(key)
            }
            LearnOutcome::Unsolicited => {
                stats.dropped_unsolicited += 1;
                VecDeque::new()
            }
            LearnOutcome::Nothing | LearnOutcome::Confirmed => VecDeque::new(),
        }
    }

    /// Handles the next expired timer. `None` if there is none, or no token for a request.
    pub(super) fn next_question(&mut self, now: Duration, stats: &mut LocalStats) -> Option<NeighbourQuery> {
        while let Some(key) = self.due(false, now).or_else(|| self.due(true, now)) {
            let entry = self.entries.get_mut(&key)?;
            let (before, is_pinned) = (entry.due, entry.is_pinned);
            let turn = entry.take_turn(now);
            reschedule(&mut self.turns, key, entry, before);
            let mac = match turn {
                TimerAction::Ask(mac) => mac,
                TimerAction::AskLost => {
                    stats.neighbours_lost += 1;
                    self.is_changed = true;
                    None
                }
                TimerAction::GiveUp => {
                    stats.dropped_held_unanswered +=
                        if is_pinned { self.give_up_held(key) } else { self.remove(key) };
                    continue;
                }
            };
            let bucket = if is_pinned { &mut self.asks } else { &mut self.demand_asks };
            if bucket.take(now) {
                return Some(NeighbourQuery { key, mac });
            }
            stats.dropped_rate += 1; // an unpinned neighbour's request is skipped; its timer still advances
        }
        None
    }

    /// The neighbour whose timer has expired. Pinned ones wait for a token, so that each is asked eventually.
    fn due(&self, is_pinned: bool, now: Duration) -> Option<Key> {
        let &(due, key) = self.turns[usize::from(is_pinned)].first()?;
        (due <= now && (!is_pinned || self.asks.has_token(now))).then_some(key)
    }

    /// When [`Neighbours::next_question`] next has work.
    pub(super) fn next_deadline(&self) -> Duration {
        let first = |set: &BTreeSet<(Duration, Key)>| set.first().map_or(Duration::MAX, |(due, _)| *due);
        let [learnt, pinned] = &self.turns;
        let checks = self.monitors.iter().map(Monitor::due).min().unwrap_or(Duration::MAX);
        first(learnt).min(first(pinned).max(self.asks.next())).min(checks)
    }

    /// How long an answer is valid: [`REACHABLE`], varied by up to a quarter.
    fn lifetime(&mut self) -> Duration {
        // A Weyl sequence: consecutive values are evenly spread.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let part = (self.random >> 48) as u32; // 16 bits
        REACHABLE * 3 / 4 + REACHABLE / 2 * part / (1 << 16)
    }

    fn insert(&mut self, key: Key, entry: Entry) {
        self.learnt += usize::from(!entry.is_pinned);
        self.turns[usize::from(entry.is_pinned)].insert((entry.due, key));
        self.entries.insert(key, entry);
    }

    /// Gives up the frames that wait for a neighbour; returns how many they are.
    fn give_up_held(&mut self, key: Key) -> u64 {
        let waiting = self.release(key);
        let count = waiting.len() as u64;
        self.lost.extend(waiting);
        count
    }

    /// Forgets a neighbour; returns how many frames waited for it.
    fn remove(&mut self, key: Key) -> u64 {
        let waiting = self.give_up_held(key);
        if let Some(entry) = self.entries.remove(&key) {
            self.turns[usize::from(entry.is_pinned)].remove(&(entry.due, key));
            self.learnt -= usize::from(!entry.is_pinned);
            self.is_changed |= entry.mac.is_some();
        }
        waiting
    }

    fn release(&mut self, key: Key) -> VecDeque<Waiting> {
        let held =
            self.entries.get_mut(&key).map(|entry| std::mem::take(&mut entry.held)).unwrap_or_default();
        self.held_frames -= held.len();
        self.held_bytes -= held.iter().map(|(frame, _)| frame.len()).sum::<usize>();
        held
    }

    /// The memory in use that other stations can influence.
    pub(super) const fn occupancy(&self) -> Occupancy {
        Occupancy { learnt: self.learnt, held_frames: self.held_frames, held_bytes: self.held_bytes }
    }
}

pub(super) fn reschedule(
    turns: &mut [BTreeSet<(Duration, Key)>; 2],
    key: Key,
    entry: &Entry,
    before: Duration,
) {
    if before != entry.due {
        let turns = &mut turns[usize::from(entry.is_pinned)];
        turns.remove(&(before, key));
        turns.insert((entry.due, key));
    }
}
