//! Every kind of names: the output equals that of the reference, frame by frame.

use super::frames::{Protocol, Spec, WORLD, label, mac, specs, v4, v6};
use super::reference::{Names, Reference};
use super::rig::{Rig, Setting, port};
use proptest::prelude::*;
use scalebricks_elements::flat::{
    Action, Base, BytesAt, FlatName, FlatTuple, Length, NameBytes, NameKind, UnknownNamePolicy,
};
use scalebricks_types::FiveTuple;
use scalebricks_wire::MacAddr;
use std::time::Duration;

pub fn actions() -> impl Strategy<Value = Action> {
    let hop = (0..4_usize, 1..4_u8).prop_map(|(to, hop)| Action::Route {
        port: port(to),
        next_hop: MacAddr([0x02, 0, 0, 0, 7, hop]),
        source: MacAddr([0x02, 0, 0, 0, 8, hop]),
    });
    prop_oneof![
        4 => (0..4_usize).prop_map(|to| Action::Forward(port(to))),
        2 => hop,
        1 => Just(Action::Drop),
        1 => Just(Action::Flood),
    ]
}

/// A name that generated frames may have.
pub fn name(kind: NameKind, n: u8, m: u8) -> Option<FlatName> {
    Some(match kind {
        NameKind::Mac if n == 0 => return None,
        NameKind::Mac => FlatName::Mac(MacAddr(mac(n))),
        NameKind::Ipv4 => FlatName::Ipv4(v4(n)),
        NameKind::Ipv6 => FlatName::Ipv6(v6(n)),
        NameKind::Bytes(at) => match at.length() {
            Length::Fixed(6) => FlatName::Bytes(NameBytes::new(&mac(n)).unwrap()),
            _ => FlatName::Bytes(NameBytes::new(&label(n)).unwrap()),
        },
        NameKind::Tuple { with_port } => {
            let (src, dst) = match m & 1 {
                0 => (v4(m % 3).into(), v4(n).into()),
                _ => (v6(m % 3).into(), v6(n).into()),
            };
            let (protocol, src_port, dst_port) = match m / 2 % 3 {
                0 => (17, 1_000 + u16::from(m / 6 % 2), 80 + u16::from(m / 12 % 3)),
                1 => (6, 1_000 + u16::from(m / 6 % 2), 80 + u16::from(m / 12 % 3)),
                _ => (253, 0, 0),
            };
            let tuple = FiveTuple { src, dst, protocol, src_port, dst_port };
            FlatName::Tuple(FlatTuple::new(with_port.then(|| port(usize::from(m % 4))), tuple).unwrap())
        }
    })
}

pub fn kinds() -> Vec<NameKind> {
    let payload = Spec::payload_offset(false, Protocol::Udp);
    vec![
        NameKind::Mac,
        NameKind::Ipv4,
        NameKind::Ipv6,
        NameKind::Tuple { with_port: false },
        NameKind::Tuple { with_port: true },
        NameKind::Bytes(BytesAt::new(Base::Frame, 0, Length::Fixed(6)).unwrap()),
        NameKind::Bytes(BytesAt::new(Base::Payload, payload, Length::Prefix16).unwrap()),
        NameKind::Bytes(BytesAt::new(Base::Payload, payload + 1, Length::Prefix8).unwrap()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_leaves_is_what_the_reference_says(
        names in proptest::collection::vec((0..WORLD, any::<u8>(), actions()), 0..40),
        groups in proptest::collection::vec(proptest::option::of(0..2_u16), 4),
        floods in any::<bool>(),
        frames in proptest::collection::vec((0..4_usize, specs()), 1..80),
    ) {
        for kind in kinds() {
            let unknown = if floods && kind == NameKind::Mac { UnknownNamePolicy::Flood } else { UnknownNamePolicy::Drop };
            let setting = Setting { groups: groups.clone(), ..Setting::new(kind, unknown) };
            let mut rig = Rig::new(&setting);
            let names: Names =
                names.iter().filter_map(|&(n, m, action)| Some((name(kind, n, m)?, action))).collect();
            rig.names(&names.clone().into_iter().collect::<Vec<_>>());
            let reference = Reference { kind, unknown, groups: &groups, names: &names };
            for (from, spec) in &frames {
                let frame = spec.frame();
                let left = rig.one(*from, &frame);
                prop_assert_eq!(left, reference.forward(*from, &frame), "{:?} {:?}", kind, spec);
            }
            rig.check_books();
        }
    }

    /// Bursts give the same result as single frames, in the order of each port.
    #[test]
    fn bursts_are_frames_one_after_another(
        names in proptest::collection::vec((0..WORLD, any::<u8>(), actions()), 0..40),
        frames in proptest::collection::vec(specs(), 1..32),
        from in 0..4_usize,
    ) {
        for kind in kinds() {
            let setting = Setting::new(kind, UnknownNamePolicy::Drop);
            let names: Names =
                names.iter().filter_map(|&(n, m, action)| Some((name(kind, n, m)?, action))).collect();
            let list: Vec<_> = names.into_iter().collect();
            let (mut whole, mut single) = (Rig::new(&setting), Rig::new(&setting));
            whole.names(&list);
            single.names(&list);
            let bytes: Vec<Vec<u8>> = frames.iter().map(Spec::frame).collect();
            let burst: Vec<(usize, &[u8])> = bytes.iter().map(|frame| (from, frame.as_slice())).collect();
            let left = whole.push(&burst, Duration::ZERO);
            let mut wanted = vec![Vec::new(); 4];
            for frame in &bytes {
                wanted.iter_mut().zip(single.one(from, frame)).for_each(|(all, one)| all.extend(one));
            }
            prop_assert_eq!(left, wanted);
            prop_assert_eq!(whole.counts(from), single.counts(from));
        }
    }
}
