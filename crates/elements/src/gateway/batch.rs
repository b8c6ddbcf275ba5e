//! Packets inside a node, processed in bursts and stored as parallel arrays: a table lookup reads a dense array of
//! hashes and never the packets.

use crate::gateway::packet::classify::Parsed;
use arrayvec::ArrayVec;
use scalebricks_io::BURST;
use scalebricks_tables::KeyBatch;
use scalebricks_tables::hashing::BatchHasher;
use scalebricks_types::{FlowKey, KeyHash, Teid};

/// Packets that wait for one lookup: two bursts. A table's first and last accesses overlap with nothing, so more
/// packets share their cost. Four bursts are not faster.
pub(super) const LANES: usize = 2 * BURST;

/// Up to [`LANES`] packets that wait for the same lookup. Index `i` of every array describes packet `i`; entries after
/// the last packet are stale and never read.
#[derive(Debug)]
pub(super) struct Batch<P> {
    packets: ArrayVec<P, LANES>,
    parsed: [Parsed; LANES],
    keys: [FlowKey; LANES],
    hashes: [KeyHash; LANES],
    /// How many of the hashes are computed.
    hashed: usize,
}

/// Indices are masked with this. The mask never changes a valid index; it removes the bounds check.
const MASK: usize = LANES - 1;
const _: () = assert!(LANES.is_power_of_two());

/// Holds the packets that wait for a lookup. The node changes while the batch is walked, so the batch is taken out,
/// processed and given back: two pointers move, no packet does.
#[derive(Debug)]
pub(super) struct WaitingBatch<P> {
    waiting: Box<Batch<P>>,
    spare: Option<Box<Batch<P>>>,
}

impl<P> Default for WaitingBatch<P> {
    fn default() -> Self {
        Self { waiting: Box::default(), spare: None }
    }
}

impl<P> std::ops::Deref for WaitingBatch<P> {
    type Target = Batch<P>;

    fn deref(&self) -> &Batch<P> {
        &self.waiting
    }
}

impl<P> std::ops::DerefMut for WaitingBatch<P> {
    fn deref_mut(&mut self) -> &mut Batch<P> {
        &mut self.waiting
    }
}

impl<P> WaitingBatch<P> {
    /// Takes the batch out and leaves an empty one.
    pub(super) fn take(&mut self) -> Box<Batch<P>> {
        let empty = self.spare.take().unwrap_or_default();
        std::mem::replace(&mut self.waiting, empty)
    }

    /// Drops what waits.
    #[cold]
    pub(super) fn clear(&mut self, each: impl FnMut(P)) {
        self.waiting.packets.drain(..).for_each(each);
        self.waiting.hashed = 0;
    }

    /// Gives a processed batch back. If nothing waits, it becomes the current batch again, so that the memory in use
    /// stays in the cache; otherwise it is kept for the next [`WaitingBatch::take`].
    pub(super) fn give_back(&mut self, mut batch: Box<Batch<P>>) {
        batch.packets.clear();
        batch.hashed = 0;
        if self.waiting.is_empty() {
            std::mem::swap(&mut self.waiting, &mut batch);
        }
        self.spare = Some(batch);
    }
}

/// One packet with its metadata. Only the packet is moved. The metadata stays where it was written: a copy through the
/// stack would wait for all earlier stores, including those to cold packet headers.
#[derive(Debug)]
pub(super) struct BatchEntry<'a, P> {
    pub(super) packet: P,
    pub(super) parsed: &'a Parsed,
    pub(super) key: &'a FlowKey,
    pub(super) hash: KeyHash,
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        Self {
            packets: ArrayVec::new(),
            parsed: [Parsed::NOTHING; LANES],
            keys: [FlowKey::teid(Teid::new(0)); LANES],
            hashes: [KeyHash::default(); LANES],
            hashed: 0,
        }
    }
}

impl<P> Batch<P> {
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.packets.is_full()
    }

    /// Adds a packet to a batch that is not full. If earlier packets have no hash yet, this packet's hash is recomputed
    /// together with theirs.
    #[inline(always)]
    pub(super) fn push(&mut self, work: BatchEntry<'_, P>) {
        let at = self.packets.len() & MASK;
        self.hashed += usize::from(self.hashed == at);
        self.hashes[at] = work.hash;
        self.push_unhashed(work.packet, work.parsed, work.key);
    }

    /// Adds a packet without a hash to a batch that is not full.
    #[inline(always)]
    pub(super) fn push_unhashed(&mut self, packet: P, parsed: &Parsed, key: &FlowKey) {
        let at = self.packets.len() & MASK;
        self.parsed[at] = *parsed;
        self.keys[at] = *key;
        self.packets.push(packet);
    }

    /// Computes the hashes that are missing.
    #[inline]
    pub(super) fn hash(&mut self, hasher: &BatchHasher) {
        let missing = self.hashed..self.packets.len();
        hasher.hash(&self.keys[missing.clone()], &mut self.hashes[missing]);
        self.hashed = self.packets.len();
    }

    /// The packets and their parsed headers.
    pub(super) fn packets(&self) -> impl Iterator<Item = (&P, &Parsed)> {
        self.packets.iter().zip(&self.parsed)
    }

    /// The keys to look up.
    pub(super) fn keys(&self) -> KeyBatch<'_> {
        KeyBatch::new(&self.keys[..self.packets.len()], &self.hashes[..self.packets.len()])
    }

    /// Processes all packets in order. Their metadata is discarded when the batch is given back.
    ///
    /// This is a plain loop over one drain: an iterator of whole [`BatchEntry`]s builds each in memory first.
    #[inline(always)]
    pub(super) fn drain_with<A: Copy>(&mut self, answers: &[A], mut each: impl FnMut(BatchEntry<'_, P>, A)) {
        for (at, packet) in self.packets.drain(..).enumerate() {
            let at = at & MASK;
            each(
                BatchEntry { packet, parsed: &self.parsed[at], key: &self.keys[at], hash: self.hashes[at] },
                answers[at],
            );
        }
    }
}
