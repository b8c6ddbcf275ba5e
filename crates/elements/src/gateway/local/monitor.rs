//! Detects outside links whose next hops stop answering, by asking each next hop regularly with unicast requests.
//!
//! Next hops that answered before are asked every 300 ms, at most four per link and round; with more next hops, each
//! round asks another four. A link is silent when its next hops miss three such rounds, until one of them answers. A
//! next hop that is silent while others answer is no longer used, long before the 30 s for which an answer is believed.
//!
//! This is more often than the once per second that RFC 1122 §2.3.2.1 recommends against broadcast floods. These
//! requests are unicast, and bounded per link whatever the number of next hops. An answer proves that frames pass in
//! both directions; other frames from a next hop prove one direction only and do not count.

use super::neighbour::NeighbourState;
use super::neighbours::{Key, NeighbourQuery, Neighbours, reschedule};
use super::stats::LocalStats;
use crate::gateway::fabric::mac::OutputPort;
use std::net::IpAddr;
use std::time::Duration;

/// Time between two rounds of requests.
const INTERVAL: Duration = Duration::from_millis(300);
/// A next hop that answered within this time is not asked.
const FRESH: Duration = Duration::from_millis(150);
/// Next hops asked per round.
const AT_ONCE: usize = 4;
/// Next hops examined per round: of thousands, many may never have answered.
const LOOKED_AT: usize = 64;
/// Unanswered rounds after which a link is silent, and after which a next hop is lost if others answer.
const ROUNDS: u8 = 3;

/// The next hops of a link do not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSilence {
    /// When one of them last answered.
    pub since: Duration,
    /// The next hops asked last, at most four.
    pub asked: Vec<IpAddr>,
}

/// Monitors one link.
#[derive(Debug, Default)]
pub(super) struct Monitor {
    /// The next hops and base stations on the link in the order in which they are asked: spread over their addresses.
    hops: Vec<IpAddr>,
    /// Where the next round begins in `hops`.
    at: usize,
    due: Duration,
    heard: Duration,
    /// Rounds since then in which some next hop was asked.
    rounds: u8,
    silence: Option<LinkSilence>,
}

impl Monitor {
    pub(super) fn new(hops: &[IpAddr], now: Duration) -> Self {
        Self { hops: spread(hops), due: now.saturating_add(INTERVAL), ..Self::default() }
    }

    /// When the next round is due.
    pub(super) const fn due(&self) -> Duration {
        if self.hops.is_empty() { Duration::MAX } else { self.due }
    }

    /// One of its next hops answered.
    pub(super) fn heard(&mut self, now: Duration) {
        self.heard = now;
        self.rounds = 0;
        self.silence = None;
    }

    pub(super) const fn silence(&self) -> Option<&LinkSilence> {
        self.silence.as_ref()
    }

    /// The next hops to examine in this round.
    fn next_hops(&self) -> Vec<IpAddr> {
        let count = self.hops.len().min(LOOKED_AT);
        self.hops.iter().cycle().skip(self.at).take(count).copied().collect()
    }

    /// Advances past this many next hops.
    fn went_on(&mut self, by: usize) {
        self.at = (self.at + by).checked_rem(self.hops.len()).unwrap_or(0);
    }
}

/// Reorders addresses so that neighbouring ones are far apart: those of one rack may fail together and should not be
/// asked together.
fn spread(hops: &[IpAddr]) -> Vec<IpAddr> {
    let count = hops.len();
    // Near the golden section and coprime to the count, so that every hop is visited. The last value in the range
    // always is.
    let stride = (count * 5 / 8..=count + 1).find(|stride| gcd(*stride, count) == 1).unwrap_or(1);
    (0..count).filter_map(|at| hops.get(at * stride % count).copied()).collect()
}

const fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Neighbours {
    /// The requests of the rounds that are due, at most [`AT_ONCE`] per link.
    pub(super) fn checks(&mut self, now: Duration, stats: &mut LocalStats) -> Vec<NeighbourQuery> {
        let mut questions = Vec::new();
        for port in OutputPort::ALL {
            if self.monitors[port as usize].due() <= now {
                self.check_link(port, now, stats, &mut questions);
            }
        }
        questions
    }

    fn check_link(
        &mut self,
        port: OutputPort,
        now: Duration,
        stats: &mut LocalStats,
        questions: &mut Vec<NeighbourQuery>,
    ) {
        let monitor = &mut self.monitors[port as usize];
        monitor.due = now.saturating_add(INTERVAL);
        let is_silent = monitor.rounds >= ROUNDS;
        let looked_at = monitor.next_hops();
        let keys: Vec<Key> = looked_at.into_iter().map(|address| (port as u8, address)).collect();
        let (chosen, passed) = self.choose(&keys);
        let asked: Vec<Key> =
            chosen.into_iter().filter(|key| self.check(*key, now, is_silent, stats)).collect();
        for key in &asked {
            let mac = self.entries.get(key).and_then(|entry| entry.last_mac);
            questions.push(NeighbourQuery { key: *key, mac });
        }
        stats.next_hops_checked += asked.len() as u64;
        let monitor = &mut self.monitors[port as usize];
        monitor.went_on(passed);
        if asked.is_empty() {
            return;
        }
        monitor.rounds = monitor.rounds.saturating_add(1);
        if is_silent {
            stats.links_silent += u64::from(monitor.silence.is_none());
            let asked = asked.into_iter().map(|(_, address)| address).collect();
            monitor.silence = Some(LinkSilence { since: monitor.heard, asked });
        }
    }

    /// Chooses which of these to ask: those that answered once and are not given up, or if there are none, those given
    /// up. Also returns how many of the list were examined.
    fn choose(&self, keys: &[Key]) -> (Vec<Key>, usize) {
        let pick = |is_missing: bool| -> (Vec<Key>, usize) {
            let is_right = |key: &Key| {
                let entry = self.entries.get(key).filter(|entry| entry.last_mac.is_some());
                entry.is_some_and(|entry| (entry.state == NeighbourState::Missing) == is_missing)
            };
            let found: Vec<(usize, Key)> =
                keys.iter().copied().enumerate().filter(|(_, key)| is_right(key)).take(AT_ONCE).collect();
            let passed =
                if found.len() < AT_ONCE { keys.len() } else { found.last().map_or(0, |(at, _)| at + 1) };
            (found.into_iter().map(|(_, key)| key).collect(), passed)
        };
        let (there, passed) = pick(false);
        if there.is_empty() { pick(true) } else { (there, passed) }
    }

    /// Examines one next hop; returns whether to ask it.
    fn check(&mut self, key: Key, now: Duration, is_link_silent: bool, stats: &mut LocalStats) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else { return false };
        let before = entry.due;
        if entry.state == NeighbourState::Reachable && entry.since.saturating_add(FRESH) > now {
            return false;
        }
        if entry.unanswered >= ROUNDS && entry.mac.is_some() && !is_link_silent {
            entry.lose(now);
            stats.neighbours_lost += 1;
            self.is_changed = true;
        } else if entry.unanswered > 0 && entry.state == NeighbourState::Reachable {
            entry.doubt(now);
        }
        entry.check(now);
        reschedule(&mut self.turns, key, entry, before);
        true
    }
}
