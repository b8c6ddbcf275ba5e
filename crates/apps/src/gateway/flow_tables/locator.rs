//! Where a flow is, by the GPT alone.

use scalebricks_tables::{GptReader, KeyBatch};
use scalebricks_types::{FlowKey, KeyHasher, NodeHint, Teid};
use std::fmt;

/// A reader of a node's GPT that is asked for flows by their uplink TEIDs. For one thread; the GPT may change meanwhile.
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

    /// The node that handles a flow's upstream packets, in a hash partition the one that knows it; for a flow that is nowhere, any
    /// number. Cost: a hash, and a lookup of
    /// three lines that may not be in the cache.
    pub fn node(&mut self, uplink: Teid) -> NodeHint {
        let key = FlowKey::teid(uplink);
        let mut named = [NodeHint::NONE];
        self.reader.lookup_batch(KeyBatch::new(&[key], &[self.hasher.hash(&key)]), &mut named);
        named[0]
    }
}
