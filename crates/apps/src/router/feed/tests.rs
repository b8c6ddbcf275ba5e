//! Feeds: both forms, what they refuse, and any bytes.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use scalebricks_tables::lpm::Prefix;
use std::io::{Cursor, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

fn read_all(bytes: Vec<u8>) -> (Result<FeedCounts, FeedError>, Vec<FeedRoute>) {
    let mut routes = Vec::new();
    (read(Cursor::new(bytes), |route| routes.push(route)), routes)
}

fn v4(text: &str) -> IpPrefix {
    IpPrefix::V4(text.parse().unwrap())
}

/// A record with its header.
fn record(kind: u16, subtype: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x53, 0x71, 0x5F, 0x80]; // 2014-05-13
    bytes.extend(kind.to_be_bytes());
    bytes.extend(subtype.to_be_bytes());
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// An attribute with a length of one byte, or two.
fn attribute(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = match u8::try_from(value.len()) {
        Ok(length) => vec![0x40, kind, length],
        Err(_) => [&[0x50, kind][..], &(value.len() as u16).to_be_bytes()].concat(),
    };
    bytes.extend(value);
    bytes
}

/// Segments of an AS path.
fn path(segments: &[(u8, &[u32])]) -> Vec<u8> {
    let segment = |(kind, numbers): &(u8, &[u32])| {
        let head = [*kind, numbers.len() as u8];
        head.into_iter().chain(numbers.iter().flat_map(|number| number.to_be_bytes())).collect::<Vec<_>>()
    };
    attribute(AS_PATH, &segments.iter().flat_map(segment).collect::<Vec<_>>())
}

const AS_PATH: u8 = 2;

/// A record of all paths to a prefix, one for each set of attributes.
fn rib(subtype: u16, length: u8, prefix: &[u8], entries: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 9, length];
    body.extend(prefix);
    body.extend((entries.len() as u16).to_be_bytes());
    for attributes in entries {
        body.extend([0, 3, 0x53, 0, 0, 0]);
        body.extend(if matches!(subtype, 8 | 10) { &[0, 0, 0, 1][..] } else { &[] });
        body.extend((attributes.len() as u16).to_be_bytes());
        body.extend(attributes);
    }
    record(13, subtype, &body)
}

/// The table of peers that begins every dump.
fn peers() -> Vec<u8> {
    record(13, 1, &[192, 0, 2, 1, 0, 0, 0, 1, 2, 192, 0, 2, 2, 192, 0, 2, 2, 0, 0, 0xFB, 0xF0])
}

#[test]
fn lines_are_routes() {
    let text = "# a table\n\n1.0.0.0/24 15169\n2001:4:112::/48 112\r\n0.0.0.0/0";
    let (counts, routes) = read_all(text.as_bytes().to_vec());
    assert_eq!(counts.unwrap(), FeedCounts { v4: 2, v6: 1, skipped: 0 });
    assert_eq!((routes[0].prefix, routes[0].origin), (v4("1.0.0.0/24"), Some(15169)));
    assert_eq!(routes[1].prefix, IpPrefix::V6("2001:4:112::/48".parse().unwrap()));
    assert_eq!((routes[2].prefix, routes[2].origin, routes[2].next_hop), (v4("0.0.0.0/0"), None, None));
}

#[test]
fn gzip_is_read_and_damage_is_an_error() {
    let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
    zipped.write_all(b"1.0.0.0/24 15169\n").unwrap();
    let mut zipped = zipped.finish().unwrap();
    assert_eq!(read_all(zipped.clone()).1.len(), 1);
    zipped.truncate(zipped.len() - 9);
    assert!(matches!(read_all(zipped).0, Err(FeedError::Io(_))));
}

#[test]
fn a_wrong_line_is_named() {
    for (line, wanted) in [
        ("1.0.0.0/33 1", "a prefix of 33 bits, where an address has 32"),
        ("1.0.0.1/24 1", "1.0.0.1/24 has bits behind the prefix"),
        ("1.0.0.0/24 +1", "\"+1\" is no AS number"),
        ("1.0.0.0/24 4294967296", "\"4294967296\" is no AS number"),
        ("1.0.0.0/24 1 2", "more than a prefix and an origin"),
        (&"1".repeat(text::MAX_LINE_BYTES + 1), "more than 256 bytes"),
    ] {
        let (read, routes) = read_all(format!("2.0.0.0/8 3\n{line}\n").into_bytes());
        assert_eq!((read.unwrap_err().to_string(), routes.len()), (format!("line 2: {wanted}"), 1));
    }
    assert!(matches!(
        read_all(b"1.0.0.0/24 \xFF".to_vec()).0,
        Err(FeedError::Line { line: 1, problem: LineError::NotText })
    ));
    let longest = format!("{:w$}\n2.0.0.0/8", "1.0.0.0/8 1", w = text::MAX_LINE_BYTES);
    assert_eq!(read_all(longest.into_bytes()).1.len(), 2);
}

#[test]
fn the_shortest_path_of_a_dump_is_the_route() {
    let hop = |last| attribute(3, &[192, 0, 2, last]);
    let long = [path(&[(2, &[1, 2, 3])]), hop(1)].concat();
    let short = [hop(2), path(&[(3, &[7, 8]), (2, &[4]), (1, &[6, 5])])].concat(); // a confederation's first
    let later = [path(&[(2, &[9, 9])]), hop(3)].concat();
    let dump = [
        peers(),
        rib(2, 23, &[10, 1, 3], &[long, short, later]),
        record(16, 4, &[0; 20]), // a BGP message
        rib(2, 0, &[], &[]),
        rib(8, 8, &[11], &[path(&[(2, &[70_000; 80])])]), // over 255 bytes
    ]
    .concat();
    let (counts, routes) = read_all(dump);
    assert_eq!(counts.unwrap(), FeedCounts { v4: 2, v6: 0, skipped: 3 });
    let next_hop = Some("192.0.2.2".parse().unwrap());
    assert_eq!(routes[0], FeedRoute { prefix: v4("10.1.2.0/23"), origin: Some(6), next_hop });
    assert_eq!(routes[1], FeedRoute { prefix: v4("11.0.0.0/8"), origin: Some(70_000), next_hop: None });
}

#[test]
fn both_forms_of_ipv6_next_hops_are_read() {
    let address: Ipv6Addr = "2001:db8::1".parse().unwrap();
    let short = [&[16][..], &address.octets()].concat();
    let whole = [&[0, 2, 1, 32][..], &address.octets(), &[0xFE; 16], &[0, 32, 0x20, 1, 0xD, 0xB8]].concat();
    for (subtype, reachable) in [(4, short.clone()), (4, whole), (10, short)] {
        let attributes = [attribute(14, &reachable), path(&[(2, &[64_496])])].concat();
        let (counts, routes) =
            read_all([peers(), rib(subtype, 32, &[0x20, 1, 0xD, 0xB8], &[attributes])].concat());
        assert_eq!(counts.unwrap().v6, 1);
        let prefix = IpPrefix::V6("2001:db8::/32".parse().unwrap());
        assert_eq!(routes, [FeedRoute { prefix, origin: Some(64_496), next_hop: Some(address.into()) }]);
    }
}

#[test]
fn a_wrong_record_is_named() {
    let good = [peers(), rib(2, 8, &[10], &[path(&[(2, &[1])])])].concat();
    let error = |bytes: &[u8]| read_all([&good[..], bytes].concat()).0.unwrap_err().to_string();
    assert_eq!(error(&[0; 5]), "record 3: the file ends in the record");
    assert_eq!(error(&[0, 0, 0, 0, 0, 13, 0, 2, 0, 0, 0, 9]), "record 3: the file ends in the record");
    assert_eq!(
        error(&[0, 0, 0, 0, 0, 13, 0, 2, 0, 0x40, 0, 1]),
        "record 3: 4194305 bytes: more than 4194304"
    );
    let too_long = rib(2, 33, &[0; 5], &[]);
    assert_eq!(error(&too_long), "record 3: a prefix of 33 bits, where an address has 32");
    assert_eq!(
        error(&rib(4, 129, &[0; 17], &[])),
        "record 3: a prefix of 129 bits, where an address has 128"
    );
    let past = |bytes: &[u8], what: &str| {
        let wanted = format!("record 3: {what} reaches past the end of its record");
        assert_eq!(error(&rib(2, 8, &[10], &[bytes.to_vec()])), wanted);
    };
    past(&[0x40, 2, 9, 0], "an attribute");
    past(&[0x50, 2, 0], "an attribute's length");
    past(&attribute(2, &[2, 2, 0, 0, 0, 1]), "a segment");
    past(&attribute(14, &[16, 1]), "the next hop");
    assert!(error(&record(13, 2, &[0, 0, 0, 0, 24, 10])).contains("the prefix reaches"));
    assert!(error(&record(13, 2, &[0, 0, 0, 0, 0, 0, 1])).contains("the peer and time of an entry"));
}

#[test]
fn a_rule_spreads_routes_and_keeps_an_origin_together() {
    let outputs = NonZeroU32::new(4).unwrap();
    let route = |origin, next_hop: Option<&str>| FeedRoute {
        prefix: v4("10.0.0.0/8"),
        origin,
        next_hop: next_hop.map(|hop| hop.parse().unwrap()),
    };
    let mut counts = [0; 4];
    for origin in 0..40_000 {
        counts[OutputRule::Origin.output(&route(Some(origin), None), outputs) as usize] += 1;
    }
    assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    let by_hop = |hop| OutputRule::NextHop.output(&route(Some(1), hop), outputs);
    let distinct = |hops: &[&'static str]| {
        hops.iter().map(|hop| by_hop(Some(hop))).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(distinct(&["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6"]) > 1);
    assert!(distinct(&["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:1::1", "2001:db8:2::1"]) > 1);
    assert_eq!(by_hop(None), OutputRule::Origin.output(&route(Some(1), Some("192.0.2.1")), outputs));
    assert_eq!(OutputRule::Origin.output(&route(None, Some("192.0.2.1")), outputs), 0);
    assert_eq!(OutputRule::default().output(&route(Some(7), None), NonZeroU32::MIN), 0);
}

proptest! {
    /// Paths of any form are read back; what a path's last segment says is its origin.
    #[test]
    fn generated_dumps_are_read_back(
        routes in prop::collection::vec(
            (any::<u32>(), 0_u8..=32, prop::collection::vec((1_u8..=2, prop::collection::vec(any::<u32>(), 1..5)), 1..4)),
            0..20,
        ),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut dump, mut wanted) = (peers(), Vec::new());
        for (address, length, segments) in &routes {
            let prefix = Prefix::of(Ipv4Addr::from(*address), *length).unwrap();
            let sent = &address.to_be_bytes()[..usize::from(*length).div_ceil(8)];
            let parts: Vec<_> = segments.iter().map(|(kind, numbers)| (*kind, &numbers[..])).collect();
            dump.extend(rib(2, *length, sent, &[path(&parts)]));
            let (kind, numbers) = segments.last().unwrap();
            let origin = if *kind == 1 { numbers.first() } else { numbers.last() }.copied();
            wanted.push(FeedRoute { prefix: IpPrefix::V4(prefix), origin, next_hop: None });
        }
        let (counts, found) = read_all(dump.clone());
        prop_assert_eq!(counts.unwrap(), FeedCounts { v4: routes.len() as u64, v6: 0, skipped: 1 });
        prop_assert_eq!(&found, &wanted);
        // A part of a dump gives a part of the routes, and an error unless it ends with a record.
        dump.truncate(6 + cut.index(dump.len() - 5));
        let (_, found) = read_all(dump);
        prop_assert!(wanted.starts_with(&found));
    }

    /// Any bytes are routes or an error, also as the body of a record.
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300), subtype in 0_u16..12) {
        let _ = read_all(bytes.clone());
        let _ = read_all(record(13, subtype, &bytes));
    }
}
