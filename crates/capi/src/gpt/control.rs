//! The owner: keys, and the deltas that changes make.

use super::sb_gpt_params;
use super::table::sb_gpt;
use crate::buffers::sb_buffers;
use crate::ffi::{given, input, make, output, run};
use crate::status::{Failure, sb_status};
use scalebricks_tables::compact::{Control, Op, Params};
use scalebricks_tables::hashing::hashes_of;
use scalebricks_tables::othello::OthelloBuilder;
use scalebricks_tables::setsep::SetSepBuilder;
use scalebricks_types::{Delta, KeyHash};
use std::mem::MaybeUninit;

/// Adds a key that is not in the table.
pub const SB_INSERT: u8 = 0;
/// Changes the value of a key in the table.
pub const SB_UPDATE: u8 = 1;
/// Removes a key from the table. The operation's value is ignored.
pub const SB_REMOVE: u8 = 2;

/// The owner of a GPT: its keys, as hashes, with their values.
#[derive(Debug)]
pub struct sb_control {
    control: Control,
}

/// One change of the keys.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sb_op {
    /// The hash of the key.
    pub hash: u64,
    /// `SB_INSERT`, `SB_UPDATE` or `SB_REMOVE`.
    pub kind: u8,
    /// The new value.
    pub value: u8,
}

/// Builds a GPT from `count` hashes and values. An Othello that does not have room for the keys gets more.
///
/// Fails with `SB_STATUS_DUPLICATE` if two hashes are equal, with `SB_STATUS_VALUE` if a value has more than
/// `value_bits` bits, and with `SB_STATUS_FULL` if `capacity` is too small.
///
/// Threads: any. The build itself starts `threads` threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_control_build(
    params: Option<&sb_gpt_params>,
    hashes: *const u64,
    values: *const u8,
    count: usize,
    out: Option<&mut MaybeUninit<*mut sb_control>>,
) -> sb_status {
    make(out, || {
        let (given, params) = sb_gpt_params::checked(params, count)?;
        // SAFETY: the header promises arrays of this size.
        let (hashes, values) = unsafe { (input(hashes, count, "hashes")?, input(values, count, "values")?) };
        let (hashes, threads) = (hashes_of(hashes), given.threads as usize);
        let control = match params {
            Params::SetSep(params) => {
                let builder = SetSepBuilder::new(params).threads(threads);
                Control::SetSep(Box::new(builder.build_from(hashes, values)?))
            }
            Params::Othello(params) => {
                let builder = OthelloBuilder::new(params).threads(threads).may_grow();
                let values: Vec<u16> = values.iter().copied().map(u16::from).collect();
                Control::Othello(Box::new(builder.build_from(hashes, &values)?))
            }
        };
        Ok(sb_control { control })
    })
}

/// Frees an owner. Tables that were exported from it stay.
///
/// Threads: no other function may use it.
#[unsafe(no_mangle)]
pub extern "C" fn sb_control_free(control: Option<Box<sb_control>>) {
    drop(control);
}

/// Number of keys; 0 for NULL.
///
/// Threads: with other functions that take a const owner.
#[unsafe(no_mangle)]
pub extern "C" fn sb_control_len(control: Option<&sb_control>) -> u64 {
    control.map_or(0, |control| control.control.len())
}

/// Bytes of memory that the owner's keys, values and bits take; 0 for NULL.
///
/// Threads: with other functions that take a const owner.
#[unsafe(no_mangle)]
pub extern "C" fn sb_control_bytes(control: Option<&sb_control>) -> usize {
    control.map_or(0, |control| control.control.control_bytes())
}

/// The exact value of a key. Fails with `SB_STATUS_MISSING` if the owner does not have the key.
///
/// Threads: with other functions that take a const owner.
#[unsafe(no_mangle)]
pub extern "C" fn sb_control_get(
    control: Option<&sb_control>,
    hash: u64,
    value: Option<&mut MaybeUninit<u8>>,
) -> sb_status {
    run(|| {
        let (control, value) = (given(control, "control")?, given(value, "value")?);
        let missing = || Failure::new(sb_status::Missing, format!("no key has the hash {hash:#018x}"));
        value.write(control.control.get(KeyHash::new(hash)).ok_or_else(missing)?);
        Ok(())
    })
}

/// Applies `count` operations, with the result of one after the other: all, or none if one is not possible.
/// `out` gets one delta for each partition that changed, to be sent to every node and applied there in order.
///
/// Fails with `SB_STATUS_EXISTS`, `SB_STATUS_MISSING`, `SB_STATUS_VALUE` or `SB_STATUS_FULL`. An Othello that
/// is full can be built anew for more keys, as a SetSep can.
///
/// Threads: no other function may use the owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_control_change(
    control: Option<&mut sb_control>,
    ops: *const sb_op,
    count: usize,
    out: Option<&mut MaybeUninit<*mut sb_buffers>>,
) -> sb_status {
    make(out, || {
        let control = given(control, "control")?;
        // SAFETY: the header promises an array of this size.
        let ops = unsafe { input(ops, count, "ops")? };
        let op = |(at, op): (usize, &sb_op)| {
            let hash = KeyHash::new(op.hash);
            Ok(match op.kind {
                SB_INSERT => Op::Insert(hash, op.value),
                SB_UPDATE => Op::Update(hash, op.value),
                SB_REMOVE => Op::Remove(hash),
                kind => return Err(Failure::argument(format!("operation {at} has the unknown kind {kind}"))),
            })
        };
        let ops = ops.iter().enumerate().map(op).collect::<Result<Vec<_>, _>>()?;
        let deltas = control.control.batch(&ops)?;
        Ok(sb_buffers { strings: deltas.iter().map(Delta::encode).collect() })
    })
}

/// A table with the owner's keys. Any number of tables can be made, and follow the owner by its deltas.
///
/// Threads: with other functions that take a const owner.
#[unsafe(no_mangle)]
pub extern "C" fn sb_control_table(
    control: Option<&sb_control>,
    out: Option<&mut MaybeUninit<*mut sb_gpt>>,
) -> sb_status {
    make(out, || Ok(sb_gpt::new(given(control, "control")?.control.export())))
}

/// A snapshot of the owner, keys included: one byte string.
///
/// Threads: with other functions that take a const owner.
#[unsafe(no_mangle)]
pub extern "C" fn sb_control_snapshot(
    control: Option<&sb_control>,
    out: Option<&mut MaybeUninit<*mut sb_buffers>>,
) -> sb_status {
    make(out, || {
        let control = given(control, "control")?;
        sb_buffers::written(|bytes| control.control.write_snapshot(bytes))
    })
}

/// An owner from its snapshot, which is checked: it may come from an untrusted source.
///
/// Fails with `SB_STATUS_CORRUPT`.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_control_restore(
    bytes: *const u8,
    length: usize,
    out: Option<&mut MaybeUninit<*mut sb_control>>,
) -> sb_status {
    make(out, || {
        // SAFETY: the header promises an array of this size.
        let bytes = unsafe { input(bytes, length, "bytes")? };
        let control = Control::read_snapshot(bytes)?;
        Ok(sb_control { control })
    })
}

/// Copies the hashes and values of all keys to arrays of `capacity` elements each, and their number to
/// `*count`. Fails with `SB_STATUS_ARGUMENT` if there are more keys.
///
/// Threads: with other functions that take a const owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_control_keys(
    control: Option<&sb_control>,
    hashes: *mut u64,
    values: *mut u8,
    capacity: usize,
    count: Option<&mut MaybeUninit<usize>>,
) -> sb_status {
    run(|| {
        let (control, count) = (&given(control, "control")?.control, given(count, "count")?);
        let keys = control.len() as usize;
        if keys > capacity {
            return Err(Failure::argument(format!("{keys} keys do not fit {capacity} elements")));
        }
        // SAFETY: the header promises arrays of this size.
        let (hashes, values) = unsafe { (output(hashes, keys, "hashes")?, output(values, keys, "values")?) };
        let places = hashes.iter_mut().zip(values);
        let put = |((hash, value), (key, number)): ((&mut u64, &mut u8), (KeyHash, u8))| {
            (*hash, *value) = (key.get(), number);
        };
        match control {
            Control::SetSep(control) => places.zip(control.iter()).for_each(put),
            // The values came in with eight bits.
            Control::Othello(control) => {
                places.zip(control.iter().map(|(key, value)| (key, value as u8))).for_each(put);
            }
        }
        count.write(keys);
        Ok(())
    })
}
