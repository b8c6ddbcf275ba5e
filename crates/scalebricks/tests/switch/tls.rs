//! The admin interface over TCP, and its schema.

use super::program::{example, said, switch};
use scalebricks_admin::client::{Client, Target};
use scalebricks_daemon::switch::admin::{openapi, serve};
use scalebricks_daemon::switch::load::Configuration;
use scalebricks_daemon::switch::running::Running;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123";

/// A switch that does not forward, with a TCP address.
fn configure(folder: &Path) -> Arc<Running> {
    example(folder);
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(folder.join("switch.crt"), made.cert.pem()).unwrap();
    for (name, text) in [("switch.key", made.signing_key.serialize_pem()), ("token", TOKEN.to_owned())] {
        fs::write(folder.join(name), text).unwrap();
        fs::set_permissions(folder.join(name), Permissions::from_mode(0o600)).unwrap();
    }
    let text = fs::read_to_string(folder.join("switch.toml")).unwrap();
    let tcp = "\n[admin_tcp]\nlisten = \"127.0.0.1:0\"\ncertificate = \"switch.crt\"\nkey = \"switch.key\"\ntoken = \"token\"\n";
    fs::write(folder.join("switch.toml"), text + tcp).unwrap();
    let configuration = Configuration::read(&folder.join("switch.toml")).unwrap();
    let table = configuration.table().unwrap();
    Arc::new(Running::new(configuration, table, Instant::now()))
}

#[test]
fn names_are_changed_over_tls_by_who_has_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let running = configure(folder);
    let admin = serve(&running).unwrap();
    let address = format!("localhost:{}", admin.tcp().unwrap().port());
    let tcp = ["--tcp", &address, "--ca", "switch.crt", "--token-file", "token"];
    let ask = |args: &[&str]| said(folder, &[args, &tcp].concat());
    assert_eq!(
        ask(&["names", "add", "02:00:00:00:07:01", "forward", "rack1"]).trim(),
        "1 added, 0 altered, 0 removed"
    );
    assert_eq!(ask(&["names", "list"]), "02:00:00:00:07:01,forward rack1\n");
    assert!(ask(&["status"]).contains("names from a file"));
    // Requests with a wrong token or without one are refused.
    fs::write(folder.join("token"), "0123456789abcdef0124").unwrap();
    let refused = switch(folder, &[&["names", "remove", "02:00:00:00:07:01"][..], &tcp].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(switch(folder, &["status", "--tcp", &address]).status.code(), Some(2));
    assert_eq!(running.list().len(), 1);
}

#[test]
fn the_schema_is_published_and_its_copy_is_current() {
    let folder = tempfile::tempdir().unwrap();
    let _admin = serve(&configure(folder.path())).unwrap();
    let socket = Target::Unix(folder.path().join("switch.sock"));
    let published = Client::new(socket, Duration::from_secs(10)).unwrap().text("/openapi.json").unwrap();
    assert_eq!(published, openapi().unwrap());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi-switch.json");
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        fs::write(path, &published).unwrap();
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    assert!(committed == published, "docs/openapi-switch.json is not current: run with UPDATE_OPENAPI=1");
    let schema: serde_json::Value = serde_json::from_str(&published).unwrap();
    for path in ["/v1/switch", "/v1/switch/names", "/v1/switch/lookup", "/metrics", "/healthz", "/readyz"] {
        assert!(schema["paths"][path].is_object(), "{path}");
    }
    for name in ["SwitchView", "PortView", "ChangeView", "ChangedView", "FoundView", "Problem"] {
        assert!(schema["components"]["schemas"][name].is_object(), "{name}");
    }
    for reference in published.split("\"$ref\": \"#/").skip(1) {
        let pointer = format!("/{}", reference.split('"').next().unwrap());
        assert!(schema.pointer(&pointer).is_some(), "{pointer}");
    }
}
