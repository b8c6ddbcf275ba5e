//! Arbitrary frames cause no panic, and every frame is counted.

use super::frames::{Protocol, Spec, specs};
use super::kinds::{actions, kinds, name};
use super::rig::{Rig, Setting};
use proptest::prelude::*;
use scalebricks_elements::flat::UnknownNamePolicy;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_taken(
        names in proptest::collection::vec((0..12_u8, any::<u8>(), actions()), 0..20),
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 1..30),
    ) {
        for kind in kinds() {
            for unknown in [UnknownNamePolicy::Drop, UnknownNamePolicy::Flood, UnknownNamePolicy::Answer] {
                let mut rig = Rig::new(&Setting::new(kind, unknown));
                for (n, m, action) in &names {
                    if let Some(name) = name(kind, *n, *m) {
                        let _twice = rig.table.apply(&[scalebricks_elements::flat::NameOp::Add(name, *action)]);
                    }
                }
                for frame in &frames {
                    rig.one(1, frame);
                }
                let counts = rig.counts(1);
                prop_assert_eq!(counts.get("rx_frames"), frames.len() as u64);
                rig.check_books();
            }
        }
    }

    #[test]
    fn frames_cut_anywhere_and_flipped_anywhere_are_taken(
        spec in specs(),
        action in actions(),
        flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6),
    ) {
        let mut frame = spec.frame();
        for (at, bits) in flips {
            let at = usize::from(at) % frame.len();
            frame[at] ^= bits;
        }
        for kind in kinds() {
            let mut rig = Rig::new(&Setting::new(kind, UnknownNamePolicy::Answer));
            if let Some(name) = name(kind, spec.dst, spec.src) {
                rig.names(&[(name, action)]);
            }
            for length in 0..=frame.len() {
                rig.one(0, &frame[..length]);
            }
            prop_assert_eq!(rig.count(0, "rx_frames"), frame.len() as u64 + 1);
            rig.check_books();
        }
    }
}

#[test]
fn what_is_too_short_for_its_name_is_told() {
    let spec = Spec {
        mac: 1,
        vlan: Some(9),
        is_v6: false,
        src: 1,
        dst: 2,
        protocol: Protocol::Udp,
        src_port: 1,
        dst_port: 2,
        ttl: 3,
        label: 4,
    };
    let frame = spec.frame();
    for kind in kinds() {
        let mut rig = Rig::new(&Setting::new(kind, UnknownNamePolicy::Drop));
        rig.one(0, &[]);
        rig.one(0, &frame[..5]);
        assert_eq!(rig.count(0, "truncated"), 2, "{kind:?}");
    }
}
