//! Builds: correct, deterministic, and equal to golden vectors.

use super::*;

#[test]
fn every_format_and_width_answers_every_key() {
    let (count, partitions) = if cfg!(miri) { (20, 1) } else { (6000, 2) };
    for (format, narrow) in Format::ALL.into_iter().zip([true, false].into_iter().cycle()) {
        if cfg!(miri) && !matches!(format, Format::Linear | Format::Paper8x16) {
            continue; // minutes, and the unsafe code is in the kernels, which have tests of their own
        }
        let widths = match (cfg!(miri), narrow) {
            (false, _) => 1..=8,
            (true, true) => 1..=1,
            (true, false) => 8..=8,
        };
        for bits in widths {
            let params = params_in(format, count, bits, partitions);
            let entries = entries(count, bits, u64::from(bits));
            let control = SetSepBuilder::new(params).build(&entries).unwrap();
            assert_eq!(control.len(), count);
            assert_answers(&Arc::new(control.export()), &entries);
            assert!(entries.iter().all(|&(hash, value)| control.get(hash) == Some(value)));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_table_alone_is_the_export_of_its_control_structure() {
    for format in Format::ALL {
        for (count, bits, partitions) in [(0, 2, 1), (1, 8, 4), (3000, 1, 2), (90_000, 2, 4), (90_000, 5, 1)]
        {
            let entries = entries(count, bits, 3);
            let builder = SetSepBuilder::new(params_in(format, count, bits, partitions)).threads(2);
            let (hashes, values): (Vec<_>, Vec<_>) = entries.iter().copied().unzip();
            let table = builder.build_table(&hashes, &values).unwrap();
            assert!(
                bytes_of(&table) == bytes_of(&builder.build(&entries).unwrap().export()),
                "{format}, {count}"
            );
            let apart = builder.build_from(&hashes, &values).unwrap();
            assert!(apart.iter().eq(builder.build(&entries).unwrap().iter()), "{format}, {count}");
        }
    }
}

/// Keys that concentrate in few blocks do not fit their stretch's region, but are built all the same.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn crowded_keys_are_built_too() {
    let params = params(400_000, 2, 1);
    let crowd = |i: u64| (KeyHash::new(mix64(i) >> 7), (i & 3) as u8);
    let entries: Vec<_> = (0..3500).map(crowd).collect();
    let control = SetSepBuilder::new(params).threads(2).build(&entries).unwrap();
    assert_answers(&Arc::new(control.export()), &entries);
    let (hashes, values): (Vec<_>, Vec<_>) = entries.iter().copied().unzip();
    assert!(
        bytes_of(&SetSepBuilder::new(params).build_table(&hashes, &values).unwrap())
            == bytes_of(&control.export())
    );
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn the_order_of_keys_and_the_number_of_threads_do_not_matter() {
    let count = 20_000;
    let params = params(count, 2, 4);
    let mut entries = entries(count, 2, 9);
    let reference = control_bytes(&SetSepBuilder::new(params).build(&entries).unwrap());
    for threads in 1..=4 {
        entries.sort_by_key(|entry| mix64(entry.0.get() ^ threads as u64));
        let built = SetSepBuilder::new(params).threads(threads).build(&entries).unwrap();
        assert!(control_bytes(&built) == reference, "{threads} threads");
    }
}

/// CRC-32 of the canonical serialisation of 3000 fixed keys in each format. A change here is a change of the
/// format: nodes with different versions in one cluster would disagree.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn golden_vectors() {
    for at_once in [SearchBits::Pairs, SearchBits::Together] {
        let found = GOLDEN.map(|(format, bits, _)| {
            let builder = SetSepBuilder::new(params_in(format, 3000, bits, 1)).bits_at_once(at_once);
            let bytes = bytes_of(&builder.build(&entries(3000, bits, 1)).unwrap().export());
            let (state, _checksum) = bytes.split_at(bytes.len() - 4); // with it, the CRC would be a constant
            (format, bits, crc32fast::hash(state))
        });
        assert!(found == GOLDEN, "{at_once:?}: {found:#x?}");
    }
}

const GOLDEN: [(Format, u8, u32); 12] = [
    (Format::Linear, 1, 0xd17c_a582),
    (Format::Linear, 2, 0xf867_4cfd),
    (Format::Linear, 8, 0xec82_a6fe),
    (Format::Dense, 2, 0x703a_c9cb),
    (Format::Paper16x8, 1, 0x980d_f07c),
    (Format::Paper16x8, 2, 0xdb9c_52e5),
    (Format::Paper8x16, 2, 0xf4e8_2f28),
    (Format::Paper8x16, 8, 0x3d7e_4992),
    (Format::Paper16x16, 2, 0xc10e_feb5),
    (Format::Paper16x16, 8, 0x768c_31be),
    (Format::Brute, 2, 0x3334_f42f),
    (Format::Brute, 8, 0x65cb_dfa3),
];

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn bad_input_is_named() {
    let params = params(3000, 2, 4);
    let good = entries(2000, 2, 5);
    let build = |entries: &[(KeyHash, u8)]| SetSepBuilder::new(params).build(entries).err();
    let twice = [&good[..], &good[1234..1235]].concat();
    assert_eq!(build(&twice), Some(BuildError::Duplicate(good[1234].0)));
    let wide = [&good[..], &[(KeyHash::new(77), 4)]].concat();
    assert_eq!(build(&wide), Some(BuildError::Value { value: 4, bits: 2 }));
    let crowd: Vec<_> = (0..=params.format().block_capacity() as u64).map(|i| (KeyHash::new(i), 0)).collect();
    assert!(matches!(build(&crowd), Some(BuildError::Full(Full::Block { block: 0, need: 1985, .. }))));
    let some = SetSepBuilder::new(params).partitions([scalebricks_types::PartitionId(2)]);
    assert!(matches!(some.build(&good), Err(BuildError::NotHeld(_))));
    let held: Vec<_> = good.iter().copied().filter(|e| e.0.get() >> 62 == 2).collect();
    let control = some.build(&held).unwrap();
    assert_eq!(control.len() as usize, held.len());
    assert_answers(&Arc::new(control.export()), &held);
}

#[test]
fn parameters_are_checked() {
    let one = PartitionCount::ONE;
    assert_eq!(Params::new(1, 0, one), Err(ParamsError::ValueBits(0)));
    assert_eq!(Params::new(1, 9, one), Err(ParamsError::ValueBits(9)));
    assert_eq!(Params::new(0, 1, one), Err(ParamsError::Blocks { blocks: 0, partitions: 1 }));
    assert_eq!(Params::new(1 << 25, 1, one), Err(ParamsError::TooManyBlocks(1 << 25)));
    assert!(matches!(Params::new(1 << 24, 8, one), Err(ParamsError::PartitionTooLarge { .. })));
    let eight = PartitionCount::new(8).unwrap();
    assert_eq!(Params::new(12, 1, eight), Err(ParamsError::Blocks { blocks: 12, partitions: 8 }));
    assert_eq!(Params::for_keys(10_000, 1, eight).unwrap().blocks(), 8);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn two_bit_values_cost_at_most_3_3_bits_a_key() {
    let count = 1_000_000;
    let control = SetSepBuilder::new(params(count, 2, 1)).threads(2).build(&entries(count, 2, 2)).unwrap();
    let table = control.export();
    let bits = table.stats().bits_per_key(count);
    assert!(bits <= 3.3, "{bits} bits a key");
    assert!(control.stats().bits_per_key <= bits, "{:?}", control.stats());
}
