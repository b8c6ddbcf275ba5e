//! Any text becomes a graph that runs, or is refused with line and column. No device or file is opened.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::click::Router;
use scalebricks_graph::{Ledger, Worker};
use scalebricks_io::{Packet, Pool};
use std::time::Duration;

fuzz_target!(|text: &[u8]| {
    let registry = scalebricks_elements::registry::<Packet>();
    let variables = [("given".to_owned(), "7".to_owned())];
    let mut ledger = Ledger::new();
    let built = Router::read("input", text, &variables, &registry).and_then(|router| {
        assert!(router.notes().len() <= router.configuration().elements.len());
        router.graph(&registry, &mut ledger)
    });
    let graph = match built {
        Ok(graph) => graph,
        Err(errors) => {
            assert!((1..=100).contains(&errors.list().len()));
            let length = errors.source_text().text().len().max(text.len());
            assert!(errors.list().iter().all(|error| error.span.end as usize <= length));
            assert!(!errors.to_string().is_empty());
            return;
        }
    };
    let Ok(pool) = Pool::new(64, 200) else { return };
    let mut worker = Worker::new(graph, Box::new(pool), ());
    for turn in 1..=4 {
        worker.turn(Duration::from_millis(turn));
    }
});
