//! `scalebricks node check`: its output and exit status.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use crate::harness::{program, text};
use std::fs;
use std::path::Path;
use std::process::Output;

const CONFIG: &str = r#"
[cluster]
nodes = 4
secret = "00112233445566778899aabbccddeeff"
gateway = "10.255.0.1"
gateway_v6 = "fd00:5b::1"
key = "ue"
[node]
id = 2
flows = "flows.csv"
admin = "node.sock"
[[base_station]]
address = "10.9.0.1"
[[port]]
role = "internet"
device = "net_null0"
[[port]]
role = "base-station"
device = "net_null1"
addresses = ["10.9.0.2/24"]
[[port]]
role = "fabric"
device = "net_null2"
"#;

const HEADER: &str = "ue,node,base_station,uplink_teid,downlink_teid\n";

fn check(config: &Path) -> Output {
    program().args(["node", "check", "--quiet"]).arg(config).output().unwrap()
}

#[test]
fn good_files_are_summed_up() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("node.toml");
    fs::write(&config, CONFIG).unwrap();
    let line = |i: u32| format!("10.1.{}.{},{},10.9.0.1,{},7\n", i / 250, i % 250, i % 4, i + 1);
    let lines: Vec<String> = (0..5000).map(line).collect();
    fs::write(dir.path().join("flows.csv"), format!("{HEADER}{}", lines.concat())).unwrap();
    let out = check(&config);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    let expected = "node 2 of 4, scalebricks: 5,000 flows, 1,250 of them here; 1 base stations; ports internet, base-station, fabric\n";
    assert_eq!(text(&out.stdout), expected);
}

#[test]
fn what_is_wrong_is_named_with_file_and_line_and_ends_with_1() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("node.toml");
    let ends = |words: &[&str]| {
        let out = check(&config);
        let told = text(&out.stderr);
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(1), String::new()));
        for word in words {
            assert!(told.contains(word), "{word} in: {told}");
        }
    };
    ends(&["node.toml: No such file"]);
    fs::write(&config, CONFIG.replace("nodes = 4", "nodes = 2")).unwrap();
    ends(&["node.toml:\nline 9: node.id: 2 in a cluster of 2 (numbered from 0)"]);
    fs::write(&config, CONFIG).unwrap();
    ends(&["flows.csv: No such file"]);
    fs::write(dir.path().join("flows.csv"), format!("{HEADER}10.1.0.1,9,10.9.0.1,1,1\n")).unwrap();
    ends(&["flows.csv:\nline 2: node 9 of a cluster of 4 (numbered from 0)\n1 bad line"]);
}

#[test]
fn help_has_examples_and_wrong_usage_ends_with_2() {
    let help = program().args(["node", "--help"]).output().unwrap();
    assert!(text(&help.stdout).contains("scalebricks node check node.toml"));
    let wrong = program().args(["node", "czech"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_configuration_alone_means_run() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("node.toml");
    fs::write(&config, CONFIG.replace("id = 2", "id = 7")).unwrap();
    let node = |args: &[&str]| {
        let program = program().arg("node").args(args).arg(&config).output();
        let out = program.unwrap();
        (out.status.code(), text(&out.stderr))
    };
    let (code, said) = node(&["--quiet", "--config"]);
    assert_eq!((code, &said), (Some(1), &node(&["run", "--quiet"]).1), "both read it and say what is wrong");
    assert!(said.contains("node.toml:"), "{said}");
    let both = program().args(["node", "--config", "x", "check", "y"]).output();
    assert_eq!(both.unwrap().status.code(), Some(2));
}
