//! Requests to several workers that run graphs of the same wiring.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use scalebricks_apps::click::Router;
use scalebricks_apps::directory::{Directory, RequestAnswer, RequestError};
use scalebricks_graph::{Ledger, Registry, Worker};
use scalebricks_io::{Packet, Pool};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const TEXT: &str = "s :: InfiniteSource(LIMIT 0, ACTIVE false) -> c :: Counter -> q :: Queue(9) -> Idle;";

fn worker(directory: &Directory, registry: &Registry<Packet>, text: &str) -> Worker<Packet> {
    let router = Router::read("r.click", text.as_bytes(), &[], registry).unwrap();
    let mut ledger = Ledger::new();
    let graph = router.graph(registry, &mut ledger).unwrap();
    let worker = Worker::new(graph, Box::new(Pool::new(300, 100).unwrap()), ());
    directory.add(&worker, Arc::new(Mutex::new(ledger)));
    worker
}

/// Workers on their own threads; they run until this value is dropped.
struct Running {
    directory: Directory,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Running {
    fn new(texts: &[&str]) -> Self {
        let (registry, directory) = (scalebricks_elements::registry(), Directory::default());
        let stop = Arc::<AtomicBool>::default();
        let start = |text: &&str| {
            let (mut worker, stop) = (worker(&directory, &registry, text), Arc::clone(&stop));
            std::thread::spawn(move || worker.run(&stop))
        };
        let threads = texts.iter().map(start).collect();
        Self { directory, stop, threads }
    }

    fn read(&self, handler: &str, worker: Option<usize>) -> (String, Option<usize>) {
        let (element, handler) = handler.split_once('.').unwrap();
        let RequestAnswer { text, worker } = self.directory.read(element, handler, "", worker).unwrap();
        (text, worker)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

#[test]
fn counters_are_summed_and_handlers_asked_of_one() {
    let limits =
        [TEXT.replace("LIMIT 0, ACTIVE false", "LIMIT 5"), TEXT.replace("LIMIT 0, ACTIVE false", "LIMIT 7")];
    let running = Running::new(&[&limits[0], &limits[1]]);
    while running.read("c.packets", None).0 != "12" {
        std::thread::yield_now();
    }
    let read = |handler, worker| running.read(handler, worker);
    assert_eq!(read("c.packets", None), ("12".to_owned(), None));
    assert_eq!(read("c.packets", Some(0)), ("5".to_owned(), Some(0)));
    assert_eq!(read("c.packets", Some(1)), ("7".to_owned(), Some(1)));
    assert_eq!(read("q.length", None), ("5".to_owned(), Some(0)), "of the first");
    assert_eq!(read("q.length", Some(1)), ("7".to_owned(), Some(1)));
    assert_eq!(read("q.class", None), ("Queue".to_owned(), None), "true of all");
    let counted = |worker| {
        let counted = running.directory.counted(worker).unwrap();
        counted.iter().find(|one| &*one.element == "c").unwrap().get("packets")
    };
    assert_eq!([counted(None), counted(Some(0)), counted(Some(1))], [Some(12), Some(5), Some(7)]);
    let error = RequestError::NoWorker { worker: 2, workers: 2 };
    assert_eq!(running.directory.read("c", "packets", "", Some(2)), Err(error.clone()));
    assert_eq!(running.directory.counted(Some(2)).unwrap_err(), error);
}

#[test]
fn all_workers_take_what_is_written() {
    let running = Running::new(&[TEXT, TEXT, TEXT]);
    running.directory.write("q", "capacity", "33").unwrap();
    for worker in 0..3 {
        assert_eq!(running.read("q.capacity", Some(worker)).0, "33");
    }
    let error = running.directory.write("q", "capacity", "-1").unwrap_err();
    assert_eq!(error, RequestError::Value("no number: \"-1\"".to_owned()), "none took it");
    assert_eq!(running.directory.write("q", "length", "1"), Err(RequestError::ReadOnly("length".to_owned())));
    assert_eq!(running.directory.write("x", "length", "1"), Err(RequestError::NoElement("x".to_owned())));
}

#[test]
fn a_value_that_some_workers_took_is_told_of() {
    let (registry, directory) = (scalebricks_elements::registry(), Directory::default());
    assert_eq!(directory.write("q", "capacity", "1"), Err(RequestError::NotRunning));
    let stop = Arc::<AtomicBool>::default();
    let mut first = worker(&directory, &registry, TEXT);
    let _still = worker(&directory, &registry, TEXT);
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || first.run(&stopped));
    let error = directory.write("q", "capacity", "1").unwrap_err();
    let why = Box::new(RequestError::NoAnswer(1));
    assert_eq!(error, RequestError::InPart { worker: 1, why });
    assert_eq!(
        error.to_string(),
        "worker 1 did not take the value, but others did: worker 1 does not answer"
    );
    assert_eq!(directory.read("q", "capacity", "", None).unwrap().text, "1");
    assert_eq!(directory.read("q", "capacity", "", Some(1)), Err(RequestError::NoAnswer(1)));
    assert_eq!(directory.read("q", "packets", "", Some(1)).unwrap().text, "0", "no worker is asked");
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}
