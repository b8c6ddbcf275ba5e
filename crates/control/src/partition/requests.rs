//! Remembered verdicts: a repeated call is answered and not executed again.
//!
//! A partition remembers, for each process, the calls above its *floor*. The floor rises with the oldest call that the process
//! still waits for, and to [`WINDOW`] below the newest at the latest. A call below the floor is void, and may have been executed
//! before. Processes are numbered in the order in which they start; of more than [`MAX_REQUESTERS`] the oldest is forgotten.

use super::effects::Void;
use super::verdict::Verdict;
use crate::engine::WriterId;
use crate::record::{CallId, WINDOW};
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::Position;
use std::collections::BTreeMap;

/// Processes remembered.
pub const MAX_REQUESTERS: usize = 1024;

/// The state of a call in the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallState {
    /// Not seen yet.
    New,
    /// Judged already.
    Known(Verdict),
    /// Its verdict is forgotten.
    Forgotten(Void),
}

/// The requests of one process.
#[derive(Debug, Clone, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
struct Window {
    /// Requests below are over.
    floor: u64,
    verdicts: BTreeMap<u64, Verdict>,
}

impl Window {
    fn raise(&mut self, floor: u64) {
        if floor > self.floor {
            self.floor = floor;
            self.verdicts = self.verdicts.split_off(&floor);
        }
    }

    fn standing(&self, number: u64) -> CallState {
        match self.verdicts.get(&number) {
            Some(verdict) => CallState::Known(verdict.clone()),
            None if number < self.floor => CallState::Forgotten(Void::BelowWindow),
            None => CallState::New,
        }
    }
}

/// The requests of all processes.
#[derive(Debug, Clone, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub(super) struct Requests {
    known: BTreeMap<WriterId, Window>,
    /// Processes up to this one are forgotten.
    retired: Option<WriterId>,
}

impl Requests {
    /// The state of a call. Changes nothing.
    pub(super) fn standing(&self, id: CallId) -> CallState {
        if self.retired.is_some_and(|retired| id.by <= retired) {
            return CallState::Forgotten(Void::WriterRetired);
        }
        if let Some(window) = self.known.get(&id.by) {
            return window.standing(id.number);
        }
        let is_oldest = self.known.first_key_value().is_none_or(|(first, _)| id.by < *first);
        if is_oldest && self.known.len() >= MAX_REQUESTERS {
            CallState::Forgotten(Void::WriterRetired)
        } else {
            CallState::New
        }
    }

    /// The state of a call in an entry; raises its process's floor. `oldest` is at most the call's number.
    pub(super) fn admit(&mut self, id: CallId, oldest: u64) -> CallState {
        let standing = self.standing(id);
        if standing == CallState::Forgotten(Void::WriterRetired) {
            return standing;
        }
        let window = self.known.entry(id.by).or_default();
        window.raise(oldest.max(id.number.saturating_sub(WINDOW - 1)));
        if self.known.len() > MAX_REQUESTERS
            && let Some((oldest, _)) = self.known.pop_first()
        {
            self.retired = Some(oldest);
        }
        standing
    }

    /// Remembers a verdict.
    pub(super) fn judged(&mut self, id: CallId, verdict: Verdict) {
        if let Some(window) = self.known.get_mut(&id.by).filter(|window| id.number >= window.floor) {
            window.verdicts.insert(id.number, verdict);
        }
    }

    /// Whether a log can lead to this state at this position.
    pub(super) fn is_valid(&self, position: Position) -> bool {
        let is_valid = |window: &Window| {
            let is_known =
                |(number, verdict): (&u64, &Verdict)| *number >= window.floor && verdict.position <= position;
            window.verdicts.len() as u64 <= WINDOW && window.verdicts.iter().all(is_known)
        };
        self.known.len() <= MAX_REQUESTERS && self.known.values().all(is_valid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Outcome;
    use proptest::prelude::*;

    const fn id(by: u64, number: u64) -> CallId {
        CallId { by: WriterId(by), number }
    }

    fn verdict(position: u64) -> Verdict {
        Verdict::done(Position(position), vec![(2, Void::Missing)])
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Windows agree with a map of all verdicts, for calls that their process still waits for.
        #[test]
        fn windows_agree_with_a_map(calls in prop::collection::vec((0..3_u64, 1..60_u64, 0..9_u64, any::<bool>()), 1..300)) {
            let mut requests = Requests::default();
            let (mut all, mut floors) = (BTreeMap::new(), BTreeMap::<u64, u64>::new());
            for (at, (by, number, below, is_far)) in (1..).zip(calls) {
                let number = if is_far { number + 40 * at } else { number };
                let oldest = number.saturating_sub(below).max(1);
                let floor = floors.entry(by).or_default();
                let wanted = match all.get(&(by, number)) {
                    _ if number < *floor => CallState::Forgotten(Void::BelowWindow),
                    Some(known) => CallState::Known(Verdict::clone(known)),
                    None => CallState::New,
                };
                *floor = (*floor).max(oldest).max((number + 1).saturating_sub(WINDOW));
                prop_assert_eq!(requests.admit(id(by, number), oldest), wanted.clone());
                if wanted == CallState::New {
                    requests.judged(id(by, number), verdict(at));
                    all.insert((by, number), verdict(at));
                }
            }
            let bytes = borsh::to_vec(&requests).unwrap();
            prop_assert_eq!(borsh::from_slice::<Requests>(&bytes).unwrap(), requests.clone());
            prop_assert!(requests.is_valid(Position(300)));
        }
    }

    #[test]
    fn the_oldest_process_is_forgotten_for_good() {
        let mut requests = Requests::default();
        for by in 10..10 + MAX_REQUESTERS as u64 {
            assert_eq!(requests.admit(id(by, 1), 1), CallState::New);
            requests.judged(id(by, 1), Verdict::void(Position(by), Void::NoRoom));
        }
        // It would be forgotten at once.
        assert_eq!(requests.admit(id(9, 1), 1), CallState::Forgotten(Void::WriterRetired));
        assert!(matches!(requests.admit(id(10, 1), 1), CallState::Known(_)));
        assert_eq!(requests.admit(id(5_000, 1), 1), CallState::New);
        assert_eq!(requests.admit(id(10, 1), 1), CallState::Forgotten(Void::WriterRetired));
        let CallState::Known(known) = requests.standing(id(11, 1)) else { panic!("it is remembered") };
        assert_eq!(known.outcome, Outcome::Void(Void::NoRoom));
    }

    #[test]
    fn verdicts_below_the_floor_are_forgotten() {
        let mut requests = Requests::default();
        for number in 1..=3 {
            assert_eq!(requests.admit(id(1, number), 1), CallState::New);
            requests.judged(id(1, number), verdict(number));
        }
        assert_eq!(requests.admit(id(1, 4), 3), CallState::New);
        assert_eq!(requests.standing(id(1, 2)), CallState::Forgotten(Void::BelowWindow));
        assert_eq!(requests.standing(id(1, 3)), CallState::Known(verdict(3)));
        assert_eq!(requests.admit(id(1, 3 + WINDOW), 3 + WINDOW), CallState::New);
        assert_eq!(requests.standing(id(1, 3)), CallState::Forgotten(Void::BelowWindow));
    }
}
