//! The table of neighbours of `ARPQuerier` and `IP6NDSolicitor`. It sends nothing itself: each call returns what to send
//! or drop.

use scalebricks_graph::{Meta, TimerId};
use scalebricks_wire::MacAddr;
use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Entries examined to make room for a new one.
const LOOKS: usize = 16;

/// Limits and times.
#[derive(Debug, Clone)]
pub(crate) struct ArpConfig {
    /// Most entries, resolved or pending.
    pub(crate) entries: usize,
    /// Most waiting packets in total.
    pub(crate) waiting: usize,
    /// Most waiting packets per neighbour.
    pub(crate) waiting_each: usize,
    /// How long a learned address is valid; zero means forever.
    pub(crate) timeout: Duration,
    /// A packet to an address older than this triggers another request; zero means never.
    pub(crate) poll_after: Duration,
    /// Time between two requests.
    pub(crate) retry: Duration,
    /// Requests before it gives up.
    pub(crate) tries: u32,
}

/// A neighbour.
#[derive(Debug)]
struct ArpEntry<P> {
    mac: Option<MacAddr>,
    learned: Duration,
    /// Whether it was set manually.
    is_static: bool,
    asked: Duration,
    tries: u32,
    /// Distinguishes successive neighbours with one address.
    serial: u32,
    timer: Option<TimerId>,
    waiting: VecDeque<(P, Meta)>,
}

impl<P> ArpEntry<P> {
    /// Until when its address may be used without a request.
    fn until(&self, config: &ArpConfig) -> Duration {
        let limits = [config.timeout, config.poll_after].into_iter();
        let lasts = limits.filter(|limit| !limit.is_zero() && !self.is_static).min();
        self.learned.saturating_add(lasts.unwrap_or(Duration::MAX))
    }
}

/// What to do with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// Send it to this address. If `asks`, the entry is old and the neighbour must be asked again.
    Known { mac: MacAddr, asks: bool },
    /// Hold it. `is_new` if no request was sent yet.
    Wait { is_new: bool },
    /// Drop it: the table is full.
    Full,
}

/// What is known about a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Nothing,
    /// It was asked, or packets still wait for it.
    Pending,
    /// Its MAC address, and whether it should be asked again.
    Mac {
        mac: MacAddr,
        is_old: bool,
    },
}

/// What to do when a neighbour's timer expires.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RetryAction {
    Ask,
    /// It did not answer.
    GiveUp,
}

#[derive(Debug)]
pub(crate) struct ArpTable<P, A> {
    all: HashMap<A, ArpEntry<P>>,
    /// Neighbours that were asked for, with serial numbers: each once, and some that are gone. Eviction examines its
    /// front and moves what stays to its end.
    round: VecDeque<(A, u32)>,
    /// Resolved neighbours for which packets wait.
    ready: VecDeque<A>,
    /// Neighbours with a timer, by serial number.
    timed: HashMap<u32, A>,
    waiting: usize,
    serial: u32,
    /// Whether a timer is set that sends packets to resolved neighbours.
    pub(crate) is_release_set: bool,
    /// Increased whenever an address becomes usable, changes or is forgotten, for elements that keep a copy.
    changes: Arc<AtomicU64>,
}

impl<P, A> Default for ArpTable<P, A> {
    fn default() -> Self {
        Self {
            all: HashMap::new(),
            round: VecDeque::new(),
            ready: VecDeque::new(),
            timed: HashMap::new(),
            waiting: 0,
            serial: 0,
            is_release_set: false,
            changes: Arc::default(),
        }
    }
}

/// Packets that no longer wait.
pub(crate) type WaitingPackets<P> = VecDeque<(P, Meta)>;

/// What remains of an evicted neighbour.
#[derive(Debug)]
pub(crate) struct Evicted<P> {
    pub(crate) waiting: WaitingPackets<P>,
    pub(crate) timer: Option<TimerId>,
}

impl<P> Default for Evicted<P> {
    fn default() -> Self {
        Self { waiting: WaitingPackets::new(), timer: None }
    }
}

impl<P, A: Copy + Eq + Ord + Hash + fmt::Display> ArpTable<P, A> {
    /// Increased whenever an address becomes usable, changes or is forgotten.
    pub(crate) const fn changes(&self) -> &Arc<AtomicU64> {
        &self.changes
    }

    /// The number of changes so far.
    #[inline]
    pub(crate) fn change(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Until when [`way`](Self::way) returns the address of a neighbour without a request, if it does now.
    pub(crate) fn usable_until(&self, ip: A, config: &ArpConfig) -> Option<Duration> {
        let neighbour = self.all.get(&ip).filter(|neighbour| neighbour.waiting.is_empty())?;
        neighbour.mac.map(|_| neighbour.until(config))
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// The addresses that [`way`](Self::way) would return without a request, and until when.
    pub(crate) fn usable(&self, config: &ArpConfig) -> impl Iterator<Item = (A, MacAddr, Duration)> {
        let usable = self.all.iter().filter(|(_, neighbour)| neighbour.waiting.is_empty());
        usable.filter_map(move |(ip, neighbour)| Some((*ip, neighbour.mac?, neighbour.until(config))))
    }

    /// What [`way`](Self::way) would do with a packet to `ip`, changing nothing.
    pub(crate) fn look_up(&self, ip: A, now: Duration, config: &ArpConfig) -> Known {
        let Some(neighbour) = self.all.get(&ip) else { return Known::Nothing };
        let age = now.saturating_sub(neighbour.learned);
        let is_old = |limit: Duration| !limit.is_zero() && !neighbour.is_static && age >= limit;
        match neighbour.mac {
            Some(_) if is_old(config.timeout) => Known::Nothing,
            Some(mac) if neighbour.waiting.is_empty() => {
                Known::Mac { mac, is_old: is_old(config.poll_after) }
            }
            _ => Known::Pending,
        }
    }

    fn next_serial(&mut self) {
        // 0 is the token of another timer.
        self.serial = self.serial.wrapping_add(1).max(1);
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Number of waiting packets.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether packets wait for a resolved neighbour.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// What to do with a packet to `ip`. Records a request if it says that one must be sent. Room for a new neighbour
    /// is made by evicting one that has not answered yet, which is returned in `lost`.
    pub(crate) fn way(
        &mut self,
        ip: A,
        now: Duration,
        config: &ArpConfig,
        lost: &mut Evicted<P>,
    ) -> Resolution {
        if let Some(neighbour) = self.all.get_mut(&ip) {
            let age = now.saturating_sub(neighbour.learned);
            let is_old = |limit: Duration| !limit.is_zero() && !neighbour.is_static && age >= limit;
            match neighbour.mac {
                Some(mac) if !is_old(config.timeout) && neighbour.waiting.is_empty() => {
                    let asks =
                        is_old(config.poll_after) && now >= neighbour.asked.saturating_add(config.retry);
                    if asks {
                        neighbour.asked = now;
                    }
                    return Resolution::Known { mac, asks };
                }
                Some(_) if !neighbour.waiting.is_empty() => return Resolution::Wait { is_new: false },
                Some(_) => self.forget(ip),
                None => return Resolution::Wait { is_new: false },
            }
        }
        if self.all.len() >= config.entries && !self.evict(now, config, lost) {
            return Resolution::Full;
        }
        self.next_serial();
        let neighbour = ArpEntry {
            mac: None,
            learned: now,
            is_static: false,
            asked: now,
            tries: 1,
            serial: self.serial,
            timer: None,
            waiting: VecDeque::new(),
        };
        self.all.insert(ip, neighbour);
        // At most as many entries in the round are gone as exist.
        for _ in 0..2 {
            self.look(|_| false);
        }
        self.round.push_back((ip, self.serial));
        Resolution::Wait { is_new: true }
    }

    /// Evicts a neighbour that has not answered yet or has expired, if it finds one quickly.
    fn evict(&mut self, now: Duration, config: &ArpConfig, lost: &mut Evicted<P>) -> bool {
        let can_go = |neighbour: &ArpEntry<P>| {
            let is_over =
                !config.timeout.is_zero() && now.saturating_sub(neighbour.learned) >= config.timeout;
            neighbour.mac.is_none() || is_over && !neighbour.is_static && neighbour.waiting.is_empty()
        };
        for _ in 0..LOOKS {
            if let Some(ip) = self.look(can_go) {
                lost.timer = self.all.get_mut(&ip).and_then(|neighbour| neighbour.timer.take());
                lost.waiting.extend(self.remove(ip));
                return true;
            }
        }
        false
    }

    /// Examines the next neighbour of the round; returns its address if it can be evicted. One that is gone leaves the
    /// round.
    fn look(&mut self, can_go: impl Fn(&ArpEntry<P>) -> bool) -> Option<A> {
        let (ip, serial) = self.round.pop_front()?;
        let neighbour = self.all.get(&ip).filter(|neighbour| neighbour.serial == serial)?;
        if can_go(neighbour) {
            return Some(ip);
        }
        self.round.push_back((ip, serial));
        None
    }

    /// The timer token of a neighbour: its serial number.
    pub(crate) fn token(&self, ip: A) -> Option<u64> {
        self.all.get(&ip).map(|neighbour| u64::from(neighbour.serial))
    }

    pub(crate) fn set_timer(&mut self, ip: A, timer: Option<TimerId>) {
        if let Some(neighbour) = self.all.get_mut(&ip) {
            neighbour.timer = timer;
            if timer.is_some() {
                self.timed.insert(neighbour.serial, ip);
            }
        }
    }

    /// What to do about the neighbour of a token, and its address.
    pub(crate) fn due(&mut self, token: u64, now: Duration, config: &ArpConfig) -> Option<(A, RetryAction)> {
        let serial = token as u32; // tokens are serial numbers
        let ip = self.timed.remove(&serial)?;
        let neighbour = self.all.get_mut(&ip)?;
        if neighbour.serial != serial || neighbour.mac.is_some() {
            return None;
        }
        if neighbour.tries >= config.tries {
            return Some((ip, RetryAction::GiveUp));
        }
        neighbour.tries += 1;
        neighbour.asked = now;
        Some((ip, RetryAction::Ask))
    }

    /// Holds a packet. Returns one that must be dropped: the packet itself if the table's total is reached, or the
    /// oldest of this neighbour if its own limit is.
    pub(crate) fn wait(&mut self, ip: A, packet: P, meta: Meta, config: &ArpConfig) -> Option<(P, Meta)> {
        let Some(neighbour) = self.all.get_mut(&ip) else { return Some((packet, meta)) };
        let oldest = if neighbour.waiting.len() >= config.waiting_each.max(1) {
            neighbour.waiting.pop_front()
        } else {
            None
        };
        if oldest.is_none() && self.waiting >= config.waiting {
            return Some((packet, meta));
        }
        neighbour.waiting.push_back((packet, meta));
        self.waiting += usize::from(oldest.is_none());
        oldest
    }

    /// The MAC address of a neighbour.
    pub(crate) fn mac(&self, ip: A) -> Option<MacAddr> {
        self.all.get(&ip)?.mac
    }

    /// Whether a request for a neighbour is pending.
    pub(crate) fn is_asked(&self, ip: A) -> bool {
        self.all.get(&ip).is_some_and(|neighbour| !neighbour.is_static)
    }

    /// Records a neighbour's reply. Returns the timer that is no longer needed.
    pub(crate) fn learn(&mut self, ip: A, mac: MacAddr, now: Duration) -> Option<TimerId> {
        let neighbour = self.all.get_mut(&ip)?;
        if neighbour.mac.is_none() && !neighbour.waiting.is_empty() {
            self.ready.push_back(ip);
        }
        (neighbour.mac, neighbour.learned) = (Some(mac), now);
        self.timed.remove(&neighbour.serial);
        let timer = neighbour.timer.take();
        self.changed();
        timer
    }

    /// Sets a neighbour's address manually: it never expires.
    pub(crate) fn insert(&mut self, ip: A, mac: MacAddr, config: &ArpConfig) -> bool {
        let is_full = self.all.len() >= config.entries;
        self.next_serial();
        let neighbour = match self.all.entry(ip) {
            Place::Vacant(_) if is_full => return false,
            Place::Vacant(place) => place.insert(ArpEntry {
                mac: None,
                learned: Duration::ZERO,
                is_static: true,
                asked: Duration::ZERO,
                tries: 0,
                serial: self.serial,
                timer: None,
                waiting: VecDeque::new(),
            }),
            Place::Occupied(place) => place.into_mut(),
        };
        if neighbour.mac.is_none() && !neighbour.waiting.is_empty() {
            self.ready.push_back(ip);
        }
        (neighbour.mac, neighbour.is_static) = (Some(mac), true);
        self.changed();
        true
    }

    /// Removes a neighbour's address, unless packets wait for it.
    pub(crate) fn forget(&mut self, ip: A) {
        if self.all.get(&ip).is_some_and(|neighbour| neighbour.mac.is_some() && neighbour.waiting.is_empty())
        {
            self.all.remove(&ip);
            self.changed();
        }
    }

    /// Removes all addresses except those that packets wait for.
    pub(crate) fn forget_all(&mut self) {
        self.all.retain(|_, neighbour| neighbour.mac.is_none() || !neighbour.waiting.is_empty());
        self.changed();
    }

    /// Removes a neighbour and returns its packets.
    pub(crate) fn remove(&mut self, ip: A) -> WaitingPackets<P> {
        let Some(neighbour) = self.all.remove(&ip) else { return WaitingPackets::new() };
        self.timed.remove(&neighbour.serial);
        self.waiting -= neighbour.waiting.len();
        self.changed();
        neighbour.waiting
    }

    /// The next packet that waits for a resolved neighbour, and that neighbour's address.
    pub(crate) fn next_ready(&mut self) -> Option<(P, Meta, MacAddr)> {
        while let Some(ip) = self.ready.front() {
            let neighbour = self.all.get_mut(ip);
            let next = neighbour.and_then(|neighbour| Some((neighbour.mac?, neighbour.waiting.pop_front()?)));
            if let Some((mac, (packet, meta))) = next {
                self.waiting -= 1;
                return Some((packet, meta, mac));
            }
            self.ready.pop_front();
            self.changed();
        }
        None
    }

    /// Removes all waiting packets, neighbour by neighbour.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (P, Meta)> + '_ {
        self.waiting = 0;
        self.ready.clear();
        self.all.values_mut().flat_map(|neighbour| neighbour.waiting.drain(..))
    }

    /// One line per neighbour, ordered by address.
    pub(crate) fn table(&self) -> String {
        let mut all: Vec<_> = self.all.iter().collect();
        all.sort_by_key(|(ip, _)| **ip);
        let line = |(ip, neighbour): (&A, &ArpEntry<P>)| {
            let mac = neighbour.mac.map_or_else(|| "?".to_owned(), |mac| mac.to_string());
            format!("{ip}\t{mac}\t{}", neighbour.waiting.len())
        };
        all.into_iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
