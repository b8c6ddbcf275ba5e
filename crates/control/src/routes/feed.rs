//! The records that change a feeder's routes into others.

use super::record::{FeederId, IpPrefix, Paths, RouteBatch, RouteRecord};
use super::rib::RouteRib;
use crate::codec::Encoded;
use std::collections::BTreeMap;

/// The records after which a feeder's routes are exactly `wanted`: withdrawals first, so that a full RIB has room for the
/// announcements. Unchanged routes need none.
pub fn difference(rib: &RouteRib, feeder: FeederId, wanted: &BTreeMap<IpPrefix, Paths>) -> Vec<RouteRecord> {
    let mut records = Vec::new();
    let mut unchanged = std::collections::BTreeSet::new();
    for (prefix, paths) in rib.of_feeder(feeder) {
        match wanted.get(&prefix) {
            None => records.push(RouteRecord::Withdraw(feeder, prefix)),
            Some(new) if new.as_slice() == paths => _ = unchanged.insert(prefix),
            Some(_) => {}
        }
    }
    let changed = wanted.iter().filter(|(prefix, _)| !unchanged.contains(prefix));
    records.extend(changed.map(|(prefix, paths)| RouteRecord::Announce(feeder, *prefix, paths.clone())));
    records
}

/// Splits records into batches whose encodings have at most `max_bytes`, in order. A record that alone exceeds this has
/// a batch of its own.
pub fn batches(records: impl IntoIterator<Item = RouteRecord>, max_bytes: usize) -> Vec<RouteBatch> {
    let empty = RouteBatch::default().encode().len();
    let (mut all, mut batch, mut bytes) = (Vec::new(), RouteBatch::default(), empty);
    for record in records {
        // Writing to memory does not fail.
        let size = borsh::to_vec(&record).map_or(usize::MAX, |bytes| bytes.len());
        if !batch.0.is_empty() && bytes.saturating_add(size) > max_bytes {
            all.push(std::mem::take(&mut batch));
            bytes = empty;
        }
        bytes = bytes.saturating_add(size);
        batch.0.push(record);
    }
    if !batch.0.is_empty() {
        all.push(batch);
    }
    all
}
