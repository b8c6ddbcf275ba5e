//! Finds a flow's node from the GPT alone.

use scalebricks_tables::{GptReader, KeyBatch};
use scalebricks_types::{FlowKey, KeyHasher, NodeHint, Teid};
use std::fmt;

/// A reader of a node's GPT that looks up flows by uplink TEID. For one thread; the GPT may change concurrently.
pub struct Locator {
    reader: Box<dyn GptReader>,
    hasher: KeyHasher,
}

impl fmt::Debug for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locator").finish_non_exhaustive()
    }
}

impl Locator {
    pub(super) fn new(reader: Box<dyn GptReader>, hasher: KeyHasher) -> Self {
        Self { reader, hasher }
    }

    /// The node that handles a flow's upstream packets, or in a hash partition the node that knows it; an arbitrary
    /// number for an unknown flow. Cost: a hash, and a lookup of up to three uncached lines.
    pub fn node(&mut self, uplink: Teid) -> NodeHint {
        let key = FlowKey::teid(uplink);
        let mut named = [NodeHint::NONE];
        self.reader.lookup_batch(KeyBatch::new(&[key], &[self.hasher.hash(&key)]), &mut named);
        named[0]
    }
}
