//! Errors in a configuration or a file of names have their line.

use super::program::{example, refused, said};
use std::fs;

#[test]
fn the_example_is_good() {
    let folder = tempfile::tempdir().unwrap();
    example(folder.path());
    let text = said(folder.path(), &["check", "--config", "switch.toml"]);
    assert!(text.starts_with("switch by mac: 7 names, 6 different actions"), "{text}");
    assert!(text.trim_end().ends_with("ports rack1, rack2, uplink-a, uplink-b"), "{text}");
}

#[test]
fn each_problem_has_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    example(folder);
    let good = fs::read_to_string(folder.join("switch.toml")).unwrap();
    for (from, to, wanted) in [
        ("000102030405060708090a0b0c0d0e0f", "secret", "line 4: switch.secret: not 32 hexadecimal digits"),
        ("kind = \"mac\"", "kind = \"macs\"", "line 8: names.kind: 'macs' is not 'mac', 'ipv4', "),
        ("kind = \"mac\"", "kind = \"ipv4\"", "line 10: names.unknown: only MAC addresses"),
        (
            "kind = \"mac\"",
            "kind = \"mac\"\nwith_port = true",
            "line 9: names.with_port: only names of the kind 'tuple'",
        ),
        ("kind = \"mac\"", "kind = \"bytes\"", "line 8: names.at: set the position of the bytes"),
        ("kind = \"mac\"", "kind = \"bytes\"\nat = { offset = 3 }", "line 9: names.at: set length"),
        ("check_bits = 8", "check_bits = 9", "line 11: names.check_bits: 9 is not 0 to 8"),
        ("check_bits = 8", "check_bits = 0", "without check_bits and filter_rate"),
        ("check_bits = 8", "filter_rate = 0.9", "line 11: names.filter_rate: 0.9 is not"),
        ("unknown = \"flood\"", "unknown = \"answer\"", "does not detect unknown names"),
        ("file = \"names.csv\"", "", "set one of names.file"),
        ("frames_per_s = 1000", "frames_per_s = 0", "line 14: storm: rate must be 1 to"),
        ("name = \"rack2\"", "name = \"rack1\"", "line 22: port.name: 'rack1' occurs twice"),
        ("name = \"rack2\"", "name = \"rack 2\"", "line 22: port.name: 'rack 2' is not a name"),
        ("net_ring1", "net_ring0", "line 23: port.device: 'net_ring0' is used twice"),
        (
            "device = \"net_ring1\"",
            "device = \"net_ring0\"\nvlan = 7",
            "line 23: port.device: 'net_ring0' is used twice; ports that share a device need a 'vlan' each",
        ),
        (
            "device = \"net_ring1\"",
            "device = \"net_ring1\"\nvlan = 4095",
            "line 24: port.vlan: 4095 is not 1 to 4094",
        ),
        ("[storm]", "[worker]\nmode = \"split\"\n[storm]", "line 14: worker.mode: a switch has no fabric"),
        ("[storm]", "[strom]", "line 13: strom: unknown; did you mean storm?"),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(folder.join("switch.toml"), good.replacen(from, to, 1)).unwrap();
        let (status, error) = refused(folder, &["check", "--config", "switch.toml"]);
        assert!(status == Some(1) && error.contains(wanted), "{to}: {error}");
    }
}

#[test]
fn each_bad_line_of_names_has_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    example(folder);
    let names = "02:00:00:00:01:01,forward rack1\n02:00:00:00:01:02,forward rack7\n02:00:00:00:01:01,drop\n";
    fs::write(folder.join("names.csv"), names).unwrap();
    let (status, error) = refused(folder, &["check", "--config", "switch.toml"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("names.csv:2:27: no port is named 'rack7'"), "{error}");
    assert!(error.contains("names.csv:3:1: the name is already in line 1 with another action"), "{error}");
}

#[test]
fn usage_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["replay", "--config", "x"][..], &["names"], &["names", "add", "x"], &["check"]] {
        assert_eq!(refused(folder.path(), args).0, Some(2), "{args:?}");
    }
    let help = said(folder.path(), &["--help"]);
    assert!(help.contains("Examples:") && help.contains("Exit status:"), "{help}");
    #[cfg(not(feature = "dpdk"))]
    {
        example(folder.path());
        let (status, error) = refused(folder.path(), &["--config", "switch.toml"]);
        assert!(status == Some(1) && error.contains("built without DPDK"), "{error}");
    }
}
