//! Our own (2,4)-cuckoo table keyed by the name's hash: the cost of an exact table.
//!
//! The paper's table is a static array of names and actions, with 8 bytes per slot for MAC addresses. Ours
//! stores words for keys and values and a one-byte tag, and supports concurrent reads and writes.

use super::{Answer, Baseline, BaselineError};
use crate::structures::Hashed;
use scalebricks_tables::FibError;
use scalebricks_tables::cuckoo::CuckooTable;
use scalebricks_types::KeyHash;

/// The table.
#[derive(Debug)]
pub struct Cuckoo(CuckooTable<1, 1, Hashed>);

impl Cuckoo {
    /// Builds the table of these names at 95 % load.
    ///
    /// # Errors
    /// [`BaselineError::Twice`]; [`BaselineError::Full`], also for the hash 0, which marks an empty slot.
    pub fn build(names: &[(KeyHash, u16)]) -> Result<Self, BaselineError> {
        let table = CuckooTable::new(CuckooTable::<1, 1, Hashed>::slots_for(names.len()), 1, Hashed);
        let mut writer = table.write();
        for &(name, action) in names {
            writer.insert(&[name.get()], name, &[action.into()]).map_err(|error| match error {
                FibError::Exists => BaselineError::Twice(name),
                _ => BaselineError::Full(name),
            })?;
        }
        drop(writer);
        Ok(Self(table))
    }

    /// [`Baseline::look_up`] for a batch of names with prefetching; appends the answers.
    pub fn look_up_batch(&self, names: &[KeyHash], answers: &mut Vec<Answer>) {
        const UNIT: usize = 64;
        for names in names.chunks(UNIT) {
            let mut keys = [[0]; UNIT];
            keys.iter_mut().zip(names).for_each(|(key, name)| *key = [name.get()]);
            let mut found = [None; UNIT];
            self.0.get_batch(&keys[..names.len()], names, &mut found[..names.len()]);
            let told = |found: &Option<[u64; 1]>| match found {
                Some([action]) => Answer::Action(*action as u16), // as they were put in
                None => Answer::Unknown,
            };
            answers.extend(found[..names.len()].iter().map(told));
        }
    }

    /// Reports the cache lines that a lookup reads, in order.
    pub fn touched(&self, name: KeyHash, visit: &mut dyn FnMut(*const u8)) {
        self.0.touched(&[name.get()], name, visit);
    }
}

impl Baseline for Cuckoo {
    fn name(&self) -> &'static str {
        "cuckoo"
    }

    fn table_bytes(&self) -> u64 {
        self.0.table_bytes() as u64
    }

    fn look_up(&self, name: KeyHash) -> Answer {
        // Values are the inserted actions.
        self.0.get(&[name.get()], name).map_or(Answer::Unknown, |[action]| Answer::Action(action as u16))
    }

    /// According to the table: two lines of tags, and the slot. One name in 35 reads one more slot.
    fn lines(&self, name: KeyHash) -> usize {
        2 + usize::from(self.look_up(name) != Answer::Unknown)
    }
}
