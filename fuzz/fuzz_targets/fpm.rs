//! Any stream of bytes is cut into frames of routes and next hops, read up to the first wrong frame.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::router::feed::fpm::{FpmTable, Frames, MAX_GATEWAYS};
use std::collections::BTreeSet;

fuzz_target!(|bytes: &[u8]| {
    let (mut frames, mut table, mut changed) = (Frames::default(), FpmTable::default(), BTreeSet::new());
    // The first byte says how the stream arrives.
    let Some((&piece, stream)) = bytes.split_first() else { return };
    for piece in stream.chunks(usize::from(piece) + 1) {
        frames.add(piece);
        loop {
            match frames.next_frame() {
                Ok(Some(frame)) => table.read(frame, &mut changed),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    assert!(table.prefixes().all(|prefix| changed.contains(&prefix)));
    assert!(changed.iter().all(|prefix| table.next_hops(*prefix).len() <= MAX_GATEWAYS));
    // Also as messages without frames.
    table.read(stream, &mut changed);
});
