//! `examples/node`: its instructions create the missing files, and its four nodes pass the check.

use super::files::{PROGRAM, example, read, said};
use super::overlay::overlay;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Whether this user may create the directory of the sockets, as a node does.
fn may_run_here() -> bool {
    use rustix::fs::{Access, access};
    let place = if Path::new("/run/scalebricks").exists() { "/run/scalebricks" } else { "/run" };
    access(place, Access::WRITE_OK).is_ok()
}

#[test]
fn the_four_nodes_pass_the_check_after_what_the_instructions_say() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    example("node", folder);
    let readme = read("examples/node/README.md");
    let blocks: Vec<&str> =
        readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 2, "secrets, then checks");
    let directory = Path::new(PROGRAM).parent().unwrap().to_str().unwrap();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap());
    let before = said_error(folder, "node1.toml");
    assert!(
        before.contains("cluster.key: No such file") && before.contains("nats.password: No such file"),
        "{before}"
    );
    for (at, block) in blocks.iter().enumerate() {
        let block = if may_run_here() {
            (*block).to_owned()
        } else {
            block.replace("node check node1", "node check --elsewhere node1")
        };
        let out = Command::new("sh")
            .args(["-euc", &block])
            .current_dir(folder)
            .env("PATH", &path)
            .output()
            .unwrap();
        assert!(out.status.success(), "block {at}: {}", String::from_utf8_lossy(&out.stderr));
    }
    for n in 1..=4 {
        let file = format!("node{n}.toml");
        let mut args = vec!["node", "check", "--quiet", &file];
        if !may_run_here() {
            args.push("--elsewhere");
        }
        let expected = format!("node {} of 4, scalebricks: 0 flows", n - 1);
        let summary = said(folder, &args);
        assert!(summary.starts_with(&expected), "{summary}");
    }

    // The flows are for this cluster.
    let control = "[node]\nid = 0\nflows = \"flows.csv\"\n";
    let whole = fs::read_to_string(folder.join("node1.toml")).unwrap();
    let (head, rest) = whole.split_once("[control]").unwrap();
    let rest = rest.split_once("[[base_station]]").unwrap().1;
    let whole = overlay(&format!("{head}\n[[base_station]]{rest}"), control);
    fs::write(folder.join("list.toml"), whole).unwrap();
    let summary = said(folder, &["node", "check", "--quiet", "--elsewhere", "list.toml"]);
    assert!(summary.starts_with("node 0 of 4, scalebricks: 8 flows, 2 of them here"), "{summary}");
}

/// The four files are of one cluster: what a node says of a peer is what the peer says of itself.
#[test]
fn the_four_nodes_agree() {
    let nodes: Vec<toml::Table> =
        (1..=4).map(|n| toml::from_str(&read(&format!("examples/node/node{n}.toml"))).unwrap()).collect();
    let own = |node: &toml::Table, role: &str| -> Vec<String> {
        let ports = node["port"].as_array().unwrap();
        let port = ports.iter().find(|port| port["role"].as_str() == Some(role)).unwrap();
        let addresses = port["addresses"].as_array().unwrap().iter();
        addresses.map(|address| address.as_str().unwrap().split('/').next().unwrap().to_owned()).collect()
    };
    for (node, n) in nodes.iter().zip(0..) {
        assert_eq!(node["cluster"], nodes[0]["cluster"], "node {n}");
        assert_eq!(node["node"]["id"].as_integer(), Some(n));
        let peers = node["control"]["peer"].as_array().unwrap();
        let numbers: Vec<i64> = peers.iter().map(|peer| peer["node"].as_integer().unwrap()).collect();
        assert_eq!(numbers, (0..4).filter(|other| *other != n).collect::<Vec<_>>(), "peers of node {n}");
        for (peer, number) in peers.iter().zip(numbers) {
            for (key, role) in [("internet", "internet"), ("base_station", "base-station")] {
                for address in peer[key].as_array().unwrap() {
                    let address = address.as_str().unwrap().to_owned();
                    assert!(
                        own(&nodes[usize::try_from(number).unwrap()], role).contains(&address),
                        "node {n}: {address} of {number}"
                    );
                }
            }
        }
    }
}

fn said_error(folder: &Path, file: &str) -> String {
    let out = super::files::run(folder, &["node", "check", "--elsewhere", "--quiet", file]);
    assert_eq!(out.status.code(), Some(1));
    String::from_utf8(out.stderr).unwrap()
}
