//! All neighbours of a node: bounded, each with the frames that wait for it, and whose turn is next.

use super::Occupancy;
use super::config::LocalLimits;
use super::neighbour::{Entry, Learnt, NeighbourState, REACHABLE, Said, Turn};
use super::rate::Bucket;
use super::stats::LocalStats;
use scalebricks_wire::MacAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// A neighbour: the number of its link, its address.
pub(super) type Key = (u8, IpAddr);

/// What became of a frame that needs a neighbour's MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// The address is known: send it.
    Send(MacAddr),
    /// It waits, or is dropped and counted.
    Done,
    /// As [`Hold::Done`], and the neighbour is to be asked for.
    Ask,
}

/// Whom to ask: the neighbour alone at its MAC address, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) key: Key,
    pub(super) mac: Option<MacAddr>,
}

/// The neighbours.
#[derive(Debug)]
pub(super) struct Neighbours {
    entries: BTreeMap<Key, Entry>,
    /// When whose turn is; those that are wanted always apart, for they wait for tokens of their own.
    turns: [BTreeSet<(Duration, Key)>; 2],
    learnt: usize,
    held_frames: usize,
    held_bytes: usize,
    limits: LocalLimits,
    asks: Bucket,
    demand_asks: Bucket,
    random: u64,
    /// A MAC address came, changed or went since this was last cleared.
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
            limits,
            asks: Bucket::new(limits.asks),
            demand_asks: Bucket::new(limits.demand_asks),
            random: 0,
            is_changed: false,
        }
    }

    /// Wants this neighbour always.
    pub(super) fn pin(&mut self, key: Key, now: Duration) {
        if !self.entries.contains_key(&key) {
            self.insert(key, Entry::new(true, now));
        }
    }

    /// All, in order of link and address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// The MAC address of a neighbour, if it is known.
    pub(super) fn mac(&self, key: &Key) -> Option<MacAddr> {
        self.entries.get(key)?.mac
    }

    /// Holds a frame for a neighbour, unless its MAC address is known.
    pub(super) fn hold(&mut self, key: Key, frame: &[u8], now: Duration, stats: &mut LocalStats) -> Hold {
        if !self.entries.contains_key(&key) && !self.learn(key, now, stats) {
            return Hold::Done;
        }
        let Some(entry) = self.entries.get_mut(&key) else { return Hold::Done };
        entry.wanted = now;
        if let Some(mac) = entry.mac {
            return Hold::Send(mac);
        }
        let asks = entry.is_worth_asking(now) && self.demand_asks.take(now);
        if asks {
            let before = entry.due;
            entry.ask_now(now);
            reschedule(&mut self.turns, key, entry, before);
        }
        if entry.state == NeighbourState::Missing {
            stats.dropped_missing += 1;
        } else {
            self.keep(key, frame, stats);
        }
        if asks { Hold::Ask } else { Hold::Done }
    }

    /// Makes room for a neighbour that a packet goes to, if it may be asked for.
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

    fn keep(&mut self, key: Key, frame: &[u8], stats: &mut LocalStats) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        while entry.held.len() >= self.limits.held_a_neighbour.max(1)
            && let Some(oldest) = entry.held.pop_front()
        {
            self.held_frames -= 1;
            self.held_bytes -= oldest.len();
            stats.dropped_held_replaced += 1;
        }
        let bytes = self.held_bytes.saturating_add(frame.len());
        if self.held_frames >= self.limits.held_frames || bytes > self.limits.held_bytes {
            stats.dropped_held_full += 1;
            return;
        }
        entry.held.push_back(frame.to_vec());
        self.held_frames += 1;
        self.held_bytes = bytes;
        stats.held += 1;
    }

    /// Takes in what was said of a neighbour's MAC address. Returns the frames that waited for it.
    pub(super) fn hear(
        &mut self,
        key: Key,
        mac: Option<MacAddr>,
        said: Said,
        now: Duration,
        stats: &mut LocalStats,
    ) -> VecDeque<Vec<u8>> {
        let lifetime = self.lifetime();
        let Some(entry) = self.entries.get_mut(&key) else {
            // Everybody's requests and announcements are heard; only answers are suspicious.
            stats.dropped_unsolicited += u64::from(said == Said::Answer);
            return VecDeque::new();
        };
        let before = entry.due;
        let learnt = entry.hear(mac, said, lifetime, now);
        reschedule(&mut self.turns, key, entry, before);
        match learnt {
            Learnt::Address { moved } => {
                self.is_changed = true;
                stats.neighbours_moved += u64::from(moved);
                self.release(key)
            }
            Learnt::Unsolicited => {
                stats.dropped_unsolicited += 1;
                VecDeque::new()
            }
            Learnt::Nothing | Learnt::Confirmed => VecDeque::new(),
        }
    }

    /// Takes the next turn that is due. `None` if there is none, or no token to ask with.
    pub(super) fn next_question(&mut self, now: Duration, stats: &mut LocalStats) -> Option<Question> {
        while let Some(key) = self.due(false, now).or_else(|| self.due(true, now)) {
            let entry = self.entries.get_mut(&key)?;
            let (before, is_pinned) = (entry.due, entry.is_pinned);
            let turn = entry.take_turn(now);
            reschedule(&mut self.turns, key, entry, before);
            let mac = match turn {
                Turn::Ask(mac) => mac,
                Turn::AskLost => {
                    stats.neighbours_lost += 1;
                    self.is_changed = true;
                    None
                }
                Turn::GiveUp => {
                    let lost = if is_pinned { self.release(key).len() as u64 } else { self.remove(key) };
                    stats.dropped_held_unanswered += lost;
                    continue;
                }
            };
            let bucket = if is_pinned { &mut self.asks } else { &mut self.demand_asks };
            if bucket.take(now) {
                return Some(Question { key, mac });
            }
            stats.dropped_rate += 1; // a learnt one's question is lost, its turn is over all the same
        }
        None
    }

    /// Whose turn it is. Those wanted always wait for a token, so that each is asked in the end.
    fn due(&self, is_pinned: bool, now: Duration) -> Option<Key> {
        let &(due, key) = self.turns[usize::from(is_pinned)].first()?;
        (due <= now && (!is_pinned || self.asks.has_token(now))).then_some(key)
    }

    /// When [`Neighbours::next_question`] will have something to do.
    pub(super) fn next_deadline(&self) -> Duration {
        let first = |set: &BTreeSet<(Duration, Key)>| set.first().map_or(Duration::MAX, |(due, _)| *due);
        let [learnt, pinned] = &self.turns;
        first(learnt).min(first(pinned).max(self.asks.next()))
    }

    /// How long an answer is believed: [`REACHABLE`], a quarter more or less.
    fn lifetime(&mut self) -> Duration {
        // A Weyl sequence: consecutive answers are spread evenly.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let part = (self.random >> 48) as u32; // 16 bits
        REACHABLE * 3 / 4 + REACHABLE / 2 * part / (1 << 16)
    }

    fn insert(&mut self, key: Key, entry: Entry) {
        self.learnt += usize::from(!entry.is_pinned);
        self.turns[usize::from(entry.is_pinned)].insert((entry.due, key));
        self.entries.insert(key, entry);
    }

    /// Forgets a neighbour; returns how many frames waited for it.
    fn remove(&mut self, key: Key) -> u64 {
        let waiting = self.release(key).len() as u64;
        if let Some(entry) = self.entries.remove(&key) {
            self.turns[usize::from(entry.is_pinned)].remove(&(entry.due, key));
            self.learnt -= usize::from(!entry.is_pinned);
            self.is_changed |= entry.mac.is_some();
        }
        waiting
    }

    fn release(&mut self, key: Key) -> VecDeque<Vec<u8>> {
        let held =
            self.entries.get_mut(&key).map(|entry| std::mem::take(&mut entry.held)).unwrap_or_default();
        self.held_frames -= held.len();
        self.held_bytes -= held.iter().map(Vec::len).sum::<usize>();
        held
    }

    /// The memory in use that others decide about.
    pub(super) const fn occupancy(&self) -> Occupancy {
        Occupancy { learnt: self.learnt, held_frames: self.held_frames, held_bytes: self.held_bytes }
    }
}

fn reschedule(turns: &mut [BTreeSet<(Duration, Key)>; 2], key: Key, entry: &Entry, before: Duration) {
    if before != entry.due {
        let turns = &mut turns[usize::from(entry.is_pinned)];
        turns.remove(&(before, key));
        turns.insert((entry.due, key));
    }
}
