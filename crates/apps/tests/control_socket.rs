//! Click's control protocol with a running router.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use scalebricks_apps::click::Router;
use scalebricks_apps::click::control_socket::{ControlError, ControlServer, ListenAddress};
use scalebricks_apps::directory::Directory;
use scalebricks_graph::{Ledger, Worker};
use scalebricks_io::{Packet, Pool};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A router that runs until it is dropped.
struct Running {
    server: Option<ControlServer>,
    stop: Arc<AtomicBool>,
    worker: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn new(text: &str) -> Result<Self, ControlError> {
        let registry = scalebricks_elements::registry::<Packet>();
        let router = Router::read("r.click", text.as_bytes(), &[], &registry)?;
        let mut ledger = Ledger::new();
        let graph = router.graph(&registry, &mut ledger)?;
        let mut worker = Worker::new(graph, Box::new(Pool::new(300, 100).unwrap()), ());
        let directory = Arc::<Directory>::default();
        directory.add(&worker, Arc::new(Mutex::new(ledger)));
        directory.follow(Arc::new(router.describe(worker.graph())));
        let server = ControlServer::start(&router, &directory)?;
        let stop = Arc::new(AtomicBool::new(false));
        let worker = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || worker.run(&stop)
        });
        Ok(Self { server: Some(server), stop, worker: Some(worker) })
    }

    fn place(&self) -> ListenAddress {
        self.server.as_ref().unwrap().places().next().unwrap().clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server = None;
        self.stop.store(true, Ordering::Relaxed);
        self.worker.take().unwrap().join().unwrap();
    }
}

struct Client<S>(BufReader<S>);

impl<S: Read + Write> Client<S> {
    fn new(stream: S) -> Self {
        let mut client = Self(BufReader::new(stream));
        assert_eq!(client.line(), "Click::ControlSocket/1.3");
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert!(line.ends_with("\r\n"), "{line:?}");
        line.trim_end().to_owned()
    }

    /// The first line of the answer to a command.
    fn says(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(command.as_bytes()).unwrap();
        self.line()
    }

    fn reads(&mut self, handler: &str) -> String {
        assert_eq!(self.says(&format!("READ {handler}\r\n")), format!("200 Read handler '{handler}' OK"));
        let length = self.line().strip_prefix("DATA ").unwrap().parse().unwrap();
        let mut data = vec![0; length];
        self.0.read_exact(&mut data).unwrap();
        String::from_utf8(data).unwrap()
    }
}

const ROUTER: &str =
    "s :: InfiniteSource(LIMIT 50, ACTIVE false) -> c :: Counter -> q :: Queue(100) -> Unqueue -> Discard;";

fn tcp(place: &ListenAddress) -> TcpStream {
    let ListenAddress::Tcp(address) = place else { panic!("{place}") };
    assert!(address.ip().is_loopback());
    TcpStream::connect(address).unwrap()
}

#[test]
fn handlers_are_read_and_written_over_tcp() {
    let running = Running::new(&format!("{ROUTER} ControlSocket(TCP, 0)")).unwrap();
    let mut client = Client::new(tcp(&running.place()));
    assert_eq!(client.reads("c.count"), "0");
    assert_eq!(client.says("WRITE s.active true\r\n"), "200 Write handler 's.active' OK");
    while client.reads("c.count") != "50" {}
    assert_eq!(client.reads("2.count"), "50");
    assert_eq!(
        (client.reads("c.class"), client.reads("s.config")),
        ("Counter".into(), "LIMIT 50, ACTIVE false".into())
    );
    assert_eq!(client.reads("s.made"), "50");
    assert!(client.reads("q.handlers").contains("capacity\trw\n"), "{}", client.reads("q.handlers"));
    assert!(client.reads("c.handlers").ends_with("reset_counts\tw\n"));
    assert!(client.reads("list").starts_with("6\ns\nc\nq\nUnqueue@4\n"));
    assert!(client.reads("flatconfig").contains("q :: Queue(100);"));
    assert_eq!(client.says("WRITEDATA q.capacity 2\r\n77"), "200 Write handler 'q.capacity' OK");
    assert_eq!(client.reads("q.capacity"), "77");
    assert_eq!(client.says("WRITE q.capacity many\r\n"), "520-Write handler 'q.capacity' error:");
    assert_eq!(client.line(), "520 no number: \"many\"");
    let refused = [
        ("READ x.count", "510 No element named 'x'"),
        ("READ c.counts", "511 No handler named 'c.counts'"),
        ("READ c.reset_counts", "530 Handler 'c.reset_counts' write-only"),
        ("WRITE c.count 5", "530 Handler 'c.count' read-only"),
        ("WRITE version 5", "530 Handler 'version' read-only"),
        ("READ nothing", "511 No handler named 'nothing'"),
        ("CHECKWRITE q.capacity", "200 Write handler 'q.capacity' OK"),
        ("CHECKWRITE q.length", "511 Handler 'q.length' not writable"),
        ("CHECKREAD c.reset_counts", "511 Handler 'c.reset_counts' not readable"),
        ("CHECKREAD c.graph_loop", "200 Read handler 'c.graph_loop' OK"),
        ("LLRPC c#0", "501 Cannot call LLRPC 'c#0' remotely"),
    ];
    for (command, answer) in refused {
        assert_eq!(client.says(&format!("{command}\n")), answer);
    }
    assert_eq!(client.says("QUIT\r\n"), "200 Goodbye!");
    assert_eq!(client.0.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_unix_socket_may_be_read_only_and_is_gone_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("router.sock");
    let text = format!("{ROUTER} ControlSocket(UNIX, {}, READONLY true)", path.display());
    let running = Running::new(&text).unwrap();
    let mut client = Client::new(UnixStream::connect(&path).unwrap());
    assert_eq!(client.says("WRITE s.active true\n"), "530 Permission denied for 's.active'");
    assert_eq!(client.says("CHECKWRITE s.active\n"), "530 Permission denied for 's.active'");
    assert_eq!(client.reads("s.active"), "false");
    assert!(matches!(Running::new(&text), Err(ControlError::Listen { .. })), "somebody listens there");
    drop(running);
    assert!(!path.exists());
    // The socket file of a process that died is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Running::new(&text).unwrap());
}

#[test]
fn a_seventeenth_client_is_turned_away() {
    let running = Running::new(&format!("{ROUTER} ControlSocket(TCP, 0)")).unwrap();
    let mut clients: Vec<_> = (0..16).map(|_| Client::new(tcp(&running.place()))).collect();
    let mut over = tcp(&running.place());
    assert_eq!(over.read(&mut [0]).unwrap_or(0), 0);
    assert_eq!(clients[15].reads("c.count"), "0");
}

#[test]
fn wrong_arguments_have_their_place() {
    let error =
        Running::new(&format!("{ROUTER}\nControlSocket(TCP, 77777)")).map(drop).unwrap_err().to_string();
    assert!(error.contains("r.click:2:20: `ControlSocket@6`: PLACE: cannot read \"77777\""), "{error}");
}
