//! Responses of the admin interface.

use crate::admin::running::Running;
use scalebricks_admin::client::{Client, ClientError, Target};
use scalebricks_admin::model::{Health, NodeState, ReasonView};
use scalebricks_admin::server::{AdminServer, Listen, ServerError, openapi};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn status_and_stats_are_those_of_the_node() {
    let running = Running::start();
    let client = running.client();
    let status = client.status().unwrap();
    assert_eq!((status.node, status.nodes, status.state), (0, 2, NodeState::Ready));
    assert!(status.tables.iter().all(|table| table.table_bytes > 0));
    for n in 0..10 {
        running.far.lock().unwrap().downstream(2 * n, b"payload");
    }
    running.far.lock().unwrap().downstream(9_999, b"unpinned");
    running.until("packets", |window| window.counted().internet_in == 11);
    let stats = client.stats().unwrap();
    assert_eq!(stats.total.get("internet_in"), 11);
    assert_eq!(
        stats.total.get("base_station_out") + stats.total.get("fabric_out") + stats.total.dropped_total(),
        11
    );
    assert!(stats.total.get("base_station_out") >= 10);
    assert_eq!(stats.workers[0].counters, stats.total);
}

#[test]
fn a_node_is_alive_before_it_is_ready_and_while_it_drains() {
    let running = Running::start();
    let client = running.client();
    let alive = || serde_json::from_str::<Health>(&client.text("/healthz").unwrap()).unwrap();
    assert!(client.text("/readyz").is_ok() && alive().is_ready);
    for state in [NodeState::Loading, NodeState::Draining] {
        running.window.set_state(state);
        assert_eq!(alive(), Health { state, is_ready: false, reasons: vec![] });
        assert!(matches!(client.text("/readyz"), Err(ClientError::NotReady(_))));
        let metrics = client.text("/metrics").unwrap();
        assert!(metrics.contains("scalebricks_ready 0\n"), "{metrics}");
    }
}

#[test]
fn an_unfit_node_is_alive_and_not_ready_and_says_why() {
    let running = Running::start();
    let client = running.client();
    let detail = "no answer from 192.0.2.1 on the internet link for 1.4 s";
    let reason = ReasonView {
        reason: "internet_next_hop".to_owned(),
        meaning: "no next hop towards the Internet answers".to_owned(),
        since_s: Some(1.5),
        detail: detail.to_owned(),
    };
    running.window.set_reasons(vec![reason.clone()]);
    let Err(ClientError::NotReady(said)) = client.text("/readyz") else { panic!("it is ready") };
    assert!(said.contains("internet_next_hop") && said.contains(detail), "{said}");
    let alive: Health = serde_json::from_str(&client.text("/healthz").unwrap()).unwrap();
    assert_eq!(alive, Health { state: NodeState::Ready, is_ready: false, reasons: vec![] });
    assert_eq!(client.status().unwrap().reasons, [reason]);
    let metrics = client.text("/metrics").unwrap();
    assert!(metrics.contains("scalebricks_node_fit{reason=\"internet_next_hop\"} 0\n"), "{metrics}");
    assert!(metrics.contains("scalebricks_node_fit{reason=\"worker\"} 1\n"), "{metrics}");
    running.window.set_reasons(vec![]);
    assert!(client.text("/readyz").is_ok());
}

#[test]
fn metrics_are_there_with_their_type() {
    let running = Running::start();
    let metrics = running.client().text("/metrics").unwrap();
    assert!(metrics.contains("# HELP scalebricks_dropped_packets Packets dropped, by reason.\n"));
    assert!(metrics.contains("scalebricks_dropped_packets_total{reason=\"unknown_flow\"} 0\n"));
    assert!(metrics.ends_with("# EOF\n"));
}

#[test]
fn the_schema_is_published_and_its_copy_is_current() {
    let running = Running::start();
    let published = running.client().text("/openapi.json").unwrap();
    assert_eq!(published, openapi().unwrap());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(path, &published).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == published, "docs/openapi.json is not current: run with UPDATE_OPENAPI=1");
    let schema: serde_json::Value = serde_json::from_str(&published).unwrap();
    for path in ["/v1/status", "/v1/stats", "/v1/trace", "/v1/capture", "/metrics", "/healthz", "/readyz"] {
        assert!(schema["paths"][path].is_object(), "{path}");
    }
    for name in ["Status", "Stats", "Trace", "TraceRequest", "CaptureRequest", "NodeCounters", "Problem"] {
        assert!(schema["components"]["schemas"][name].is_object(), "{name}");
    }
    // Every reference resolves.
    for reference in published.split("\"$ref\": \"#/").skip(1) {
        let pointer = format!("/{}", reference.split('"').next().unwrap());
        assert!(schema.pointer(&pointer).is_some(), "{pointer}");
    }
}

#[test]
fn what_is_not_there_is_said_so() {
    let running = Running::start();
    let client = running.client();
    assert!(matches!(client.text("/v2/status"), Err(ClientError::Refusal(what)) if what.contains("openapi")));
    assert!(matches!(client.text("/v1/trace"), Err(ClientError::Refusal(what)) if what.contains("method")));
}

#[test]
fn errors_say_what_is_wrong_with_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let ask = || Client::new(Target::Unix(path.clone()), Duration::from_secs(5)).unwrap().status();
    assert!(matches!(ask(), Err(ClientError::NoSocket(_))));
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(matches!(ask(), Err(ClientError::Refused(_))));
}

#[test]
fn a_silent_node_is_not_waited_for_forever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let client = Client::new(Target::Unix(path), Duration::from_millis(200)).unwrap();
    assert!(matches!(client.status(), Err(ClientError::TimedOut(..))));
}

#[test]
fn two_servers_do_not_share_a_socket_and_the_second_may_follow() {
    let running = Running::start();
    let listen = Listen::on(running.folder.path().join("other.sock"));
    let start = || AdminServer::start(&listen, Arc::clone(&running.window) as _);
    let first = start().unwrap();
    assert!(matches!(start(), Err(ServerError::InUse(_))));
    let client = Client::new(Target::Unix(listen.socket.clone()), Duration::from_secs(5)).unwrap();
    assert!(client.status().is_ok(), "the first one goes on");
    drop(first);
    assert!(!listen.socket.exists());
    let second = start().unwrap();
    assert_eq!(second.socket(), listen.socket);
    assert!(client.status().is_ok());
}
