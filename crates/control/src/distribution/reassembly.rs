//! Images that come in pieces, at the node.

use super::message::{FibPiece, GptPiece, Part};
use scalebricks_types::{FlowKey, MAX_PAYLOAD_BYTES, Position};
use std::collections::HashSet;

/// Bytes of the longest delta that is put together: those of the longest there is.
const MOST_DELTA_BYTES: u64 = MAX_PAYLOAD_BYTES as u64 + 64;

/// How a piece is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// It begins an image.
    First,
    /// It is the next one.
    Next,
    /// A duplicate, or part of an image that is not used.
    Stale,
    /// Pieces before it are missing.
    Gap,
    /// It cannot be a piece of any image.
    Malformed,
}

/// A whole FIB of a partition that comes in pieces. Its keys go into the FIB as they come.
///
/// Memory: 56 bytes and a map's slack for each key that the FIB held of the partition when the image began, and that has not come
/// yet; none for a node that starts.
#[derive(Debug)]
pub(super) struct FibReassembly {
    position: Position,
    keys: u64,
    have: u64,
    /// Whether it replaces entries that were found to be wrong.
    pub(super) mends: bool,
    /// Keys that the FIB held and the pieces so far do not. Those that are left at the end are to go.
    pub(super) unconfirmed: HashSet<FlowKey>,
}

impl FibReassembly {
    /// How to handle a piece, given the image in progress and the FIB's position `fib`. `mends`: the piece belongs to an
    /// image that the node needs though it is no newer.
    pub(super) fn sort(reassembly: Option<&Self>, piece: &FibPiece, fib: Position, mends: bool) -> Piece {
        let count = piece.entries.len() as u64;
        let is_whole = piece.first.checked_add(count).is_some_and(|end| end <= piece.keys);
        if !is_whole || (count == 0 && piece.keys > 0) {
            return Piece::Malformed;
        }
        match reassembly {
            Some(reassembly) if reassembly.position == piece.position => {
                if reassembly.keys != piece.keys {
                    return Piece::Malformed;
                }
                order(piece.first, reassembly.have)
            }
            Some(reassembly) if piece.position < reassembly.position => Piece::Stale,
            None if piece.position < fib || (piece.position == fib && !mends) => Piece::Stale,
            _ if piece.first > 0 => Piece::Gap,
            _ => Piece::First,
        }
    }

    /// The image of this first piece, where the FIB holds these keys.
    pub(super) fn begin(piece: &FibPiece, mends: bool, held: Vec<FlowKey>) -> Self {
        let unconfirmed = held.into_iter().collect();
        Self { position: piece.position, keys: piece.keys, have: 0, mends, unconfirmed }
    }

    /// Counts keys that were set. Whether they were the last.
    pub(super) const fn advance(&mut self, keys: usize) -> bool {
        self.have += keys as u64;
        self.have == self.keys
    }

    pub(super) const fn part(&self) -> Part {
        Part { at: self.position, since: Position(0), have: self.have }
    }
}

/// A delta that arrives in pieces. Memory: the bytes received.
#[derive(Debug)]
pub(super) struct DeltaReassembly {
    position: Position,
    previous: Position,
    bytes: u64,
    have: Vec<u8>,
}

impl DeltaReassembly {
    /// How to handle a piece at a table at position `gpt`.
    pub(super) fn sort(reassembly: Option<&Self>, piece: &GptPiece, gpt: Position) -> Piece {
        let count = piece.part.len() as u64;
        let is_whole = piece.first.checked_add(count).is_some_and(|end| end <= piece.bytes);
        if !is_whole || count == 0 || piece.bytes > MOST_DELTA_BYTES || piece.previous >= piece.position {
            return Piece::Malformed;
        }
        if piece.position <= gpt {
            return Piece::Stale;
        }
        if piece.previous > gpt {
            return Piece::Gap;
        }
        match reassembly {
            Some(reassembly)
                if (reassembly.position, reassembly.previous) == (piece.position, piece.previous) =>
            {
                if reassembly.bytes != piece.bytes {
                    return Piece::Malformed;
                }
                order(piece.first, reassembly.have.len() as u64)
            }
            // Of two images of the same position, the one that contains more is newer: see `Part::later`.
            Some(reassembly)
                if piece.position < reassembly.position
                    || (piece.position == reassembly.position && piece.previous > reassembly.previous) =>
            {
                Piece::Stale
            }
            _ if piece.first > 0 => Piece::Gap,
            _ => Piece::First,
        }
    }

    pub(super) const fn begin(piece: &GptPiece) -> Self {
        let GptPiece { position, previous, bytes, .. } = *piece;
        Self { position, previous, bytes, have: Vec::new() }
    }

    /// More bytes. Whether these were the last.
    pub(super) fn advance(&mut self, part: &[u8]) -> bool {
        self.have.extend_from_slice(part);
        self.have.len() as u64 == self.bytes
    }

    /// The bytes received so far.
    pub(super) fn have(&self) -> &[u8] {
        &self.have
    }

    pub(super) fn part(&self) -> Part {
        Part { at: self.position, since: self.previous, have: self.have.len() as u64 }
    }
}

fn order(first: u64, have: u64) -> Piece {
    match first.cmp(&have) {
        std::cmp::Ordering::Less => Piece::Stale,
        std::cmp::Ordering::Equal => Piece::Next,
        std::cmp::Ordering::Greater => Piece::Gap,
    }
}
