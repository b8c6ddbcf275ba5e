//! `scalebricks router check`.

use crate::harness::{refused, repository, said};
use std::fs;

#[test]
fn a_configuration_is_checked_without_starting_anything() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["node.toml", "node-routes.txt"] {
        fs::copy(repository("examples/router").join(name), folder.path().join(name)).unwrap();
    }
    let check = ["router", "check", "--config", "node.toml", "--elsewhere"];
    let summary = said(folder.path(), &check);
    assert_eq!(
        summary,
        "node 0 of 4: 1 external ports of 10,000,000,000b/s, links of 7,500,000,000b/s, flowlets; static routes to 2 \
         prefixes; a BGP speaker\n"
    );
    fs::write(folder.path().join("node-routes.txt"), "203.0.113.0/24 over 192.0.2.1\n").unwrap();
    let (_, error) = refused(folder.path(), &check);
    assert!(error.contains("node-routes.txt: line 1: not PREFIX via NEXT_HOP"), "{error}");
    let text = fs::read_to_string(folder.path().join("node.toml")).unwrap();
    fs::write(folder.path().join("node.toml"), text.replace("nodes = 4", "nodes = 3")).unwrap();
    let (_, error) = refused(folder.path(), &check);
    assert!(error.contains("link.node: 3 is not another node of the router"), "{error}");
}
