//! Placements of flow trackers: connection affinity, fragments included, and full rings.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use scalebricks_apps::flows::{Balance, Placement, pipelines};
use scalebricks_elements::registry;
use scalebricks_flows::tracker::{Config, Tables, Tracker};
use scalebricks_graph::{Control, Element, Frame, Ledger, Out, SlotList, Upstream, Worker, element};
use scalebricks_io::{Packet, PacketBuf, Pool};
use scalebricks_types::HashSeed;
use scalebricks_types::mix::SplitMix64;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Tray = Arc<Mutex<VecDeque<Vec<u8>>>>;

element! {
    /// Injects packets.
    struct Source as "TestSource" { tray: Tray, }
    outputs { push "out": "Packets.", }
    hooks { Begin, }
}

element! {
    /// Collects packets.
    struct Sink as "TestSink" { tray: Tray, }
    inputs { push "in": "Packets.", }
}

impl Control for Source {}

impl Control for Sink {}

impl Element<Packet> for Source {
    fn begin(&mut self, _: &mut Upstream<'_, Packet>, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        for _ in 0..out.intake(frame.used()) {
            let Some(bytes) = self.tray.lock().unwrap().pop_front() else { return };
            let mut packet = frame.alloc().unwrap();
            packet.append(&bytes).unwrap();
            let slot = frame.put(packet).unwrap();
            out.push(0, slot);
        }
    }
}

impl Element<Packet> for Sink {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, _: &mut Out<'_>) {
        for slot in batch.drain() {
            self.tray.lock().unwrap().push_back(frame.take(slot).data().to_vec());
        }
    }
}

/// The workers of a placement, and what reaches the flow tracker of each.
struct Cores {
    workers: Vec<Worker<Packet>>,
    inputs: Vec<Tray>,
    tracked: Vec<Tray>,
    now: Duration,
}

impl Cores {
    fn new(text: &str, ring: usize) -> Self {
        let placement: Placement = text.parse().unwrap();
        let count = placement.cores().len();
        let trays = || -> Vec<Tray> { (0..count).map(|_| Tray::default()).collect() };
        let (inputs, tracked) = (trays(), trays());
        let balance = Balance { secret: HashSeed::new(7, 22), offset: 0, checksums: false, ring };
        let graphs = pipelines(
            &placement,
            &balance,
            |builder, core| {
                builder.add("source", Source { tray: inputs[core].clone() });
                "source".to_owned()
            },
            |builder, core| {
                builder.add("sink", Sink { tray: tracked[core].clone() });
                builder.declare("tracker", "FlowTracker", &["CHECKSUMS false", "PICKUP true", "FLOWS 4096"]);
                builder.chain(&["tracker", "sink"]);
                "tracker".to_owned()
            },
        );
        let workers = graphs
            .into_iter()
            .map(|builder| {
                let graph = builder.build(&registry(), &mut Ledger::new()).unwrap();
                Worker::new(graph, Box::new(Pool::new(10_000, 2_000).unwrap()), ())
            })
            .collect();
        Self { workers, inputs, tracked, now: Duration::from_secs(1) }
    }

    fn turn(&mut self, workers: std::ops::Range<usize>) {
        self.now += Duration::from_millis(1);
        for worker in &mut self.workers[workers] {
            worker.turn(self.now);
        }
    }

    fn number(&mut self, worker: usize, element: &str, handler: &str) -> u64 {
        self.workers[worker].graph_mut().read(element, handler).unwrap().parse().unwrap()
    }

    /// Flows of all trackers.
    fn flows(&mut self) -> u64 {
        (0..self.workers.len())
            .filter_map(|worker| self.workers[worker].graph_mut().read("tracker", "flows").ok())
            .map(|flows| flows.parse::<u64>().unwrap())
            .sum()
    }
}

/// A session of UDP or TCP.
type Session = ([u8; 4], [u8; 4], u8, u16, u16);

fn packet(
    (from, to, protocol, source, destination): Session,
    identification: u16,
    payload: usize,
) -> Vec<u8> {
    let mut l4 = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    if protocol == 6 {
        l4.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 16, 1, 0, 0, 0, 0, 0]);
    } else {
        l4.extend_from_slice(&(8 + payload as u16).to_be_bytes());
        l4.extend_from_slice(&[0, 0]);
    }
    l4.resize(l4.len() + payload, 1);
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    bytes[2..4].copy_from_slice(&(20 + l4.len() as u16).to_be_bytes());
    bytes[4..6].copy_from_slice(&identification.to_be_bytes());
    [bytes, from.to_vec(), to.to_vec(), l4].concat()
}

fn fragments(packet: &[u8]) -> Vec<Vec<u8>> {
    let pieces: Vec<&[u8]> = packet[20..].chunks(64).collect();
    let fragment = |(number, piece): (usize, &&[u8])| {
        let mut bytes = [&packet[..20], piece].concat();
        let more = u16::from(number + 1 < pieces.len()) << 13;
        bytes[2..4].copy_from_slice(&(20 + piece.len() as u16).to_be_bytes());
        bytes[6..8].copy_from_slice(&(more | (number * 8) as u16).to_be_bytes());
        bytes
    };
    pieces.iter().enumerate().map(fragment).collect()
}

/// Addresses and ports of a packet, the smaller end first.
fn session_of(packet: &[u8]) -> (u64, u64, u8) {
    let end = |address: usize, port: usize| {
        let address = u32::from_be_bytes(packet[address..address + 4].try_into().unwrap());
        u64::from(address) << 16 | u64::from(u16::from_be_bytes([packet[port], packet[port + 1]]))
    };
    let (source, destination) = (end(12, 20), end(16, 22));
    (source.min(destination), source.max(destination), packet[9])
}

/// Random sessions, and those of an attacker: one pair of addresses, ports that differ in one bit or are exchanged, ends
/// whose XOR is always the same.
fn sessions() -> Vec<Session> {
    let mut random = SplitMix64(22);
    let mut sessions: Vec<Session> = (0..300)
        .map(|number| {
            let (addresses, ports) = (random.next_u64(), random.next_u64());
            let protocol = if number % 2 == 0 { 6 } else { 17 };
            let address = |bits: u64| Ipv4Addr::from_bits(bits as u32 | 1 << 24).octets();
            (address(addresses), address(addresses >> 32), protocol, ports as u16, (ports >> 16) as u16)
        })
        .collect();
    for number in 0..100_u16 {
        let low = (number & 0xFF) as u8;
        sessions.push(([10, 0, 0, 1], [10, 0, 0, 2], 17, number + 1, 1_000 + number));
        sessions.push(([10, 0, 0, 2], [10, 0, 0, 1], 17, 2_000 + number, 3_000));
        sessions.push(([10, 1, 0, low], [10, 1, 1, low], 6, 4_000 + number, 4_000 + number));
    }
    sessions
}

/// Each session's packets of both directions, whole and in fragments in any order, meet one tracker; and all trackers
/// together have the flows that a single one has.
#[test]
fn both_directions_and_fragments_of_a_session_meet_one_table() {
    let mut random = SplitMix64(3);
    let mut packets = Vec::new();
    for (number, session) in sessions().into_iter().enumerate() {
        let (from, to, protocol, source, destination) = session;
        let reply = (to, from, protocol, destination, source);
        packets.push(packet(session, 0, 4));
        packets.push(packet(reply, 0, 4));
        let mut pieces =
            fragments(&packet(if number % 3 == 0 { reply } else { session }, number as u16, 300));
        for at in (1..pieces.len()).rev() {
            pieces.swap(at, (random.next_u64() % (at as u64 + 1)) as usize);
        }
        packets.extend(pieces);
        packets.push(packet(session, 0, 4));
    }
    // A UDP flow begins with any packet; connections are picked up in the graphs, so here too.
    let config = Config {
        tcp: scalebricks_flows::tcp::Config { pick_up: true, ..Default::default() },
        ..Config::default()
    };
    let mut alone = Tracker::new(&config, HashSeed::new(1, 2), Tables::default()).unwrap();
    for bytes in &packets {
        let _ = alone.track(bytes, 0, Duration::from_secs(1), &mut ());
    }
    let whole = sessions().len() * 4;
    for text in ["1", "1+1", "1+3", "1+6", "2+3", "3"] {
        let mut cores = Cores::new(text, 8_192);
        let inputs: Vec<usize> = (0..cores.workers.len())
            .filter(|core| text.parse::<Placement>().unwrap().cores()[*core].has_input)
            .collect();
        for bytes in &packets {
            // As devices with several queues do: by addresses, so that fragments of a packet come together.
            let queue = bytes[12..20].iter().map(|byte| usize::from(*byte)).sum::<usize>() % inputs.len();
            cores.inputs[inputs[queue]].lock().unwrap().push_back(bytes.clone());
        }
        let all = 0..cores.workers.len();
        for _ in 0..120 {
            cores.turn(all.clone());
        }
        let mut tables: HashMap<(u64, u64, u8), BTreeMap<usize, usize>> = HashMap::new();
        let mut busy = 0;
        for (core, tray) in cores.tracked.iter().enumerate() {
            let tray = tray.lock().unwrap();
            busy += usize::from(tray.len() > packets.len() / 100);
            for bytes in tray.iter() {
                *tables.entry(session_of(bytes)).or_default().entry(core).or_default() += 1;
            }
        }
        assert_eq!(tables.len(), sessions().len(), "{text}: sessions");
        for (session, cores) in &tables {
            assert_eq!(cores.len(), 1, "{text}: {session:?} is on cores {cores:?}");
        }
        let arrived: usize = tables.values().flat_map(BTreeMap::values).sum();
        assert_eq!(arrived, whole, "{text}: whole packets");
        assert_eq!(cores.flows(), alone.flows() as u64, "{text}");
        assert_eq!(busy, text.parse::<Placement>().unwrap().applications().count(), "{text}: all cores work");
    }
}

/// A core that does not run delays only its own flows: its ring drops by name, and other rings go on.
#[test]
fn a_full_ring_drops_by_name() {
    let mut cores = Cores::new("1+2", 16);
    for port in 1..=400 {
        let session = ([10, 0, 0, 1], [192, 0, 2, 7], 17, port, 53);
        cores.inputs[0].lock().unwrap().push_back(packet(session, 0, 4));
    }
    // Core 2 stands still.
    for _ in 0..100 {
        cores.turn(0..2);
    }
    let handed = [1, 2].map(|to| cores.number(0, &format!("pipeline_to_{to}"), "handed"));
    let full = [1, 2].map(|to| cores.number(0, &format!("pipeline_to_{to}"), "handoff_full"));
    assert_eq!(handed.iter().sum::<u64>() + full.iter().sum::<u64>(), 400);
    assert_eq!(handed[1], 16);
    assert!(full[1] > 100, "{full:?}");
    assert_eq!(cores.tracked[1].lock().unwrap().len() as u64, handed[0], "the other core goes on");
}
