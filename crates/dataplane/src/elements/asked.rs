//! Keys that a table is asked for, and its answers.

use super::columns::{Keyed, output_of};
use super::drops::Drops;
use crate::batch::LANES;
use crate::classify::{Classifier, Parsed};
use scalebricks_graph::frame::Parts;
use scalebricks_graph::{Frame, Handle, Lanes, Out, SLOTS};
use scalebricks_io::PacketBuf;
use scalebricks_tables::{Fib, FibValue, GptReader, KeyBatch};
use scalebricks_types::{FlowKey, KeyHash, NodeHint, Teid};

/// What packets wait with for their answers, side by side: a table sees a dense array of hashes, never the packets. What is behind the
/// last one is left over and never read.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) keys: [FlowKey; SLOTS],
    pub(super) hashes: [KeyHash; SLOTS],
    pub(super) values: [Option<FibValue>; SLOTS],
    pub(super) hints: [NodeHint; SLOTS],
}

impl Asked {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            keys: [FlowKey::teid(Teid::new(0)); SLOTS],
            hashes: [KeyHash::default(); SLOTS],
            values: [None; SLOTS],
            hints: [NodeHint::NONE; SLOTS],
        })
    }

    /// Finds the keys of frames that an ingress node has judged; how many there are. What has none is dropped.
    pub(super) fn classify<P: PacketBuf>(
        &mut self,
        classifier: &mut Classifier,
        parsed: Handle<Parsed>,
        drops: &Drops,
        batch: &mut Lanes,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) -> usize {
        let now = out.now();
        let Parts { packets, meta, columns } = frame.parts();
        let parsed = columns.get_mut(parsed);
        let mut len = 0;
        batch.sift(|slot| {
            let (bytes, at) = (packets[&slot].data(), len % SLOTS);
            let output = output_of(meta[slot.index()].port);
            if let Some((found, key)) = classifier.plain_after_fabric(bytes, output) {
                parsed[&slot] = found;
                self.keys[at] = key;
            } else {
                match classifier.after_fabric(bytes, output, now) {
                    Ok((found, key)) => {
                        parsed[&slot] = found;
                        self.keys[at] = key;
                    }
                    Err(reason) => {
                        out.drop(slot, drops.id(reason));
                        return None;
                    }
                }
            }
            len += 1;
            Some(slot)
        });
        classifier.hasher().hash(&self.keys[..len], &mut self.hashes[..len]);
        len
    }

    /// Takes the keys of packets that have theirs; how many there are.
    pub(super) fn gather<P: PacketBuf>(
        &mut self,
        keyed: Handle<Keyed>,
        batch: &Lanes,
        frame: &Frame<P>,
    ) -> usize {
        let keyed = frame.column(keyed);
        for ((slot, key), hash) in batch.iter().zip(&mut self.keys).zip(&mut self.hashes) {
            *key = keyed[slot].key;
            *hash = keyed[slot].hash;
        }
        batch.len()
    }

    /// Asks a FIB for the first `len` keys, part by part.
    pub(super) fn ask_fib(&mut self, fib: &dyn Fib, len: usize) {
        for from in (0..len).step_by(LANES) {
            let part = from..len.min(from + LANES);
            self.values[part.clone()].fill(None);
            let keys = KeyBatch::new(&self.keys[part.clone()], &self.hashes[part.clone()]);
            fib.lookup_batch(keys, &mut self.values[part]);
        }
    }

    /// Asks a GPT for the first `len` keys, part by part.
    pub(super) fn ask_gpt(&mut self, gpt: &mut dyn GptReader, len: usize) {
        for from in (0..len).step_by(LANES) {
            let part = from..len.min(from + LANES);
            self.hints[part.clone()].fill(NodeHint::NONE);
            let keys = KeyBatch::new(&self.keys[part.clone()], &self.hashes[part.clone()]);
            gpt.lookup_batch(keys, &mut self.hints[part]);
        }
    }
}
