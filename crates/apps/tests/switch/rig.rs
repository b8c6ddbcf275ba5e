//! A switch with ports in memory.

use scalebricks_apps::switch::text::PortNames;
use scalebricks_apps::switch::{PortCounts, PortGroup, SwitchPolicy, SwitchPort, counts, wiring};
use scalebricks_elements::flat::{
    Action, Changes, CheckBits, FlatName, LookupRules, NameConfig, NameKind, NameTable, PortNo, StormGuard,
    StormRate, UnknownNamePolicy,
};
use scalebricks_graph::{Ledger, Registry, Worker};
use scalebricks_io::{BURST, MemoryPort, Packet, PacketBuf, Pool, Tag, memory_port_pair};
use scalebricks_types::{HashSeed, KeyHasher};
use std::sync::Arc;
use std::time::Duration;

pub const SEED: HashSeed = HashSeed::from_u64(7);

pub fn port(number: usize) -> PortNo {
    PortNo::new(number).unwrap()
}

/// Parameters of a rig.
#[derive(Debug, Clone)]
pub struct Setting {
    pub kind: NameKind,
    pub unknown: UnknownNamePolicy,
    pub groups: Vec<Option<u16>>,
    pub storm: Option<(u32, u32)>,
    pub expected: u64,
    pub check_bits: u8,
    pub filter_rate: Option<f64>,
}

impl Setting {
    /// Four ports. Checksums and filter are large enough to reject every unknown name of a test.
    pub fn new(kind: NameKind, unknown: UnknownNamePolicy) -> Self {
        let (check_bits, filter_rate) =
            if unknown == UnknownNamePolicy::Answer { (0, None) } else { (8, Some(1e-9)) };
        Self { kind, unknown, groups: vec![None; 4], storm: None, expected: 16, check_bits, filter_rate }
    }

    pub fn table(&self) -> NameTable {
        NameTable::new(NameConfig {
            kind: self.kind,
            hasher: KeyHasher::new(SEED),
            ports: self.groups.len(),
            expected: self.expected,
            check_bits: CheckBits::new(self.check_bits).unwrap(),
            filter_rate: self.filter_rate,
            spreads_aliens: self.unknown == UnknownNamePolicy::Answer,
        })
        .unwrap()
    }
}

pub struct Rig {
    pub table: NameTable,
    worker: Worker<Packet>,
    ledger: Ledger,
    names: PortNames,
    groups: Vec<Option<u16>>,
    /// The far ends of each port: input and output.
    far: Vec<[MemoryPort<Packet>; 2]>,
    pool: Pool,
}

/// The frames that left a port.
pub type Left = Vec<Vec<u8>>;

impl Rig {
    pub fn new(setting: &Setting) -> Self {
        Self::with_room(setting, 2 * BURST, 1_024)
    }

    /// With ports of this capacity, and this number of buffers.
    pub fn with_room(setting: &Setting, room: usize, buffers: usize) -> Self {
        let table = setting.table();
        let pool = Pool::new(buffers, 2_000).unwrap();
        let (mut ports, mut far) = (Vec::new(), Vec::new());
        for group in &setting.groups {
            let ((rx, far_rx), (tx, far_tx)) = (memory_port_pair(room), memory_port_pair(room));
            ports.push(SwitchPort { rx: Box::new(rx), tx: Box::new(tx), group: group.map(PortGroup) });
            far.push([far_rx, far_tx]);
        }
        let rules =
            LookupRules { kind: setting.kind, hasher: KeyHasher::new(SEED), verify_ipv4_checksum: true };
        let guard = |(rate, burst)| {
            Arc::new(StormGuard::new(StormRate::new(rate, burst).unwrap(), setting.groups.len()))
        };
        let policy = SwitchPolicy { rules, storm: setting.storm.map(guard) };
        let names = PortNames::new((0..ports.len()).map(|n| format!("p{n}")).collect()).unwrap();
        let mut ledger = Ledger::new();
        let builder = wiring(&policy, || table.fib().reader(setting.unknown), &names, ports);
        let graph = builder.build(&Registry::new(), &mut ledger).unwrap();
        let worker = Worker::new(graph, Box::new(pool.clone()), ());
        Self { table, worker, ledger, names, groups: setting.groups.clone(), far, pool }
    }

    pub fn names(&mut self, names: &[(FlatName, Action)]) -> Changes {
        self.table.change_to(names).unwrap()
    }

    /// Pushes frames in, runs one turn, and collects the frames that left each port.
    pub fn push(&mut self, frames: &[(usize, &[u8])], now: Duration) -> Vec<Left> {
        for (id, (port, frame)) in (0..).zip(frames) {
            let mut packet = self.pool.packet(frame).unwrap();
            packet.set_tag(Tag { id, ..Tag::default() });
            assert!(self.far[*port][0].send(packet).is_ok());
        }
        self.turn(now);
        self.take()
    }

    /// Sends a frame to a port; `false` if there is no buffer for it, or no room in the port.
    pub fn offer(&mut self, port: usize, frame: &[u8]) -> bool {
        self.pool.packet(frame).is_some_and(|packet| self.far[port][0].send(packet).is_ok())
    }

    pub fn turn(&mut self, now: Duration) {
        self.worker.turn(now);
    }

    /// Received frames that wait within the switch.
    pub fn held(&self) -> usize {
        self.worker.graph().held()
    }

    pub fn take(&mut self) -> Vec<Left> {
        let take = |[_, far]: &mut [MemoryPort<Packet>; 2]| {
            std::iter::from_fn(|| far.receive()).map(|packet| packet.data().to_vec()).collect()
        };
        self.far.iter_mut().map(take).collect()
    }

    pub fn one(&mut self, port: usize, frame: &[u8]) -> Vec<Left> {
        self.push(&[(port, frame)], Duration::ZERO)
    }

    pub fn all_counts(&self) -> Vec<PortCounts> {
        counts::by_port(&self.ledger.snapshot(), &self.names)
    }

    pub fn counts(&self, port: usize) -> PortCounts {
        self.all_counts().swap_remove(port)
    }

    /// A port's counter of this name.
    pub fn count(&self, port: usize, name: &str) -> u64 {
        self.counts(port).get(name)
    }

    /// The sum of all ports' counters of this name.
    pub fn count_all(&self, name: &str) -> u64 {
        self.all_counts().iter().map(|counts| counts.get(name)).sum()
    }

    /// Received frames and requested copies equal the frames that left, were dropped or wait.
    pub fn check_books(&self) {
        let (counts, groups) = (self.all_counts(), &self.groups);
        let mut came = 0;
        for (from, port) in counts.iter().enumerate() {
            let others = (0..groups.len())
                .filter(|&to| to != from && (groups[from].is_none() || groups[to] != groups[from]));
            came += port.get("rx_frames") + port.get("flooded") * (others.count() as u64).saturating_sub(1);
        }
        let went: u64 = counts.iter().map(|port| port.get("tx_frames") + port.dropped()).sum();
        assert_eq!(came, went + self.held() as u64);
    }
}
