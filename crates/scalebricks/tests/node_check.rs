//! `scalebricks node check` refuses what `scalebricks node run` would refuse, except devices; likewise for a switch.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helpers fail the test")]

use crate::harness::{free_port, program};
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use tempfile::TempDir;

const NODE: &str = r#"
[cluster]
nodes = 4
secret = "00112233445566778899aabbccddeeff"
gateway = "10.255.0.1"
gateway_v6 = "fd00:5b::1"
[node]
id = 2
admin = "run/node.sock"
[admin_tcp]
listen = "127.0.0.1:ADMIN"
certificate = "a.crt"
key = "a.key"
token = "admin.token"
[control]
engine = "nats://127.0.0.1:4222,nats://nats.invalid:4222"
user = "scalebricks"
password = { file = "nats.password" }
name = "berlin"
listen = "127.0.0.1:MESH"
key = "cluster.key"
flows = 1000
[control.tls]
authorities = "b.crt"
certificate = "b.crt"
key = "b.key"
[[control.peer]]
node = 0
address = "10.254.0.10:7400"
[[base_station]]
address = "10.9.0.1"
[[port]]
role = "internet"
device = "net_null0"
addresses = ["192.0.2.2/24"]
gateways = ["192.0.2.1"]
[[port]]
role = "base-station"
device = "net_null1"
addresses = ["10.9.0.2/24"]
[[port]]
role = "fabric"
device = "net_null2"
"#;

/// A node's files, all of them good.
struct Place {
    folder: TempDir,
    config: String,
    mesh: u16,
}

fn secret(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a", "b"] {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            fs::write(path(&format!("{name}.crt")), made.cert.pem()).unwrap();
            fs::write(path(&format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
        }
        for name in ["cluster.key", "nats.password", "admin.token"] {
            secret(&path(name), &"0123456789abcdef".repeat(4), 0o600);
        }
        let (admin, mesh) = (free_port(), free_port());
        let config = NODE.replace("ADMIN", &admin.to_string()).replace("MESH", &mesh.to_string());
        Self { folder, config, mesh }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// What `node check` says of the configuration with a change; `Ok` if nothing is wrong.
    fn check(&self, from: &str, to: &str, more: &[&str]) -> Result<String, String> {
        assert!(self.config.contains(from), "{from}");
        fs::write(self.path("node.toml"), self.config.replacen(from, to, 1)).unwrap();
        let mut command = program();
        let command = command.args(["node", "check", "--quiet", "node.toml"]).args(more);
        let out =
            command.current_dir(self.folder.path()).env_remove("SCALEBRICKS_TEST_NONE").output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        match out.status.code() {
            Some(0) => Ok(text(out.stdout)),
            Some(1) => Err(text(out.stderr)),
            other => panic!("{other:?}: {}", text(out.stderr)),
        }
    }
}

#[test]
fn what_the_configuration_says_is_refused_at_once() {
    let place = Place::new();
    let good = place.check("", "", &[]).unwrap();
    assert!(good.starts_with("node 2 of 4, scalebricks: 0 flows"), "{good}");
    assert!(!place.path("run").exists(), "a check makes nothing");
    let listen = format!("listen = \"127.0.0.1:{}\"", place.mesh);
    let admin = place.config.lines().find(|line| line.starts_with("listen")).unwrap().to_owned();
    for (from, to, expected) in [
        // How servers are reached, and how they know the node.
        (
            "nats://127.0.0.1:4222,",
            "nats://u:hunter2@127.0.0.1:4222,",
            "write user = \"NAME\" and password =",
        ),
        ("nats://127.0.0.1:4222,", "nats://,", "'nats://' is not the address of a NATS server"),
        ("nats://127.0.0.1:4222,", "nats://a:70000,", "is not the address of a NATS server"),
        ("nats://127.0.0.1:4222,", "nats://nats.invalid:4222,", "occurs twice"),
        ("nats://127.0.0.1:4222,", "nats://127.0.0.1:4222,,", "is not the address of a NATS server"),
        (
            "password = { file = \"nats.password\" }",
            "password = \"hunter2\"",
            "a secret must not be in this file",
        ),
        ("password = { file = \"nats.password\" }", "", "control.user: a user without a password"),
        ("user = \"scalebricks\"", "", "control.password: a password without a user"),
        ("user = \"scalebricks\"", "user = \"x\"\ntoken = { env = \"T\" }", "servers ask for one of"),
        ("user = \"scalebricks\"", "user = \"x\"\nreplicas = 2", "2 is not 1, 3 or 5"),
        ("name = \"berlin\"", "name = \"Berlin\"", "'Berlin' must be 1 to 32 of a-z 0-9 - _"),
        ("name = \"berlin\"", "name = \"\"", "control.name: empty"),
        // Secrets.
        ("nats.password", "none", "none: No such file"),
        (
            "{ file = \"nats.password\" }",
            "{ env = \"SCALEBRICKS_TEST_NONE\" }",
            "SCALEBRICKS_TEST_NONE: not set",
        ),
        ("\"cluster.key\"", "\"none\"", "none: No such file"),
        ("admin.token", "none", "none: No such file"),
        // Files for TLS.
        ("authorities = \"b.crt\"", "authorities = \"none.crt\"", "none.crt: "),
        ("authorities = \"b.crt\"", "authorities = \"b.key\"", "b.key: no certificate in the file"),
        ("key = \"b.key\"", "key = \"a.key\"", "a.key: not the key of"),
        ("key = \"b.key\"", "", "a certificate needs its key"),
        ("certificate = \"a.crt\"", "certificate = \"none.crt\"", "none.crt: "),
        ("key = \"a.key\"", "key = \"b.key\"", "certificate and key: "),
        // Addresses.
        ("10.9.0.1\"", "10.8.0.1\"", "addresses and routes: "),
        ("10.9.0.2/24", "192.0.2.2/24", "port.addresses: 192.0.2.2 occurs twice"),
        ("10.9.0.2/24", "10.9.0.2/24\", \"240.0.0.1/8", "addresses and routes: "),
        (
            "\"10.254.0.10:7400\"",
            "\"0.0.0.0:7400\"",
            "control.peer.address: 0.0.0.0:7400 is not the ADDRESS:PORT of another node",
        ),
        ("\"10.254.0.10:7400\"", "\"10.254.0.10:0\"", "is not the ADDRESS:PORT of another node"),
        (
            &listen,
            "listen = \"127.0.0.1:0\"",
            "control.listen: 127.0.0.1:0 is not ADDRESS:PORT with an address that other nodes can reach",
        ),
        (&listen, &admin, "admin_tcp.listen: 127.0.0.1:"),
    ] {
        for more in [&[][..], &["--elsewhere"]] {
            let told = place.check(from, to, more).expect_err(to);
            assert!(told.contains(expected), "{to}: {told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
}

#[test]
fn secrets_that_everybody_may_read_are_refused_and_all_at_once() {
    let place = Place::new();
    let mode =
        |name: &str, mode: u32| fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
    for name in ["cluster.key", "nats.password", "admin.token"] {
        mode(name, 0o604);
        let told = place.check("", "", &[]).unwrap_err();
        assert!(told.contains(&format!("{name}: everybody may read it: chmod o-rwx")), "{told}");
        mode(name, 0o640);
        place.check("", "", &[]).unwrap();
    }
    secret(&place.path("node.creds"), "no credentials", 0o644);
    let auth =
        ("user = \"scalebricks\"\npassword = { file = \"nats.password\" }", "credentials = \"node.creds\"");
    assert!(place.check(auth.0, auth.1, &[]).unwrap_err().contains("node.creds: everybody may read it"));
    mode("node.creds", 0o600);
    assert!(place.check(auth.0, auth.1, &[]).unwrap_err().contains("cannot read the credentials in"));
    secret(&place.path("cluster.key"), "short", 0o600);
    secret(&place.path("admin.token"), "short", 0o600);
    let told = place.check("10.9.0.1\"", "10.8.0.1\"", &[]).unwrap_err();
    for expected in [
        "cluster.key: a key has 32 to 4096 bytes",
        "admin.token: a token is 16 or more",
        "addresses and routes",
    ] {
        assert!(told.contains(expected), "{expected} in {told}");
    }
}

#[test]
fn what_this_machine_says_is_refused_unless_the_node_is_elsewhere() {
    let place = Place::new();
    let mesh = format!("127.0.0.1:{}", place.mesh);
    let elsewhere: &[&str] = &["--elsewhere"];
    // No host has an address of TEST-NET-3.
    let told = place.check(&mesh, "203.0.113.77:7400", &[]).unwrap_err();
    assert!(told.contains("control plane: 203.0.113.77:7400: "), "{told}");
    place.check(&mesh, "203.0.113.77:7400", elsewhere).unwrap();

    // A port of another process, unless it is the node's own that runs already.
    let listener = TcpListener::bind(&mesh).unwrap();
    let told = place.check("", "", &[]).unwrap_err();
    assert!(told.contains(&mesh) && told.contains("in use"), "{told}");
    place.check("", "", elsewhere).unwrap();
    fs::create_dir(place.path("run")).unwrap();
    let node = UnixListener::bind(place.path("run/node.sock")).unwrap();
    place.check("", "", &[]).unwrap();
    drop(node);
    assert!(place.check("", "", &[]).is_err(), "no process answers at the socket");
    drop(listener);
    place.check("", "", &[]).unwrap();

    // Where the socket is to be.
    fs::remove_file(place.path("run/node.sock")).unwrap();
    fs::write(place.path("run/node.sock"), "precious").unwrap();
    let told = place.check("", "", &[]).unwrap_err();
    assert!(told.contains("node.sock: exists and is not a socket"), "{told}");
    let told = place.check("run/node.sock", "node.toml/node.sock", &[]).unwrap_err();
    assert!(told.contains("admin interface: ") && told.contains("node.toml/node.sock"), "{told}");
}

#[test]
fn a_switch_is_checked_in_the_same_way() {
    let place = Place::new();
    let port = |n: u8| format!("[[port]]\nname = \"p{n}\"\ndevice = \"net_null{n}\"\n");
    let good = format!(
        "[switch]\nsecret = \"00112233445566778899aabbccddeeff\"\nadmin = \"switch.sock\"\n[names]\nkind = \"mac\"\n{}{}\
         [admin_tcp]\nlisten = \"127.0.0.1:0\"\ncertificate = \"a.crt\"\nkey = \"a.key\"\ntoken = \"admin.token\"\n\
         [control]\nengine = \"nats://127.0.0.1:4222\"\nname = \"names\"\nuser = \"x\"\npassword = {{ file = \"nats.password\" }}\n",
        port(0),
        port(1)
    );
    let check = |from: &str, to: &str, more: &[&str]| {
        assert!(good.contains(from), "{from}");
        fs::write(place.path("switch.toml"), good.replacen(from, to, 1)).unwrap();
        let mut command = program();
        let command = command.args(["switch", "check", "--config", "switch.toml"]).args(more);
        let out = command.current_dir(place.folder.path()).output().unwrap();
        let told = String::from_utf8_lossy(if out.status.success() { &out.stdout } else { &out.stderr })
            .into_owned();
        if out.status.success() { Ok(told) } else { Err(told) }
    };
    assert!(check("", "", &[]).unwrap().contains("names from the log"));
    for (from, to, expected) in [
        ("nats://127.0.0.1", "nats://u:p@127.0.0.1", "the address contains a user or a password"),
        ("nats.password", "none", "none: No such file"),
        ("admin.token", "none", "none: No such file"),
        ("a.crt", "none.crt", "none.crt: "),
        ("name = \"names\"", "name = \"Names\"", "must be 1 to 32 of a-z"),
    ] {
        let told = check(from, to, &[]).expect_err(to);
        assert!(told.contains(expected), "{to}: {told}");
    }
    assert!(check("127.0.0.1:0", "203.0.113.77:1", &[]).unwrap_err().contains("203.0.113.77:1: "));
    check("127.0.0.1:0", "203.0.113.77:1", &["--elsewhere"]).unwrap();
    let told = check("device = \"net_null1\"\n", "", &[]).unwrap_err();
    assert!(told.contains("port 'p1' has no device"), "{told}");
    check("device = \"net_null1\"\n", "", &["--replay"]).unwrap();
}
