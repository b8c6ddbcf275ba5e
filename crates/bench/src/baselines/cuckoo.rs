//! Our own (2,4)-cuckoo table with the name's hash for a key: what an exact table costs.
//!
//! The paper's is a static array of names and actions, 8 bytes a slot for MAC addresses; ours has words for keys and values and a byte
//! of tag, and can be read while it is written to.

use super::{Answer, Baseline, BaselineError};
use crate::structures::Hashed;
use scalebricks_tables::FibError;
use scalebricks_tables::cuckoo::CuckooTable;
use scalebricks_types::KeyHash;

/// The table.
#[derive(Debug)]
pub struct Cuckoo(CuckooTable<1, 1, Hashed>);

impl Cuckoo {
    /// The table of these names, at 95 % load.
    ///
    /// # Errors
    /// [`BaselineError::Twice`]; [`BaselineError::Full`] for the hash 0 too, which stands for an empty slot.
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

    /// [`Baseline::look_up`] of a batch of names, whose lines are asked for before the first is read; answers are put
    /// behind those in `answers`.
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

    /// Tells the cache lines that a lookup of a name reads, in its order.
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
        // Values are actions, as they were put in.
        self.0.get(&[name.get()], name).map_or(Answer::Unknown, |[action]| Answer::Action(action as u16))
    }

    /// By the table's own account: two of tags, and the slot. One name in 35 has a slot more to look at.
    fn lines(&self, name: KeyHash) -> usize {
        2 + usize::from(self.look_up(name) != Answer::Unknown)
    }
}
