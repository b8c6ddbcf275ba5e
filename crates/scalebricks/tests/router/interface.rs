//! The admin interface of a node: its schema and its metrics, which are public.

use crate::harness::{example, repository};
use scalebricks_admin::client::{Client, Target};
use scalebricks_admin::metrics::render_router;
use scalebricks_admin::model::router::FeederView;
use scalebricks_daemon::router::node::admin::{openapi, serve};
use scalebricks_daemon::router::node::load::Configuration;
use scalebricks_daemon::router::node::running::Running;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A node that has not started its log.
fn node(folder: &Path) -> Arc<Running> {
    example("router", folder);
    let path = folder.join("node.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("nodes = 4", "nodes = 4\nadmin = \"router0.sock\"")).unwrap();
    Arc::new(Running::new(Configuration::read(&path).unwrap(), Instant::now()).unwrap())
}

#[test]
fn the_schema_is_published_and_its_copy_is_current() {
    let folder = tempfile::tempdir().unwrap();
    let _admin = serve(&node(folder.path())).unwrap();
    let socket = Target::Unix(folder.path().join("router0.sock"));
    let client = Client::new(socket, Duration::from_secs(10)).unwrap();
    let published = client.text("/openapi.json").unwrap();
    assert_eq!(published, openapi().unwrap());
    let path = repository("docs/openapi-router.json");
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        fs::write(&path, &published).unwrap();
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    assert!(committed == published, "docs/openapi-router.json is not current: run with UPDATE_OPENAPI=1");
    let schema: serde_json::Value = serde_json::from_str(&published).unwrap();
    for path in ["/v1/router", "/v1/router/routes", "/v1/router/next-hops", "/v1/router/links", "/readyz"] {
        assert!(schema["paths"][path].is_object(), "{path}");
    }
    let view = client.router().unwrap();
    assert_eq!((view.node, view.nodes, view.is_ready, view.alive), (0, 4, false, vec![0]));
    assert_eq!(client.links().unwrap().len(), 3);
    assert!(client.next_hops().unwrap().is_empty());
}

#[test]
fn the_metrics_are_those_of_the_documentation() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(folder.path());
    let mut view = node.view();
    view.feeders.push(FeederView {
        name: "fpm".to_owned(),
        state: "complete".to_owned(),
        routes: 1,
        unresolved: 0,
        surplus: 0,
        logged: 0,
        messages: BTreeMap::from([("routes".to_owned(), 1)]),
        last_error: None,
        fault: None,
    });
    let text = render_router(&view, &node.links()).unwrap();
    let series = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (name, labels) = line.split_once('{').unwrap_or((line.split(' ').next().unwrap(), ""));
        let labels = labels.split('}').next().unwrap().split(',').filter(|label| !label.is_empty());
        let labels: Vec<&str> = labels.map(|label| label.split('=').next().unwrap()).collect();
        (name.trim_start_matches("scalebricks_router_").to_owned(), labels.join(", "))
    });
    let series: BTreeSet<(String, String)> = series.collect();
    let page = fs::read_to_string(repository("docs/router-howto.md")).unwrap();
    let table = page.split("| metric (`scalebricks_router_…`)").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[1].trim_matches('`').to_owned(), cells[2].to_owned())
    });
    assert_eq!(series, rows.collect::<BTreeSet<_>>());
}
