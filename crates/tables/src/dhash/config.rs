//! Configuration of a table, checked before memory is reserved.

use super::compare::SLOTS;
use super::signature::Signature;
use scalebricks_types::HashSeed;

/// Sessions per bucket for which [`Config::for_sessions`] plans: the paper's mean. One session in 180 is then in a
/// conflict list.
pub const MEAN_SESSIONS: u32 = 10;

/// Sessions per bucket for which [`Config::growing`] plans. Until a bucket is split, it has up to twice as many as the
/// others. With a mean of 8, at most one session in 75 is in a list at any time; with 10 it would be one in 25.
pub const GROWING_MEAN_SESSIONS: u32 = 8;

/// The maximum number of records: slots of all buckets and entries of the pool. Records are numbered with 32 bits.
pub const MAX_RECORDS: u64 = u32::MAX as u64;

/// How many buckets a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// As many as it begins with, as in the paper.
    Fixed,
    /// One more when there are more than `mean_sessions` sessions per bucket, up to `max_buckets`.
    Linear {
        /// The maximum number of buckets. Address space is reserved for them, and memory used as they come.
        max_buckets: u32,
        /// Sessions per bucket above which buckets are added, 1 to 16.
        mean_sessions: u32,
    },
}

/// The pool of conflict entries. Each has a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Entries at first.
    pub entries: u32,
    /// The maximum. With `max_entries` equal to `entries` the pool refuses a session when all are used, else it
    /// grows up to `max_entries` and then refuses.
    pub max_entries: u32,
}

/// What a table is made with.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Buckets at first, each with room for 16 sessions.
    pub buckets: u32,
    /// Whether buckets are added.
    pub growth: Growth,
    /// The conflict lists' pool.
    pub pool: Pool,
    /// The maximum number of entries in one bucket's list. It bounds the cost of a lookup also for keys of an
    /// attacker who knows the secret.
    pub max_list: u32,
    /// The function for signatures.
    pub signature: Signature,
    /// The secret of the keyed hash. Take it from the system's random generator where packets come from strangers.
    pub secret: HashSeed,
    /// Whether a search starts at the major location, or else at slot 0. Only scalar comparisons are fewer with it:
    /// vector instructions compare all slots at once.
    pub has_major_location: bool,
    /// Whether a session moves from a bucket's list into a slot that a deletion empties. Off in the paper: it
    /// changes the session's record index.
    pub is_promoting: bool,
}

impl Config {
    /// A table of fixed size for this many sessions: [`MEAN_SESSIONS`] per bucket, and a pool that grows to a
    /// quarter of the sessions, at least to 64 entries.
    pub fn for_sessions(sessions: u32, secret: HashSeed) -> Self {
        Self {
            buckets: sessions.div_ceil(MEAN_SESSIONS).max(1),
            growth: Growth::Fixed,
            pool: Pool { entries: (sessions / 100).max(16), max_entries: (sessions / 4).max(64) },
            max_list: 64,
            signature: Signature::Keyed,
            secret,
            has_major_location: true,
            is_promoting: false,
        }
    }

    /// A table that begins with room for `sessions` sessions and grows up to room for `max_sessions`, with
    /// [`GROWING_MEAN_SESSIONS`] per bucket.
    pub fn growing(sessions: u32, max_sessions: u32, secret: HashSeed) -> Self {
        let mean_sessions = GROWING_MEAN_SESSIONS;
        let buckets = |sessions: u32| sessions.div_ceil(mean_sessions).max(1);
        let max_sessions = max_sessions.max(sessions);
        let first = Self::for_sessions(sessions, secret);
        let max_entries = Self::for_sessions(max_sessions, secret).pool.max_entries;
        Self {
            buckets: buckets(sessions),
            growth: Growth::Linear { max_buckets: buckets(max_sessions), mean_sessions },
            pool: Pool { max_entries, ..first.pool },
            ..first
        }
    }

    /// The maximum number of buckets.
    pub const fn max_buckets(&self) -> u32 {
        match self.growth {
            Growth::Fixed => self.buckets,
            Growth::Linear { max_buckets, .. } => max_buckets,
        }
    }

    /// Whether a table can be made with it.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.buckets == 0 {
            return Err(ConfigError::NoBuckets);
        }
        if let Growth::Linear { max_buckets, mean_sessions } = self.growth {
            if max_buckets < self.buckets {
                return Err(ConfigError::Shrinks { buckets: self.buckets, max_buckets });
            }
            if mean_sessions == 0 || mean_sessions as usize > SLOTS {
                return Err(ConfigError::MeanSessions(mean_sessions));
            }
        }
        if self.pool.max_entries < self.pool.entries {
            let Pool { entries, max_entries } = self.pool;
            return Err(ConfigError::PoolShrinks { entries, max_entries });
        }
        let records = u64::from(self.max_buckets()) * SLOTS as u64 + u64::from(self.pool.max_entries);
        if records > MAX_RECORDS {
            return Err(ConfigError::TooManyRecords { records });
        }
        Ok(())
    }
}

/// Why a table cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A table needs a bucket.
    #[error("a flow table needs at least one bucket")]
    NoBuckets,
    /// The maximum is below the beginning.
    #[error("max_buckets {max_buckets} is below the {buckets} buckets that the table begins with")]
    Shrinks {
        /// Buckets at first.
        buckets: u32,
        /// The maximum.
        max_buckets: u32,
    },
    /// Sessions per bucket.
    #[error("mean_sessions {0} is not 1 to {SLOTS}")]
    MeanSessions(u32),
    /// The maximum is below the beginning.
    #[error("max_entries {max_entries} of the pool is below the {entries} entries that it begins with")]
    PoolShrinks {
        /// Entries at first.
        entries: u32,
        /// The maximum.
        max_entries: u32,
    },
    /// Records have numbers of 32 bits.
    #[error(
        "{records} records, slots and pool together, exceed {MAX_RECORDS}: lower max_buckets or max_entries"
    )]
    TooManyRecords {
        /// Slots and entries at most.
        records: u64,
    },
    /// The system has no address space for the arrays.
    #[error("cannot reserve {bytes} bytes for an array of the flow table: lower max_buckets or max_entries")]
    OutOfMemory {
        /// Bytes of the array.
        bytes: u64,
    },
}
