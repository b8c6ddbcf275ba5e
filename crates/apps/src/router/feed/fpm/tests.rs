//! Messages as zebra builds them, and anything else.

use super::*;
use proptest::prelude::*;
use scalebricks_tables::lpm::IpPrefix;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// An attribute, padded.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [u16::try_from(value.len() + 4).unwrap().to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, header: &[u8], attributes: &[Vec<u8>]) -> Vec<u8> {
    let body = [header.to_vec(), attributes.concat()].concat();
    let length = u32::try_from(body.len() + 16).unwrap().to_ne_bytes();
    let mut bytes = [&length[..], &kind.to_ne_bytes(), &[1, 5], &[0; 8], &body].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn octets(address: &str) -> Vec<u8> {
    match address.parse().unwrap() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// A route of BGP in the main table.
fn route(kind: u16, prefix: &str, more: &[Vec<u8>]) -> Vec<u8> {
    let (address, length) = prefix.split_once('/').unwrap();
    let family = if address.contains(':') { 10 } else { 2 };
    let header = [family, length.parse().unwrap(), 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
    let destination = if length == "0" { Vec::new() } else { attribute(1, &octets(address)) };
    message(kind, &header, &[&[destination], more].concat())
}

fn gateway(address: &str) -> Vec<u8> {
    attribute(5, &octets(address))
}

/// The gateway of a next-hop object.
fn neighbour(address: &str) -> Vec<u8> {
    attribute(6, &octets(address))
}

fn object(kind: u16, number: u32, more: &[Vec<u8>]) -> Vec<u8> {
    message(kind, &[2, 0, 11, 0, 0, 0, 0, 0], &[&[attribute(1, &number.to_ne_bytes())], more].concat())
}

fn group(numbers: &[u32]) -> Vec<u8> {
    let member = |number: &u32| [&number.to_ne_bytes()[..], &[0; 4]].concat();
    attribute(2, &numbers.iter().flat_map(member).collect::<Vec<_>>())
}

fn prefix(text: &str) -> IpPrefix {
    text.parse().map(IpPrefix::V4).or_else(|_| text.parse().map(IpPrefix::V6)).unwrap()
}

/// A table, and what changes with each message.
#[derive(Default)]
struct Session(FpmTable);

impl Session {
    fn read(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut changed = BTreeSet::new();
        self.0.read(bytes, &mut changed);
        changed.iter().map(ToString::to_string).collect()
    }

    fn hops(&self, of: &str) -> Vec<String> {
        self.0.next_hops(prefix(of)).iter().map(ToString::to_string).collect()
    }
}

#[test]
fn routes_with_gateways_are_read_in_all_forms() {
    let mut session = Session::default();
    assert_eq!(session.read(&route(24, "10.0.0.0/8", &[gateway("192.0.2.1")])), ["10.0.0.0/8"]);
    assert_eq!(session.hops("10.0.0.0/8"), ["192.0.2.1"]);
    session.read(&route(24, "0.0.0.0/0", &[gateway("192.0.2.9")]));
    assert_eq!(session.hops("0.0.0.0/0"), ["192.0.2.9"]);
    session.read(&route(24, "2001:db8::/32", &[gateway("2001:db8::1")]));
    assert_eq!(session.hops("2001:db8::/32"), ["2001:db8::1"]);
    let hop = |address: &str| {
        let attributes = gateway(address);
        let length = u16::try_from(attributes.len() + 8).unwrap().to_ne_bytes();
        [&length[..], &[0, 0, 1, 0, 0, 0], &attributes].concat()
    };
    let both = attribute(9, &[hop("192.0.2.1"), hop("192.0.2.2")].concat());
    session.read(&route(24, "11.0.0.0/8", &[both]));
    assert_eq!(session.hops("11.0.0.0/8"), ["192.0.2.1", "192.0.2.2"]);
    let via = attribute(18, &[&10_u16.to_ne_bytes()[..], &octets("2001:db8::7")].concat());
    session.read(&route(24, "12.0.0.0/8", &[via]));
    assert_eq!(session.hops("12.0.0.0/8"), ["2001:db8::7"], "an IPv4 route over IPv6");
    assert_eq!(session.read(&route(25, "10.0.0.0/8", &[])), ["10.0.0.0/8"]);
    assert_eq!(session.read(&route(25, "10.0.0.0/8", &[])), [""; 0]);
    let counts = session.0.counts();
    assert_eq!((counts.routes, counts.multipath, counts.withdrawals, counts.malformed), (5, 1, 2, 0));
}

#[test]
fn next_hop_objects_move_all_of_their_routes() {
    let mut session = Session::default();
    let over = |number: u32| attribute(30, &number.to_ne_bytes());
    session.read(
        &[object(104, 1, &[neighbour("192.0.2.1")]), object(104, 2, &[neighbour("192.0.2.2")])].concat(),
    );
    session.read(&object(104, 3, &[group(&[1, 2])]));
    session.read(&[route(24, "10.0.0.0/8", &[over(1)]), route(24, "11.0.0.0/8", &[over(3)])].concat());
    assert_eq!(
        (session.hops("10.0.0.0/8"), session.hops("11.0.0.0/8").len()),
        (vec!["192.0.2.1".to_owned()], 2)
    );
    assert_eq!(session.read(&object(104, 1, &[neighbour("192.0.2.7")])), ["10.0.0.0/8", "11.0.0.0/8"]);
    assert_eq!(session.hops("11.0.0.0/8"), ["192.0.2.7", "192.0.2.2"]);
    assert_eq!(session.read(&object(104, 2, &[neighbour("192.0.2.2")])), [""; 0], "the same");
    assert_eq!(session.read(&object(105, 1, &[])), ["10.0.0.0/8", "11.0.0.0/8"]);
    assert_eq!(session.hops("10.0.0.0/8"), [""; 0]);
    assert_eq!(session.hops("11.0.0.0/8"), ["192.0.2.2"]);
    // A route before its object, and a group that contains itself.
    session.read(&route(24, "12.0.0.0/8", &[over(9)]));
    assert_eq!(session.read(&object(104, 9, &[group(&[9, 2])])), ["12.0.0.0/8"]);
    assert_eq!(session.hops("12.0.0.0/8"), ["192.0.2.2"]);
    session.0.clear();
    assert!(session.0.is_empty() && session.0.counts().objects > 0);
}

#[test]
fn what_is_of_no_use_is_counted_by_reason_and_replaces_what_was() {
    let mut session = Session::default();
    session.read(&route(24, "10.0.0.0/8", &[gateway("192.0.2.1")]));
    let mut kernel = route(24, "10.0.0.0/8", &[gateway("192.0.2.1")]);
    kernel[16 + 5] = 2;
    assert_eq!(session.read(&kernel), ["10.0.0.0/8"]);
    assert!(session.0.is_empty());
    let mut black_hole = route(24, "10.0.0.0/8", &[]);
    black_hole[16 + 7] = 6;
    session.read(&black_hole);
    session.read(&route(24, "10.0.0.0/8", &[attribute(4, &[1, 0, 0, 0])]));
    session.read(&route(24, "10.0.0.0/8", &[gateway("192.0.2.1"), attribute(15, &1_000_u32.to_ne_bytes())]));
    session.read(&message(16, &[0; 16], &[]));
    let counts = session.0.counts();
    let seen =
        [counts.of_the_kernel, counts.not_unicast, counts.no_gateway, counts.other_table, counts.other_kind];
    assert_eq!((seen, counts.malformed, session.0.len()), ([1; 5], 0, 0));
}

#[test]
fn malformed_messages_are_counted_and_the_next_one_is_read() {
    let good = route(24, "10.0.0.0/8", &[gateway("192.0.2.1")]);
    for (wrong, what) in [
        (route(24, "11.0.0.0/8", &[vec![3, 0, 5, 0]]), "an attribute"),
        (route(24, "11.0.0.0/8", &[vec![200, 0, 5, 0]]), "an attribute"),
        (route(24, "11.0.0.0/8", &[attribute(5, &[1, 2, 3])]), "a gateway is an address of 3 bytes"),
        (route(24, "11.0.0.0/33", &[gateway("192.0.2.1")]), "33 bits"),
        (route(24, "11.0.0.0/8", &[attribute(9, &[4, 0, 0, 0])]), "a next hop"),
        (route(24, "11.0.0.0/8", &[attribute(18, &[2, 0, 1])]), "another family"),
        (message(24, &[2, 8, 0, 0, 254, 186], &[]), "a route"),
        (message(24, &[2, 8, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0], &[]), "a destination"),
        (message(104, &[2; 8], &[]), "no number"),
        (object(104, 1, &[attribute(2, &[1; 7])]), "a group"),
    ] {
        let mut session = Session::default();
        session.read(&[wrong, good.clone()].concat());
        let error = session.0.last_error().map(ToString::to_string).unwrap_or_default();
        assert!(error.contains(what), "{what}: {error}");
        assert_eq!((session.0.counts().malformed, session.hops("10.0.0.0/8").len()), (1, 1), "{what}");
    }
    let mut session = Session::default();
    session.read(&[&good[..20], &[]].concat());
    assert_eq!((session.0.counts().malformed, session.0.len()), (1, 0));
}

#[test]
fn frames_are_cut_wherever_the_stream_is_and_others_end_it() {
    let frame = |content: &[u8]| {
        [&[1, 1][..], &u16::try_from(content.len() + 4).unwrap().to_be_bytes(), content].concat()
    };
    let stream = [frame(b"one"), frame(b""), frame(&vec![7; 60_000])].concat();
    for piece in [1, 3, 1_000, stream.len()] {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for piece in stream.chunks(piece) {
            frames.add(piece);
            while let Some(frame) = frames.next_frame().unwrap() {
                found.push(frame.to_vec());
            }
        }
        assert_eq!(found, [b"one".to_vec(), Vec::new(), vec![7; 60_000]]);
    }
    for (bytes, error) in [
        ([2, 1, 0, 9], FrameError::Version(2)),
        ([1, 2, 0, 9], FrameError::Kind(2)),
        ([1, 1, 0, 3], FrameError::Length(3)),
    ] {
        let mut frames = Frames::default();
        frames.add(&bytes[..3]);
        assert_eq!(frames.next_frame(), Ok(None));
        frames.add(&bytes[3..]);
        assert_eq!(frames.next_frame(), Err(error));
    }
}

proptest! {
    /// Any change of a message is read or counted, and no table grows beyond what was sent.
    #[test]
    fn any_bytes_are_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut stream = [
            object(104, 1, &[neighbour("192.0.2.1")]),
            object(104, 2, &[group(&[1])]),
            route(24, "10.0.0.0/8", &[attribute(30, &2_u32.to_ne_bytes())]),
            route(24, "2001:db8::/32", &[gateway("2001:db8::1")]),
        ].concat();
        for (at, byte) in changes {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        let (mut table, mut changed) = (FpmTable::default(), BTreeSet::new());
        for frame in [&stream[..], &bytes] {
            table.read(frame, &mut changed);
        }
        prop_assert!(table.len() <= (stream.len() + bytes.len()) / 28);
        for prefix in table.prefixes() {
            prop_assert!(changed.contains(&prefix) && table.next_hops(prefix).len() <= MAX_GATEWAYS);
        }
    }
}
