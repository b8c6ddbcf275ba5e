//! Where a flow is, by the GPT alone.

use scalebricks_tables::compact::{Reader, Table};
use scalebricks_types::{FlowKey, KeyHasher, NodeHint, Teid};
use std::fmt;

/// A reader of a node's GPT that is asked for flows by their uplink TEIDs. For one thread; the GPT may change meanwhile.
pub struct Locator {
    reader: Reader,
    hasher: KeyHasher,
}

impl fmt::Debug for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locator").finish_non_exhaustive()
    }
}

impl Locator {
    pub(super) fn new(gpt: &Table, hasher: KeyHasher) -> Self {
        Self { reader: Reader::new(gpt), hasher }
    }

    /// The node that handles a flow's upstream packets; for a flow that is nowhere, any number. Cost: a hash, and a lookup of
    /// three lines that may not be in the cache.
    pub fn node(&mut self, uplink: Teid) -> NodeHint {
        let hash = self.hasher.hash(&FlowKey::teid(uplink));
        NodeHint::new(self.reader.get(hash).into())
    }
}
