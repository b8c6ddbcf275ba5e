//! What every node has: a table without keys, and its readers.

use crate::buffers::sb_buffers;
use crate::ffi::{given, input, make, output, run};
use crate::status::{Failure, sb_status};
use scalebricks_tables::compact::{Reader, SnapshotError, Table};
use scalebricks_tables::hashing::hashes_of;
use scalebricks_tables::othello::Othello;
use scalebricks_tables::setsep::SetSep;
use scalebricks_types::{Applied, Delta, PartitionId};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A GPT: a table from hashes to values, without the keys.
#[derive(Debug)]
pub struct sb_gpt {
    table: Table,
}

impl sb_gpt {
    pub(super) const fn new(table: Table) -> Self {
        Self { table }
    }
}

/// One thread's reader of a table.
#[derive(Debug)]
pub struct sb_reader {
    reader: Reader,
}

/// Applies a delta. Readers do not wait. `*changed` is 1 if the table changed, and 0 if it already had the
/// changes: a delta that arrives twice does no harm. `changed` may be NULL. The bytes are checked: they may
/// come from an untrusted source.
///
/// Fails with `SB_STATUS_GAP` if earlier deltas are missing, with `SB_STATUS_MISMATCH` if the delta is for
/// another kind of table, and with `SB_STATUS_CORRUPT`. The table is then unchanged.
///
/// Threads: any number; one waits for the other, but readers do not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_gpt_apply(
    gpt: Option<&sb_gpt>,
    delta: *const u8,
    length: usize,
    changed: Option<&mut MaybeUninit<u8>>,
) -> sb_status {
    run(|| {
        let gpt = given(gpt, "gpt")?;
        // SAFETY: the header promises an array of this size.
        let delta = Delta::decode(unsafe { input(delta, length, "delta")? })?;
        let applied = gpt.table.apply(&delta)?;
        if let Some(changed) = changed {
            changed.write(u8::from(applied == Applied::Advanced));
        }
        Ok(())
    })
}

/// The position of a partition: the number of deltas since the table was empty, the build included.
///
/// Threads: any number.
#[unsafe(no_mangle)]
pub extern "C" fn sb_gpt_position(
    gpt: Option<&sb_gpt>,
    partition: u16,
    position: Option<&mut MaybeUninit<u64>>,
) -> sb_status {
    run(|| {
        let (gpt, position) = (given(gpt, "gpt")?, given(position, "position")?);
        let absent = || Failure::argument(format!("there is no partition {partition}"));
        position.write(gpt.table.gpt().position(PartitionId(partition)).ok_or_else(absent)?.0);
        Ok(())
    })
}

/// Bytes of memory that the table takes; 0 for NULL.
///
/// Threads: any number.
#[unsafe(no_mangle)]
pub extern "C" fn sb_gpt_bytes(gpt: Option<&sb_gpt>) -> usize {
    gpt.map_or(0, |gpt| gpt.table.table_bytes())
}

/// A snapshot of the table: one byte string. Waits for a running `sb_gpt_apply`; readers go on.
///
/// Threads: any number.
#[unsafe(no_mangle)]
pub extern "C" fn sb_gpt_snapshot(
    gpt: Option<&sb_gpt>,
    out: Option<&mut MaybeUninit<*mut sb_buffers>>,
) -> sb_status {
    make(out, || {
        let gpt = given(gpt, "gpt")?;
        sb_buffers::written(|bytes| gpt.table.write_snapshot(bytes))
    })
}

/// A table from its snapshot, which is checked: it may come from an untrusted source. It is at the position
/// of the snapshot and follows the owner's later deltas.
///
/// Fails with `SB_STATUS_CORRUPT`.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_gpt_restore(
    bytes: *const u8,
    length: usize,
    out: Option<&mut MaybeUninit<*mut sb_gpt>>,
) -> sb_status {
    make(out, || {
        // SAFETY: the header promises an array of this size.
        let bytes = unsafe { input(bytes, length, "bytes")? };
        let table = match SetSep::read_snapshot(bytes) {
            Ok(table) => Table::SetSep(Arc::new(table)),
            Err(SnapshotError::Magic) => Table::Othello(Arc::new(Othello::read_snapshot(bytes)?)),
            Err(error) => return Err(error.into()),
        };
        Ok(sb_gpt::new(table))
    })
}

/// Frees a table. Its memory stays until its readers are freed.
///
/// Threads: no other function may use it; readers may go on.
#[unsafe(no_mangle)]
pub extern "C" fn sb_gpt_free(gpt: Option<Box<sb_gpt>>) {
    drop(gpt);
}

/// A reader of a table for one thread.
///
/// Threads: any number.
#[unsafe(no_mangle)]
pub extern "C" fn sb_reader_new(
    gpt: Option<&sb_gpt>,
    out: Option<&mut MaybeUninit<*mut sb_reader>>,
) -> sb_status {
    make(out, || Ok(sb_reader { reader: Reader::new(&given(gpt, "gpt")?.table) }))
}

/// The value of each of `count` hashes. A hash that is not in the table gets an arbitrary value. Each hash
/// gets its value before or after a delta that is applied at the same time, and never another.
///
/// Batches hide the latency of memory: use 32 hashes or more per call, for tables larger than the cache 256.
///
/// Threads: one per reader; other readers and `sb_gpt_apply` may run at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_reader_lookup(
    reader: Option<&mut sb_reader>,
    hashes: *const u64,
    count: usize,
    values: *mut u8,
) -> sb_status {
    run(|| {
        let reader = given(reader, "reader")?;
        // SAFETY: the header promises arrays of this size.
        let (hashes, values) = unsafe { (input(hashes, count, "hashes")?, output(values, count, "values")?) };
        reader.reader.lookup_batch(hashes_of(hashes), values);
        Ok(())
    })
}

/// Frees a reader.
///
/// Threads: no other function may use it.
#[unsafe(no_mangle)]
pub extern "C" fn sb_reader_free(reader: Option<Box<sb_reader>>) {
    drop(reader);
}
