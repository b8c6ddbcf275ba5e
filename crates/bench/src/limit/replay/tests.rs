use super::*;
use crate::keys::KeySet;
use crate::structures::{BuildConfig, KeyForms, LookupMode, Structure};

/// Reads three lines per query, in query order.
struct Told([Vec<u64>; 3]);

impl Table for Told {
    fn table_bytes(&self) -> u64 {
        0
    }

    fn lookup(&self, _: LookupMode, _: Queries<'_>, _: &mut [u8]) {}

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        for query in 0..queries.hashes.len() {
            self.0.iter().for_each(|words| visit(query, (&raw const words[8 * query + 4]).cast()));
        }
    }
}

#[test]
fn lines_are_replayed_in_their_order_call_by_call() {
    let hashes = vec![scalebricks_types::KeyHash::default(); 10];
    let queries = Queries { hashes: &hashes, flows: &[], words: &[] };
    let table = Told(std::array::from_fn(|_| vec![0; 8 * 12]));
    let replay = Replay::of(&table, queries).unwrap();
    let [region] = &replay.regions[..] else { panic!("one allocation after the other") };
    assert_eq!(region.counts, [3; 10]);
    let at = |query: usize, part: usize| (&raw const table.0[part][8 * query + 4]).addr() / LINE;
    let wanted: Vec<usize> = (0..10).flat_map(|n| (0..3).map(move |part| at(n, part))).collect();
    let told: Vec<usize> =
        region.places.iter().map(|&place| region.word(place).as_ptr().addr() / LINE).collect();
    assert_eq!(told, wanted);
    let parts = |batch, threads| -> Vec<(usize, Vec<usize>)> {
        let parts = replay.parts(batch, threads).into_iter().flatten();
        parts.map(|(_, first, ends)| (first, ends)).collect()
    };
    assert_eq!(parts(4, 1), [(0, vec![12, 24, 30])]);
    assert_eq!(parts(4, 2), [(0, vec![12, 15]), (15, vec![27, 30])]);
    assert_eq!(replay.parts(1, 10).len(), 10);
}

#[test]
fn lines_far_apart_are_in_stretches_of_their_own() {
    let (memory, mut blocks) = (vec![0_u64; 1 << 10], Vec::new());
    let near = memory.as_ptr().cast::<u8>();
    // Reported and never read.
    let told = [0, 640, 1 << 40, (1 << 40) + 64, 64, (1 << 40) + 128].map(|far| near.wrapping_add(far));
    let visit = |_: &[u64], visit: &mut dyn FnMut(usize, *const u8)| {
        told.iter().enumerate().for_each(|(place, &at)| visit(place / 2, at));
    };
    let replay = Replay::record(&memory[..], 3, visit).unwrap();
    for region in &replay.regions {
        blocks.push((region.places.clone(), region.counts.clone()));
    }
    assert_eq!(blocks, [(vec![0, 80, 8], vec![2, 0, 1]), (vec![0, 8, 16], vec![0, 2, 1])]);
    let many = |_: &[u64], visit: &mut dyn FnMut(usize, *const u8)| {
        (0..=MAX_REGIONS).for_each(|n| visit(0, near.wrapping_add(n << 40)));
    };
    assert!(Replay::record(&memory[..], 1, many).is_none());
    assert!(Replay::record(&memory[..], 1, |_, _| ()).is_none());
}

#[test]
fn all_of_ours_tell_what_they_read() {
    let set = KeySet::new(3000, 2);
    for structure in [Structure::SetSep, Structure::Othello, Structure::FullCopy, Structure::Cuckoo] {
        let table = structure.prepare(&set, BuildConfig::table()).unwrap()().unwrap();
        let forms = KeyForms::of(&set, [table.form()]);
        let replay = Replay::of(&*table, forms.queries(&set)).unwrap();
        let lines = |query: usize| replay.regions.iter().map(|of| of.counts[query]).sum::<u8>();
        assert!((0..3000).all(|query| (2..=6).contains(&lines(query))), "{}", structure.name());
        for (batch, threads) in [(1, 1), (64, 2), (5000, 3)] {
            assert!(replay.rate(2, batch, threads).unwrap() > 0.0, "{}", structure.name());
        }
    }
    let other = Structure::HashBrown.prepare(&set, BuildConfig::table()).unwrap()().unwrap();
    assert!(Replay::of(&*other, KeyForms::default().queries(&set)).is_none());
}
