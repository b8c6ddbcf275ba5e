//! Figure 9: packets per second from port to port on one core. Bare tables read and look up the 64-bit name
//! of each packet, write its next hop, and send it to the port of its action. Then the whole switch does the
//! same by MAC address, with all its checks and counters. Figures 10 and 11, over real ports, are in
//! `dpdk_links` (feature `dpdk`).
//!
//! Packets stay in memory and rotate: the port that takes a packet gives it another name and appends it to
//! the queue, inline. The cost of that is measured in the same round and subtracted, as in the gateway
//! benchmark.

#[cfg(feature = "dpdk")]
pub mod dpdk_links;
mod forwarders;
#[cfg(feature = "dpdk")]
mod link_ends;
mod rotation;

use super::fibs::{Fib, FibReader, NameFib};
use super::{add_point, megabytes, millions, paper};
use crate::error::BenchError;
use crate::gateway::packet_ring::ROTATION;
use crate::gateway::packet_slab::{Slab, SlabPacket};
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric, Row};
use crate::session::Session;
use crate::{pin, timing};
use forwarders::{SwitchMode, forward, idle, switch, turn};
use rotation::{Expected, Hosts, Rotation};
use scalebricks_console::quantity::short_count;
use scalebricks_elements::flat::FlatFib;
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_report::exhibit::{Chart, PageTable, Scale};
use std::sync::Arc;

/// Frame length in bytes.
const OCTETS: usize = 64;
/// Bytes per name for all tables of one size. Most of it is the control side of the switch while its table is
/// built.
const NAME_BYTES: u64 = 600;
const STRUCTURES: [Fib; 5] = [Fib::OTHELLO, Fib::SetSep, Fib::Cuckoo, Fib::Orthogonal, Fib::Sorted];
/// Variant of the rows.
const VARIANT: &str = "forwarding, frames of 64 bytes";

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let value_bits = options.first_value_bits(8);
    for names in options.keys(&[262_144], &[262_144, 1_000_000, 4_000_000]) {
        if session.fits(names, NAME_BYTES)? {
            one(session, names, value_bits)?;
        }
    }
    show(session);
    Ok(())
}

/// Measures Figures 10 and 11 if DPDK is available.
///
/// # Errors
/// [`BenchError`].
pub fn run_links(session: &mut Session<'_>) -> Result<(), BenchError> {
    #[cfg(feature = "dpdk")]
    return dpdk_links::run(session);
    #[cfg(not(feature = "dpdk"))]
    {
        session.console().note(
            "concise: figures 10 and 11 are skipped: this program was built without DPDK (--features dpdk)",
        );
        Ok(())
    }
}

fn one(session: &mut Session<'_>, names: u64, value_bits: u8) -> Result<(), BenchError> {
    let scene = ForwardingSetup::new(session, names, value_bits)?;
    scene.measure(session)
}

/// Packets in memory.
type Packets = Rotation<SlabPacket>;

/// A bare table.
struct BuiltFib {
    fib: Fib,
    table: Box<dyn NameFib>,
    /// Names for which it may return a wrong action, because several fit.
    ambiguous: usize,
}

/// The tables of one size that packets pass through.
struct ForwardingSetup {
    hosts: Arc<Hosts>,
    tables: Vec<BuiltFib>,
    switches: Vec<(SwitchMode, Arc<FlatFib>)>,
}

impl ForwardingSetup {
    /// Builds all tables.
    fn new(session: &Session<'_>, names: u64, value_bits: u8) -> Result<Self, BenchError> {
        let _busy = session.busy("building");
        let hosts = Arc::new(Hosts::new(names, value_bits));
        let (mut tables, mut switches) = (Vec::new(), Vec::new());
        for fib in STRUCTURES.into_iter().filter(|&fib| fib != Fib::SetSep || value_bits <= 8) {
            session.check()?;
            let table = fib.build(&hosts.set, pin::cores())?;
            let ambiguous = hosts.set.hashes.iter().filter(|&&name| table.is_ambiguous(name)).count();
            tables.push(BuiltFib { fib, table, ambiguous });
        }
        for mode in SwitchMode::ALL {
            session.check()?;
            switches.push((mode, mode.fib(&hosts)?));
        }
        Ok(Self { hosts, tables, switches })
    }

    /// Measures all tables with packets in memory.
    fn measure(&self, session: &mut Session<'_>) -> Result<(), BenchError> {
        let mut rotation = Rotation::new(Slab::new(ROTATION).packets, &self.hosts, OCTETS);
        let packets = session.options().pick(200_000, 2_000_000);
        let set = &self.hosts.set;
        let case = |structure: &str, fib: Option<Fib>| {
            session
                .case(structure, set.len() as u64)
                .format(fib.and_then(Fib::format))
                .variant(VARIANT.to_owned())
                .value_bits(set.value_bits)
                .threads(1)
                .batch(BURST)
        };
        // The time of the bare loop in this round, which is subtracted.
        let bare = std::cell::Cell::new(0.0_f64);
        let bare = &bare;
        let time = |seconds: f64| seconds * 1e9 / (packets / BURST * BURST) as f64;
        let net = move |seconds: f64, rotation: &mut Packets| {
            if bare.get().is_nan() {
                bare.set(time(timing::pinned(|| idle(rotation, packets))?.1));
            }
            // If nothing remains, either time may have been disturbed: the next try measures both again.
            let net = timing::net("forwarding", time(seconds), bare.get());
            let net = net.inspect_err(|_| bare.set(f64::NAN))?;
            Ok(vec![net, 1e9 / net].into())
        };
        let rows = |case: Case| vec![(case.clone(), Metric::PacketTime), (case, Metric::PacketRate)];
        let alone = (case("generator and sink", None), Metric::PacketTime);
        let mut turns = vec![Measurement::several(vec![alone], move |rotation: &mut Packets| {
            let ((), seconds) = timing::pinned(|| idle(rotation, packets))?;
            bare.set(time(seconds));
            Ok(bare.get().into())
        })];
        for BuiltFib { fib, table, ambiguous } in &self.tables {
            verify_table(*fib, &mut *table.reader(), &rotation, (set.len(), *ambiguous))?;
            let case = case(fib.name(), Some(*fib)).table_bytes(table.table_bytes());
            turns.push(Measurement::several(rows(case), move |rotation: &mut Packets| {
                let ((), seconds) = timing::pinned(|| forward(rotation, &mut *table.reader(), packets))?;
                net(seconds, rotation)
            }));
        }
        for (mode, fib) in &self.switches {
            verify_switch(*mode, fib, &rotation, set.len())?;
            let case = case(mode.name(), None).table_bytes(fib.table_bytes() as u64);
            let mut switch = switch(fib, &rotation)?;
            turns.push(Measurement::several(rows(case), move |rotation: &mut Packets| {
                let ((), seconds) = timing::pinned(|| turn(&mut switch, rotation, packets))?;
                net(seconds, rotation)
            }));
        }
        interleave(session, &mut rotation, turns)
    }
}

/// Sends every name and the whole rotation once and checks each packet. Only packets of ambiguous names may
/// be wrong.
fn verify<P: PacketBuf>(
    structure: &str,
    rule: Expected,
    rotation: &Rotation<P>,
    (names, ambiguous): (usize, usize),
    moving: impl FnOnce(usize),
) -> Result<(), BenchError> {
    let packets = (names + ROTATION).next_multiple_of(BURST);
    let (verified, right) = rotation.verify(rule, || moving(packets));
    let least = packets - packets.min(ambiguous * packets.div_ceil(names.max(1)));
    if right < least || (verified, rotation.len()) != (packets, ROTATION) {
        let problem = format!(
            "of {packets} packets {verified} came out, {right} of them where and as they should; {} of {ROTATION} are left",
            rotation.len()
        );
        return Err(BenchError::check(structure, problem));
    }
    Ok(())
}

fn verify_table<P: PacketBuf>(
    fib: Fib,
    reader: &mut dyn FibReader,
    rotation: &Rotation<P>,
    names: (usize, usize),
) -> Result<(), BenchError> {
    verify(fib.name(), Expected::Rewritten, rotation, names, |packets| forward(rotation, reader, packets))
}

fn verify_switch<P: PacketBuf + 'static>(
    mode: SwitchMode,
    fib: &FlatFib,
    rotation: &Rotation<P>,
    names: usize,
) -> Result<(), BenchError> {
    let mut switch = switch(fib, rotation)?;
    verify(mode.name(), mode.rule(), rotation, (names, 0), |packets| turn(&mut switch, rotation, packets))
}

fn show(session: &mut Session<'_>) {
    let heads = ["names", "structure", "ns a packet", "Mpps", "MB", "paper: Concise has", "othello has"];
    let mut sheet = PageTable::new("concise-figure-9", &heads);
    let title = "Packets of 64-bit names forwarded a second, one core, without generator and sink";
    let mut chart = Chart::new(
        "concise-figure-9",
        title,
        ("names", Scale::Doublings),
        ("million packets a second", Scale::Linear),
    );
    let is_ours = |row: &&Row| row.case.is_variant(VARIANT);
    let rows: Vec<Row> = session.rows().iter().filter(is_ours).cloned().collect();
    let rate_of = |structure: &str, names: u64| {
        let is_it = |row: &&Row| {
            row.metric == Metric::PacketRate
                && (row.case.structure.as_str(), row.case.keys) == (structure, names)
        };
        rows.iter().find(is_it).map(|row| (row.median, row.case.table_bytes.unwrap_or(0) as f64))
    };
    for pair in rows.windows(2) {
        let [time, rate] = pair else { continue };
        if (time.metric, rate.metric) != (Metric::PacketTime, Metric::PacketRate) {
            continue;
        }
        let (structure, names) = (rate.case.structure.as_str(), rate.case.keys);
        let bytes = rate.case.table_bytes.unwrap_or(0);
        let own = rate_of("othello", names).filter(|_| structure != "othello");
        sheet.rows.push(vec![
            short_count(names),
            structure.to_owned(),
            time.spread(1.0, 1),
            millions(&rate.summary()),
            megabytes(bytes),
            paper::forwarding(structure, names).to_owned(),
            own.map_or_else(String::new, |own| compared(own, (rate.median, bytes as f64))),
        ]);
        add_point(&mut chart, structure, names as f64, rate, 1e6);
    }
    if let Some(names) = rows.iter().map(|row| row.case.keys).filter(|&names| names < 2_000_000).max()
        && let Some(own) = rate_of("othello", names)
    {
        let beside = ["cuckoo", "orthogonal", "binary-search"].into_iter().filter_map(|structure| {
            Some(format!("{} of {structure}", compared(own, rate_of(structure, names)?)))
        });
        let sentence = format!(
            "With {} names of 64 bits, Othello has {}; the paper says 2 times the rate of cuckoo, 4 times that of orthogonal \
             filters, and 10–20 % of the memory of each.",
            short_count(names),
            beside.collect::<Vec<_>>().join(", ")
        );
        session.add_conclusion("concise-figure-9-conclusion", sentence);
    }
    session.add_table(sheet);
    session.add_chart(chart);
}

/// Compares the rate and memory of two structures.
fn compared(one: (f64, f64), other: (f64, f64)) -> String {
    format!(
        "{:.1} times the rate and {:.0} % of the memory",
        one.0 / other.0,
        100.0 * one.1 / other.1.max(1.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::KeyHash;

    struct Constant(u16);

    impl FibReader for Constant {
        fn lookup(&mut self, _: &[KeyHash], actions: &mut [u16]) {
            actions.fill(self.0);
        }
    }

    #[test]
    fn packets_go_where_their_names_say() {
        let hosts = Arc::new(Hosts::new(1000, 5));
        for octets in [64, 1500] {
            let rotation = Rotation::new(Slab::new(ROTATION).packets, &hosts, octets);
            for fib in STRUCTURES {
                let table = fib.build(&hosts.set, 1).unwrap();
                let ambiguous = hosts.set.hashes.iter().filter(|&&name| table.is_ambiguous(name)).count();
                assert!(ambiguous < 10, "{}: {ambiguous}", fib.name());
                verify_table(fib, &mut *table.reader(), &rotation, (1000, ambiguous)).unwrap();
            }
            for mode in SwitchMode::ALL {
                verify_switch(mode, &mode.fib(&hosts).unwrap(), &rotation, 1000).unwrap();
            }
            assert!(verify_table(Fib::OTHELLO, &mut Constant(3), &rotation, (1000, 0)).is_err());
            assert_eq!(rotation.len(), ROTATION, "none is lost");
        }
    }

    #[test]
    fn a_switch_that_does_something_else_is_found_out() {
        let (hosts, others) = (Arc::new(Hosts::new(1000, 5)), Hosts::new(900, 5));
        let rotation = || Rotation::new(Slab::new(ROTATION).packets, &hosts, 64);
        let routes = SwitchMode::Routes.fib(&hosts).unwrap();
        assert!(verify_switch(SwitchMode::Forwards, &routes, &rotation(), 1000).is_err(), "routed instead");
        let fewer = SwitchMode::Forwards.fib(&others).unwrap();
        assert!(
            verify_switch(SwitchMode::Forwards, &fewer, &rotation(), 1000).is_err(),
            "not known: flooded, or dropped"
        );
    }
}
