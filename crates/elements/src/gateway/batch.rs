//! Packets on their way through a node, a burst at a time, as arrays side by side: a table sees a dense array of
//! hashes, never the packets.

use crate::gateway::packet::classify::Parsed;
use arrayvec::ArrayVec;
use scalebricks_io::BURST;
use scalebricks_tables::KeyBatch;
use scalebricks_tables::hashing::BatchHasher;
use scalebricks_types::{FlowKey, KeyHash, Teid};

/// Packets that wait for one lookup: two bursts, so that a table's first and last accesses, which overlap with nothing,
/// are shared by more. Four gain no more.
pub(super) const LANES: usize = 2 * BURST;

/// Up to [`LANES`] packets that wait for the same lookup. What is known of a packet stands at its place; what stands
/// behind the last one is left over and never read.
#[derive(Debug)]
pub(super) struct Batch<P> {
    packets: ArrayVec<P, LANES>,
    parsed: [Parsed; LANES],
    keys: [FlowKey; LANES],
    hashes: [KeyHash; LANES],
    /// Of the hashes, those that are known; what is behind them is yet to be computed.
    hashed: usize,
}

/// Places are taken modulo this, which leaves them as they are and saves a check of each.
const MASK: usize = LANES - 1;
const _: () = assert!(LANES.is_power_of_two());

/// A place where packets wait for a lookup. Emptying it means walking over the batch while the node is changed, so the
/// batch is taken out, worked off and given back: two pointers move, no packet does.
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
    /// Takes the batch out; an empty one takes its place.
    pub(super) fn take(&mut self) -> Box<Batch<P>> {
        let empty = self.spare.take().unwrap_or_default();
        std::mem::replace(&mut self.waiting, empty)
    }

    /// Empties the place.
    #[cold]
    pub(super) fn clear(&mut self, each: impl FnMut(P)) {
        self.waiting.packets.drain(..).for_each(each);
        self.waiting.hashed = 0;
    }

    /// Gives a worked-off batch back. If nothing waits by now, it takes its place again, so that the same memory is in use, which is in
    /// the cache; else it is kept for the next [`WaitingBatch::take`].
    pub(super) fn give_back(&mut self, mut batch: Box<Batch<P>>) {
        batch.packets.clear();
        batch.hashed = 0;
        if self.waiting.is_empty() {
            std::mem::swap(&mut self.waiting, &mut batch);
        }
        self.spare = Some(batch);
    }
}

/// One packet with all that is known of it. Only the packet is moved: what is known stays where it was written, for
/// a copy through the stack would wait for all stores before it, those to cold packet headers included.
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

    /// Adds a packet to a batch that is not full. Behind packets without a hash its own is computed again with theirs.
    #[inline(always)]
    pub(super) fn push(&mut self, work: BatchEntry<'_, P>) {
        let at = self.packets.len() & MASK;
        self.hashed += usize::from(self.hashed == at);
        self.hashes[at] = work.hash;
        self.push_unhashed(work.packet, work.parsed, work.key);
    }

    /// Adds a packet whose hash is not known yet to a batch that is not full.
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

    /// The packets, with what was parsed of each.
    pub(super) fn packets(&self) -> impl Iterator<Item = (&P, &Parsed)> {
        self.packets.iter().zip(&self.parsed)
    }

    /// What a table is asked.
    pub(super) fn keys(&self) -> KeyBatch<'_> {
        KeyBatch::new(&self.keys[..self.packets.len()], &self.hashes[..self.packets.len()])
    }

    /// Works off all packets, in order; what is known of them is forgotten when the batch is given back.
    ///
    /// A plain loop over one drain: an iterator of whole [`BatchEntry`]s builds each in memory first.
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
