//! The probe that one node's worker sends to another node over the fabric, and its echo.
//!
//! An Ethernet frame with the address [`FabricMac::probe`], the ethertype [`ETHERTYPE`] and [`PROBE_BYTES`] octets.
//! Padding after them is ignored. Integers are little-endian.
//!
//! | octets | content |
//! |---|---|
//! | 0 | [`VERSION`] |
//! | 1 | 1: probe, 2: echo |
//! | 2 | the sender |
//! | 3 | the receiver |
//! | 4–7 | 0 |
//! | 8–15 | the sender's life, 0 while it has none |
//! | 16–23 | epoch of the newest view that the sender has read |
//! | 24–31 | stamp: when it was sent, by the sender's own clock |
//! | 32–39 | probe: the newest stamp that the sender received from the receiver, 0 if none; echo: the stamp that is answered |
//! | 40–47 | the life that came with that stamp |
//! | 48–79 | nodes whose probes the sender received within [`HEARING`](super::HEARING) |
//! | 80–111 | nodes that the sender reaches |
//! | 112–143 | nodes to which the sender grants their lease |
//! | 144–151 | tag: SipHash-1-3 of octets 0–143 under a key derived from the cluster's secret |

use crate::gateway::fabric::mac::FabricMac;
use scalebricks_types::{HashSeed, KeyHasher, NodeId, NodeSet};
use scalebricks_wire::{MacAddr, ethernet};

/// Ethertype of probes: IEEE 802 "local experimental ethertype 1" (IEEE Std 802, §9.2.4).
pub const ETHERTYPE: u16 = 0x88b5;

/// The layout's version.
pub const VERSION: u8 = 1;

/// Octets of a probe after the Ethernet header.
pub const PROBE_BYTES: usize = TAGGED + 8;

/// Octets of a frame with a probe.
pub const FRAME_BYTES: usize = ethernet::HEADER_LEN + PROBE_BYTES;

/// Octets covered by the tag.
pub const TAGGED: usize = 144;

/// Whether it is a probe or an echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A probe, to be echoed.
    Probe,
    /// The answer to a probe; not echoed.
    Echo,
}

/// A probe or an echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Probe or echo.
    pub kind: Kind,
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The sender's life, 0 while it has none.
    pub life: u64,
    /// Epoch of the newest view that the sender has read.
    pub epoch: u64,
    /// When it was sent, by the sender's process clock: nanoseconds from a random start, modulo 2^64.
    pub stamp: u64,
    /// The receiver's stamp that the sender answers, or received last; 0 if none.
    pub answers: u64,
    /// The receiver's life that came with it.
    pub answers_life: u64,
    /// Nodes whose probes the sender received in the last [`HEARING`](super::HEARING).
    pub hears: NodeSet,
    /// Nodes that answered a probe which the sender sent in the last [`HEARING`](super::HEARING).
    pub reaches: NodeSet,
    /// Nodes to which the sender grants their lease: alive members of its newest view, in the life in which it hears them.
    pub grants: NodeSet,
}

impl Probe {
    /// Encodes the octets covered by the tag.
    pub fn encode(&self) -> [u8; TAGGED] {
        let mut out = [0; TAGGED];
        let kind = match self.kind {
            Kind::Probe => 1,
            Kind::Echo => 2,
        };
        let head = u64::from_le_bytes([VERSION, kind, self.from.get(), self.to.get(), 0, 0, 0, 0]);
        let numbers = [head, self.life, self.epoch, self.stamp, self.answers, self.answers_life];
        let sets = [self.hears, self.reaches, self.grants].map(|set| set.words());
        let words = numbers.iter().chain(sets.iter().flatten());
        for (place, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        out
    }

    /// Decodes octets whose tag was verified; `None` for another version, an unknown kind, or reserved octets that are
    /// not zero.
    pub fn decode(tagged: &[u8; TAGGED]) -> Option<Self> {
        let words = tagged.as_chunks::<8>().0;
        let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        let set = |at: usize| NodeSet::from_words([word(at), word(at + 1), word(at + 2), word(at + 3)]);
        let [VERSION, kind, from, to, 0, 0, 0, 0] = word(0).to_le_bytes() else { return None };
        let kind = match kind {
            1 => Kind::Probe,
            2 => Kind::Echo,
            _ => return None,
        };
        Some(Self {
            kind,
            from: NodeId::new(from),
            to: NodeId::new(to),
            life: word(1),
            epoch: word(2),
            stamp: word(3),
            answers: word(4),
            answers_life: word(5),
            hears: set(6),
            reaches: set(10),
            grants: set(14),
        })
    }
}

/// Writes and verifies tags.
#[derive(Debug, Clone, Copy)]
pub struct ProbeKey(KeyHasher);

impl ProbeKey {
    /// The key for a cluster with this secret. It differs from the secret, which also hashes flow keys.
    pub fn new(secret: HashSeed) -> Self {
        let words = [b"fabric probe key 0", b"fabric probe key 1"];
        let [low, high] = words.map(|name| KeyHasher::new(secret).hash_bytes(name).get());
        Self(KeyHasher::new(HashSeed::new(low, high)))
    }

    /// Encodes the probe as it follows the Ethernet header. Cost: about 20 `SipHash` rounds.
    pub fn encode(&self, probe: &Probe) -> [u8; PROBE_BYTES] {
        let mut out = [0; PROBE_BYTES];
        let (tagged, tag) = out.split_at_mut(TAGGED);
        tagged.copy_from_slice(&probe.encode());
        tag.copy_from_slice(&self.0.hash_bytes(tagged).get().to_le_bytes());
        out
    }

    /// Decodes the probe in these bytes, if a node of this cluster made it. Never panics; reads at most [`PROBE_BYTES`]
    /// octets. Cost: about 20 `SipHash` rounds.
    pub fn decode(&self, bytes: &[u8]) -> Option<Probe> {
        let bytes = bytes.first_chunk::<PROBE_BYTES>()?;
        let (tagged, tag) = bytes.split_at(TAGGED);
        if self.0.hash_bytes(tagged).get().to_le_bytes() != tag {
            return None;
        }
        Probe::decode(tagged.first_chunk()?)
    }

    /// The whole frame; `source` is the sender's own address on the fabric.
    pub fn frame(&self, probe: &Probe, source: MacAddr) -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        let (header, content) = frame.split_at_mut(ethernet::HEADER_LEN);
        header.copy_from_slice(&ethernet::header(FabricMac::probe(probe.to).encode(), source, ETHERTYPE));
        content.copy_from_slice(&self.encode(probe));
        frame
    }

    /// Decodes the probe in a frame, whatever its addresses.
    pub fn open(&self, frame: &[u8]) -> Option<Probe> {
        let (header, content) = frame.split_at_checked(ethernet::HEADER_LEN)?;
        header.ends_with(&ETHERTYPE.to_be_bytes()).then(|| self.decode(content))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn key() -> ProbeKey {
        ProbeKey::new(HashSeed::new(1, 2))
    }

    prop_compose! {
        fn any_probe()(
            is_echo: bool, from: u8, to: u8, numbers: [u64; 5], hears: [u64; 4], reaches: [u64; 4], grants: [u64; 4],
        ) -> Probe {
            let [life, epoch, stamp, answers, answers_life] = numbers;
            let [hears, reaches, grants] = [hears, reaches, grants].map(NodeSet::from_words);
            let kind = if is_echo { Kind::Echo } else { Kind::Probe };
            let (from, to) = (NodeId::new(from), NodeId::new(to));
            Probe { kind, from, to, life, epoch, stamp, answers, answers_life, hears, reaches, grants }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_probe_survives_its_bytes(probe in any_probe(), padding in 0..64_usize) {
            let mut frame = key().frame(&probe, MacAddr([2; 6])).to_vec();
            frame.resize(frame.len() + padding, 0xaa);
            prop_assert_eq!(key().open(&frame), Some(probe));
        }

        #[test]
        fn any_bytes_are_no_probe(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(key().decode(&bytes), None);
            prop_assert_eq!(key().open(&bytes), None);
        }

        #[test]
        fn a_changed_octet_or_another_secret_makes_it_none(
            probe in any_probe(), at in 0..PROBE_BYTES, flip in 1..=u8::MAX, cut in 0..PROBE_BYTES,
        ) {
            let mut bytes = key().encode(&probe);
            prop_assert_eq!(ProbeKey::new(HashSeed::new(2, 1)).decode(&bytes), None);
            prop_assert_eq!(key().decode(&bytes[..cut]), None);
            bytes[at] ^= flip;
            prop_assert_eq!(key().decode(&bytes), None);
        }

        /// The decoder refuses what the tag does not: bytes with a valid tag are a probe exactly if version, kind and
        /// zeros are valid.
        #[test]
        fn tagged_bytes_are_a_probe_or_none(mut content in prop::collection::vec(any::<u8>(), TAGGED), head in 0..4_u8) {
            let heads: [&[u8]; 4] = [&[], &[VERSION], &[VERSION, 1], &[VERSION, 2, 7, 8, 0, 0, 0, 0]];
            let head = heads[usize::from(head)];
            content[..head.len()].copy_from_slice(head);
            content.extend(key().0.hash_bytes(&content).get().to_le_bytes());
            let is_probe = content[0] == VERSION && [1, 2].contains(&content[1]) && content[4..8] == [0; 4];
            let decoded = key().decode(&content);
            prop_assert_eq!(decoded.is_some(), is_probe);
            if let Some(probe) = decoded {
                prop_assert_eq!(key().encode(&probe).to_vec(), content);
            }
        }
    }

    #[test]
    fn the_encoding_does_not_change() {
        let set = |node| NodeSet::from_iter([NodeId::new(node)]);
        let probe = Probe {
            kind: Kind::Echo,
            from: NodeId::new(3),
            to: NodeId::new(4),
            life: 5,
            epoch: 6,
            stamp: 7,
            answers: 8,
            answers_life: 9,
            hears: set(0),
            reaches: set(65),
            grants: set(255),
        };
        let mut bytes = [0; TAGGED];
        bytes[..4].copy_from_slice(&[1, 2, 3, 4]);
        (bytes[8], bytes[16], bytes[24], bytes[32], bytes[40]) = (5, 6, 7, 8, 9);
        (bytes[48], bytes[88], bytes[143]) = (1, 2, 0x80);
        let encoded = key().encode(&probe);
        assert_eq!(encoded[..TAGGED], bytes);
        assert_eq!(encoded[TAGGED..], [84, 87, 98, 133, 138, 94, 32, 230], "the tag under this secret");
    }
}
