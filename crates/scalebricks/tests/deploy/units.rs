//! The units for systemd: systemd understands them, their commands work, and all have the same restrictions. The variables of the NATS
//! configuration are documented and set.

use super::files::{PROGRAM, example, read, said, secret};
use crate::harness::free_port;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

const UNITS: [&str; 4] = ["node", "log", "switch", "router"];

fn unit(name: &str) -> String {
    read(&format!("deploy/scalebricks-{name}.service"))
}

fn value<'a>(unit: &'a str, key: &str) -> &'a str {
    let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {key} in\n{unit}"))
}

/// The arguments of a unit's command, with the test's folders in place of the system's.
fn command(unit: &str, key: &str, folder: &Path) -> Vec<String> {
    let mut words = value(unit, key).split(' ').map(|word| {
        let at = |name: &str| folder.join(name).display().to_string();
        word.replace("/etc/scalebricks", &at("etc"))
            .replace("/var/lib/scalebricks", &at("state"))
            .replace("/run/scalebricks", &at("run"))
    });
    assert_eq!(words.next().as_deref(), Some("/usr/local/bin/scalebricks"));
    words.collect()
}

#[test]
fn all_units_have_the_same_restrictions() {
    let node = unit("node");
    for name in UNITS {
        let unit = unit(name);
        for (key, expected) in [
            ("NoNewPrivileges", "yes"),
            ("PrivateTmp", "yes"),
            ("ProtectHome", "yes"),
            ("ProtectSystem", "strict"),
            ("UMask", "0077"),
            ("LimitNOFILE", "65536"),
            ("RuntimeDirectory", "scalebricks"),
            ("RuntimeDirectoryPreserve", "yes"),
            ("StateDirectory", "scalebricks"),
            ("StateDirectoryMode", "0700"),
            ("Restart", "on-failure"),
        ] {
            assert_eq!(value(&unit, key), expected, "{name}: {key}");
        }
        // The log's server has files and local sockets only.
        let expected = if name == "log" { "" } else { value(&node, "CapabilityBoundingSet") };
        assert_eq!(value(&unit, "CapabilityBoundingSet"), expected, "{name}");
    }
}

#[test]
fn the_variables_of_the_nats_configuration_are_documented_and_set() {
    let (config, compose) = (read("deploy/nats/nats.conf"), read("deploy/nats/compose.yaml"));
    let (head, body) = config.split_once("\nserver_name:").unwrap();
    let body = format!("server_name:{body}");
    let names: Vec<&str> = body
        .split('$')
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_uppercase() && c != '_').next().unwrap())
        .collect();
    assert_eq!(names.len(), 7, "{names:?}");
    for name in names {
        assert!(head.contains(&format!("#   {name} ")), "{name} is not documented");
        let is_set = compose.lines().any(|line| line.contains(&format!("{name}:")));
        assert!(is_set, "{name} is not set by the compose file");
    }
    // Other machines cannot read the monitoring page, and data requires a password.
    assert!(body.contains("http: \"127.0.0.1:8222\""));
    assert_eq!(body.lines().filter(|line| line.trim() == "authorization {").count(), 2, "clients and routes");
}

#[test]
fn systemd_understands_the_units() {
    let folder = tempfile::tempdir().unwrap();
    let verify = |units: &[(&str, String)]| {
        let paths = units.iter().map(|(name, text)| {
            let path = folder.path().join(format!("scalebricks-{name}.service"));
            let text = text.replace("/usr/local/bin/scalebricks", PROGRAM);
            fs::write(&path, text.replace("/usr/local/bin/nats-server", PROGRAM)).unwrap();
            path
        });
        let paths: Vec<_> = paths.collect();
        let out = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(paths).output().ok()?;
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        // Units of other packages, which systemd may also report, are ignored.
        Some(said.lines().filter(|line| line.contains("scalebricks")).collect::<Vec<_>>().join("\n"))
    };
    let wrong = unit("log").replace("Type=exec", "Type=exex");
    match verify(&[("wrong", wrong)]) {
        Some(said) if said.contains("exex") => {}
        other => {
            // Directly to standard error, because the runner captures what tests print.
            let _ = writeln!(io::stderr(), "skipped: systemd-analyze cannot verify units here ({other:?})");
            return;
        }
    }
    let said = verify(&UNITS.map(|name| (name, unit(name)))).unwrap();
    assert_eq!(said, "");
}

#[test]
fn the_units_check_and_run_a_node_a_switch_and_a_router() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let etc = folder.join("etc");
    fs::create_dir(&etc).unwrap();
    example("node", &etc);
    example("switch", &etc);
    secret(&etc.join("cluster.key"));
    secret(&etc.join("nats.password"));
    let port = free_port();
    let node = fs::read_to_string(etc.join("node1.toml")).unwrap();
    let node = node
        .replace("0.0.0.0:7400", &format!("127.0.0.1:{port}"))
        .replace("id = 0", "id = 0\nadmin = \"node.sock\"");
    fs::write(etc.join("node.toml"), node).unwrap();
    let router = read("examples/router/node.toml");
    fs::write(etc.join("router.toml"), router.replace("nodes = 4", "nodes = 4\nadmin = \"router.sock\""))
        .unwrap();
    fs::write(etc.join("node-routes.txt"), read("examples/router/node-routes.txt")).unwrap();
    let begins = [
        ("node", "node 0 of 4"),
        ("switch", "switch by mac: 7 names"),
        ("router", "node 0 of 4: 1 external ports"),
    ];
    for (name, begin) in begins {
        let unit = unit(name);
        let check = command(&unit, "ExecStartPre", folder);
        let words: Vec<&str> = check.iter().map(String::as_str).collect();
        assert!(said(folder, &words).starts_with(begin));
        assert_eq!(value(&unit, "Type"), "notify");
        assert_eq!(value(&unit, "ExecReload"), "/bin/kill -HUP $MAINPID");
        // With DPDK it would run.
        #[cfg(not(feature = "dpdk"))]
        {
            let run = command(&unit, "ExecStart", folder);
            let out = Command::new(PROGRAM).args(&run).output().unwrap();
            let error = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.code() == Some(1) && error.contains("built without DPDK"), "{run:?}: {error}");
        }
    }
}
