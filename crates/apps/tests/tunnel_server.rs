//! The end of ESP tunnels: both forms of its configuration do the same, and nothing passes in clear.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::route_server::Running;
use etherparse::PacketBuilder;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use scalebricks_apps::click::Router;
use scalebricks_apps::router::server::{Form, Interface, ServerError};
use scalebricks_apps::router::tunnel::TunnelEnd;
use scalebricks_elements::esp::file;
use scalebricks_elements::esp::inbound::{Inbound, Opening, Outer};
use scalebricks_elements::esp::inner::Inner;
use scalebricks_elements::esp::outbound::{Outbound, Sealing};
use scalebricks_elements::esp::sa::Sa;
use scalebricks_io::{BURST, Packet, PacketBuf, Pool};
use scalebricks_wire::MacAddr;
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV6, header};
use scalebricks_wire::ipv4::Ipv4Header;
use scalebricks_wire::nd::Advertisement;
use std::net::Ipv6Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const OWN: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 1, 0]), MacAddr([2, 0, 0, 0, 1, 1])];
/// A host inside, and the far end of the tunnel.
const THERE: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 9, 0]), MacAddr([2, 0, 0, 0, 9, 1])];
const OWN_IP: [[u8; 4]; 2] = [[10, 0, 1, 1], [192, 0, 2, 1]];
const THERE_IP: [[u8; 4]; 2] = [[10, 0, 1, 9], [192, 0, 2, 2]];
const SECRET: &[u8] = b"what nobody outside may read";

const KEYS: &str = r#"
[[sa]]
name = "to-gcm"
spi = 0x1001
suite = "aes-128-gcm"
key = "000102030405060708090a0b0c0d0e0f10111213"
src = "192.0.2.1"
dst = "192.0.2.2"
selectors = [{ src = "10.0.1.0/24", dst = "10.0.2.0/24" }, { src = "2001:db8:1::/48", dst = "2001:db8:2::/48" }]

[[sa]]
name = "to-cbc"
spi = 0x1002
suite = "aes-128-cbc-hmac-sha1-96"
key = "202122232425262728292a2b2c2d2e2f"
auth_key = "303132333435363738393a3b3c3d3e3f40414243"
src = "192.0.2.1"
dst = "192.0.2.2"
selectors = [{ src = "10.0.1.0/24", dst = "10.0.3.0/24" }]
udp = {}
esn = true

[[sa]]
name = "from-gcm"
spi = 0x1001
suite = "aes-128-gcm"
key = "100102030405060708090a0b0c0d0e0f10111213"
src = "192.0.2.2"
dst = "192.0.2.1"
selectors = [{ src = "10.0.2.0/24", dst = "10.0.0.0/16" }, { src = "2001:db8:2::/48", dst = "2001:db8:1::/48" }]

[[sa]]
name = "from-cbc"
spi = 0x1002
suite = "aes-128-cbc-hmac-sha1-96"
key = "505152535455565758595a5b5c5d5e5f"
auth_key = "606162636465666768696a6b6c6d6e6f70717273"
src = "192.0.2.2"
dst = "192.0.2.1"
selectors = [{ src = "10.0.3.0/24", dst = "10.0.0.0/16" }]
udp = {}
esn = true
"#;

fn sa(name: &str) -> Sa {
    file::parse(KEYS).unwrap().into_iter().find(|sa| *sa.name == *name).unwrap()
}

fn interface(at: usize) -> Interface {
    let [a, b, c, d] = OWN_IP[at];
    format!("eth{}={a}.{b}.{c}.{d}/24,{}", at + 1, OWN[at]).parse().unwrap()
}

/// The end with its keys; routes lead to 10.0.2.0/24 and 10.0.3.0/24 by the far end, and to 10.0.4.0/24 inside.
fn end(folder: &Path) -> TunnelEnd {
    let path = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let routes = "10.0.2.0/23 192.0.2.2 2\n10.0.4.0/24 10.0.1.9 1\n10.0.5.0/24 192.0.2.2 2\n";
    let names = |way: &str| ["gcm", "cbc"].map(|suite| format!("{way}-{suite}")).to_vec();
    TunnelEnd {
        inside: interface(0),
        outside: interface(1),
        keys: path("sa.toml", KEYS),
        sends: names("to"),
        receives: names("from"),
        routes: Some(path("routes", routes)),
        routes6: None,
        mtu: 1_500,
    }
}

/// A running end that knows its neighbours.
fn running(end: &TunnelEnd, form: Form) -> Running {
    let mut running = Running::over(&end.configuration(form).unwrap(), 2);
    // The answers count only for neighbours that were asked for.
    running.send(1, &framed(0, &udp([10, 0, 1, 9], [10, 0, 2, 9], 64, SECRET)));
    let mut far = far_end("from-gcm");
    let inner = udp([10, 0, 2, 9], [10, 0, 1, 9], 64, SECRET);
    running.send(2, &framed(1, &seal(&mut far, &[inner])[0]));
    running.run();
    for at in 0..2 {
        let arp = Arp {
            operation: Operation::Reply,
            sender_mac: THERE[at],
            sender_ip: THERE_IP[at].into(),
            target_mac: OWN[at],
            target_ip: OWN_IP[at].into(),
        };
        let frame = [&header(OWN[at], THERE[at], ETHERTYPE_ARP)[..], &arp.to_bytes()].concat();
        running.send(at + 1, &frame);
    }
    running.run();
    running
}

fn far_end(name: &str) -> Outbound {
    Outbound::new(sa(name), StdRng::seed_from_u64(5)).unwrap()
}

fn framed(at: usize, packet: &[u8]) -> Vec<u8> {
    [&header(OWN[at], THERE[at], 0x0800)[..], packet].concat()
}

fn udp(src: [u8; 4], dst: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4(src, dst, ttl).udp(1, 2).write(&mut packet, payload).unwrap();
    packet
}

/// Packets encrypted by the far end.
fn seal(far: &mut Outbound, inner: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut pool = Pool::new(inner.len(), 2_048).unwrap();
    let mut packets: Vec<Packet> = inner.iter().map(|bytes| pool.packet(bytes).unwrap()).collect();
    let mut sealings: Vec<Sealing> = inner
        .iter()
        .enumerate()
        .map(|(at, bytes)| Sealing { at, inner: Inner::read(bytes).unwrap(), result: Ok(()) })
        .collect();
    far.seal_many(&mut packets, &mut sealings);
    assert!(sealings.iter().all(|sealing| sealing.result.is_ok()));
    packets.iter().map(|packet| packet.data().to_vec()).collect()
}

/// Without the identification of an ICMP packet over IPv4: it counts the router's errors, and the forms may handle ports in another
/// order.
fn uncounted(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet.first() == Some(&0x45) && packet.get(9) == Some(&1) {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

/// What left outside: frames without ESP as they are, and of the others all that both forms must agree on: the frame's
/// addresses, the association, and the inner packet.
fn read_outside(left: &[Vec<u8>]) -> Vec<(Vec<u8>, u32, Vec<u8>)> {
    let mut ends = ["to-gcm", "to-cbc"].map(|name| Inbound::new(sa(name)).unwrap());
    let mut pool = Pool::new(1, 2_048).unwrap();
    let read = |frame: &Vec<u8>| {
        let Outer::Esp(place) = Outer::read(&frame[14..]) else { return (frame.clone(), 0, Vec::new()) };
        let mut packet = pool.packet(&frame[14..]).unwrap();
        let end = ends.iter_mut().find(|end| end.takes(&place)).unwrap();
        let mut opening = [Opening { at: 0, place, result: Ok(()) }];
        end.open_many(std::slice::from_mut(&mut packet), &mut opening);
        assert_eq!(opening[0].result, Ok(()), "the far end lets it in");
        (frame[..14].to_vec(), place.spi, uncounted(packet.data()))
    };
    left.iter().map(read).collect()
}

/// An inner packet, ordinary or not: its source's and destination's network, TTL and form.
fn inner() -> impl Strategy<Value = (u8, u8, Vec<u8>)> {
    let lens = prop_oneof![6 => 0..200usize, 1 => 1_380..1_440usize, 1 => Just(1_472usize)];
    (1..7u8, 0..7u8, 0..4usize, lens, any::<[u8; 3]>()).prop_map(|(from, to, ttl, len, odd)| {
        let mut payload = SECRET.repeat(60);
        payload.truncate(len);
        let ip = Ipv4Header {
            dscp_ecn: odd[0],
            total_len: 20 + payload.len() as u16,
            identification: u16::from(odd[1]),
            dont_fragment: odd[1] % 2 == 0,
            more_fragments: odd[2] < 16,
            fragment_units: 0,
            ttl: [0, 1, 2, 64][ttl],
            protocol: 17,
            src: [10, 0, from, 9].into(),
            dst: [10, 0, to, if to == 1 && odd[2] > 200 { 1 } else { 9 }].into(),
        };
        let mut packet = [&ip.to_bytes()[..], &payload].concat();
        match odd[2] {
            30..40 => packet[10] ^= 1,
            40..50 => packet.truncate(usize::from(odd[1]) % packet.len().max(1)),
            50..60 => packet.extend([0; 9]),
            _ => {}
        }
        (from, to, packet)
    })
}

#[derive(Debug, Clone)]
enum Event {
    /// From inside.
    Inside(Vec<u8>),
    /// From the far end, by the association of this number; then what happens on the way.
    Tunnel(bool, Vec<u8>, u8, prop::sample::Index),
    /// In clear from outside.
    Outside(Vec<u8>),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => inner().prop_map(|(_, _, packet)| Event::Inside(packet)),
        3 => (any::<bool>(), inner(), any::<u8>(), any::<prop::sample::Index>())
            .prop_map(|(is_cbc, (_, _, packet), way, at)| Event::Tunnel(is_cbc, packet, way, at)),
        1 => inner().prop_map(|(_, _, packet)| Event::Outside(packet)),
    ];
    prop::collection::vec(event, 1..=BURST)
}

/// The frames of events, by port.
fn frames(events: &[Event]) -> Vec<(usize, Vec<u8>)> {
    let mut far = ["from-gcm", "from-cbc"].map(far_end);
    // Numbers that `running` has used.
    seal(&mut far[0], &[udp([10, 0, 2, 9], [10, 0, 1, 9], 64, SECRET)]);
    let mut all = Vec::new();
    for event in events {
        match event {
            Event::Inside(packet) => all.push((1, framed(0, packet))),
            Event::Outside(packet) => all.push((2, framed(1, packet))),
            Event::Tunnel(is_cbc, packet, way, at) => {
                if Inner::read(packet).is_err() {
                    continue;
                }
                let mut frame =
                    framed(1, &seal(&mut far[usize::from(*is_cbc)], std::slice::from_ref(packet))[0]);
                match way {
                    0..20 => {
                        let at = at.index(frame.len());
                        frame[at] ^= 1;
                    }
                    20..40 => all.push((2, frame.clone())),
                    40..50 => frame.truncate(at.index(frame.len())),
                    _ => {}
                }
                all.push((2, frame));
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Both forms let out and let in the same packets, drop the same packets for the same reasons, and let nothing out in
    /// clear.
    #[test]
    fn both_forms_do_the_same(events in events()) {
        let folder = tempfile::tempdir().unwrap();
        let end = end(folder.path());
        let frames = frames(&events);
        let mut forms = [Form::Click, Form::Fused].map(|form| running(&end, form));
        let [click, fused] = forms.each_mut().map(|running| {
            for (port, frame) in &frames {
                running.send(*port, frame);
            }
            let left = running.run();
            for frame in &left[1] {
                assert!(!frame.windows(12).any(|window| window == &SECRET[..12]), "in clear: {frame:02x?}");
            }
            let inside = left[0].iter().map(|frame| [&frame[..14], &uncounted(&frame[14..])].concat());
            let mut sorted = (inside.collect::<Vec<_>>(), read_outside(&left[1]));
            sorted.0.sort_unstable();
            sorted.1.sort_unstable();
            sorted
        });
        prop_assert_eq!(click, fused);
        prop_assert_eq!(forms[0].drops(), forms[1].drops());
        prop_assert_eq!(forms[0].worker.graph().held(), forms[1].worker.graph().held());
    }
}

/// Ordinary packets of both ways pass in the loop, byte by byte as element by element, and in order.
#[test]
fn ordinary_packets_pass_in_one_loop_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let end = end(folder.path());
    let inner = |net: u8, n: u8| udp([10, 0, net, 9], [10, 0, 1, 9], 64, &[n; 40]);
    let left = [Form::Click, Form::Fused].map(|form| {
        let mut running = running(&end, form);
        let before = running.count("fast");
        let mut far = ["from-gcm", "from-cbc"].map(far_end);
        seal(&mut far[0], &[inner(2, 0)]);
        for n in 0..20u8 {
            let net = 2 + n % 2;
            running.send(1, &framed(0, &udp([10, 0, 1, 9], [10, 0, net, 9], 64, &[n; 40])));
            running.send(2, &framed(1, &seal(&mut far[usize::from(net) - 2], &[inner(net, n)])[0]));
        }
        let left = running.run();
        let is_fast = form == Form::Fused;
        assert_eq!(running.count("fast") - before, if is_fast { 40 } else { 0 });
        (left[0].clone(), read_outside(&left[1]))
    });
    assert_eq!(left[0], left[1]);
    assert_eq!((left[0].0.len(), left[0].1.len()), (20, 20));
    for (n, (inside, (front, spi, inner))) in left[0].0.iter().zip(&left[0].1).enumerate() {
        assert_eq!(
            (inside[..6].to_vec(), inside[22], inside[42..].to_vec()),
            (THERE[0].0.to_vec(), 63, vec![n as u8; 40])
        );
        assert_eq!((front[..6].to_vec(), *spi), (THERE[1].0.to_vec(), 0x1001 + n as u32 % 2));
        assert_eq!((inner[8], inner[28..].to_vec()), (63, vec![n as u8; 40]));
    }
}

/// Whatever is wrong with keys, associations or routes: nothing from inside leaves in clear, and nothing in clear gets in.
#[test]
fn nothing_passes_in_clear_when_something_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let good = end(folder.path());
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let expired = KEYS.replace("udp = {}", "udp = {}\nhard = { packets = 0 }");
    let spent = expired.replacen("10.0.2.0/24\" }]", "10.0.2.0/24\" }]\nhard = { packets = 0 }", 1);
    let cases = [
        (
            "routes to the far end lead inside",
            TunnelEnd {
                routes: Some(write("inside", "10.0.2.0/23 192.0.2.2 2\n192.0.2.2/32 10.0.1.9 1\n")),
                ..good.clone()
            },
        ),
        ("lifetimes are over", TunnelEnd { keys: write("expired.toml", &spent), ..good.clone() }),
        ("only another association", TunnelEnd { sends: vec!["from-gcm".to_owned()], ..good.clone() }),
    ];
    for (what, end) in cases {
        for form in [Form::Click, Form::Fused] {
            let mut running = running(&end, form);
            for net in 1..7 {
                running.send(1, &framed(0, &udp([10, 0, 1, 9], [10, 0, net, 9], 64, SECRET)));
                running.send(1, &framed(0, &udp([10, 0, 1, 9], [192, 0, 2, net], 64, SECRET)));
                running.send(2, &framed(1, &udp([10, 0, 2, 9], [10, 0, 1, net], 64, SECRET)));
            }
            let left = running.run();
            let is_clear = |frame: &Vec<u8>| frame.windows(12).any(|window| window == &SECRET[..12]);
            assert!(!left[1].iter().any(is_clear), "{what}: {form:?}");
            assert!(
                !left[0].iter().any(|frame| is_clear(frame) && frame[26..29] == [10, 0, 2]),
                "{what}: {form:?}"
            );
        }
    }
}

/// IPv6 inside: through the tunnel in both directions, never in clear, with neighbours and errors.
#[test]
fn ipv6_passes_inside_the_tunnel() {
    let folder = tempfile::tempdir().unwrap();
    let mut end = end(folder.path());
    end.inside = format!("eth1=10.0.1.1/24,{},2001:db8:1::1/64", OWN[0]).parse().unwrap();
    let host = |net: u16| Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, 9);
    let own: Ipv6Addr = "2001:db8:1::1".parse().unwrap();
    let framed6 = |packet: &[u8]| [&header(OWN[0], THERE[0], ETHERTYPE_IPV6)[..], packet].concat();
    let udp6 = |src: Ipv6Addr, dst: Ipv6Addr, limit: u8, payload: &[u8]| {
        let mut packet = Vec::new();
        PacketBuilder::ipv6(src.octets(), dst.octets(), limit).udp(1, 2).write(&mut packet, payload).unwrap();
        packet
    };
    for form in [Form::Click, Form::Fused] {
        let mut running = running(&end, form);
        let is_clear = |frame: &Vec<u8>| frame.windows(12).any(|window| window == &SECRET[..12]);
        running.send(1, &framed6(&udp6(host(1), host(2), 64, SECRET)));
        // No association, expired, too long, no tunnel for it.
        running.send(1, &framed6(&udp6(host(1), host(3), 64, SECRET)));
        running.send(1, &framed6(&udp6(host(1), host(2), 1, SECRET)));
        running.send(1, &framed6(&udp6(host(1), host(2), 64, &[7; 1_440])));
        let left = running.run();
        let [(front, spi, inner)] = &read_outside(&left[1])[..] else { panic!("{form:?}: {left:?}") };
        let mut expected = udp6(host(1), host(2), 64, SECRET);
        expected[7] = 63;
        assert_eq!((&front[12..], *spi, inner), (&[8, 0][..], 0x1001, &expected), "{form:?}");
        assert!(!left[1].iter().any(is_clear), "{form:?}");
        // The router asks for its neighbour, to send the errors.
        let asked = left[0].iter().filter(|frame| frame[12..14] == [0x86, 0xdd] && frame[54] == 135).count();
        assert_eq!(asked, 1, "{form:?}: {:?}", left[0]);
        let answer = Advertisement::packet(host(1), own, host(1), true, THERE[0]);
        running.send(1, &framed6(&answer));
        let mut errors: Vec<[u8; 2]> = running.run()[0].iter().map(|frame| [frame[54], frame[55]]).collect();
        errors.sort_unstable();
        assert_eq!(errors, [[2, 0], [3, 0]], "{form:?}");
        // From the far end, and the same in clear.
        let mut far = far_end("from-gcm");
        seal(&mut far, &[udp([10, 0, 2, 9], [10, 0, 1, 9], 64, SECRET)]);
        let inner = udp6(host(2), host(1), 64, SECRET);
        running.send(2, &framed(1, &seal(&mut far, std::slice::from_ref(&inner))[0]));
        running.send(2, &[&header(OWN[1], THERE[1], ETHERTYPE_IPV6)[..], &inner].concat());
        // A ping of the router, and a neighbour that asks for it.
        let left = running.run();
        let [frame] = &left[0][..] else { panic!("{form:?}: {left:?}") };
        assert_eq!((&frame[..6], frame[21], &frame[22..]), (&THERE[0].0[..], 63, &inner[8..]), "{form:?}");
        let mut ping = Vec::new();
        let builder = PacketBuilder::ipv6(host(1).octets(), own.octets(), 64);
        builder.icmpv6_echo_request(1, 2).write(&mut ping, b"ping").unwrap();
        running.send(1, &framed6(&ping));
        let left = running.run();
        assert!(left[0].len() == 1 && left[0][0][54] == 129, "{form:?}: {left:?}");
    }
}

/// Wrong values are refused, not written into a configuration.
#[test]
fn wrong_values_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = end(folder.path());
    let of = |end: TunnelEnd| end.configuration(Form::Fused).unwrap_err();
    assert_eq!(of(TunnelEnd { sends: vec![], ..good.clone() }), ServerError::Associations);
    assert_eq!(
        of(TunnelEnd { receives: vec!["a, b".to_owned()], ..good.clone() }),
        ServerError::Association("a, b".to_owned())
    );
    assert_eq!(
        of(TunnelEnd { keys: "a\"b".to_owned(), ..good.clone() }),
        ServerError::File("a\"b".to_owned())
    );
    let six = Interface { ip6: Some((Ipv6Addr::LOCALHOST, 64)), ..good.outside.clone() };
    assert_eq!(of(TunnelEnd { outside: six, ..good.clone() }), ServerError::OutsideIp6("eth2".to_owned()));
    assert_eq!(of(TunnelEnd { routes6: Some("six".to_owned()), ..good.clone() }), ServerError::Routes6);
    assert_eq!(of(TunnelEnd { outside: good.inside.clone(), ..good }), ServerError::Twice("eth1".to_owned()));
}

/// `UPDATE_DOCS=1` writes the example.
#[test]
fn the_example_is_generated() {
    let end = TunnelEnd {
        inside: "eth0=10.0.1.1/24,02:00:00:00:01:00".parse().unwrap(),
        outside: "eth1=192.0.2.1/24,02:00:00:00:01:01".parse().unwrap(),
        keys: "examples/router/sa.toml".to_owned(),
        sends: vec!["left-to-right".to_owned()],
        receives: vec!["right-to-left".to_owned()],
        routes: None,
        routes6: None,
        mtu: 1_500,
    };
    let text = end.configuration(Form::Fused).unwrap();
    Router::read("r.click", text.as_bytes(), &[], &scalebricks_elements::registry::<Packet>())
        .unwrap_or_else(|errors| panic!("{errors}"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/router/ipsec-fused.click");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == text, "{path} is not up to date: run this test with UPDATE_DOCS=1");
}
