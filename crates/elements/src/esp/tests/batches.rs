//! Several packets at once have the same results as one by one.

use super::super::inbound::{Inbound, OpenError, Opening, Outer};
use super::super::inner::Inner;
use super::super::outbound::{Outbound, SealError, Sealing};
use super::super::suite::{Cipher, Work};
use super::{opened, sa, sealed};
use crate::rig::ipv4_of;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use scalebricks_io::{Packet, PacketBuf, Pool};

fn works(packets: &mut [(Vec<u8>, u64)]) -> Vec<Work<'_>> {
    packets.iter_mut().map(|(esp, sequence)| Work { esp, sequence: *sequence, result: Ok(()) }).collect()
}

/// Octets of any length, often whole blocks, since others are refused with CBC.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    (0..30usize, prop_oneof![4 => Just(36usize), 1 => 0..64usize], any::<u8>())
        .prop_map(|(blocks, rest, octet)| (0..16 * blocks + rest).map(|at| at as u8 ^ octet).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn ciphers_do_the_same_with_many(
        is_gcm: bool, esn: bool, packets in prop::collection::vec((octets(), any::<u64>()), 0..40),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..9),
    ) {
        let cipher = Cipher::new(&sa(is_gcm, false, "").keys).unwrap();
        let (mut many, mut single) = (packets.clone(), packets);
        let mut batch = works(&mut many);
        cipher.seal_many(&mut batch, esn);
        let results: Vec<_> = batch.iter().map(|work| work.result).collect();
        let expected: Vec<_> = single.iter_mut().map(|(esp, sequence)| cipher.seal(esp, *sequence, esn)).collect();
        prop_assert_eq!((results, &many), (expected, &single));
        for (packet, at) in damage {
            let which = packet.index(many.len().max(1));
            if let Some((esp, _)) = many.get_mut(which)
                && !esp.is_empty()
            {
                let at = at.index(esp.len());
                esp[at] ^= 1;
            }
        }
        single = many.clone();
        let mut batch = works(&mut many);
        cipher.open_many(&mut batch, esn);
        let results: Vec<_> = batch.iter().map(|work| work.result).collect();
        let expected: Vec<_> = single.iter_mut().map(|(esp, sequence)| cipher.open(esp, *sequence, esn)).collect();
        prop_assert_eq!(&results, &expected);
        for ((one, other), result) in many.iter().zip(&single).zip(results) {
            prop_assert!(result.is_err() || one == other);
        }
    }

    /// Lengths that do not fit and lifetimes that end are where they are one by one.
    #[test]
    fn senders_do_the_same_with_many(
        is_gcm: bool, is_v6: bool, is_in_udp: bool, esn: bool, hard in 1..60u64, first in 0..3u64,
        lens in prop::collection::vec((prop_oneof![9 => 0..300usize, 1 => Just(1_900)], any::<bool>()), 0..70),
    ) {
        let mut pool = Pool::new(200, 2_000).unwrap();
        let lines = format!("esn = {esn}\nhard = {{ packets = {hard} }}\n{}", if is_in_udp { "udp = {}" } else { "" });
        let sa = sa(is_gcm, is_v6, &lines);
        let [mut many, mut single] = [(); 2].map(|()| Outbound::new(sa.clone(), StdRng::seed_from_u64(7)).unwrap());
        if !esn {
            // The last numbers may be used up.
            for end in [&mut many, &mut single] {
                end.reserve(u64::from(u32::MAX) - 20 * first).unwrap();
            }
        }
        let clear: Vec<Vec<u8>> = lens.iter().map(|(len, _)| ipv4_of(|_| {}, &vec![5; *len])).collect();
        let mut packets: Vec<Packet> = clear.iter().map(|bytes| pool.packet(bytes).unwrap()).collect();
        let picked = lens.iter().enumerate().filter(|(_, (_, is_picked))| *is_picked);
        let mut sealings: Vec<Sealing> = picked
            .map(|(at, _)| Sealing { at, inner: Inner::read(&clear[at]).unwrap(), result: Ok(()) })
            .collect();
        many.seal_many(&mut packets, &mut sealings);
        for Sealing { at, result, .. } in &sealings {
            let expected = sealed(&mut single, &mut pool, &clear[*at]);
            let is_same_error = match (result, &expected) {
                // One by one, no number is taken after the end of the lifetime.
                (Err(SealError::Exhausted | SealError::Expired), Err(SealError::Exhausted | SealError::Expired)) => true,
                (one, other) => *one == other.as_ref().map(|_| ()).map_err(|error| *error),
            };
            prop_assert!(is_same_error, "{:?} {:?}", result, expected.as_ref().map(|_| ()));
            if let Ok(expected) = expected {
                prop_assert_eq!(packets[*at].data(), expected.data());
            }
        }
        prop_assert_eq!(many.carried(), single.carried());
        for (at, packet) in packets.iter().enumerate().filter(|(at, _)| !lens[*at].1) {
            prop_assert_eq!(packet.data(), &clear[at][..], "not picked");
        }
    }

    /// Replays, forgeries and numbers far ahead in the middle of a burst have the results that they have one by one.
    #[test]
    fn receivers_do_the_same_with_many(
        is_gcm: bool, is_in_udp: bool, esn: bool, hard in prop_oneof![1 => 1..40u64, 3 => Just(u64::MAX)],
        skips in prop::collection::vec(prop_oneof![
            6 => 0..4u64, 1 => 0..2_000u64, 1 => (1u64 << 32) - 1_100..(1u64 << 32) + 1_100, 1 => 1u64 << 31..1u64 << 33,
        ], 1..40),
        order in prop::collection::vec((any::<prop::sample::Index>(), 0..9u8, any::<prop::sample::Index>()), 0..70),
        warm in 0..3u64,
    ) {
        let mut pool = Pool::new(400, 2_000).unwrap();
        let lines = format!("esn = {esn}\nwindow = 64\n{}", if is_in_udp { "udp = {}" } else { "" });
        let mut of = sa(is_gcm, false, &lines);
        let mut out = Outbound::new(of.clone(), StdRng::seed_from_u64(7)).unwrap();
        let mut sent = Vec::new();
        for (at, skip) in skips.iter().enumerate() {
            out.reserve(if esn { *skip } else { *skip % 5_000 }).ok();
            let elsewhere = at % 11 == 10;
            let clear = ipv4_of(|header| if elsewhere { header.dst = [11, 0, 0, 1].into() }, &vec![7; at * 9]);
            sent.push(sealed(&mut out, &mut pool, &clear).unwrap().data().to_vec());
        }
        of.hard.packets = hard;
        let [mut many, mut single] = [(); 2].map(|()| Inbound::new(of.clone()).unwrap());
        for bytes in sent.iter().take(warm as usize) {
            for end in [&mut many, &mut single] {
                let _ = opened(end, &mut pool.packet(bytes).unwrap());
            }
        }
        let came: Vec<Vec<u8>> = order.iter().map(|(which, how, at)| {
            let mut bytes = sent[which.index(sent.len())].clone();
            let start = of.outer_len();
            match how {
                0 => { let at = start + at.index(bytes.len() - start); bytes[at] ^= 1; }
                1 => bytes[start + 4] ^= 0x80,
                _ => {}
            }
            bytes
        }).collect();
        let mut packets: Vec<Packet> = came.iter().map(|bytes| pool.packet(bytes).unwrap()).collect();
        let mut openings = Vec::new();
        for (at, bytes) in came.iter().enumerate() {
            if let Outer::Esp(place) = Outer::read(bytes) && many.takes(&place) {
                // An end behind the packet is not possible after `Outer::read`, but it must be an error.
                let end = place.end + usize::from(order[at].1 == 2 && at % 5 == 0);
                let place = super::super::inbound::EspPacket { end, ..place };
                openings.push(Opening { at, place, result: Err(OpenError::Dummy) });
            }
        }
        many.open_many(&mut packets, &mut openings);
        for Opening { at, place, result } in &openings {
            let mut packet = pool.packet(&came[*at]).unwrap();
            let mut one = [Opening { at: 0, place: *place, result: Err(OpenError::Dummy) }];
            single.open_many(std::slice::from_mut(&mut packet), &mut one);
            prop_assert_eq!(*result, one[0].result, "{}", at);
            if result.is_ok() {
                prop_assert_eq!(packets[*at].data(), packet.data());
            }
        }
        prop_assert_eq!((many.carried(), many.sequence()), (single.carried(), single.sequence()));
    }
}

/// With ESN, the second of these numbers is right only after the first has moved the window.
#[test]
fn a_number_that_depends_on_the_packet_before_waits_for_it() {
    let mut pool = Pool::new(9, 2_000).unwrap();
    let sa = sa(false, false, "esn = true\nwindow = 64");
    let mut out = Outbound::new(sa.clone(), StdRng::seed_from_u64(7)).unwrap();
    let mut into = Inbound::new(sa).unwrap();
    let clear = ipv4_of(|_| {}, b"x");
    let mut packets = Vec::new();
    for skip in [100, (1 << 32) - 200, (1 << 32) - 200] {
        out.reserve(skip).unwrap();
        packets.push(sealed(&mut out, &mut pool, &clear).unwrap());
    }
    let place = |packet: &Packet| match Outer::read(packet.data()) {
        Outer::Esp(place) => place,
        other => panic!("{other:?}"),
    };
    let mut openings: Vec<Opening> = packets
        .iter()
        .enumerate()
        .map(|(at, packet)| Opening { at, place: place(packet), result: Err(OpenError::Dummy) })
        .collect();
    into.open_many(&mut packets, &mut openings);
    assert!(openings.iter().all(|opening| opening.result == Ok(())), "{openings:?}");
    assert_eq!(into.sequence(), out.sequence());
}
