//! Readers concurrent with a writer, which both structures are tested with.

use super::{Tested, entries, flipped};
use crate::isa::Isa;
use crate::published::{Control, Reader, Table};
use crate::tests::readers::{WatchedKeys, check_beside};
use scalebricks_types::KeyHash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A batched lookup with this instruction set.
pub(crate) fn reader_of<S: Tested>(
    table: &Arc<Table<S>>,
    isa: Isa,
) -> impl FnMut(&[KeyHash], &mut [S::Value]) + use<S> {
    let mut reader = Reader::with_isa(Arc::clone(table), isa).unwrap();
    move |hashes, values| reader.lookup_batch(hashes, values)
}

/// A dozen keys and few updates, each to memory used before: for the interpreter (Miri).
pub(crate) fn a_reader_beside_a_writer<S: Tested>(name: &str, params: S::Params, value_bits: u8) {
    for isa in Isa::available() {
        let kept = entries::<S>(12, value_bits, 0);
        let mut control = Control::<S>::new(params);
        for &(hash, value) in &kept {
            let _ = control.insert(hash, value).unwrap();
        }
        let (table, watched) = (Arc::new(control.export()), WatchedKeys::new(&kept));
        check_beside(
            &watched,
            &format!("{name} tiny"),
            isa,
            || reader_of(&table, isa),
            || {
                for (round, &(hash, value)) in kept.iter().enumerate().take(6) {
                    let new = flipped::<S>(value, (1 << value_bits) - 1);
                    watched.change(round, new.into(), || {
                        let _ = table.apply(&control.update(hash, new).unwrap()).unwrap();
                    });
                }
            },
        );
    }
}

/// A deliberate data race, which ThreadSanitizer must find.
#[cfg(tsan)]
pub(crate) fn planted_race<S: Tested>(name: &str, params: S::Params, value_bits: u8) {
    let isa = Isa::from_name(&std::env::var("PLANTED_ISA").unwrap()).unwrap();
    let kept = entries::<S>(12, value_bits, 0);
    let mut control = S::build(params, &kept);
    let (table, watched) = (Arc::new(control.export()), WatchedKeys::new(&kept));
    let reader = || {
        let mut reader = Reader::with_isa(Arc::clone(&table), isa).unwrap().blind();
        move |hashes: &[KeyHash], values: &mut [S::Value]| reader.lookup_batch(hashes, values)
    };
    check_beside(&watched, &format!("{name} without a pin"), isa, reader, || {
        for round in 0..4000 {
            let at = round % 12;
            let new = watched.value(at) ^ ((1 << value_bits) - 1);
            watched.change(at, new, || {
                let _ = table.apply(&control.update(kept[at].0, S::value(new.into())).unwrap()).unwrap();
            });
        }
    });
}

/// A reader that stays pinned blocks reuse of only the memory that it may see: updates continue until the
/// spare slots are used up, and then wait for it.
pub(crate) fn a_stalled_reader_still_sees_its_version<S: Tested>(params: S::Params) {
    let entries = entries::<S>(200, 4, 0);
    let mut control = S::build(params, &entries);
    let table = Arc::new(control.export());
    let applied = AtomicU64::new(0);
    let mut reader = Reader::new(Arc::clone(&table));
    thread::scope(|scope| {
        let pin = reader.pin();
        scope.spawn(|| {
            for &(hash, value) in entries.iter().take(80) {
                let _ = table.apply(&control.update(hash, flipped::<S>(value, 1)).unwrap()).unwrap();
                applied.fetch_add(1, Ordering::SeqCst);
            }
        });
        while applied.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
        for &(hash, value) in &entries {
            let now = pin.get(hash);
            assert!(now == value || now == flipped::<S>(value, 1));
        }
        assert!(applied.load(Ordering::SeqCst) < 80, "the writer passed a pinned reader");
        drop(pin);
    });
    assert_eq!(applied.into_inner(), 80);
}
