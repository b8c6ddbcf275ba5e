//! The paper's functions against their formulas over bytes, and the keyed function's properties.

use super::super::*;
use super::{SECRET, long_session, session};
use crate::isa::Isa;
use proptest::prelude::*;
use scalebricks_types::HashSeed;

/// CRC-32C bit by bit, as polynomial division of the reflected message; starts with 0, inverts nothing.
fn crc(parts: &[&[u8]]) -> u32 {
    parts.concat().iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 },
        )
    })
}

/// The paper's formulas over addresses and ports in network byte order.
fn formula(signature: Signature, s: &[u8], d: &[u8], sp: u16, dp: u16) -> u32 {
    let xor = |a: &[u8], b: &[u8]| -> Vec<u8> { a.iter().zip(b).map(|(a, b)| a ^ b).collect() };
    let (sp, dp) = (sp.to_be_bytes(), dp.to_be_bytes());
    let p = xor(&sp, &dp);
    let value = match signature {
        Signature::Xor => {
            let words = xor(s, d);
            let words = words.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap()));
            words.fold(0, |a, b| a ^ b) ^ u32::from(u16::from_be_bytes([p[0], p[1]]))
        }
        Signature::CrcOfXor => crc(&[&xor(s, d), &p]),
        Signature::MirroredCrc => crc(&[s, d, &p]) ^ crc(&[d, s, &p]),
        Signature::TwoHalves => crc(&[s, d, &sp, &dp]) >> 16 << 16 | crc(&[d, s, &dp, &sp]) >> 16,
        Signature::TwoHalvesCanonical => {
            let four = crc(&[s, d, &sp, &dp]) >> 16 << 16 | crc(&[d, s, &dp, &sp]) >> 16;
            four.min(four.rotate_left(16))
        }
        Signature::Keyed => unreachable!("no formula"),
    };
    if value == 0 { 0x0001_0001 } else { value }
}

fn address() -> impl Strategy<Value = u128> {
    prop_oneof![0..4_u128, any::<u128>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_has_the_hashes_of_its_keys(ends in prop::collection::vec((address(), address(), any::<u16>(), any::<u16>()), 0..40)) {
        fn compare<K: FlowKey>(keys: &[K]) {
            for (signature, isa) in Signature::ALL.into_iter().flat_map(|one| Isa::available().map(move |isa| (one, isa))) {
                let hasher = FlowHasher::with_isa(signature, SECRET, isa);
                let mut hashes = vec![FlowHash::default(); keys.len() + 1];
                hasher.hash_batch(keys, &mut hashes);
                for (key, hash) in keys.iter().zip(&hashes) {
                    assert_eq!(hasher.hash(key), *hash, "{key:?}, {signature:?}, {isa}");
                }
                assert_eq!(hashes.last(), Some(&FlowHash::default()), "behind the last key");
            }
        }
        let of4 = |&(s, d, sp, dp): &(u128, u128, u16, u16)| Key4::new((s as u32).into(), (d as u32).into(), 6, sp, dp, 1);
        let of6 = |&(s, d, sp, dp): &(u128, u128, u16, u16)| Key6::new(s.into(), d.into(), 6, sp, dp, 1);
        compare(&ends.iter().map(of4).collect::<Vec<_>>());
        compare(&ends.iter().map(of6).collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn signatures_are_those_of_the_formulas(s in address(), d in address(), sp: u16, dp: u16, protocol: u8, zone: u16) {
        let long = Key6::new(s.into(), d.into(), protocol, sp, dp, zone);
        let (s4, d4) = (s as u32, d as u32);
        let short = Key4::new(s4.into(), d4.into(), protocol, sp, dp, zone);
        for (signature, isa) in Signature::ALL.into_iter().skip(1).flat_map(|one| Isa::available().map(move |isa| (one, isa))) {
            let hasher = FlowHasher::with_isa(signature, SECRET, isa);
            let expected = formula(signature, &s.to_be_bytes(), &d.to_be_bytes(), sp, dp);
            prop_assert_eq!(hasher.hash(&long).signature(), expected, "{:?} {}", signature, isa);
            let expected = formula(signature, &s4.to_be_bytes(), &d4.to_be_bytes(), sp, dp);
            prop_assert_eq!(hasher.hash(&short).signature(), expected, "{:?} {}", signature, isa);
        }
    }

    #[test]
    fn both_directions_have_one_hash(s in address(), d in address(), sp: u16, dp: u16, protocol: u8, zone: u16) {
        fn check<K: FlowKey>(key: &K) {
            for signature in Signature::ALL {
                let hasher = FlowHasher::new(signature, SECRET);
                let (forward, reverse) = (hasher.hash(key), hasher.hash(&key.reversed()));
                let is_symmetric = signature.is_symmetric();
                assert_eq!((forward.index(), forward.pipeline(7)), (reverse.index(), reverse.pipeline(7)));
                assert_eq!(forward.start(is_symmetric), reverse.start(is_symmetric));
                assert!(forward.signature() != 0);
                if is_symmetric {
                    assert_eq!(forward, reverse);
                } else {
                    assert_eq!(forward.signature(), reverse.signature().rotate_left(16));
                }
            }
        }
        check(&Key4::new((s as u32).into(), (d as u32).into(), protocol, sp, dp, zone));
        check(&Key6::new(s.into(), d.into(), protocol, sp, dp, zone));
    }

    /// Each field of the key counts.
    #[test]
    fn other_sessions_have_other_keyed_hashes(s: u128, d: u128, sp: u16, dp: u16, protocol: u8, zone: u16, bit in 0..312_u32) {
        let hasher = FlowHasher::new(Signature::Keyed, SECRET);
        let long = Key6::new(s.into(), d.into(), protocol, sp, dp, zone);
        let flip = |from: u32, bits: u32| if (from..from + bits).contains(&bit) { 1_u128 << (bit - from) } else { 0 };
        let (s2, d2) = (s ^ flip(0, 128), d ^ flip(128, 128));
        let (sp2, dp2) = (sp ^ flip(256, 16) as u16, dp ^ flip(272, 16) as u16);
        let (protocol2, zone2) = (protocol ^ flip(288, 8) as u8, zone ^ flip(296, 16) as u16);
        let other = Key6::new(s2.into(), d2.into(), protocol2, sp2, dp2, zone2);
        if other != long.reversed() {
            prop_assert_ne!(hasher.hash(&long), hasher.hash(&other));
        }
        let short = Key4::new((s as u32).into(), (d as u32).into(), protocol, sp, dp, zone);
        let other = Key4::new((s2 as u32).into(), (d2 as u32).into(), protocol2, sp2, dp2, zone2);
        if other != short && other != short.reversed() {
            prop_assert_ne!(hasher.hash(&short), hasher.hash(&other));
        }
    }
}

#[test]
fn zero_becomes_a_constant_that_is_its_own_reverse() {
    assert_eq!(INSTEAD_OF_ZERO, INSTEAD_OF_ZERO.rotate_left(16));
    assert_eq!(FlowHash::from_parts(5, 0).signature(), INSTEAD_OF_ZERO);
    // Both addresses and both ports equal: signatures 1 to 3 are computed as 0. All zeros: also 4.
    let zeros = Key4::new(0.into(), 0.into(), 6, 0, 0, 0);
    for signature in Signature::ALL.into_iter().skip(1) {
        let config = Config { signature, ..super::fixed(1, 0) };
        let mut table = DHash::new(&config, Records::new()).unwrap();
        assert_eq!(table.hash(&zeros).signature(), INSTEAD_OF_ZERO);
        let added = table.find_or_add(&zeros).unwrap();
        assert_eq!(table.find(&zeros.reversed()).map(|found| found.record), Some(added.record));
    }
}

/// The literal reading of signature 3 does not depend on the ports.
#[test]
fn signature_3_ignores_ports() {
    let hasher = FlowHasher::new(Signature::MirroredCrc, SECRET);
    let of =
        |sp, dp| hasher.hash(&Key4::new(0x0A01_0203.into(), 0xC633_6401.into(), 6, sp, dp, 0)).signature();
    assert!((0..100).all(|port| of(port, 80) == of(1, 2)));
}

/// Without the secret nothing is known: of structured keys, another secret gives other buckets and signatures.
#[test]
fn the_keyed_hash_depends_on_the_secret() {
    let [one, two] = [1, 2].map(|word| FlowHasher::new(Signature::Keyed, HashSeed::new(word, 0)));
    for number in 0..50 {
        assert_ne!(one.hash(&session(number)), two.hash(&session(number)));
        assert_ne!(one.hash(&long_session(number)), two.hash(&long_session(number)));
    }
}

/// Chi-square of a table of counts, in standard deviations above its mean.
fn deviation(counts: &[u32]) -> f64 {
    let mean = counts.iter().map(|&count| f64::from(count)).sum::<f64>() / counts.len() as f64;
    let chi: f64 = counts.iter().map(|&count| (f64::from(count) - mean).powi(2) / mean).sum();
    let free = counts.len() as f64 - 1.0;
    (chi - free) / (2.0 * free).sqrt()
}

/// Some bits of a hash, and what they are.
type Part = (&'static str, fn(FlowHash) -> u32);

/// Bucket, pipeline and bits of the signature are pairwise independent for structured sessions.
#[test]
#[cfg_attr(miri, ignore = "too many sessions")]
fn bucket_signature_and_pipeline_are_independent() {
    let hasher = FlowHasher::new(Signature::Keyed, SECRET);
    let hashes: Vec<FlowHash> = (0..200_000).map(|number| hasher.hash(&session(number))).collect();
    let parts: [Part; 8] = [
        ("bucket, upper bits", |hash| hash.index() >> 28),
        ("bucket, lower bits", |hash| hash.index() & 15),
        ("signature, upper bits", |hash| hash.signature() >> 28),
        ("signature, lower bits", |hash| hash.signature() & 15),
        ("signature, middle", |hash| hash.signature() >> 14 & 15),
        ("pipeline", |hash| hash.pipeline(16)),
        ("pipeline of 7", |hash| hash.pipeline(7)),
        ("bucket, middle", |hash| hash.index() >> 15 & 15),
    ];
    for (at, (name, part)) in parts.iter().enumerate() {
        for (other_name, other) in &parts[..at] {
            let (rows, columns) = if name.contains('7') { (7, 16) } else { (16, 16) };
            let columns = if other_name.contains('7') { 7 } else { columns };
            if name.contains("pipeline") && other_name.contains("pipeline") {
                continue; // two numbers of pipelines share their bits
            }
            let mut counts = vec![0; rows * columns];
            for &hash in &hashes {
                counts[part(hash) as usize * columns + other(hash) as usize] += 1;
            }
            let deviation = deviation(&counts);
            assert!(deviation.abs() < 5.0, "{name} and {other_name}: {deviation}");
        }
    }
}

/// A pipeline's sessions fill all buckets of its own table: the balancer takes other bits than the bucket.
#[test]
#[cfg_attr(miri, ignore = "too many sessions")]
fn the_sessions_of_one_pipeline_fill_its_table_evenly() {
    let hasher = FlowHasher::new(Signature::Keyed, SECRET);
    let mut table = DHash::new(&Config::for_sessions(30_000, SECRET), Records::new()).unwrap();
    let of_pipeline = (0..).map(session).filter(|key| hasher.hash(key).pipeline(7) == 3);
    of_pipeline.take(30_000).for_each(|key| assert!(table.add(&key).unwrap().is_some()));
    let share = table.in_lists() as f64 / table.len() as f64;
    assert!((0.004..0.007).contains(&share), "{share}");
}

#[test]
fn names_are_distinct_and_no_pipeline_is_pipeline_0() {
    let mut names: Vec<_> = Signature::ALL.into_iter().map(Signature::name).collect();
    names.dedup();
    assert_eq!(names.len(), Signature::ALL.len());
    let hash = FlowHasher::new(Signature::Keyed, SECRET).hash(&session(1));
    assert_eq!((hash.pipeline(0), hash.pipeline(1)), (0, 0));
    assert_eq!(Signature::default(), Signature::Keyed);
}
