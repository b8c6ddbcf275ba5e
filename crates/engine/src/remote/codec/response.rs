//! What a server sends.

use super::messages;
use super::values::{Take, Value};
use scalebricks_control::engine::{AppendError, Batch, EngineError, ReadError, Record, Revision, SwapError};
use scalebricks_types::Position;
use std::sync::Arc;

messages! {
    /// What a server sends.
    Response
    /// What became of an append.
    1 Appended {
        /// Its position.
        result: Result<Position, AppendError>,
    }
    /// A log's newest position.
    2 Last {
        /// Which.
        result: Result<Position, ReadError>,
    }
    /// An entry, of a read or of a stream.
    3 Entry {
        /// Where.
        position: Position,
        /// What.
        batch: Batch,
    }
    /// All entries of a read were sent.
    4 ReadDone {
        /// Or there are none.
        result: Result<(), ReadError>,
    }
    /// It was done.
    5 Done {
        /// Or not.
        result: Result<(), EngineError>,
    }
    /// A snapshot's position and length, whose bytes follow in `Chunk`s.
    6 Snapshot {
        /// Or there is none.
        result: Result<Option<(Position, u64)>, EngineError>,
    }
    /// A piece of a snapshot.
    7 Chunk {
        /// Its bytes.
        bytes: Arc<[u8]>,
    }
    /// A record that was asked for.
    8 Found {
        /// Or there is none.
        result: Result<Option<Record>, EngineError>,
    }
    /// What became of a change.
    9 Swapped {
        /// The new revision.
        result: Result<Revision, SwapError>,
    }
    /// A record of a stream.
    10 Record {
        /// As it is now.
        record: Record,
    }
    /// Records that a resumed stream found, those up to the known revision included.
    11 Present {
        /// Their keys and revisions.
        records: Vec<(String, Revision)>,
    }
    /// All that a resumed stream found was named.
    12 Resumed {
        /// The newest revision among them.
        up_to: Revision,
    }
    /// A message of a stream.
    13 Message {
        /// It.
        bytes: Arc<[u8]>,
    }
    /// A stream's end.
    14 End {
        /// Why.
        end: End,
    }
}

/// Why a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// There is no more.
    Closed,
    /// Entries cannot be had.
    Read(ReadError),
    /// Records cannot be had.
    Engine(EngineError),
}

impl Value for End {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Closed => 0u8.put(out),
            Self::Read(error) => {
                1u8.put(out);
                error.put(out);
            }
            Self::Engine(error) => {
                2u8.put(out);
                error.put(out);
            }
        }
    }

    fn take(from: &mut Take<'_>) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(Self::Closed),
            1 => Value::take(from).map(Self::Read),
            2 => Value::take(from).map(Self::Engine),
            _ => None,
        }
    }
}
