//! Tests of the guarantees of [`Engine`], for any engine.
//!
//! Each function takes a [`Lab`], whose store is empty, and panics if a guarantee is violated. They need no runtime
//! other than the engine's. [`conformance_tests!`](crate::conformance_tests) makes a test of each:
//!
//! ```ignore
//! scalebricks_engine::conformance_tests!(MyLab::new(), my_runtime::block_on);
//! ```
//!
//! Loss of power, damage and full disks need each engine's own tests.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a violated guarantee ends a test by a panic"
)]

mod log;
mod messages;
mod records;
mod snapshots;

pub use log::*;
pub use messages::*;
pub use records::*;
pub use snapshots::*;

use futures_util::StreamExt;
use scalebricks_control::engine::{Batch, BatchId, BoxStream, Engine, WriterId};
use scalebricks_types::{PartitionId, Position};
use std::future::Future;
use std::sync::Arc;

/// A store of logs that is initially empty, and engines over it.
pub trait Lab {
    /// The engine.
    type Engine: Engine;

    /// Opens an engine over the store. Called again only after the previous one was dropped.
    fn open(&self) -> impl Future<Output = Self::Engine>;
}

/// Makes a `#[test]` of each function of [`conformance`](crate::conformance), given an expression for a new lab and a
/// function that runs a future.
#[macro_export]
macro_rules! conformance_tests {
    ($lab:expr, $block_on:path) => {
        $crate::conformance_tests! { $lab, $block_on,
            an_empty_log_is_at_position_zero
            positions_rise_by_one_and_partitions_do_not_mix
            a_retry_has_the_position_of_the_first_attempt
            appends_at_the_same_time_have_one_order
            a_batch_over_the_limit_is_refused
            a_read_is_bounded_and_never_empty_handed
            a_watch_reads_what_is_there_and_what_comes
            a_watch_may_begin_at_the_next_position
            a_reader_ahead_of_the_log_is_refused
            a_watcher_that_does_not_read_holds_nobody_up
            the_log_outlives_the_engine
            trimming_needs_a_snapshot
            what_is_trimmed_is_told_and_positions_go_on
            a_watch_that_is_overtaken_by_trimming_is_told
            trimming_loses_no_record
            an_idle_partition_keeps_its_position
            the_newest_snapshot_is_returned
            a_snapshot_may_be_empty_or_large
            snapshots_outlive_the_engine
            a_record_is_changed_only_at_its_revision
            revisions_rise_and_never_return
            of_swaps_at_the_same_time_one_wins
            records_outlive_the_engine
            keys_and_values_have_limits
            a_watch_of_records_begins_with_what_is_there
            a_watch_of_records_that_falls_behind_sees_the_newest
            subscribers_get_messages_of_their_topic
            topics_and_messages_have_limits
        }
    };
    ($lab:expr, $block_on:path, $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $block_on($crate::conformance::$name(&$lab));
            }
        )*
    };
}

fn batch(writer: u64, number: u64, payload: &[u8]) -> Batch {
    Batch { id: BatchId { writer: WriterId(writer), number }, payload: Arc::from(payload) }
}

/// Appends batches `from` to `to` of a writer, one after the other, each with its number as payload.
async fn fill(engine: &impl Engine, partition: PartitionId, writer: u64, from: u64, to: u64) {
    for number in from..=to {
        let batch = batch(writer, number, &number.to_le_bytes());
        assert_eq!(engine.append(partition, batch).await, Ok(Position(number)));
    }
}

/// The numbers from `first` to `last`.
fn range(first: u64, last: u64) -> Vec<u64> {
    (first..=last).collect()
}

async fn take<T>(stream: &mut BoxStream<T>, n: usize) -> Vec<T> {
    stream.by_ref().take(n).collect().await
}
