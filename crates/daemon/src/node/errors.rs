//! Decides whether the node may report that a flow does not exist: by a GTP-U Error Indication to a base station, or by
//! ICMP to a sender in the Internet. A base station then drops the bearer, so the node reports it only if all of this
//! holds:
//!
//! 1. its lease lets it claim addresses,
//! 2. its tables are complete, in its present incarnation, and
//! 3. the owner of the key's partition answers that the key does not exist.
//!
//! For the third the node asks the owner. The packet waits for the answer, which is valid for [`KNOWN`] from the time
//! of the question. Everything is bounded: keys that are known or asked about, waiting packets, and questions per
//! second.

use scalebricks_cluster::ControlPlane;
use scalebricks_elements::gateway::{Lease, OutputPort};
use scalebricks_types::FlowKey;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// How long an owner's answer is valid, from the time of the question.
pub const KNOWN: Duration = Duration::from_secs(1);

/// Most keys that are known or asked about.
pub const KEYS: usize = 4_096;

/// Most questions without an answer.
pub const QUESTIONS: usize = 64;

/// Most questions per second: the limit on Error Indications.
pub const QUESTIONS_PER_SECOND: u32 = 1_000;

/// Most packets that wait for answers; for one key [`FRAMES_PER_KEY`].
pub const FRAMES: usize = 256;

/// Most waiting packets of one key.
pub const FRAMES_PER_KEY: usize = 4;

/// The owners of partitions, which know whether keys exist.
pub trait Owners: Send + Sync {
    /// Whether the node's tables are complete, in its present incarnation.
    fn has_caught_up(&self) -> bool;

    /// Asks the owner of a key's partition whether the key exists, and calls `answer`, at once or later, on any thread.
    /// `None`: no owner answered.
    fn ask(&self, key: FlowKey, answer: Box<dyn FnOnce(Option<bool>) + Send>);
}

/// The owners, through the control plane once it runs.
#[derive(Debug)]
pub struct OwnersByPlane(pub Arc<OnceLock<ControlPlane>>);

impl Owners for OwnersByPlane {
    fn has_caught_up(&self) -> bool {
        self.0.get().is_some_and(ControlPlane::has_caught_up)
    }

    fn ask(&self, key: FlowKey, answer: Box<dyn FnOnce(Option<bool>) + Send>) {
        match self.0.get() {
            Some(plane) => plane.ask_whether_exists(key, answer),
            None => answer(None),
        }
    }
}

/// Why an error was withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Withheld {
    NoLease,
    NotCaughtUp,
    FlowExists,
    NoAnswer,
    TooMany,
}

impl Withheld {
    /// The names of the counters, in the order of the variants.
    const NAMES: [&'static str; 5] = [
        "errors_withheld_no_lease",
        "errors_withheld_not_caught_up",
        "errors_withheld_flow_exists",
        "errors_withheld_no_answer",
        "errors_withheld_too_many",
    ];
}

/// A packet for which an error may be due, and its link.
pub type Frame = (OutputPort, Vec<u8>);

/// The state of a key.
#[derive(Debug)]
enum Entry {
    /// The owner was asked at this time; these packets wait.
    Asked(Duration, Vec<Frame>),
    /// An owner answered the question of this time.
    Known(Duration, bool),
}

#[derive(Debug, Default)]
struct State {
    keys: HashMap<FlowKey, Entry>,
    /// Questions without an answer, and waiting packets.
    open: usize,
    waiting: usize,
    /// The start of the present second, and the questions in it.
    second: (Duration, u32),
    /// Packets for which an error is due.
    ready: Vec<Frame>,
}

/// Decides which errors are sent. Shared by all workers.
pub struct Errors {
    lease: Arc<Lease>,
    /// `None`: the tables come from a file and are complete.
    owners: Option<Box<dyn Owners>>,
    state: Mutex<State>,
    has_ready: AtomicBool,
    withheld: [AtomicU64; 5],
}

impl fmt::Debug for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Errors").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Errors {
    /// Creates the state of a node with this lease and these owners; `None` if its tables come from a file.
    pub fn new(lease: Arc<Lease>, owners: Option<Box<dyn Owners>>) -> Arc<Self> {
        Arc::new(Self {
            lease,
            owners,
            state: Mutex::default(),
            has_ready: AtomicBool::new(false),
            withheld: Default::default(),
        })
    }

    /// Whether an error is due now for a packet whose key is in no table here. If the owner must be asked, the packet
    /// waits: see [`Self::take_ready`].
    pub fn is_due(self: &Arc<Self>, key: &FlowKey, link: OutputPort, frame: &[u8], now: Duration) -> bool {
        let Some(owners) = &self.owners else { return true };
        if let Some(why) = self.obstacle(&**owners, now) {
            self.count(why);
            return false;
        }
        let mut state = self.state();
        match state.keys.get_mut(key) {
            Some(Entry::Known(asked, exists)) if now < *asked + KNOWN => {
                let exists = *exists;
                drop(state);
                if exists {
                    self.count(Withheld::FlowExists);
                }
                return !exists;
            }
            Some(Entry::Asked(_, frames)) => {
                let fits = frames.len() < FRAMES_PER_KEY;
                if !(fits && Self::wait(&mut state, key, link, frame)) {
                    self.count(Withheld::TooMany);
                }
                return false;
            }
            _ => {}
        }
        if !state.may_ask(now) {
            drop(state);
            self.count(Withheld::TooMany);
            return false;
        }
        state.open += 1;
        state.keys.insert(*key, Entry::Asked(now, Vec::new()));
        if !Self::wait(&mut state, key, link, frame) {
            self.count(Withheld::TooMany);
        }
        drop(state);
        let (errors, key) = (Arc::clone(self), *key);
        owners.ask(key, Box::new(move |exists| errors.answered(&key, exists)));
        false
    }

    /// Why the node cannot decide now, if so.
    fn obstacle(&self, owners: &dyn Owners, now: Duration) -> Option<Withheld> {
        if !self.lease.may_claim(now) {
            Some(Withheld::NoLease)
        } else if !owners.has_caught_up() {
            Some(Withheld::NotCaughtUp)
        } else {
            None
        }
    }

    /// Makes a packet wait for the answer about its key; false if too many wait.
    fn wait(state: &mut State, key: &FlowKey, link: OutputPort, frame: &[u8]) -> bool {
        let fits = state.waiting + state.ready.len() < FRAMES;
        if let Some(Entry::Asked(_, frames)) = state.keys.get_mut(key).filter(|_| fits) {
            frames.push((link, frame.to_vec()));
            state.waiting += 1;
        }
        fits
    }

    fn answered(&self, key: &FlowKey, exists: Option<bool>) {
        let mut state = self.state();
        let Some(Entry::Asked(asked, frames)) = state.keys.remove(key) else { return };
        state.open -= 1;
        state.waiting -= frames.len();
        let count = frames.len() as u64;
        match exists {
            Some(exists) => {
                state.keys.insert(*key, Entry::Known(asked, exists));
                if exists {
                    self.count_many(Withheld::FlowExists, count);
                } else {
                    state.ready.extend(frames);
                    self.has_ready.store(!state.ready.is_empty(), Ordering::Relaxed);
                }
            }
            None => self.count_many(Withheld::NoAnswer, count),
        }
    }

    /// Whether errors are due for packets that have waited.
    pub fn has_ready(&self) -> bool {
        self.has_ready.load(Ordering::Relaxed)
    }

    /// Takes the packets that have waited and for which errors are due.
    pub fn take_ready(&self, now: Duration) -> Vec<Frame> {
        if !self.has_ready() {
            return Vec::new();
        }
        let mut state = self.state();
        self.has_ready.store(false, Ordering::Relaxed);
        let ready = std::mem::take(&mut state.ready);
        drop(state);
        let Some(why) = self.owners.as_ref().and_then(|owners| self.obstacle(&**owners, now)) else {
            return ready;
        };
        self.count_many(why, ready.len() as u64);
        Vec::new()
    }

    /// The node's lease.
    pub const fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Numbers of withheld errors, by reason.
    pub fn stats(&self) -> BTreeMap<String, u64> {
        let counts = self.withheld.iter().map(|count| count.load(Ordering::Relaxed));
        Withheld::NAMES.iter().map(|name| (*name).to_owned()).zip(counts).collect()
    }

    fn count(&self, why: Withheld) {
        self.count_many(why, 1);
    }

    fn count_many(&self, why: Withheld, count: u64) {
        self.withheld[why as usize].fetch_add(count, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // consistent between two calls
    }
}

impl State {
    /// Whether another question may be asked; counts it if so.
    fn may_ask(&mut self, now: Duration) -> bool {
        if now >= self.second.0 + Duration::from_secs(1) {
            self.second = (now, 0);
        }
        if self.open >= QUESTIONS || self.second.1 >= QUESTIONS_PER_SECOND {
            return false;
        }
        if self.keys.len() >= KEYS {
            self.keys.retain(|_, entry| match entry {
                Entry::Asked(..) => true,
                Entry::Known(asked, _) => now < *asked + KNOWN,
            });
        }
        let has_room = self.keys.len() < KEYS;
        self.second.1 += u32::from(has_room);
        has_room
    }
}
