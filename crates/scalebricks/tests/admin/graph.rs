//! The graph that a node's worker runs: its elements, counters and handlers.

use crate::admin::running::Running;
use crate::harness::{program, stdout};
use scalebricks_admin::client::{Client, ClientError};
use scalebricks_admin::model::LinkView;
use std::process::Output;

fn graph(running: &Running, args: &[&str]) -> Output {
    let mut command = program();
    command.arg("graph").args(args).arg("--socket").arg(running.socket()).output().unwrap()
}

fn said(running: &Running, args: &[&str]) -> String {
    stdout(&graph(running, args))
}

fn refused(running: &Running, args: &[&str]) -> String {
    let output = graph(running, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn read(client: &Client, element: &str, handler: &str) -> u64 {
    client.read_handler(element, handler, "", None).unwrap().value.parse().unwrap()
}

#[test]
fn elements_of_a_node_are_listed_and_count_what_the_node_counts() {
    let running = Running::start();
    for n in [4, 6, 9_998] {
        running.far.lock().unwrap().downstream(n, b"");
    }
    running.until("packets", |window| window.counted().internet_in == 3);
    let client = running.client();
    let view = client.graph(None).unwrap();
    assert_eq!((view.workers, view.is_replaceable, view.former.len()), (1, false, 0));
    assert_eq!(view.file, "/etc/scalebricks/node.toml");
    let names: Vec<&str> = view.elements.iter().map(|element| element.name.as_str()).collect();
    assert_eq!(names.len(), 11, "{names:?}");
    // In the order of execution.
    let place = |name| names.iter().position(|other| *other == name).unwrap();
    assert!(place("from_internet") < place("steer") && place("handle") < place("to_internet"), "{names:?}");
    assert_eq!(read(&client, "from_internet", "received"), 3);
    let counted = running.window.counted();
    assert_eq!(read(&client, "to_base_station", "sent"), counted.base_station_out);
    let handle = client.element("handle", None).unwrap();
    assert_eq!(handle.class, "Handle");
    // Two fused elements are listed separately, with their connection.
    let from_steer = |link: &LinkView| link.element == "steer";
    assert!(handle.inputs.iter().any(from_steer) && handle.outputs.iter().any(from_steer), "{handle:?}");
    assert!(handle.handlers.iter().any(|handler| handler.name == "icmp_sent" && handler.reads));
    let dropped: u64 = client.graph(None).unwrap().elements.iter().flat_map(|one| one.dropped.values()).sum();
    assert_eq!(dropped, counted.dropped.total());
    // The program prints the same.
    assert!(said(&running, &["show"]).contains("from_base_station"));
    assert!(said(&running, &["show", "steer"]).contains("[0] <- from_internet [0], push"));
    assert_eq!(said(&running, &["read", "from_internet.received", "--worker", "0"]), "3\n");
    assert_eq!(said(&running, &["read", "from_internet.class"]), "FromPort\n");
}

#[test]
fn what_a_node_s_graph_does_not_do_is_refused_in_words() {
    let running = Running::start();
    for (args, what) in [
        (&["read", "nothing.count"][..], "no element \"nothing\""),
        (&["read", "steer.nothing"], "has no handler \"nothing\""),
        (&["read", "steer.packets", "--worker", "1"], "no worker 1: there are 1, counted from 0"),
        (&["show", "--worker", "1"], "no worker 1"),
        (&["write", "steer.packets", "0"], "\"packets\" is read-only"),
        (&["write", "nothing.packets", "0"], "no element"),
        (&["reload"], "the program wires this graph itself"),
    ] {
        let error = refused(&running, args);
        assert!(error.contains(what), "{args:?}: {error}");
    }
    let replaced = running.client().replace_graph(Some(("r.click", b"Idle -> Discard".to_vec())));
    assert!(matches!(replaced, Err(ClientError::Refusal(what)) if what.contains("wires this graph itself")));
    let metrics = running.client().text("/metrics").unwrap();
    assert!(!metrics.contains("scalebricks_graph_"), "a node's metrics have their own names");
}
