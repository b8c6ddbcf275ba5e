//! DHash: the table of sessions that packets add and delete, and the records that elements keep for each session.
//!
//! The table holds a 32-bit *signature* per session, not its key. A lookup compares the 16 signatures of one cache line
//! with one vector instruction, and touches a record only where the signature matches. Both directions of a session
//! find the same record. A table belongs to one core: a pipeline per core has a table of its own, and
//! [`FlowHash::pipeline`] sends both directions of a session to the same one.
//!
//! # Layout
//!
//! | part | size | contents |
//! |---|---|---|
//! | bucket | one cache line | signatures of 16 slots, 0 if empty |
//! | list head | 4 bytes per bucket | first conflict entry |
//! | conflict entry | 12 bytes, from a bounded pool | signature, record, next entry |
//! | key | 16 bytes ([`Key4`]) or 40 ([`Key6`]) per record | addresses, ports, protocol and zone of the first packet |
//! | arrays | what elements [reserve](Records::reserve) | values of each record |
//!
//! No pointer to a record is stored: the record of a slot has the index `bucket * 16 + slot`, and the records of the
//! pool follow those of the maximum number of buckets. A session whose bucket is full gets an entry of the pool, in
//! the list of its bucket. At the planned mean of 10 sessions per bucket, one session in 180 is in a list.
//!
//! A search begins at the *major location*, a slot that the signature chooses, and goes around the bucket. Then it
//! walks the bucket's list. An empty slot does not end it: deletion leaves holes. The record's key decides; a slot
//! with the signature of another session is a false positive, and the search goes on.
//!
//! # Cost
//!
//! Cache lines that a call touches, at the planned load; a batch fetches those of 64 packets at the same time:
//!
//! | call | lines |
//! |---|---|
//! | [look](DHash::look), note, find: three steps of a batch | as find |
//! | find, session in a slot (99.4 % of sessions) | the bucket, the key |
//! | find, session in a list | the bucket, the head, and an entry and a key per entry up to its own |
//! | find, absent | the bucket, the head; a list where there is one (one bucket in 34) |
//! | add | those of an absent find, the key (written) |
//! | delete | the bucket (written), each array's value (written) |
//! | access to an array | the value's lines |
//!
//! A false positive adds a key's line. With the keyed signature, a lookup has one with probability (sessions in the
//! bucket) / 2^32.
//!
//! # How long an index stays valid
//!
//! A [`Record`] that a call returns is valid until the next call that takes the table by `&mut` and adds, deletes or
//! sweeps. All records that one batch returns are valid together. Such a call changes the index of
//!
//! - the sessions of one bucket per added session, if the table grows ([`Growth::Linear`]): a split moves them;
//! - a session of a list, if a deletion promotes it ([`Config::is_promoting`], off by default).
//!
//! In a table of fixed size without promotion, an index is valid until its session is deleted. Whoever keeps an index
//! longer stores the key with it, and compares it with [`DHash::key`], or looks up again.
//!
//! # Growth, expiry and limits
//!
//! The table grows by linear hashing: at most one bucket is split per added session, so no call does more than a bounded piece
//! of work and no lookup has to wait. Address space is reserved for the maximum size at the start, so that nothing is
//! copied; the pages come when they are first used. A table never shrinks.
//!
//! Sessions end when an element [deletes](DHash::delete) them, or when [`DHash::sweep`] finds that they are not to be
//! kept. Its hand passes a bounded number of records per call.
//!
//! A session is refused, with a typed error and a counter, when its bucket is full and either its list has
//! [`Config::max_list`] entries or the pool is used up. So memory and the cost of a lookup are bounded for any keys.
//! Buckets come from a hash with a secret, whatever function computes the signatures. An attacker who does not know
//! the secret cannot fill one bucket.
//!
//! # Source
//!
//! DHash (University of Science and Technology of China): the table with signatures, the major location and the
//! conflict lists. What the paper leaves open, and where its numbers contradict each other, is in
//! `docs/adr/0047-dhash-table.md`. Ours are the keyed hash, IPv6, growth, expiry, records and the limits.
//!
//! ```
//! use scalebricks_tables::dhash::{Config, DHash, Direction, FlowKey, Key4, Records};
//! use scalebricks_types::HashSeed;
//!
//! // Before the start, each element reserves an array.
//! let mut records = Records::new();
//! let packets = records.reserve::<u64>();
//!
//! let secret = HashSeed::new(0x0123, 0x4567); // take it from the system's random generator
//! let mut table = DHash::<Key4>::new(&Config::for_sessions(1000, secret), records)?;
//!
//! let request = Key4::new([10, 0, 0, 1].into(), [192, 0, 2, 7].into(), 6, 40_000, 80, 0);
//! let session = table.find_or_add(&request)?;
//! table.column_mut(packets)[session.record] += 1;
//!
//! let reply = table.find(&request.reversed()).expect("a session has one record for both directions");
//! assert_eq!((reply.record, reply.direction), (session.record, Direction::Reverse));
//! table.column_mut(packets)[reply.record] += 1;
//!
//! let swept = table.sweep(usize::MAX, |session| session.records.column(packets)[session.record] > 2);
//! assert_eq!((swept.visited, swept.removed), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod compare;
mod config;
mod crc32c;
mod growth;
mod key;
mod look;
mod memory;
mod placement;
mod pool;
mod probe;
mod records;
mod signature;
mod sweep;
mod table;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub use compare::SLOTS;
pub use config::{Config, ConfigError, GROWING_MEAN_SESSIONS, Growth, MAX_RECORDS, MEAN_SESSIONS, Pool};
pub use key::{Direction, FlowKey, Key4, Key6};
pub use look::Look;
pub use memory::Memory;
pub use probe::Probe;
pub use records::{Cells, Column, Record, Records, StartedRecords};
pub use signature::{Address, FlowHash, FlowHasher, INSTEAD_OF_ZERO, Signature};
pub use sweep::{SweepStats, Swept};
pub use table::{AddError, Added, Counters, DHash, Found};
