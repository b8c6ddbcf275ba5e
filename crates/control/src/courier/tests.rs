//! Tests of single cases; whole clusters are in `tests/courier.rs`.

use super::*;

const A: NodeId = NodeId::new(1);
const B: NodeId = NodeId::new(2);

fn count(packets: u64) -> Count {
    Count([packets, 10 * packets, 0, 1])
}

fn flow(number: u32) -> Teid {
    Teid::new(number)
}

fn courier(process: u64, alive: &[NodeId]) -> Courier {
    let mut courier = Courier::new(ProcessId(process));
    courier.set_alive(alive.iter().copied().collect());
    courier
}

/// The packets that a courier sends now, if all flows are at B.
fn sends(courier: &mut Courier, now: Duration) -> Vec<Packet> {
    let work = courier.poll(now, |_| Place::At(B));
    assert_eq!((work.back, work.ended), (Vec::new(), Vec::new()));
    work.packets.into_iter().map(|(to, packet)| (assert_eq!(to, B), packet).1).collect()
}

/// Passes one packet to B and its answer back. Returns what B delivers.
fn carry(a: &mut Courier, b: &mut Courier, packet: &Packet) -> Vec<(Teid, Count)> {
    let received = b.receive(A, Packet::decode(&packet.encode()).unwrap());
    if let Some(reply) = received.reply {
        assert_eq!(a.receive(B, reply), Received::default());
    }
    received.counts
}

/// Two that know each other.
fn pair() -> (Courier, Courier) {
    let (mut a, mut b) = (courier(1, &[B]), courier(2, &[A]));
    let hello = Packet::Hello(ProcessId(1));
    assert_eq!(carry(&mut a, &mut b, &hello), []);
    (a, b)
}

#[test]
fn parcels_follow_each_other_and_hold_no_more_than_they_may() {
    let (mut a, mut b) = (courier(1, &[B]), courier(2, &[A]));
    let flows = 2 * PARCEL_FLOWS as u32 + 1;
    for number in 0..flows {
        a.post(flow(number), count(1));
        a.post(flow(number), count(2));
    }
    assert_eq!(a.flows(), (flows as usize, 0));
    let hello = sends(&mut a, Duration::ZERO);
    assert_eq!(hello, [Packet::Hello(ProcessId(1))]);
    assert_eq!(sends(&mut a, RESEND / 2), [], "asked already");
    assert_eq!(sends(&mut a, RESEND), hello, "no answer yet");
    assert_eq!(carry(&mut a, &mut b, &hello[0]), []);
    let mut delivered = Vec::new();
    for number in 1..=3 {
        let packets = sends(&mut a, RESEND);
        assert!(matches!(&packets[..], [Packet::Parcel(parcel)] if parcel.number == number));
        assert!(packets[0].encode().len() <= 40_000);
        assert_eq!(sends(&mut a, RESEND), [], "one under way");
        delivered.extend(carry(&mut a, &mut b, &packets[0]));
    }
    assert_eq!(sends(&mut a, 9 * RESEND), []);
    let sum = Count([3, 30, 0, 2]);
    assert!(delivered.iter().copied().eq((0..flows).map(|number| (flow(number), sum))));
    assert_eq!((a.stats().sent_flows, b.stats().delivered_flows), (u64::from(flows), u64::from(flows)));
    assert_eq!(a.flows(), (0, 0));
}

#[test]
fn a_repeated_parcel_is_delivered_once_and_receipted_again() {
    let (mut a, mut b) = pair();
    a.post(flow(1), count(1));
    let first = sends(&mut a, Duration::ZERO);
    let lost = b.receive(A, first[0].clone());
    assert_eq!(lost.counts, [(flow(1), count(1))]);
    a.post(flow(1), count(5));
    assert_eq!(sends(&mut a, RESEND), first, "as it was: what came since waits");
    assert_eq!(carry(&mut a, &mut b, &first[0]), []);
    assert_eq!((a.stats().resent, b.stats().duplicates, a.flows()), (1, 1, (1, 0)));
    let second = sends(&mut a, RESEND);
    // The receipt of the first comes once more, and is none of the second.
    a.receive(B, lost.reply.unwrap());
    assert_eq!(a.flows(), (0, 1));
    assert_eq!(carry(&mut a, &mut b, &second[0]), [(flow(1), count(5))]);
    assert_eq!(carry(&mut a, &mut b, &first[0]), [], "overtaken");
    assert_eq!(a.flows(), (0, 0));
}

#[test]
fn a_node_that_was_wrongly_removed_loses_nothing() {
    let (mut a, mut b) = pair();
    a.post(flow(1), count(1));
    let parcel = sends(&mut a, Duration::ZERO);
    a.post(flow(2), count(2));
    assert_eq!(sends(&mut a, Duration::ZERO), []);
    a.set_alive(BTreeSet::new());
    assert_eq!(a.poll(10 * RESEND, |_| Place::At(B)), Work::default(), "nothing for the dead");
    let work = a.poll(10 * RESEND + LOST_SIGHT_AFTER, |_| Place::At(B));
    assert_eq!(work.ended, [(flow(2), count(2))], "no node got it");
    assert_eq!(a.flows(), (0, 1), "B may have it");
    a.set_alive([B].into());
    let late = sends(&mut a, Duration::from_secs(99));
    assert_eq!(late, parcel);
    assert_eq!(carry(&mut a, &mut b, &late[0]), [(flow(1), count(1))]);
    assert_eq!((a.flows(), a.stats().lost_flows), ((0, 0), 0));
}

#[test]
fn counts_that_an_ended_process_may_have_had_are_lost() {
    let (mut a, mut b) = pair();
    a.post(flow(1), count(1));
    let parcel = sends(&mut a, Duration::ZERO);
    b.receive(A, parcel[0].clone());
    a.post(flow(2), count(2));
    let mut new = courier(3, &[A]);
    assert_eq!(carry(&mut a, &mut new, &parcel[0]), [], "it is for the process before");
    assert_eq!((a.stats().lost_flows, a.stats().lost), (1, count(1)));
    let next = sends(&mut a, Duration::ZERO);
    assert!(matches!(&next[..], [Packet::Parcel(parcel)] if parcel.number == 1 && parcel.to == ProcessId(3)));
    assert_eq!(carry(&mut a, &mut new, &next[0]), [(flow(2), count(2))]);
    // Late words of the process before.
    let receipt = Receipt { from: ProcessId(2), to: ProcessId(1), number: 1 };
    a.post(flow(3), count(3));
    let last = sends(&mut a, Duration::ZERO);
    assert_eq!(a.receive(B, Packet::Receipt(receipt)), Received::default());
    assert_eq!((a.flows(), a.stats().strange), ((0, 1), 1));
    assert_eq!(carry(&mut a, &mut new, &last[0]), [(flow(3), count(3))]);
}

#[test]
fn a_sender_that_starts_again_starts_with_one() {
    let (mut a, mut b) = pair();
    a.post(flow(1), count(1));
    let old = sends(&mut a, Duration::ZERO);
    carry(&mut a, &mut b, &old[0]);
    let mut new = courier(3, &[B]);
    new.post(flow(1), count(7));
    let hello = sends(&mut new, Duration::ZERO);
    carry(&mut new, &mut b, &hello[0]);
    let parcel = sends(&mut new, Duration::ZERO);
    assert_eq!(carry(&mut new, &mut b, &parcel[0]), [(flow(1), count(7))]);
    let late = b.receive(A, old[0].clone());
    assert_eq!((late, b.stats().strange), (Received::default(), 1));
    let Packet::Parcel(parcel) = &parcel[0] else { panic!("{parcel:?}") };
    let skipped = Packet::Parcel(Parcel { number: 3, ..parcel.clone() });
    assert_eq!((b.receive(A, skipped), b.stats().strange), (Received::default(), 2));
}

#[test]
fn counts_find_their_place_or_an_end() {
    let mut a = courier(1, &[B]);
    let here = |now, place| {
        move |a: &mut Courier| {
            let work = a.poll(now, |_| place);
            (work.back.len(), work.ended.len(), work.packets.len())
        }
    };
    let at = Duration::from_millis;
    a.post(flow(1), count(1));
    assert_eq!(here(at(0), Place::Unknown)(&mut a), (0, 0, 0));
    assert_eq!(here(at(500_000), Place::Unknown)(&mut a), (0, 0, 0), "for as long as it takes");
    assert_eq!(here(at(501_000), Place::Here)(&mut a), (1, 0, 0));
    a.post(flow(1), count(2));
    assert_eq!(here(at(502_000), Place::Nowhere)(&mut a), (0, 0, 0));
    a.post(flow(1), count(3));
    assert_eq!(here(at(506_400), Place::Nowhere)(&mut a), (0, 0, 0));
    let ended = a.poll(at(507_100), |_| Place::Nowhere).ended;
    assert_eq!(ended, [(flow(1), Count([5, 50, 0, 2]))]);
    // Held, and then it is seen.
    a.post(flow(1), count(4));
    assert_eq!(here(at(508_000), Place::Nowhere)(&mut a), (0, 0, 0));
    assert_eq!(here(at(509_000), Place::At(B))(&mut a), (0, 0, 1));
    // What waits for a node that dies goes elsewhere.
    a.set_alive(BTreeSet::new());
    assert_eq!(here(at(510_000), Place::Here)(&mut a), (1, 0, 0));
    assert_eq!(a.flows(), (0, 0));
}

#[test]
fn a_full_courier_has_no_room() {
    let mut a = courier(1, &[]);
    for number in 0..ENOUGH as u32 {
        assert!(a.flows().0 > 0 || a.has_room());
        a.post(flow(number), count(1));
    }
    assert!(!a.has_room());
    a.poll(Duration::ZERO, |_| Place::Here);
    assert!(a.has_room());
}

#[test]
fn sums_stop_at_the_highest_number() {
    let mut sum = Count([u64::MAX, 1, 2, 3]);
    sum += Count([1, 1, 1, 1]);
    assert_eq!(sum, Count([u64::MAX, 2, 3, 4]));
}

#[test]
fn golden_bytes() {
    let counts = vec![(Teid::new(0x0a0b_0c0d), Count([1, 2, 3, 0x0405]))];
    let parcel = Parcel { from: ProcessId(7), to: ProcessId(8), number: 9, counts };
    #[rustfmt::skip]
    let bytes = [
        4, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
        0x0d, 0x0c, 0x0b, 0x0a, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
        3, 0, 0, 0, 0, 0, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0,
    ];
    let packet = Packet::Parcel(parcel);
    assert_eq!(packet.encode(), bytes);
    assert_eq!(Packet::decode(&bytes), Ok(packet));
    assert!((0..bytes.len()).all(|len| Packet::decode(&bytes[..len]).is_err()));
    assert!(Packet::decode(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn parcels_that_no_courier_sends_are_refused() {
    let decode = |number, flows: &[u32]| {
        let counts = flows.iter().map(|flow| (Teid::new(*flow), Count::default())).collect();
        let parcel = Parcel { from: ProcessId(1), to: ProcessId(2), number, counts };
        Packet::decode(&Packet::Parcel(parcel).encode())
    };
    assert!(decode(1, &[3, 4]).is_ok());
    let many: Vec<u32> = (0..=PARCEL_FLOWS as u32).collect();
    assert!(decode(1, &many[1..]).is_ok());
    for (number, flows) in [(0, &[3, 4][..]), (1, &[4, 4]), (1, &[]), (1, &many)] {
        assert!(decode(number, flows).is_err(), "{number}, {} flows", flows.len());
    }
}
