//! A watch of records across connections.
//!
//! What the reader was told is remembered by key and revision. Over a new connection the server first names all records
//! there are; those that are missing were deleted meanwhile, and the reader is told so. At which revisions is not known any
//! more. But revisions up to the newest that the reader knows had been told, so the deletions took some of those behind it
//! that no record has now; the reader is given the lowest of these, in the order it expects, all of them below whatever
//! changes next.

use scalebricks_control::engine::{Record, Revision};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
enum Phase {
    /// Everything that comes is news.
    #[default]
    Following,
    /// All records are being named; those not named yet.
    Naming(BTreeMap<String, Revision>),
    /// These were deleted, and all that was found goes up to this revision.
    Deleting(Vec<String>, Revision),
}

/// What a reader of records was told.
#[derive(Debug, Default)]
pub(super) struct Records {
    prefix: String,
    known: BTreeMap<String, Revision>,
    newest: Option<Revision>,
    phase: Phase,
}

impl Records {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..Self::default() }
    }

    /// A connection begins: what to ask for.
    pub(super) fn begin(&mut self) -> (String, Option<Revision>) {
        self.phase = match self.newest {
            None => Phase::Following,
            Some(_) => Phase::Naming(self.known.clone()),
        };
        (self.prefix.clone(), self.newest)
    }

    fn tell(&mut self, record: Record, told: &mut Vec<Record>) {
        match record.value {
            Some(_) => self.known.insert(record.key.clone(), record.revision),
            None => self.known.remove(&record.key),
        };
        self.newest = Some(record.revision);
        told.push(record);
    }

    /// Tells of deletions at revisions below a limit, as many as fit there.
    fn delete(&mut self, below: Option<Revision>, told: &mut Vec<Record>) {
        let Phase::Deleting(keys, up_to) = std::mem::take(&mut self.phase) else { return };
        let mut keys = keys.into_iter();
        let mut next = self.newest.map_or(1, |newest| newest.0.saturating_add(1));
        while below.is_none_or(|below| next < below.0)
            && let Some(key) = keys.next()
        {
            self.tell(Record { key, revision: Revision(next), value: None }, told);
            next += 1;
        }
        if keys.len() > 0 {
            self.phase = Phase::Deleting(keys.collect(), up_to);
        }
    }

    /// A record came; returns what the reader is told.
    pub(super) fn record(&mut self, record: Record) -> Vec<Record> {
        let mut told = Vec::new();
        // Told before: news are newer.
        if self.newest.is_some_and(|newest| record.revision <= newest) {
            return told;
        }
        self.delete(Some(record.revision), &mut told);
        self.tell(record, &mut told);
        self.delete_rest(&mut told);
        told
    }

    /// Tells of the remaining deletions once all that was found has been told.
    fn delete_rest(&mut self, told: &mut Vec<Record>) {
        if let Phase::Deleting(_, up_to) = &self.phase
            && self.newest.is_none_or(|newest| newest >= *up_to)
        {
            self.delete(None, told);
        }
    }

    /// Some of the records there are.
    ///
    /// # Errors
    /// A record that is at a revision the reader knows, and was not: the engine is not what it was.
    pub(super) fn present(&mut self, present: Vec<(String, Revision)>) -> Result<(), String> {
        let Phase::Naming(missing) = &mut self.phase else { return Ok(()) };
        for (key, revision) in present {
            missing.remove(&key);
            let is_old = self.newest.is_some_and(|newest| revision <= newest);
            if is_old && self.known.get(&key) != Some(&revision) {
                return Err(key);
            }
        }
        Ok(())
    }

    /// All records there are were named; returns what the reader is told.
    pub(super) fn resumed(&mut self, up_to: Revision) -> Vec<Record> {
        let mut told = Vec::new();
        if let Phase::Naming(missing) = std::mem::take(&mut self.phase) {
            self.phase = Phase::Deleting(missing.into_keys().collect(), up_to);
            self.delete_rest(&mut told);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Records of an engine, by key: at which revision, and whether they exist.
    type Model = BTreeMap<String, (Revision, bool)>;

    fn record(key: &str, (revision, exists): (Revision, bool)) -> Record {
        Record { key: key.to_owned(), revision, value: exists.then(|| Arc::from([])) }
    }

    type Step = Box<dyn FnOnce(&mut Records) -> Vec<Record>>;

    fn by_revision(model: &Model) -> Vec<(&String, (Revision, bool))> {
        let mut all: Vec<_> = model.iter().map(|(key, &at)| (key, at)).collect();
        all.sort_by_key(|(_, (revision, _))| *revision);
        all
    }

    proptest! {
        /// Whatever changes between connections, which may break at any message: at the end the reader has what the
        /// engine has, and revisions only rose.
        #[test]
        fn a_reader_ends_up_with_what_there_is(
            lives in prop::collection::vec(
                (prop::collection::vec((0..6u8, any::<bool>()), 0..12), 0..14usize),
                1..8,
            ),
        ) {
            let (mut model, mut newest) = (Model::new(), 0);
            let mut records = Records::new("");
            let mut told: Vec<Record> = Vec::new();
            let count = lives.len();
            for (life, (changes, messages)) in lives.into_iter().enumerate() {
                for (key, exists) in changes {
                    newest += 1;
                    model.insert(key.to_string(), (Revision(newest), exists));
                }
                let messages = if life + 1 == count { usize::MAX } else { messages };
                let (_, after) = records.begin();
                let mut steps: Vec<Step> = Vec::new();
                let existing: Vec<_> = by_revision(&model).into_iter().filter(|(_, (_, exists))| *exists).collect();
                if after.is_some() {
                    let present = existing.iter().map(|(key, (revision, _))| ((*key).clone(), *revision)).collect();
                    steps.push(Box::new(move |records| { records.present(present).unwrap(); Vec::new() }));
                    let up_to = existing.iter().map(|(_, (revision, _))| *revision).max();
                    let up_to = up_to.max(after).unwrap();
                    steps.push(Box::new(move |records| records.resumed(up_to)));
                }
                for (key, at) in existing {
                    if after.is_none_or(|after| at.0 > after) {
                        let record = record(key, at);
                        steps.push(Box::new(move |records| records.record(record)));
                    }
                }
                // And what changes while the connection is there.
                for key in ["0", "1"] {
                    newest += 1;
                    let at = (Revision(newest), newest % 3 > 0);
                    model.insert(key.to_owned(), at);
                    let record = record(key, at);
                    steps.push(Box::new(move |records| records.record(record)));
                }
                for step in steps.into_iter().take(messages) {
                    told.extend(step(&mut records));
                }
            }
            prop_assert!(told.windows(2).all(|pair| pair[0].revision < pair[1].revision), "{told:?}");
            let mut seen = BTreeMap::new();
            for record in told {
                match record.value {
                    Some(_) => seen.insert(record.key, record.revision),
                    None => seen.remove(&record.key),
                };
            }
            let expected: BTreeMap<String, Revision> =
                model.into_iter().filter(|(_, (_, exists))| *exists).map(|(key, (at, _))| (key, at)).collect();
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn an_engine_that_went_back_is_noticed() {
        let mut records = Records::new("");
        records.begin();
        records.record(record("a", (Revision(5), true)));
        records.begin();
        assert_eq!(records.present(vec![("b".to_owned(), Revision(3))]), Err("b".to_owned()));
    }
}
