//! Whether the node may tell a peer that a flow does not exist: by a GTP-U Error Indication to a base station, or by ICMP to a
//! sender in the Internet. A base station drops the bearer then, so a node says so only if it knows:
//!
//! 1. its lease lets it claim addresses,
//! 2. its tables hold all they are to hold, in its present life, and
//! 3. the owner of the key's partition says that there is no such key.
//!
//! The third is asked for. The packet waits for the answer, which counts for [`KNOWN`] from when it was asked for. All is bounded:
//! keys that are known or asked about, packets that wait, and questions a second.

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

/// What an owner says of a key counts for so long from when it was asked.
pub const KNOWN: Duration = Duration::from_secs(1);

/// Keys that are known or asked about, at most.
pub const KEYS: usize = 4_096;

/// Questions without an answer, at most.
pub const QUESTIONS: usize = 64;

/// Questions a second, at most: as many as there are Error Indications.
pub const QUESTIONS_A_SECOND: u32 = 1_000;

/// Packets that wait for an answer, at most; of one key [`FRAMES_A_KEY`].
pub const FRAMES: usize = 256;

/// Packets of one key that wait.
pub const FRAMES_A_KEY: usize = 4;

/// Who knows whether keys exist.
pub trait Owners: Send + Sync {
    /// Whether the node's tables hold all they are to hold, in its present life.
    fn has_caught_up(&self) -> bool;

    /// Asks the owner of a key's partition whether the key exists, and tells `answer`, at once or later, on any thread. `None`: no
    /// owner said so.
    fn ask(&self, key: FlowKey, answer: Box<dyn FnOnce(Option<bool>) + Send>);
}

/// The owners as the control plane reaches them, from when its engine could be reached.
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

/// Why no error was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Withheld {
    NoLease,
    NotCaughtUp,
    FlowExists,
    NoAnswer,
    TooMany,
}

impl Withheld {
    /// The names of their counters, in the order of the variants.
    const NAMES: [&'static str; 5] = [
        "errors_withheld_no_lease",
        "errors_withheld_not_caught_up",
        "errors_withheld_flow_exists",
        "errors_withheld_no_answer",
        "errors_withheld_too_many",
    ];
}

/// A packet for which an error may be due, and the link that it came from.
pub type Frame = (OutputPort, Vec<u8>);

/// What is known of a key.
#[derive(Debug)]
enum Entry {
    /// Asked for at this time; these packets wait.
    Asked(Duration, Vec<Frame>),
    /// An owner answered a question of this time.
    Known(Duration, bool),
}

#[derive(Debug, Default)]
struct State {
    keys: HashMap<FlowKey, Entry>,
    /// Questions without an answer, and packets that wait for one.
    open: usize,
    waiting: usize,
    /// When this second began, and questions in it.
    second: (Duration, u32),
    /// Packets that an error is due for.
    ready: Vec<Frame>,
}

/// Decides about errors. Shared by all workers.
pub struct Errors {
    lease: Arc<Lease>,
    /// `None`: the tables come from a file, and are complete.
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
    /// Of a node with this lease, and these owners; `None` if its tables come from a file.
    pub fn new(lease: Arc<Lease>, owners: Option<Box<dyn Owners>>) -> Arc<Self> {
        Arc::new(Self {
            lease,
            owners,
            state: Mutex::default(),
            has_ready: AtomicBool::new(false),
            withheld: Default::default(),
        })
    }

    /// Whether an error is due now for a packet of this key, which no table here has. If that is to be asked for, the packet waits:
    /// see [`Self::take_ready`].
    pub fn is_due(self: &Arc<Self>, key: &FlowKey, link: OutputPort, frame: &[u8], now: Duration) -> bool {
        let Some(owners) = &self.owners else { return true };
        if let Some(why) = self.ignorance(&**owners, now) {
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
                let fits = frames.len() < FRAMES_A_KEY;
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

    /// Why nothing can be known now, if so.
    fn ignorance(&self, owners: &dyn Owners, now: Duration) -> Option<Withheld> {
        if !self.lease.may_claim(now) {
            Some(Withheld::NoLease)
        } else if !owners.has_caught_up() {
            Some(Withheld::NotCaughtUp)
        } else {
            None
        }
    }

    /// Has a packet wait for the answer about its key; false if too many do.
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

    /// Whether errors are due for packets that waited.
    pub fn has_ready(&self) -> bool {
        self.has_ready.load(Ordering::Relaxed)
    }

    /// The packets that waited, and for which errors are due now.
    pub fn take_ready(&self, now: Duration) -> Vec<Frame> {
        if !self.has_ready() {
            return Vec::new();
        }
        let mut state = self.state();
        self.has_ready.store(false, Ordering::Relaxed);
        let ready = std::mem::take(&mut state.ready);
        drop(state);
        let Some(why) = self.owners.as_ref().and_then(|owners| self.ignorance(&**owners, now)) else {
            return ready;
        };
        self.count_many(why, ready.len() as u64);
        Vec::new()
    }

    /// The node's lease.
    pub const fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// How often no error was sent, by why.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // whole between two calls
    }
}

impl State {
    /// Whether there is room for another question; counted as asked then.
    fn may_ask(&mut self, now: Duration) -> bool {
        if now >= self.second.0 + Duration::from_secs(1) {
            self.second = (now, 0);
        }
        if self.open >= QUESTIONS || self.second.1 >= QUESTIONS_A_SECOND {
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
