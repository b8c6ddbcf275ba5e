//! Names and actions as text, and name files.

use super::kinds::{actions, kinds, name};
use super::rig::port;
use proptest::prelude::*;
use scalebricks_apps::switch::file::{MAX_REPORTED, parse_names};
use scalebricks_apps::switch::text::{
    PortNames, PortNamesError, action_text, name_text, parse_action, parse_name,
};
use scalebricks_elements::flat::{Action, Base, BytesAt, FlatName, Length, NameBytes, NameKind};
use scalebricks_wire::MacAddr;

fn ports() -> PortNames {
    PortNames::new(["left", "right", "up", "down"].map(str::to_owned).to_vec()).unwrap()
}

const LABELS: NameKind = NameKind::Bytes(match BytesAt::new(Base::Frame, 14, Length::Prefix8) {
    Ok(at) => at,
    Err(_) => panic!("a place"),
});

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_again(n in 0..12_u8, m: u8, action in actions(), bytes in proptest::collection::vec(any::<u8>(), 1..40)) {
        let ports = ports();
        prop_assert_eq!(parse_action(&action_text(&action, &ports), &ports), Ok(action));
        for kind in kinds() {
            if let Some(name) = name(kind, n, m) {
                prop_assert_eq!(parse_name(&name_text(&name, &ports), kind, &ports), Ok(name));
            }
        }
        let name = FlatName::Bytes(NameBytes::new(&bytes).unwrap());
        let text = name_text(&name, &ports);
        prop_assert_eq!(parse_name(&text, LABELS, &ports), Ok(name.clone()));
        // Also as a line of a file.
        let line = format!("{text},{}", action_text(&action, &ports));
        prop_assert_eq!(parse_names(line.as_bytes(), LABELS, &ports), Ok(vec![(name, action)]));
    }

    #[test]
    fn any_file_is_names_or_errors_in_it(bytes: Vec<u8>, text in "[a-f0-9:.,#@>/\\[\\] \n\"xé-]{0,80}") {
        for kind in kinds() {
            for file in [&bytes[..], text.as_bytes()] {
                if let Err(errors) = parse_names(file, kind, &ports()) {
                    let lines = file.split(|&byte| byte == b'\n').count();
                    prop_assert!(errors.lines.iter().all(|error| (1..=lines).contains(&error.line) && error.column > 0));
                }
            }
        }
    }
}

#[test]
fn names_are_written_as_people_write_them() {
    let ports = ports();
    for (kind, text) in [
        (NameKind::Mac, "02:00:00:00:00:0a"),
        (NameKind::Ipv4, "192.0.2.7"),
        (NameKind::Ipv6, "2001:db8::7"),
        (NameKind::Tuple { with_port: false }, "192.0.2.1:1234>198.51.100.7:80/tcp"),
        (NameKind::Tuple { with_port: false }, "[2001:db8::1]:5353>[2001:db8::2]:53/udp"),
        (NameKind::Tuple { with_port: false }, "192.0.2.1>192.0.2.9/icmp"),
        (NameKind::Tuple { with_port: true }, "up@192.0.2.1>192.0.2.9/47"),
        (LABELS, "video/7/segment-3"),
        (LABELS, "0x00ff2c"),
    ] {
        let name = parse_name(text, kind, &ports).unwrap();
        assert_eq!(name_text(&name, &ports), text);
    }
    for text in ["forward left", "route up 02:00:00:00:00:01 02:00:00:00:00:02", "drop", "flood"] {
        assert_eq!(action_text(&parse_action(text, &ports).unwrap(), &ports), text);
    }
}

#[test]
fn each_wrong_line_is_told_with_its_place() {
    let tuple = NameKind::Tuple { with_port: true };
    for (kind, line, column, what) in [
        (NameKind::Mac, "02:00:00:00:00", 1, "no comma"),
        (NameKind::Mac, "  02:00:00:00:00,drop", 3, "is not a MAC address"),
        (NameKind::Mac, "02:00:00:00:00:+1,drop", 1, "is not a MAC address"),
        (NameKind::Mac, "ff:ff:ff:ff:ff:ff,drop", 1, "group address"),
        (NameKind::Mac, "02:00:00:00:00:01,", 19, "is not 'forward PORT'"),
        (NameKind::Mac, "02:00:00:00:00:01, forward  middle", 29, "no port is named 'middle'"),
        (NameKind::Mac, "02:00:00:00:00:01,route up 1 2", 28, "is not a MAC address"),
        (
            NameKind::Mac,
            "02:00:00:00:00:01,route up 02:00:00:00:00:01 01:00:00:00:00:02",
            46,
            "group address",
        ),
        (NameKind::Mac, "02:00:00:00:00:01,forward left right", 19, "is not 'forward PORT'"),
        (NameKind::Ipv4, "192.0.2.256,drop", 1, "is not an IPv4 address"),
        (NameKind::Ipv6, "192.0.2.6,drop", 1, "is not an IPv6 address"),
        (tuple, "192.0.2.1>192.0.2.9/icmp,drop", 1, "begin with the input port"),
        (tuple, "in@192.0.2.1>192.0.2.9/icmp,drop", 1, "no port is named 'in'"),
        (tuple, "left@192.0.2.1:5>2.3.4.5:80/http,drop", 29, "'http' is not tcp"),
        (tuple, "left@192.0.2.1:5>2.3.4.5/udp,drop", 18, "is not like 192.0.2.1:80"),
        (tuple, "left@192.0.2.1:5>2.3.4.5/icmp,drop", 6, "has no ports"),
        (tuple, "left@192.0.2.1:5>[::1]:80/udp,drop", 18, "different families"),
        (tuple, "left@192.0.2.1:5,drop", 6, "not a tuple"),
        (NameKind::Tuple { with_port: false }, "left@192.0.2.1>1.2.3.4/1,drop", 1, "have no input port"),
        (LABELS, "0x0g,drop", 4, "not a hexadecimal digit"),
        (LABELS, "0x012,drop", 1, "odd number"),
        (LABELS, ",drop", 1, "1 to 255 bytes"),
    ] {
        let errors = parse_names(format!("# first\n\n{line}\n").as_bytes(), kind, &ports()).unwrap_err();
        let [error] = &errors.lines[..] else { panic!("{errors:?}") };
        assert_eq!((error.line, error.column), (3, column), "{line}: {error}");
        assert!(error.what.contains(what), "{line}: {error}");
    }
}

#[test]
fn names_are_there_once() {
    let file = "name,action\n02:00:00:00:00:01,drop\n02:00:00:00:00:02,drop\n\
                02:00:00:00:00:01,drop\n 02:00:00:00:00:02,flood\n";
    let errors = parse_names(file.as_bytes(), NameKind::Mac, &ports()).unwrap_err();
    let told: Vec<String> = errors.lines.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["4:1: the name is already in line 2", "5:2: the name is already in line 3 with another action"]
    );
    // Only the first line can be a heading.
    let late = parse_names(b"02:00:00:00:00:01,drop\nname,action", NameKind::Mac, &ports()).unwrap_err();
    assert_eq!(late.lines[0].line, 2);
}

#[test]
fn lines_end_as_anywhere_and_what_is_no_text_is_told() {
    let file = b"\xef\xbb\xbfname,action\r\n192.0.2.1 , forward right\r\n\r\n192.0.2.2,drop";
    let names = parse_names(file, NameKind::Ipv4, &ports()).unwrap();
    assert_eq!(names[0], (FlatName::Ipv4([192, 0, 2, 1].into()), Action::Forward(port(1))));
    assert_eq!(names.len(), 2);
    let errors = parse_names(b"192.0.2.1,drop\nab\xff,drop", NameKind::Ipv4, &ports()).unwrap_err();
    assert_eq!(errors.lines[0].to_string(), "2:3: not UTF-8");
    let many = "nonsense\n".repeat(MAX_REPORTED + 7);
    let errors = parse_names(many.as_bytes(), NameKind::Ipv4, &ports()).unwrap_err();
    assert_eq!((errors.lines.len(), errors.more), (MAX_REPORTED, 7));
}

#[test]
fn ports_have_names_of_their_own() {
    let of = |names: &[&str]| PortNames::new(names.iter().map(ToString::to_string).collect());
    assert_eq!(of(&["a", "b", "a"]), Err(PortNamesError::Twice("a".to_owned())));
    assert_eq!(of(&["a b"]), Err(PortNamesError::Word("a b".to_owned())));
    assert_eq!(of(&["../x"]), Err(PortNamesError::Word("../x".to_owned())));
    assert_eq!(PortNames::new(vec!["x".to_owned(); 300]), Err(PortNamesError::Many(300)));
    let mac = |text: &str| scalebricks_apps::switch::text::parse_mac(text);
    assert_eq!(mac("02:00:00:00:00:fF"), Some(MacAddr([2, 0, 0, 0, 0, 255])));
    assert!(
        ["", "2:0:0:0:0:0", "02:00:00:00:00:00:00", "02-00-00-00-00-00"]
            .iter()
            .all(|text| mac(text).is_none())
    );
}
