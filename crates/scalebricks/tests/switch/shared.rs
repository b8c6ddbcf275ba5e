//! Switches that share names, for tests.

use super::program::{example, frame};
pub use crate::harness::until as wait;
use scalebricks_admin::model::switch::{Change, ChangeView};
use scalebricks_control::engine::{Engine, ReadError};
use scalebricks_daemon::switch::load::Configuration;
use scalebricks_daemon::switch::log::LogHandle;
use scalebricks_daemon::switch::running::{ChangeError, Running};
use scalebricks_graph::Worker;
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_types::{PartitionId, Position};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const KIND: &str = "kind = \"mac\"";
pub const DIRECTORY: &str = "engine = \"directory:log\"";

/// The example's switch with names of a kind, from an engine's log.
pub fn configure(folder: &Path, kind: &str, engine: &str) -> Configuration {
    example(folder);
    let text = fs::read_to_string(folder.join("switch.toml")).unwrap();
    let file = "file = \"names.csv\"      # beside this file";
    assert!(text.contains(file) && text.contains(KIND));
    let text = text.replace(file, "").replace(KIND, kind);
    let text = if kind == KIND { text } else { text.replace("unknown = \"flood\"", "") };
    let control = format!("\n[control]\n{engine}\nname = \"names\"\n");
    fs::write(folder.join("switch.toml"), text + &control).unwrap();
    Configuration::read(&folder.join("switch.toml")).unwrap()
}

fn running(
    configuration: &Configuration,
    start: impl FnOnce(&Running) -> Result<LogHandle, scalebricks_daemon::switch::log::LogError>,
) -> Arc<Running> {
    let table = configuration.table().unwrap();
    let switch = Arc::new(Running::new(configuration.clone(), table, Instant::now()));
    assert!(switch.log.set(start(&switch).unwrap()).is_ok());
    switch
}

/// A switch with this engine.
pub fn follow(configuration: &Configuration, engine: &Arc<dyn Engine>) -> Arc<Running> {
    let engine = Arc::clone(engine);
    running(configuration, |switch| {
        LogHandle::start_on(async move { engine }, &configuration.file, switch.names.clone())
    })
}

/// A switch with the engine of its configuration.
pub fn start(configuration: &Configuration) -> Arc<Running> {
    let control = configuration.file.control.as_ref().unwrap();
    running(configuration, |switch| LogHandle::start(control, &configuration.file, switch.names.clone()))
}

pub fn change(op: Change, n: u32, action: &str) -> ChangeView {
    let name = format!("02:00:00:00:{:02x}:{:02x}", n / 256, n % 256);
    ChangeView { op, name, action: (op != Change::Remove).then(|| action.to_owned()) }
}

pub fn ask(switch: &Running, changes: &[ChangeView]) -> Result<u64, ChangeError> {
    pollster::block_on(switch.change(changes)).map(|done| done.position.unwrap())
}

/// The test's ends of a port: its input and its output.
pub type Far = [MemoryPort<Packet>; 2];

/// A worker of a switch with ports of this capacity in frames.
pub fn worker(switch: &Running, room: usize, pool: &Pool) -> (Worker<Packet>, Vec<Far>) {
    let link = |_| {
        let ((rx, into), (tx, out)) = (memory_port_pair(room), memory_port_pair(room));
        ((Box::new(rx) as _, Box::new(tx) as _), [into, out])
    };
    let (queues, far): (Vec<_>, Vec<_>) = switch.configuration.file.ports.iter().map(link).unzip();
    (switch.worker(queues, Box::new(pool.clone())).unwrap(), far)
}

/// The ports through which a frame from the first port to the name of this number leaves.
pub fn exits(switch: &Running, n: u8) -> Vec<String> {
    let mut pool = Pool::new(64, 2_000).unwrap();
    let (mut turning, mut far) = worker(switch, 16, &pool);
    let sent = frame([2, 0, 0, 0, 0, n], 64, b"");
    assert!(far[0][0].send(pool.packet(&sent).unwrap()).is_ok());
    assert!(turning.turn(Duration::ZERO) > 0);
    let came = far.iter_mut();
    let came = came.map(|[_, port]| port.receive().inspect(|packet| assert_eq!(packet.data(), sent)));
    let names = switch.configuration.file.port_names.all();
    came.zip(names).filter(|(packet, _)| packet.is_some()).map(|(_, name)| name.clone()).collect()
}

/// Two switches with one engine, and later a third: each forwards by names that another added, from entries or a snapshot.
pub fn names_are_shared(engine: &str, log: &dyn Engine) {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configure(folder.path(), KIND, engine);
    let switches = [start(&configuration), start(&configuration)];
    wait("both follow", || switches.iter().all(|switch| switch.has_all_names()));
    assert_eq!(switches[1].view().fault, None);
    assert_eq!(exits(&switches[1], 1), ["rack2", "uplink-a", "uplink-b"], "unknown: flooded");
    let position = ask(&switches[0], &[change(Change::Add, 1, "forward rack2")]).unwrap();
    wait("the other has it", || switches[1].view().position == Some(position));
    assert_eq!(exits(&switches[1], 1), ["rack2"]);
    let refused = ask(&switches[1], &[change(Change::Add, 1, "drop")]);
    assert!(matches!(refused, Err(ChangeError::Refused(..))), "{refused:?}");
    // More entries than trigger a snapshot.
    for n in 2..1_030 {
        ask(&switches[0], &[change(Change::Add, n, "forward uplink-a")]).unwrap();
    }
    let begins = || pollster::block_on(log.read(PartitionId(0), Position(1), 1_000));
    wait("the log is trimmed", || matches!(begins(), Err(ReadError::Trimmed { .. })));
    let last = ask(&switches[1], &[change(Change::Alter, 2, "forward uplink-b")]).unwrap();
    let third = start(&configuration);
    wait("it begins with the snapshot", || third.has_all_names());
    wait("all are there", || {
        switches.iter().chain([&third]).all(|switch| switch.view().position == Some(last))
    });
    for switch in switches.iter().chain([&third]) {
        assert!(switch.list() == third.list(), "other names"); // a thousand lines
        assert_eq!(
            [exits(switch, 1), exits(switch, 2), exits(switch, 3)],
            [["rack2"], ["uplink-b"], ["uplink-a"]]
        );
    }
    assert_eq!(third.list().len(), 1_029);
}
