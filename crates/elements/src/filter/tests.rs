use super::*;
use proptest::prelude::*;

/// An IPv4 packet of a protocol, with source 10.0.0.1 and destination 192.0.2.7.
fn packet(protocol: u8, behind: &[u8]) -> Vec<u8> {
    let mut bytes = vec![
        0x45,
        0,
        0,
        20 + behind.len() as u8,
        0x12,
        0x34,
        0,
        0,
        64,
        protocol,
        0,
        0,
        10,
        0,
        0,
        1,
        192,
        0,
        2,
        7,
    ];
    bytes.extend(behind);
    bytes
}

fn seen(bytes: &[u8]) -> Packet<'_> {
    let header = usize::from(bytes.first().copied().unwrap_or(0) & 0xF) * 4;
    Packet { header: bytes, transport: bytes.get(header..).unwrap_or_default() }
}

/// TCP with ports 1025 and 80 and these flags.
fn tcp(flags: u8) -> Vec<u8> {
    packet(6, &[4, 1, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0x20, 0, 0, 0, 0, 0])
}

fn both(text: &str, bytes: &[u8]) -> bool {
    let expression = Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let slow = expression.matches(seen(bytes));
    let fast = Program::new(&[expression]).unwrap().first(seen(bytes)) == Some(0);
    assert_eq!(slow, fast, "{text}");
    slow
}

#[test]
fn primitives_mean_what_clicks_manual_says() {
    let (syn, udp, echo) = (tcp(2), packet(17, &[0, 53, 0x13, 0x88, 0, 8, 0, 0]), packet(1, &[8, 0, 0, 0]));
    let mut fragment = packet(17, &[0, 80, 0, 80]);
    fragment[7] = 1;
    for (text, expected) in [
        // Of the SYN, the DNS answer, the echo request, and the second fragment.
        ("ip proto 17", [false, true, false, true]),
        ("proto tcp", [true, false, false, false]),
        ("tcp", [true, false, false, false]),
        ("tcpudp", [true, true, false, true]),
        ("ip proto != icmp", [true, true, false, true]),
        ("ip proto > 5", [true, true, false, true]),
        ("src host 10.0.0.1", [true; 4]),
        ("dst host 10.0.0.1", [false; 4]),
        ("host 192.0.2.7", [true; 4]),
        ("src and dst host 10.0.0.1", [false; 4]),
        ("src or dst 10.0.0.1", [true; 4]),
        ("src host != 10.0.0.1", [false; 4]),
        ("host != 10.0.0.1", [false; 4]),
        ("src and dst host != 10.0.0.1", [true; 4]),
        ("net 192.0.2.0/24", [true; 4]),
        ("dst net 192.0.2.9 mask 255.255.0.0", [true; 4]),
        ("192.0.2.0/30", [false; 4]),
        ("192.0.2.0/29 tcp", [true, false, false, false]),
        ("port 80", [true, false, false, false]),
        ("src port 80", [false; 4]),
        ("dst port www", [true, false, false, false]),
        ("src udp port dns", [false, true, false, false]),
        ("dns", [false, true, false, false]),
        ("tcp port domain", [false; 4]),
        ("dst port 79 or 80", [true, false, false, false]),
        ("dst port > 79", [true, true, false, false]),
        ("src port & 1 == 1", [true, true, false, false]),
        ("dst tcp port != 5", [true, false, false, false]),
        ("!(dst tcp port == 5)", [true; 4]),
        ("src and dst port != 53", [true, true, false, false]),
        ("ip vers 4", [true; 4]),
        ("ip hl 5", [true; 4]),
        ("ip id 0x1234", [true; 4]),
        ("ip tos 0", [true; 4]),
        ("ip ttl < 64", [false; 4]),
        ("ip ttl >= 64 and ip ttl <= 64", [true; 4]),
        ("ip ect", [false; 4]),
        ("ip ce", [false; 4]),
        ("frag", [false, false, false, true]),
        ("ip unfrag", [true, true, true, false]),
        ("tcp opt syn", [true, false, false, false]),
        ("syn ack", [false; 4]),
        ("syn and not ack", [true, false, false, false]),
        ("tcp win 8192", [true, false, false, false]),
        ("icmp type echo", [false, false, true, false]),
        ("icmp echo", [false, false, true, false]),
        ("icmp type != 0", [false, false, true, false]),
        ("ip[8] 64", [true; 4]),
        ("ip[12:4] == 0x0a000001", [true; 4]),
        ("ip[12,13] & 0xFF00 == 0x0A00", [true; 4]),
        ("tcp[13] & 0x12 == 2", [true, false, false, false]),
        ("transp[0:2] 53", [false, true, false, false]),
        ("udp[100] 0", [false; 4]),
        ("true", [true; 4]),
        ("false or not true", [false; 4]),
        ("-", [true; 4]),
        ("any", [true; 4]),
        ("tcp ? dst port 80 : udp ? src port 53 : icmp", [true, true, true, false]),
        ("tcp or udp and src port 53", [true, true, false, false]),
        ("(tcp || udp) && src port 53", [false, true, false, false]),
    ] {
        let got = [&syn, &udp, &echo, &fragment].map(|bytes| both(text, bytes));
        assert_eq!(got, expected, "{text}");
    }
}

#[test]
fn wrong_filters_are_refused_with_a_place() {
    let refused = |text: &str| Expression::parse(text).map_err(|error| error.to_string()).unwrap_err();
    for (text, message) in [
        ("", "expected an expression, at byte 0"),
        ("tcp and", "expected an expression, at byte 7"),
        ("( tcp", "expected `)`, at byte 5"),
        ("tcp )", "unexpected `)`, at byte 4"),
        ("tcp ? udp", "expected `:`, at byte 9"),
        ("echo", "`echo` is ambiguous: say what of `ip proto`, `port`, `tcp opt` and `icmp type`, at byte 0"),
        ("src src 1.2.3.4", "`src` or `dst` is specified twice, at byte 4"),
        ("tcp udp", "the transport protocol is specified twice, at byte 4"),
        ("host port 5", "the type is specified twice, at byte 5"),
        ("host", "expected an IP address behind `host`, at byte 4"),
        ("net 1.2.3.4", "expected an IP prefix behind `net`, at byte 4"),
        ("80", "expected a header field or `port` before a number, at byte 0"),
        ("port 65536", "65536 is out of range: from 0 to 65535, at byte 5"),
        ("host > 1.2.3.4", "`host` can only be tested for equality, at byte 7"),
        ("icmp port 5", "`port` is not of that protocol, at byte 10"),
        ("ip[1:5] 0", "expected `[POS]` or `[POS:LEN]`, at byte 2"),
        ("ip[1", "expected `]`, at byte 4"),
        ("ip ttl & 0 5", "expected a mask that is not 0, at byte 9"),
        ("ip ttl & 256 5", "this field takes no such mask, at byte 13"),
        ("ip ttl >", "expected a value, at byte 8"),
        ("tcp opt != syn", "`tcp opt` can only be tested for equality, at byte 11"),
        ("nonsense", "unexpected `nonsense`, at byte 0"),
        ("tcp é", "unexpected `é`, at byte 4"),
        ("src", "expected an IP protocol behind `proto`, at byte 3"),
        ("port syn", "unexpected `syn`, at byte 5"),
    ] {
        assert_eq!(refused(text), message, "{text}");
    }
    let nested = |depth: usize| format!("{}tcp{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Expression::parse(&nested(DEPTH)).is_ok());
    assert!(refused(&nested(DEPTH + 1)).starts_with("nested deeper than 64"));
    assert!(refused(&"!".repeat(100_000)).starts_with("nested deeper"));
    assert!(refused(&"a ? ".repeat(1000)).starts_with("unexpected `a`"));
    assert!(refused(&"tcp ? ".repeat(1000)).starts_with("nested deeper"));
}

#[test]
fn the_first_filter_that_is_true_wins_and_programs_are_bounded() {
    let filters = ["dst port 79 or 80", "tcp", "udp", "-"].map(|text| Expression::parse(text).unwrap());
    let program = Program::new(&filters).unwrap();
    let first = |bytes: &[u8]| program.first(seen(bytes));
    assert_eq!(
        [tcp(0), packet(6, &[]), packet(17, &[]), packet(1, &[])].map(|bytes| first(&bytes)),
        [0, 1, 2, 3].map(Some)
    );
    assert_eq!(Program::new(&filters[..2]).unwrap().first(seen(&packet(1, &[]))), None);
    let shown = Program::new(&[Expression::parse("tcp or ip dscp 3").unwrap()]).unwrap().to_string();
    let lines = "  0  ip[9:1] & 0xff == 0x6  yes -> [0]  no -> step 1\n  1  ip[1:1] >> 2 & 0x3f == 0x3  yes -> [0]  no -> [none]\n";
    assert_eq!(shown, lines);
    assert_eq!(Program::new(&[Expression::Constant(true)]).unwrap().to_string(), "all -> [0]\n");
    let ports: Vec<String> = (0..40_000).map(|port| port.to_string()).collect();
    let many = Expression::parse(&format!("src or dst port {}", ports.join(" or "))).unwrap();
    assert_eq!(Program::new(&[many]), Err(TooLong));
}

/// Random filters made of the language's words.
fn texts() -> impl Strategy<Value = String> {
    let primitive = prop::sample::select(vec![
        "tcp",
        "udp",
        "icmp",
        "ip proto 89",
        "ip proto & 6 == 6",
        "src port 53",
        "dst tcp port > 1023",
        "port != 53",
        "src and dst port < 9",
        "host 10.0.0.1",
        "src net 10.0.0.0/8",
        "dst host != 192.0.2.7",
        "src or dst net != 192.0.0.0/16",
        "frag",
        "unfrag",
        "ip ttl > 9",
        "ip[6:2] & 0x2000 != 0",
        "tcp[0:4] >= 70000",
        "transp[19] 0",
        "udp[7] != 1",
        "syn",
        "tcp opt 18",
        "icmp type echo",
        "tcp win < 99",
        "ip ect",
        "ip ce",
        "ip ect 2",
        "ip dscp 1",
        "ip hl > 5",
        "true",
        "false",
        "tcp host 10.0.0.1",
        "ip[70] & 3 < 2",
        "icmp[0:2] < 2048",
    ])
    .prop_map(str::to_owned);
    primitive.prop_recursive(5, 24, 3, |inner| {
        let joined = |sign: &'static str| move |(a, b): (String, String)| format!("({a}) {sign} ({b})");
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(joined("and")),
            (inner.clone(), inner.clone()).prop_map(joined("||")),
            (inner.clone(), inner.clone()).prop_map(joined("")),
            inner.clone().prop_map(|one| format!("not ({one})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("{a} ? {b} : ({c})")),
        ]
    })
}

fn packets() -> impl Strategy<Value = Vec<u8>> {
    let few = |values: &[u8]| prop::sample::select(values.to_vec());
    let header = (
        few(&[0x45, 0x46, 0x40, 0x4F]),
        any::<u8>(),
        few(&[0, 0, 1, 0x20]),
        few(&[0, 0, 1]),
        few(&[6, 17, 1, 89]),
        any::<u8>(),
    );
    let behind = prop::collection::vec(few(&[0, 1, 2, 8, 16, 53, 80, 255]), 0..40);
    (header, behind, 0..70usize).prop_map(|((first, tos, high, low, protocol, ttl), behind, len)| {
        let mut bytes = packet(protocol, &behind);
        (bytes[0], bytes[1], bytes[6], bytes[7], bytes[8]) = (first, tos, high, low, ttl);
        bytes.truncate(len);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn programs_answer_as_the_interpreter(texts in prop::collection::vec(texts(), 1..4), packets in prop::collection::vec(packets(), 1..20)) {
        let filters: Vec<Expression> = texts.iter().map(|text| Expression::parse(text).unwrap()).collect();
        let program = Program::new(&filters).unwrap();
        for bytes in &packets {
            let packet = seen(bytes);
            let first = filters.iter().position(|filter| filter.matches(packet));
            prop_assert_eq!(program.first(packet), first, "{:?} of {:x?}", texts, bytes);
        }
    }

    #[test]
    fn any_text_is_read_or_refused_within_it(
        words in prop::collection::vec(prop::sample::select(vec![
            "(", ")", "and", "or", "not", "?", ":", "src", "dst", "port", "host", "net", "80", "10.0.0.1", "10.0.0.0/8", "tcp", "syn", "ip", "[", "]",
            "0:2", "&", "==", ">", "mask", "255.0.0.0", "opt", "frag", "type", "echo", "é", "-", "0xFFFFFFFF", "ect", "proto", "transp",
        ]), 0..12)
    ) {
        let text = words.join(" ");
        match Expression::parse(&text) {
            Ok(filter) => {
                let packet = tcp(2);
                let program = Program::new(std::slice::from_ref(&filter)).unwrap();
                prop_assert_eq!(program.first(seen(&packet)).is_some(), filter.matches(seen(&packet)), "{}", text);
            }
            Err(error) => prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at)),
        }
    }
}
