use super::*;
use scalebricks_io::{Packet, Pool};

fn frame(buffers: usize) -> (Frame<Packet>, Pool) {
    let pool = Pool::new(buffers, 100).unwrap();
    (Frame::new(Box::new(pool.clone())), pool)
}

#[test]
fn a_full_frame_gives_the_packet_back() {
    let (mut frame, mut pool) = frame(300);
    let slots: Vec<Slot> = (0..=255u8).map(|n| frame.put(pool.packet(&[n]).unwrap()).unwrap()).collect();
    assert_eq!(frame.used(), SLOTS);
    let refused = frame.put(pool.packet(b"one too many").unwrap()).unwrap_err();
    assert_eq!(refused.data(), b"one too many");
    assert_eq!(frame.copy(&slots[0]), None);
    for (n, slot) in slots.into_iter().enumerate() {
        assert_eq!(frame.packet(&slot).data(), [n as u8]);
        assert_eq!(frame.take(slot).data(), [n as u8]);
    }
    assert_eq!(frame.used(), 0);
}

#[test]
fn a_copy_has_all_of_the_original_and_is_apart_from_it() {
    let (mut frame, mut pool) = frame(2);
    let slot = frame.put(pool.packet(b"abc").unwrap()).unwrap();
    frame.meta_mut(&slot).paint = 7;
    let copy = frame.copy(&slot).unwrap();
    assert_eq!((frame.packet(&copy).data(), frame.meta(&copy).paint), (&b"abc"[..], 7));
    frame.packet_mut(&copy).data_mut()[0] = b'x';
    assert_eq!(frame.packet(&slot).data(), b"abc");
    assert_eq!(frame.copy(&slot), None, "the pool has two buffers");
    assert_eq!(frame.reclaim().len(), 2);
    assert_eq!(frame.used(), 0);
    drop((slot, copy));
}

#[test]
fn bursts_go_in_and_come_out_in_order() {
    let (mut frame, mut pool) = frame(300);
    let (mut lanes, mut out) = (SlotList::new(), Vec::new());
    let meta = Meta { paint: 5, ..Meta::default() };
    for round in 0..8u8 {
        let mut burst: Burst<_> = (0..32u8).map(|n| pool.packet(&[round * 32 + n]).unwrap()).collect();
        frame.put_burst(&mut burst, &mut lanes, |_| meta);
        assert!(burst.is_empty());
    }
    let mut burst: Burst<_> = std::iter::once(pool.packet(b"one too many").unwrap()).collect();
    frame.put_burst(&mut burst, &mut lanes, |_| meta);
    assert_eq!((burst.len(), frame.used(), lanes.len()), (1, SLOTS, SLOTS));
    assert!(lanes.iter().all(|slot| *frame.meta(slot) == meta));
    frame.take_all(&mut lanes, &mut burst, |_, burst| {
        out.extend(burst.drain(..).map(|p| p.data().to_vec()));
    });
    out.extend(burst.iter().map(|packet| packet.data().to_vec()));
    let expected = std::iter::once(b"one too many".to_vec()).chain((0..=255).map(|n| vec![n]));
    assert_eq!(out, expected.collect::<Vec<_>>());
    assert_eq!((frame.used(), lanes.len()), (0, 0));
}

#[test]
fn a_new_packet_knows_nothing_of_the_one_before_it() {
    let (mut frame, mut pool) = frame(1);
    let slot = frame.put(pool.packet(b"a").unwrap()).unwrap();
    *frame.both_mut(&slot).1 = Meta { l3: 14, paint: 3, hops: 9, ..Meta::default() };
    drop(frame.take(slot));
    let slot = frame.put(pool.packet(b"b").unwrap()).unwrap();
    assert_eq!(*frame.meta(&slot), Meta::default());
    drop(frame.take(slot));
}

#[test]
fn packets_side_by_side_go_back_to_their_slots() {
    let (mut frame, mut pool) = frame(3);
    let slots: Vec<Slot> = (0..3u8).map(|n| frame.put(pool.packet(&[n]).unwrap()).unwrap()).collect();
    let seen = frame.together(&slots[1..], |packets| {
        for packet in packets.iter_mut() {
            packet.data_mut()[0] += 10;
        }
        packets.iter().map(|packet| packet.data()[0]).collect::<Vec<_>>()
    });
    assert_eq!(seen, [11, 12]);
    assert_eq!(frame.together(&[], |packets| packets.len()), 0);
    let now: Vec<u8> = slots.into_iter().map(|slot| frame.take(slot).data()[0]).collect();
    assert_eq!(now, [0, 11, 12]);
}
