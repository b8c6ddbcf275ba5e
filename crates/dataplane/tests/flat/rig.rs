//! A switch with ports in memory.

use scalebricks_dataplane::flat::{
    Action, Changes, CheckBits, FlatName, FlatSwitch, NameConfig, NameKind, NameTable, PortCounts, PortGroup,
    PortNo, StormGuard, StormRate, SwitchDrop, SwitchPolicy, SwitchPort, Unknown,
};
use scalebricks_io::{BURST, MemoryPort, Packet, PacketBuf, Pool, Tag, memory_port_pair};
use scalebricks_types::{HashSeed, KeyHasher};
use std::sync::Arc;
use std::time::Duration;

pub const SEED: HashSeed = HashSeed::from_u64(7);

pub fn port(number: usize) -> PortNo {
    PortNo::new(number).unwrap()
}

/// What makes a rig.
#[derive(Debug, Clone)]
pub struct Setting {
    pub kind: NameKind,
    pub unknown: Unknown,
    pub groups: Vec<Option<u16>>,
    pub storm: Option<(u32, u32)>,
    pub expected: u64,
    pub check_bits: u8,
    pub filter_rate: Option<f64>,
}

impl Setting {
    /// Four ports, aliens told by checksums and filter so well that none is missed in a test.
    pub fn new(kind: NameKind, unknown: Unknown) -> Self {
        let (check_bits, filter_rate) = if unknown == Unknown::Answer { (0, None) } else { (8, Some(1e-9)) };
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
            spreads_aliens: self.unknown == Unknown::Answer,
        })
        .unwrap()
    }
}

pub struct Rig {
    pub table: NameTable,
    pub switch: FlatSwitch<Packet>,
    far: Vec<MemoryPort<Packet>>,
    pool: Pool,
}

/// What left by a port.
pub type Left = Vec<Vec<u8>>;

impl Rig {
    pub fn new(setting: &Setting) -> Self {
        Self::with_room(setting, 2 * BURST, 1_024)
    }

    /// With ports that hold so many frames, and so many buffers.
    pub fn with_room(setting: &Setting, room: usize, buffers: usize) -> Self {
        let table = setting.table();
        let pool = Pool::new(buffers, 2_000).unwrap();
        let (near, far): (Vec<_>, Vec<_>) = setting.groups.iter().map(|_| memory_port_pair(room)).unzip();
        let ports = near.into_iter().zip(&setting.groups);
        let ports =
            ports.map(|(near, group)| SwitchPort { port: Box::new(near), group: group.map(PortGroup) });
        let policy = SwitchPolicy {
            kind: setting.kind,
            hasher: KeyHasher::new(SEED),
            verify_ipv4_checksum: true,
            storm: setting.storm.map(|(rate, burst)| {
                Arc::new(StormGuard::new(StormRate::new(rate, burst).unwrap(), setting.groups.len()))
            }),
        };
        let reader = table.fib().reader(setting.unknown);
        let switch = FlatSwitch::new(policy, reader, ports.collect(), Box::new(pool.clone()));
        Self { table, switch, far, pool }
    }

    pub fn names(&mut self, names: &[(FlatName, Action)]) -> Changes {
        self.table.change_to(names).unwrap()
    }

    /// Pushes frames in, one turn, and takes out what left by each port.
    pub fn push(&mut self, frames: &[(usize, &[u8])], now: Duration) -> Vec<Left> {
        for (id, (port, frame)) in (0..).zip(frames) {
            let mut packet = self.pool.packet(frame).unwrap();
            packet.set_tag(Tag { id, ..Tag::default() });
            assert!(self.far[*port].send(packet).is_ok());
        }
        self.switch.turn(now);
        self.take()
    }

    pub fn take(&mut self) -> Vec<Left> {
        let take = |far: &mut MemoryPort<Packet>| {
            std::iter::from_fn(|| far.receive()).map(|packet| packet.data().to_vec()).collect()
        };
        self.far.iter_mut().map(take).collect()
    }

    pub fn one(&mut self, port: usize, frame: &[u8]) -> Vec<Left> {
        self.push(&[(port, frame)], Duration::ZERO)
    }

    pub fn counts(&self, port: usize) -> PortCounts {
        self.switch.counts().nth(port).unwrap()
    }

    pub fn dropped(&self, port: usize, reason: SwitchDrop) -> u64 {
        self.counts(port).drops.get(reason)
    }

    /// Frames that came are frames that left or were dropped, flooded ones aside.
    pub fn check_books(&self) {
        let counts: Vec<PortCounts> = self.switch.counts().collect();
        if counts.iter().all(|port| port.flooded == 0) {
            let came: u64 = counts.iter().map(|port| port.rx_frames).sum();
            let went: u64 = counts.iter().map(|port| port.tx_frames + port.drops.total()).sum();
            assert_eq!(came, went);
        }
    }
}
