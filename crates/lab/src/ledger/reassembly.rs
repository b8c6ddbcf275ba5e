//! Reassembles the outer fragments of a packet.

use super::frame::{FrameError, Outer};

/// The fragments of a packet so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Reassembly {
    identity: Option<(u32, u32, u16)>,
    pieces: Vec<(usize, Vec<u8>)>,
    /// Length of the whole payload, once the last fragment has arrived.
    whole: Option<usize>,
}

impl Reassembly {
    /// Adds a fragment, and returns the whole payload once it is complete. Fragments may have any order, but must neither overlap
    /// nor belong to different outer packets.
    pub(super) fn add(&mut self, fragment: &Outer<'_>) -> Result<Option<Vec<u8>>, FrameError> {
        let end = fragment.offset + fragment.payload.len();
        let overlaps = self.pieces.iter().any(|(at, piece)| fragment.offset < at + piece.len() && *at < end);
        let is_another = *self.identity.get_or_insert(fragment.identity) != fragment.identity;
        let is_uneven = fragment.more && !fragment.payload.len().is_multiple_of(8);
        if overlaps || is_another || is_uneven || fragment.payload.is_empty() {
            return Err(FrameError::Fragments);
        }
        self.pieces.push((fragment.offset, fragment.payload.to_vec()));
        if !fragment.more && self.whole.replace(end).is_some() {
            return Err(FrameError::Fragments);
        }
        let here: usize = self.pieces.iter().map(|(_, piece)| piece.len()).sum();
        if self.whole != Some(here) {
            return Ok(None);
        }
        self.pieces.sort_unstable_by_key(|&(at, _)| at);
        Ok(Some(std::mem::take(&mut self.pieces).into_iter().flat_map(|(_, piece)| piece).collect()))
    }
}
