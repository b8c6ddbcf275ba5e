//! Figures 9 and 11: packets a second from port to port: the destination address of each is read and looked up, its next hop
//! written, and the packet sent out where its action says.
//!
//! Packets lie in memory and go round: the port that takes one makes it the next one of another name and puts it behind all
//! others, inline. What that costs is measured in the same round and subtracted, as in the benchmark of the gateway.

use super::fibs::{Asker, Fib, NameFib, UNKNOWN};
use super::{add_point, millions, paper};
use crate::error::BenchError;
use crate::figures::exhibit::{Chart, Scale, Sheet};
use crate::gateway::ring::ROTATION;
use crate::gateway::slab::Slab;
use crate::names::population::{Kind, Population, SEED};
use crate::names::{NameHasher, macs};
use crate::rounds::{Found, Turn, alternate};
use crate::row::{Metric, Row, Subject};
use crate::session::Session;
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_io::{BURST, Burst, PacketBuf, RxPort, Tag, TxPort};
use scalebricks_types::KeyHash;
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::{destination, set_addresses};
use std::collections::VecDeque;

/// Octets of a frame.
const FRAMES: [usize; 2] = [64, 1500];
/// Ports that packets leave by.
const PORTS: usize = 4;
/// Bytes a name, all tables of a size.
const NAME_BYTES: u64 = 110;
const STRUCTURES: [Fib; 3] = [Fib::OTHELLO, Fib::SetSep, Fib::Cuckoo];
/// The switch itself.
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0xFF, 0xFF]);
/// What rows begin with.
const VARIANT: &str = "forwarding, frames of ";

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let value_bits = options.value_bits(&[8], &[8]).first().copied().unwrap_or(8);
    for names in options.keys(&[262_144], &[262_144, 1_000_000, 4_000_000, 16_000_000]) {
        if session.fits(names, NAME_BYTES)? {
            one(session, names, value_bits)?;
        }
    }
    show(session);
    Ok(())
}

/// The next hop of an action, as an address.
fn next_hop(action: u16) -> MacAddr {
    let [high, low] = action.to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

/// All packets there are, and who is sent to.
struct Rotation<'a, P> {
    packets: VecDeque<P>,
    names: &'a [[u8; 6]],
    actions: &'a [u16],
    octets: usize,
    /// The name of the next packet.
    next: usize,
    /// Whether each packet is looked at that comes out; how many were wrong, and how many were right.
    is_judged: bool,
    wrong: usize,
    right: usize,
}

impl<'a, P: PacketBuf> Rotation<'a, P> {
    /// These packets, which must be empty.
    fn new(packets: Vec<P>, names: &'a [[u8; 6]], actions: &'a [u16], octets: usize) -> Self {
        let mut packets: VecDeque<P> = packets.into();
        for packet in &mut packets {
            // A buffer has the room.
            let _ = packet.append(&[0xAB; 2000][..octets]);
        }
        let mut rotation =
            Self { packets, names, actions, octets, next: 0, is_judged: false, wrong: 0, right: 0 };
        for _ in 0..rotation.packets.len() {
            if let Some(packet) = rotation.packets.pop_front() {
                rotation.renew(packet);
            }
        }
        rotation
    }

    /// Makes a packet the next one, behind all others.
    #[inline]
    fn renew(&mut self, mut packet: P) {
        let name = self.next;
        self.next = if name + 1 < self.names.len() { name + 1 } else { 0 };
        // Frames are longer than a header.
        let _ = set_addresses(packet.data_mut(), MacAddr(self.names[name]), OWN);
        packet.set_tag(Tag { id: name as u64, ..Tag::default() });
        self.packets.push_back(packet);
    }

    /// Takes what was sent to a port.
    fn take(&mut self, port: usize, burst: &mut Burst<P>) {
        for packet in burst.drain(..) {
            if self.is_judged {
                let action = self.actions[packet.tag().id as usize];
                let is_right = destination(packet.data()) == Some(next_hop(action))
                    && usize::from(action) % PORTS == port
                    && packet.data().len() == self.octets;
                self.wrong += usize::from(!is_right);
                self.right += usize::from(is_right);
            }
            self.renew(packet);
        }
    }
}

/// The port that packets come from.
impl<P: PacketBuf> RxPort<P> for Rotation<'_, P> {
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        let room = burst.remaining_capacity().min(self.packets.len());
        burst.extend(self.packets.drain(..room));
        room
    }
}

/// A port that packets leave by.
struct Exit<'a, 'b, P>(&'a mut Rotation<'b, P>, usize);

impl<P: PacketBuf> TxPort<P> for Exit<'_, '_, P> {
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        let sent = burst.len();
        self.0.take(self.1, burst);
        sent
    }
}

/// Forwards so many packets, whole bursts at a time.
fn forward<P: PacketBuf>(rotation: &mut Rotation<'_, P>, asker: &mut dyn Asker, packets: usize) {
    let hasher = NameHasher::new(SEED);
    let mut burst = Burst::new();
    let mut exits: [Burst<P>; PORTS] = std::array::from_fn(|_| Burst::new());
    let (mut hashes, mut actions) = ([KeyHash::new(0); BURST], [UNKNOWN; BURST]);
    for _ in 0..packets / BURST {
        let taken = rotation.rx_burst(&mut burst);
        for (hash, packet) in hashes.iter_mut().zip(&burst) {
            let MacAddr(name) = destination(packet.data()).unwrap_or(MacAddr([0; 6]));
            *hash = hasher.hash(&name);
        }
        asker.ask(&hashes[..taken], &mut actions[..taken]);
        for (mut packet, &action) in burst.drain(..).zip(&actions) {
            let _ = set_addresses(packet.data_mut(), next_hop(action), OWN); // as above
            exits[usize::from(action) % PORTS].push(packet);
        }
        for (port, exit) in exits.iter_mut().enumerate().filter(|(_, exit)| !exit.is_empty()) {
            Exit(&mut *rotation, port).tx_burst(exit);
        }
    }
}

/// Generator and sink: each burst is sent as it came.
fn idle<P: PacketBuf>(rotation: &mut Rotation<'_, P>, packets: usize) {
    let mut burst = Burst::new();
    for number in 0..packets / BURST {
        rotation.rx_burst(&mut burst);
        Exit(&mut *rotation, number % PORTS).tx_burst(&mut burst);
    }
}

fn one(session: &mut Session<'_>, names: u64, value_bits: u8) -> Result<(), BenchError> {
    let busy = session.busy("building");
    let set = Population::of(Kind::Mac, names, value_bits);
    let addresses: Vec<[u8; 6]> = macs(1).take(set.len()).collect();
    let mut tables = Vec::new();
    for fib in STRUCTURES.into_iter().filter(|&fib| fib != Fib::SetSep || value_bits <= 8) {
        session.check()?;
        tables.push((fib, fib.build(&set, pin::cores())?));
    }
    drop(busy);
    let scene = Scene { addresses: &addresses, set: &set, tables: &tables };
    for octets in FRAMES {
        // Packets of their own for each length: those of DPDK come one after the other in their memory, too.
        scene.measure(session, Slab::new(ROTATION).packets, octets, "")?;
        #[cfg(feature = "dpdk")]
        {
            crate::gateway::dpdk::start(0)?;
            scene.measure(session, crate::gateway::dpdk::packets(ROTATION)?, octets, ", mbufs")?;
        }
    }
    Ok(())
}

/// What packets of one size of tables are made from.
struct Scene<'a> {
    addresses: &'a [[u8; 6]],
    set: &'a Population,
    tables: &'a [(Fib, Box<dyn NameFib>)],
}

impl Scene<'_> {
    /// Measures all tables with these packets.
    fn measure<P: PacketBuf>(
        &self,
        session: &mut Session<'_>,
        packets: Vec<P>,
        octets: usize,
        whose: &str,
    ) -> Result<(), BenchError> {
        let mut rotation = Rotation::new(packets, self.addresses, &self.set.actions, octets);
        let packets = session.options().pick(200_000, 4_000_000);
        let subject = |structure: &str, fib: Option<Fib>| Subject {
            format: fib.and_then(Fib::format),
            variant: Some(format!("{VARIANT}{octets} bytes{whose}")),
            value_bits: Some(self.set.value_bits),
            threads: Some(1),
            batch: Some(BURST),
            ..session.subject(structure, self.set.len() as u64)
        };
        // What the last round of this took is what is subtracted in the round.
        let bare = std::cell::Cell::new(0.0);
        let bare = &bare;
        let time = |seconds: f64| seconds * 1e9 / (packets / BURST * BURST) as f64;
        let alone = (subject("generator and sink", None), Metric::PacketTime);
        let mut turns = vec![Turn::several(vec![alone], move |rotation: &mut Rotation<'_, P>| {
            let ((), seconds) = timing::pinned(|| idle(rotation, packets))?;
            bare.set(time(seconds));
            Ok(bare.get().into())
        })];
        for (fib, table) in self.tables {
            judge(*fib, &mut *table.asker(), &mut rotation)?;
            let subject =
                Subject { table_bytes: Some(table.table_bytes()), ..subject(fib.name(), Some(*fib)) };
            let rows = vec![(subject.clone(), Metric::PacketTime), (subject, Metric::PacketRate)];
            turns.push(Turn::several(rows, move |rotation: &mut Rotation<'_, P>| {
                let ((), seconds) = timing::pinned(|| forward(rotation, &mut *table.asker(), packets))?;
                let net = (time(seconds) - bare.get()).max(0.1);
                Ok(Found { figures: vec![net, 1e9 / net], table_bytes: None })
            }));
        }
        alternate(session, &mut rotation, turns)
    }
}

/// Sends every name once, and the rotation, and looks at each packet.
fn judge<P: PacketBuf>(
    fib: Fib,
    asker: &mut dyn Asker,
    rotation: &mut Rotation<'_, P>,
) -> Result<(), BenchError> {
    rotation.is_judged = true;
    (rotation.wrong, rotation.right) = (0, 0);
    let packets = (rotation.names.len() + ROTATION).next_multiple_of(BURST);
    forward(rotation, asker, packets);
    rotation.is_judged = false;
    if rotation.wrong > 0 || rotation.right != packets {
        let problem =
            format!("{} of {packets} packets were not sent where they belong", packets - rotation.right);
        return Err(BenchError::check(fib.name(), problem));
    }
    Ok(())
}

fn show(session: &mut Session<'_>) {
    let heads = ["names", "frames", "structure", "paper", "ns a packet", "Mpps", "Gb/s"];
    let mut sheet = Sheet::new("concise-figure-9", &heads);
    let title = "Packets forwarded a second, one core, without generator and sink";
    let mut chart = Chart::new(
        "concise-figure-9",
        title,
        ("names", Scale::Doublings),
        ("million packets a second", Scale::Linear),
    );
    let rows: Vec<Row> = session.rows().to_vec();
    for pair in rows.windows(2) {
        let [time, rate] = pair else { continue };
        let Some(frames) = rate.subject.variant.as_deref().and_then(|variant| variant.strip_prefix(VARIANT))
        else {
            continue;
        };
        if (time.metric, rate.metric) != (Metric::PacketTime, Metric::PacketRate) {
            continue;
        }
        let octets: f64 = frames.split(' ').next().and_then(|octets| octets.parse().ok()).unwrap_or(0.0);
        sheet.rows.push(vec![
            short_count(rate.subject.keys),
            frames.to_owned(),
            rate.subject.structure.clone(),
            paper::NOT_GIVEN.to_owned(),
            format!("{:.1} ({:.1}–{:.1})", time.median, time.min, time.max),
            millions(&rate.summary()),
            format!("{:.1}", rate.median * octets * 8.0 / 1e9),
        ]);
        add_point(
            &mut chart,
            &format!("{}, {frames}", rate.subject.structure),
            rate.subject.keys as f64,
            rate,
            1e6,
        );
    }
    session.tabulate(sheet);
    session.show(chart);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Constant(u16);

    impl Asker for Constant {
        fn ask(&mut self, _: &[KeyHash], actions: &mut [u16]) {
            actions.fill(self.0);
        }
    }

    #[test]
    fn packets_go_where_their_names_say() {
        let names = Population::of(Kind::Mac, 1000, 5);
        let addresses: Vec<[u8; 6]> = macs(1).take(1000).collect();
        for octets in FRAMES {
            let mut rotation = Rotation::new(Slab::new(ROTATION).packets, &addresses, &names.actions, octets);
            for fib in STRUCTURES {
                judge(fib, &mut *fib.build(&names, 1).unwrap().asker(), &mut rotation).unwrap();
            }
            assert!(judge(Fib::OTHELLO, &mut Constant(3), &mut rotation).is_err());
            assert_eq!(rotation.packets.len(), ROTATION, "none is lost");
        }
    }
}
