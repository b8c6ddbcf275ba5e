//! Readers of either table.

use super::control::node;
use super::table::Table;
use crate::othello::OthelloReader;
use crate::setsep::SetSepReader;
use scalebricks_types::KeyHash;
use std::sync::Arc;

/// Keys looked up by one call of the reader below.
const TOGETHER: usize = 256;

/// One thread's reader, of numbers of nodes. Arbitrary ones for keys that are not in the table.
#[derive(Debug)]
pub enum Reader {
    /// Of a SetSep table.
    SetSep(SetSepReader),
    /// Of an Othello table.
    Othello(OthelloReader),
}

impl Reader {
    /// A reader for one thread.
    pub fn new(table: &Table) -> Self {
        match table {
            Table::SetSep(table) => Self::SetSep(SetSepReader::new(Arc::clone(table))),
            Table::Othello(table) => Self::Othello(OthelloReader::new(Arc::clone(table))),
        }
    }

    /// The node of one key. Cost: a fence, and a lookup.
    pub fn get(&mut self, hash: KeyHash) -> u8 {
        either!(self, reader => node(reader.pin().get(hash)))
    }

    /// The node of each key.
    ///
    /// # Panics
    /// If `nodes` is shorter than `hashes`.
    pub fn lookup_batch(&mut self, hashes: &[KeyHash], nodes: &mut [u8]) {
        match self {
            Self::SetSep(reader) => reader.lookup_batch(hashes, nodes),
            Self::Othello(reader) => {
                let nodes = &mut nodes[..hashes.len()];
                let mut values = [0; TOGETHER];
                for (hashes, nodes) in hashes.chunks(TOGETHER).zip(nodes.chunks_mut(TOGETHER)) {
                    reader.lookup_batch(hashes, &mut values[..hashes.len()]);
                    nodes.iter_mut().zip(values).for_each(|(to, value)| *to = node(value));
                }
            }
        }
    }
}
