//! Builds: correct, deterministic, equal to golden vectors; and the quality of positions and checksums.

use super::*;

#[test]
fn every_width_answers_every_name() {
    let count = if cfg!(miri) { 20 } else { 3000 };
    for (bits, checks) in [(1, 0), (2, 0), (3, 0), (5, 6), (8, 0), (11, 13), (16, 0), (16, 8)] {
        if cfg!(miri) && bits > 3 {
            continue;
        }
        let params = params(count, bits, 2).with_check_bits(checks).unwrap();
        let entries = entries(count, bits, u64::from(bits));
        let control = OthelloBuilder::new(params).build(&entries).unwrap();
        assert_eq!(control.len(), count);
        assert_answers(&Arc::new(control.export()), &entries);
        assert!(entries.iter().all(|&(hash, value)| control.get(hash) == Some(value)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn every_sizing_is_built_alike_by_any_number_of_threads_in_any_order() {
    for sizing in Sizing::ALL {
        for (count, bits, parts) in [(0, 2, 1), (1, 16, 4), (3000, 1, 2), (60_000, 2, 4), (60_000, 5, 1)] {
            let params = Params::sized(sizing, count, bits, partitions(parts)).unwrap();
            let mut entries = entries(count, bits, 3);
            let (hashes, values): (Vec<_>, Vec<_>) = entries.iter().copied().unzip();
            let builder = OthelloBuilder::new(params);
            let control = builder.build(&entries).unwrap();
            let table = builder.build_table(&hashes, &values).unwrap();
            assert!(bytes_of(&table) == bytes_of(&control.export()), "{sizing}, {count}");
            assert_answers(&Arc::new(table), &entries);
            let reference = control_bytes(&control);
            assert!(
                control_bytes(&builder.build_from(&hashes, &values).unwrap()) == reference,
                "{sizing}, apart"
            );
            for threads in [2, 3] {
                entries.sort_by_key(|entry| mix64(entry.0.get() ^ threads as u64));
                let built = OthelloBuilder::new(params).threads(threads).build(&entries).unwrap();
                assert!(control_bytes(&built) == reference, "{sizing}, {threads} threads");
            }
        }
    }
}

/// CRC-32 of the canonical serialisation of 3500 fixed names in each sizing. A change here is a change of the
/// format: nodes with different versions in one cluster would disagree.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn golden_vectors() {
    let found = Sizing::ALL.map(|sizing| {
        let params = Params::sized(sizing, 3500, 3, partitions(1)).unwrap().with_seed(7);
        let bytes = bytes_of(&OthelloBuilder::new(params).build(&entries(3500, 3, 1)).unwrap().export());
        let (state, _checksum) = bytes.split_at(bytes.len() - 4); // with it, the CRC would be a constant
        crc32fast::hash(state)
    });
    assert_eq!(found.map(|crc| format!("{crc:08x}")), GOLDEN);
}

const GOLDEN: [&str; 4] = ["fa91a1a9", "ef6f3a4e", "79d4aa64", "15446b3b"];

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn bad_input_is_named_and_a_builder_may_take_more_ranges() {
    let params = params(3000, 2, 4);
    let good = entries(2000, 2, 5);
    let build = |entries: &[(KeyHash, u16)]| OthelloBuilder::new(params).build(entries).err();
    let twice = [&good[..], &good[1234..1235]].concat();
    assert_eq!(build(&twice), Some(BuildError::Duplicate(good[1234].0)));
    let wide = [&good[..], &[(KeyHash::new(77), 4)]].concat();
    assert_eq!(build(&wide), Some(BuildError::Value { value: 4, bits: 2 }));
    let crowd: Vec<_> = (0..=params.capacity() as u64).map(|i| (KeyHash::new(i), 0)).collect();
    assert!(matches!(build(&crowd), Some(BuildError::Full(Full::Names { range: 0, .. }))));
    let some = OthelloBuilder::new(params).partitions([scalebricks_types::PartitionId(2)]);
    assert!(matches!(some.build(&good), Err(BuildError::NotHeld(_))));
    let held: Vec<_> = good.iter().copied().filter(|e| e.0.get() >> 62 == 2).collect();
    let control = some.build(&held).unwrap();
    assert_eq!(control.len() as usize, held.len());
    assert_answers(&Arc::new(control.export()), &held);
    let many = entries(9000, 2, 5);
    assert!(matches!(build(&many), Some(BuildError::Full(_))));
    let grown = OthelloBuilder::new(params).may_grow().build(&many).unwrap();
    assert!(grown.params().ranges() > params.ranges());
    assert_answers(&Arc::new(grown.export()), &many);
}

#[test]
fn parameters_are_checked() {
    let one = PartitionCount::ONE;
    assert_eq!(Params::new(one, 1, [4, 4], 0), Err(ParamsError::ValueBits(0)));
    assert_eq!(Params::new(one, 1, [4, 4], 17), Err(ParamsError::ValueBits(17)));
    assert_eq!(Params::new(one, 0, [4, 4], 1), Err(ParamsError::Ranges(0)));
    assert_eq!(Params::new(partitions(4), 1 << 22, [4, 4], 1), Err(ParamsError::Ranges(1 << 24)));
    assert_eq!(Params::new(one, 1, [0, 4], 1), Err(ParamsError::Slots(0)));
    assert!(matches!(Params::new(one, 1, [1 << 30; 2], 1), Err(ParamsError::PartitionTooLarge { .. })));
    let params = Params::new(one, 1, [4, 4], 16).unwrap();
    assert_eq!(params.with_check_bits(9), Err(ParamsError::Width { value_bits: 16, check_bits: 9 }));
    assert_eq!(params.with_check_bits(255), Err(ParamsError::Width { value_bits: 16, check_bits: 255 }));
    let params = params.with_check_bits(8).unwrap().with_seed(9);
    assert_eq!(Params::decode(&params.encode()), Some(Ok(params)));
    let paper = |sizing| Params::sized(sizing, 100_000, 2, one).unwrap().slots();
    assert_eq!(paper(Sizing::Option1), [1 << 18; 2]);
    assert_eq!(paper(Sizing::Option2), [1 << 18, 1 << 17]);
    assert_eq!(paper(Sizing::Tight), [116_667; 2]);
    let shards = Params::for_keys(100_000, 2, one).unwrap();
    assert_eq!((shards.slots(), shards.ranges()), ([255; 2], 100_000u32.div_ceil(218)));
}

#[test]
fn a_partition_is_a_whole_number_of_ranges() {
    let params = Params::new(partitions(8), 5, [4, 4], 1).unwrap();
    let places = placement::Placement::of(&params);
    for i in 0..if cfg!(miri) { 100 } else { 10_000_u64 } {
        let hash = KeyHash::new(mix64(i));
        let (partition, range) = params.locate(hash);
        assert_eq!(partition, params.partitions().of(hash));
        assert_eq!(u32::from(partition.0) * 5 + range, places.range(hash.get()));
    }
}

/// A random bipartite graph of n edges on m + m nodes has no cycle with probability sqrt(1 - (n/m)²), for large m.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn positions_are_as_good_as_random() {
    for (names, structured) in [(128u64, false), (192, false), (220, false), (192, true)] {
        let params = Params::new(PartitionCount::ONE, 1, [256; 2], 1).unwrap();
        let mut store = store::Store::new(&params);
        let mut colouring = colour::Colouring::default();
        let (rounds, mut suited) = (40, 0);
        for round in 0..rounds {
            // Structured: names that differ only in a few low bits.
            let hash = |i: u64| if structured { round << 32 | i } else { mix64(i << 20 | round) };
            let names: Vec<(u64, u16)> = (0..names).map(|i| (hash(i), 0)).collect();
            for seed in 0..=u8::MAX {
                store.forget();
                suited += u32::from(store.restore(0, seed, &names, &mut colouring));
            }
        }
        let c = names as f64 / 256.0;
        let (rate, wanted) = (f64::from(suited) / (rounds as f64 * 256.0), (1.0 - c * c).sqrt());
        assert!((rate - wanted).abs() < 0.05, "{names} names, structured: {structured}: {rate} and {wanted}");
    }
}

/// Names that share 32 bits of their hashes, or differ in one bit only, have different slots under nearly all
/// seeds.
#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
fn no_two_names_are_inseparable() {
    let params = Params::new(PartitionCount::ONE, 1, [256; 2], 1).unwrap();
    let places = placement::Placement::of(&params);
    let together = |one: u64, other: u64| {
        let seeds = 0..=u8::MAX;
        seeds.filter(|&seed| places.pair(one, seed) == places.pair(other, seed)).count()
    };
    for i in 0..500 {
        let (hash, other) = (mix64(i), mix64(!i));
        let low = hash & 0xFFFF_FFFF | other & !0xFFFF_FFFF;
        let high = hash & !0xFFFF_FFFF | other & 0xFFFF_FFFF;
        assert!(together(hash, low) <= 3 && together(hash, high) <= 3);
        (0..64).for_each(|bit| assert!(together(hash, hash ^ 1 << bit) <= 8, "{hash:x}, bit {bit}"));
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn checksums_tell_all_but_one_in_so_many_strangers() {
    let count = 20_000;
    for bits in [4, 8, 12] {
        let params = params(count, 2, 1).with_check_bits(bits).unwrap();
        let table = Arc::new(OthelloBuilder::new(params).build(&entries(count, 2, 0)).unwrap().export());
        let strangers: Vec<KeyHash> = entries(100_000, 2, 99).into_iter().map(|entry| entry.0).collect();
        let mut found = vec![None; strangers.len()];
        OthelloReader::new(table).check_batch(&strangers, &mut found);
        let passed = found.iter().flatten().count() as f64;
        let expected = strangers.len() as f64 / f64::from(1 << bits);
        assert!((passed - expected).abs() < 6.0 * expected.sqrt(), "{bits} bits: {passed} and {expected}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn two_bit_values_cost_less_than_five_bits_a_name_and_names_less_than_forty_bytes() {
    let count = 1_000_000;
    let control = OthelloBuilder::new(params(count, 2, 1)).threads(2).build(&entries(count, 2, 2)).unwrap();
    let bits = control.export().stats().bits_per_key(count);
    assert!(bits < 5.0, "{bits} bits a name");
    assert!(control.control_bytes() < 40 * count as usize);
    assert!(control.stats().room > 0, "{:?}", control.stats());
}
