//! The pieces that wait: slots of one array, linked in order of their sequence numbers.

use super::PIECE_COST;

/// No piece.
pub(super) const NONE: u32 = u32::MAX;

/// Bytes that wait for those before them.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) sequence: u32,
    pub(super) next: u32,
    pub(super) bytes: Box<[u8]>,
}

impl Piece {
    /// Octets; at most those of a packet.
    pub(super) fn len(&self) -> u32 {
        self.bytes.len() as u32
    }

    pub(super) fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.len())
    }
}

/// All pieces. The array grows to the most that waited at once.
#[derive(Debug)]
pub(super) struct Pieces {
    slots: Vec<Piece>,
    free: u32,
    /// Octets in use, with [`PIECE_COST`] for each piece.
    used_bytes: u64,
}

impl Pieces {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, used_bytes: 0 }
    }

    pub(super) const fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(super) fn get(&self, at: u32) -> Option<&Piece> {
        self.slots.get(at as usize)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Piece> {
        self.slots.get_mut(at as usize)
    }

    /// Copies bytes into a piece in front of the piece `next`.
    pub(super) fn add(&mut self, sequence: u32, bytes: &[u8], next: u32) -> u32 {
        self.used_bytes += bytes.len() as u64 + u64::from(PIECE_COST);
        let piece = Piece { sequence, next, bytes: bytes.into() };
        let at = self.free;
        if let Some(slot) = self.slots.get_mut(at as usize) {
            self.free = slot.next;
            *slot = piece;
            return at;
        }
        self.slots.push(piece);
        self.slots.len() as u32 - 1 // bounded by the budget over PIECE_COST
    }

    /// Takes a piece out; the caller unlinks it.
    pub(super) fn take(&mut self, at: u32) -> Option<Piece> {
        let slot = self.slots.get_mut(at as usize)?;
        let piece = std::mem::replace(slot, Piece { sequence: 0, next: self.free, bytes: Box::default() });
        self.free = at;
        self.used_bytes -= u64::from(piece.len()) + u64::from(PIECE_COST);
        Some(piece)
    }
}
