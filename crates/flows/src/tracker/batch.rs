//! The lookups of a batch: their misses pass while other packets are tracked.

use super::family::Flows;
use super::key::Key;
use super::record::EXPECTED_LINES;
use scalebricks_tables::dhash::{FlowHash, Found, Look};

/// Packets whose records are prefetched together, while those before them are tracked.
const AHEAD: usize = 8;

/// What a packet needs of its flow's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// What every flow has.
    Flow,
    /// What an expected segment needs.
    Expected,
    /// All that a TCP flow has.
    All,
}

/// The packets of a batch.
#[derive(Debug)]
pub(super) struct Batch<K> {
    keys: Vec<K>,
    looks: Vec<Look>,
    needs: Vec<Need>,
    /// Lookups that have come to their second step.
    noted: usize,
}

impl<K> Default for Batch<K> {
    fn default() -> Self {
        Self { keys: Vec::new(), looks: Vec::new(), needs: Vec::new(), noted: 0 }
    }
}

impl<K: Key> Flows<K> {
    /// Adds a packet to the batch; returns its place.
    #[inline]
    pub(super) fn ask(&mut self, key: K, need: Need) -> usize {
        self.batch.keys.push(key);
        self.batch.needs.push(need);
        self.batch.keys.len() - 1
    }

    /// Begins the lookups of the batch.
    pub(super) fn look(&mut self) {
        self.batch.looks.resize(self.batch.keys.len(), Look::default());
        self.table.look(&self.batch.keys, &mut self.batch.looks);
    }

    /// Fetches what the packet at this place and the next ones need.
    #[inline(always)]
    pub(super) fn keep_ahead(&mut self, asked: usize) {
        while self.batch.noted < self.batch.keys.len() && asked + AHEAD >= self.batch.noted {
            self.note();
        }
    }

    #[inline(never)]
    fn note(&mut self) {
        let next = self.batch.keys.len().min(self.batch.noted + AHEAD);
        let (flows, tcp) = (self.table.column(self.columns.flow), self.table.column(self.columns.tcp));
        let needs = self.batch.needs.get(self.batch.noted..next).unwrap_or_default();
        let looks = self.batch.looks.get_mut(self.batch.noted..next).unwrap_or_default();
        self.table.note(looks, |at, record| {
            flows.prefetch(record);
            match needs.get(at) {
                Some(Need::Expected) => tcp.prefetch_lines(record, EXPECTED_LINES),
                Some(Need::All) => tcp.prefetch_lines(record, [0, 1, 2]),
                _ => {}
            }
        });
        self.batch.noted = next;
    }

    /// The batch is over.
    pub(super) fn forget_batch(&mut self) {
        self.batch.keys.clear();
        self.batch.looks.clear();
        self.batch.needs.clear();
        self.batch.noted = 0;
    }

    /// The hash of a key: from the batch, if it is there.
    #[inline]
    pub(super) fn hash(&self, key: &K, asked: Option<usize>) -> FlowHash {
        let look = asked.and_then(|at| self.batch.looks.get(at));
        look.map_or_else(|| self.table.hash(key), |look| look.hash())
    }

    /// The flow of a packet with this key.
    #[inline(always)]
    pub(super) fn find(&self, key: impl FnOnce() -> K, asked: Option<usize>) -> Option<Found> {
        match asked.and_then(|at| self.batch.keys.get(at).zip(self.batch.looks.get(at))) {
            Some((key, look)) => self.table.find_looked(key, *look),
            None => self.table.find(&key()),
        }
    }
}
