//! The hash map of Rust's standard library with keys that are hashes already.

use super::queries::{LookupMode, Queries, in_calls};
use super::{Build, Table};
use crate::error::BenchError;
use crate::keys::KeySet;
use hashbrown::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Uses the key as its hash.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    /// Not called for the keys used here, but must hash whole words.
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

type Map = HashMap<u64, u8, BuildHasherDefault<IdentityHasher>>;

/// Keys and values to build from.
pub struct Prepared<'a>(&'a KeySet);

impl<'a> Prepared<'a> {
    pub const fn new(set: &'a KeySet) -> Self {
        Self(set)
    }
}

impl Build for Prepared<'_> {
    fn build(&mut self) -> Result<Box<dyn Table>, BenchError> {
        let mut map = Map::with_capacity_and_hasher(self.0.len(), BuildHasherDefault::default());
        for (hash, &value) in self.0.hashes.iter().zip(&self.0.values) {
            map.insert(hash.get(), value);
        }
        Ok(Box::new(Filled(map)))
    }
}

struct Filled(Map);

impl Table for Filled {
    fn table_bytes(&self) -> u64 {
        self.0.allocation_size() as u64
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        in_calls(mode, queries.hashes, answers, |hashes, answers| {
            for (hash, answer) in hashes.iter().zip(answers) {
                *answer = self.0.get(&hash.get()).copied().unwrap_or(u8::MAX);
            }
        });
    }
}
