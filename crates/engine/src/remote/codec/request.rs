//! What a client sends.

use super::messages;
use scalebricks_control::engine::{Batch, Revision};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;

messages! {
    /// What a client sends. Each is answered once under its id, but for the last three.
    Request
    /// Append a batch; answered by `Appended`.
    1 Append {
        /// To whose log.
        partition: PartitionId,
        /// What.
        batch: Batch,
    }
    /// The newest position; answered by `Last`.
    2 Last {
        /// Of whose log.
        partition: PartitionId,
    }
    /// Entries; answered by any number of `Entry`, then `ReadDone`.
    3 Read {
        /// Of whose log.
        partition: PartitionId,
        /// The first.
        from: Position,
        /// About how many bytes of them; the server may send fewer.
        max_bytes: u32,
    }
    /// Drop old entries; answered by `Done`.
    4 Trim {
        /// Whose.
        partition: PartitionId,
        /// Below this one.
        below: Position,
    }
    /// Keep a snapshot, whose bytes follow in `Chunk`s; answered by `Done`, maybe before all are sent.
    5 PutSnapshot {
        /// Whose.
        partition: PartitionId,
        /// At which position.
        position: Position,
        /// How many bytes.
        len: u64,
    }
    /// The newest snapshot; answered by `Snapshot`, and `Chunk`s.
    6 Snapshot {
        /// Whose.
        partition: PartitionId,
    }
    /// A record; answered by `Found`.
    7 Record {
        /// Its key.
        key: String,
    }
    /// Change a record; answered by `Swapped`.
    8 Swap {
        /// Its key.
        key: String,
        /// At which revision it must be.
        expected: Option<Revision>,
        /// Its new value; none: it is deleted.
        value: Option<Arc<[u8]>>,
    }
    /// Send a message; answered by `Done`.
    9 Publish {
        /// To which topic.
        topic: String,
        /// What.
        message: Arc<[u8]>,
    }
    /// Follow a log: `Entry` after `Entry`, until `End`.
    10 Watch {
        /// Whose log.
        partition: PartitionId,
        /// The first entry.
        from: Position,
        /// Bytes of frames that may be sent at first.
        credit: u32,
    }
    /// Follow records: `Record` after `Record`, until `End`.
    11 WatchRecords {
        /// What their keys begin with.
        prefix: String,
        /// Everything up to this revision is known: first come `Present`s and a `Resumed`, then what is newer.
        after: Option<Revision>,
        /// Bytes of frames that may be sent at first.
        credit: u32,
    }
    /// Listen to a topic: `Done`, then `Message` after `Message`, until `End`.
    12 Subscribe {
        /// Which.
        topic: String,
        /// Bytes of frames that may be sent at first.
        credit: u32,
    }
    /// A piece of a snapshot that is being put.
    13 Chunk {
        /// Its bytes.
        bytes: Arc<[u8]>,
    }
    /// A stream may send more.
    14 Credit {
        /// How many more bytes of frames.
        bytes: u32,
    }
    /// Nobody reads this stream any more.
    15 Cancel {}
}
