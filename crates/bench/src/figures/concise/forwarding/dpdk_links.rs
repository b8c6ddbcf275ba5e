//! Figures 10 and 11: packets arrive at one DPDK port and leave by four others, without network cards or
//! virtual machines. The other end of each port belongs to a generator on its own core.
//!
//! | link | the switch's end | the generator's end |
//! |---|---|---|
//! | virtio | `net_virtio_user`, as in a virtual machine | `net_vhost`, as on its host |
//! | memif | `net_memif`, server | `net_memif`, client |
//!
//! Each end copies every packet into or out of shared memory. The generator sends as fast as the link accepts
//! packets and collects those that return. Both ends are in this process, with one thread each.

use super::forwarders::{Forwarder, SwitchMode, switch_between, turn_until};
use super::link_ends::{Kind, LinkCounts, Links, pass, refill};
use super::rotation::{self, Expected, PORTS, Rotation};
use super::{ForwardingSetup, STRUCTURES};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, ensure};
use crate::figures::concise::fibs::{Fib, FibReader};
use crate::figures::concise::{millions, names, paper};
use crate::gateway::dpdk;
use crate::gateway::packet_ring::ROTATION;
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric, Row, SelectRows};
use crate::sheet::{Sheet, chart};
use scalebricks_console::quantity::short_count;
use scalebricks_dpdk::Mbuf;
use scalebricks_elements::flat::FlatFib;
use scalebricks_report::exhibit::Scale;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Frame lengths in bytes.
const FRAMES: [usize; 2] = [64, 1500];
/// Prefix of the variants.
const VARIANT: &str = "links: ";
/// The candidate without lookups, which shows the limit of links and address rewriting.
const NO_LOOKUP: &str = "no lookup";

/// A reader that uses the ports in turn without any lookup.
fn no_lookup() -> FibReader<'static> {
    let mut ports = (0..PORTS as u16).cycle(); // few
    Box::new(move |names, actions| {
        actions.iter_mut().zip(names).zip(&mut ports).for_each(|((action, _), port)| *action = port);
    })
}

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    // DPDK serves all vhost sockets of a process with one thread, and two that open links at once wait for each
    // other without end.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    dpdk::start(0)?;
    let value_bits = bench.options.first_value_bits(8);
    let mut links = Vec::new();
    for kind in Kind::ALL {
        match Links::new(kind) {
            Ok(made) => links.push(made),
            Err(error) => bench.console.note(&format!("no links of {}: {error}", kind.name())),
        }
    }
    if links.is_empty() {
        return Err(BenchError::check("links", "neither virtio nor memif is available"));
    }
    for names in bench.sizes(&[262_144], &[262_144, 1_000_000, 4_000_000], super::NAME_BYTES)? {
        let setup = ForwardingSetup::new(bench, names, value_bits)?;
        for octets in FRAMES {
            for links in &links {
                setup.pass(bench, links, octets)?;
            }
        }
    }
    show(bench);
    Ok(())
}

impl ForwardingSetup {
    /// Measures all tables with packets over these links.
    fn pass(&self, bench: &mut BenchRun<'_>, links: &Links, octets: usize) -> Result<(), BenchError> {
        let mut rotation = rotation::rotation(dpdk::fresh(ROTATION)?, &self.hosts, octets);
        let time = Duration::from_millis(bench.options.pick(50, 250));
        let names = self.hosts.set.len();
        let variant = format!("{VARIANT}{}, frames of {octets} bytes", links.kind.name());
        let case = |structure: &str, fib: Option<Fib>, bytes: Option<u64>| {
            self.case(bench, structure, fib, &variant).table_bytes(bytes)
        };
        let mut turns = vec![turn(case(NO_LOOKUP, None, None), links, time, |stop| {
            move_by(links, no_lookup(), stop);
        })];
        for (fib, table, ambiguous) in &self.tables {
            let moving = |stop: &AtomicBool| move_by(links, table.reader(), stop);
            let verified = || pass_all(links, &rotation, names, moving);
            verify(fib.name(), Expected::Rewritten, &rotation, *ambiguous, verified)?;
            turns.push(turn(case(fib.name(), Some(*fib), Some(table.table_bytes())), links, time, moving));
        }
        for (mode, fib) in &self.switches {
            let moving = |stop: &AtomicBool| switch_by(links, fib, stop);
            let verified = || pass_all(links, &rotation, names, moving);
            verify(mode.name(), mode.rule(), &rotation, 0, verified)?;
            turns.push(turn(case(mode.name(), None, Some(fib.table_bytes() as u64)), links, time, moving));
        }
        interleave(bench, &mut rotation, turns)
    }
}

/// Measures for `time` the packets that return over the links, and the share of lost ones, while `moving` forwards.
fn turn<'a>(
    case: Case,
    links: &'a Links,
    time: Duration,
    moving: impl Fn(&AtomicBool) + Sync + 'a,
) -> Measurement<'a, Rotation<Mbuf>> {
    let rows = vec![(case.clone(), Metric::PacketRate), (case, Metric::PacketLoss)];
    Measurement::several(rows, move |rotation: &mut Rotation<Mbuf>| {
        refill(rotation)?;
        let passed = pass(links, rotation, (usize::MAX, time), &moving)?;
        let lost = 1.0 - passed.came as f64 / passed.sent.max(1) as f64;
        Ok(vec![passed.in_time as f64 / passed.seconds, lost].into())
    })
}

/// Forwards packets by a bare table until stopped.
fn move_by(links: &Links, reader: FibReader<'_>, stop: &AtomicBool) {
    let (exits, entry) = links.sides();
    let mut mover = Forwarder::new(reader, entry, exits);
    while !stop.load(Ordering::Relaxed) {
        mover.turn();
    }
}

/// Forwards packets by the whole switch until stopped.
fn switch_by(links: &Links, fib: &FlatFib, stop: &AtomicBool) {
    let ports = links.switch.iter().map(|end| [end.clone(), end.clone()]);
    // If the switch cannot be made, no packet returns, and the check fails.
    if let Ok(mut switch) = switch_between(fib, ports) {
        turn_until(&mut switch, stop);
    }
}

/// Sends as many packets as there are names, for some seconds at most.
fn pass_all(
    links: &Links,
    rotation: &Rotation<Mbuf>,
    names: usize,
    moving: impl FnOnce(&AtomicBool) + Send,
) -> Result<LinkCounts, BenchError> {
    refill(rotation)?;
    pass(links, rotation, (names.min(200_000), Duration::from_secs(3)), moving)
}

/// Checks each packet that returns. Only packets of ambiguous names may be wrong, and at least half must
/// return.
fn verify(
    structure: &str,
    rule: Expected,
    rotation: &Rotation<Mbuf>,
    ambiguous: usize,
    doing: impl FnOnce() -> Result<LinkCounts, BenchError>,
) -> Result<(), BenchError> {
    let mut passed = Ok(LinkCounts::default());
    let (verified, right) = rotation::verify(rotation, rule, || passed = doing());
    let passed = passed?;
    let wrong = verified - right;
    let is_wrong =
        verified != passed.came || verified * 2 < passed.sent || verified == 0 || wrong > 2 * ambiguous;
    ensure(!is_wrong, structure, || {
        format!("of {} packets {verified} came, {right} of them where and as they should", passed.sent)
    })
}

fn show(bench: &mut BenchRun<'_>) {
    let rows = bench.rows().to_vec();
    let shown = rows.iter().metric(Metric::PacketRate).filter_map(|rate| {
        let link = rate.case.variant_text().strip_prefix(VARIANT)?;
        let octets = FRAMES.into_iter().find(|octets| link.contains(&format!(" {octets} "))).unwrap_or(0);
        Some((link, octets, rate))
    });
    let shown: Vec<Shown<'_>> = shown.collect();
    let sheet = Sheet::new("concise-figure-11", &shown)
        .column("names", |(.., rate)| names(rate))
        .column("links", |(link, ..)| *link)
        .column("structure", |(.., rate)| rate.case.structure.clone())
        .column("paper", |(_, octets, rate)| paper::links(&rate.case.structure, *octets))
        .column("Mpps", |(.., rate)| millions(rate))
        .column("Gb/s", |(_, octets, rate)| format!("{:.1}", gigabits(rate.median, *octets)))
        .column("lost", |(.., rate)| {
            let loss = rate.beside(&rows, Metric::PacketLoss);
            loss.map(|loss| format!("{:.2} %", 100.0 * loss.median)).unwrap_or_default()
        });
    let drawn = shown
        .iter()
        .filter(|(link, _, rate)| link.starts_with(Kind::Virtio.name()) && is_drawn(&rate.case.structure));
    let points = drawn.map(|(_, octets, rate)| {
        (format!("{}, {octets} bytes", rate.case.structure), rate.point(rate.case.keys as f64, 1e6))
    });
    let title = "Packets forwarded a second between ports of virtio, one core";
    let (x, y) = (("names", Scale::Doublings), ("million packets a second", Scale::Linear));
    let chart = chart("concise-figure-11", title, x, y, points);
    if let Some(sentence) = conclusion(&shown) {
        bench.add_conclusion("concise-figure-11-conclusion", sentence);
    }
    bench.add_table(sheet);
    bench.add_chart(chart);
}

/// A rate with its links and frame length.
type Shown<'a> = (&'a str, usize, &'a Row);

/// Gigabits of frames per second, without the overhead of a cable.
fn gigabits(rate: f64, octets: usize) -> f64 {
    rate * octets as f64 * 8.0 / 1e9
}

/// Whether the chart has a line for a structure.
fn is_drawn(structure: &str) -> bool {
    structure == NO_LOOKUP
        || structure == SwitchMode::Forwards.name()
        || STRUCTURES.iter().any(|fib| fib.name() == structure && *fib != Fib::SetSep)
}

/// States what the figures show for the first kind of links.
fn conclusion(shown: &[Shown<'_>]) -> Option<String> {
    let links = shown.first()?.0.split(',').next()?;
    let of = |structure: &str, octets: usize, last: bool| {
        let is_it = |one: &&Shown<'_>| {
            one.0.starts_with(links) && one.1 == octets && one.2.case.structure == structure
        };
        let mut found = shown.iter().filter(is_it);
        let found = if last { found.next_back() } else { found.next() };
        found.map(|one| (one.2.case.keys, one.2.median))
    };
    let [short, long] = FRAMES;
    let (few, first) = of("othello", short, false)?;
    let (many, rate) = of("othello", short, true)?;
    let (_, long_rate) = of("othello", long, true)?;
    let (_, cuckoo) = of("cuckoo", short, true)?;
    let (_, alone) = of(NO_LOOKUP, short, true)?;
    Some(format!(
        "Over {links}, at {} names, Othello forwards {:.2} Mpps of {short} bytes and {:.1} Gb/s of {long} bytes, where no lookup at \
         all gives {:.2} Mpps; cuckoo has {:.0} % of Othello's rate (the paper: 60–80 %), and from {} names to {} Othello's rate \
         becomes {:.2} times what it was (the paper: no change).",
        short_count(many),
        rate / 1e6,
        gigabits(long_rate, long),
        alone / 1e6,
        100.0 * cuckoo / rate,
        short_count(few),
        short_count(many),
        rate / first,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn packets_pass_links_of_both_kinds_by_every_fib() {
        let options = Options { keys: Some(vec![3000]), quick: true, runs: Some(1), ..Options::default() };
        let mut bench = BenchRun::for_test("concise", options);
        run(&mut bench).unwrap();
        let candidates = 1 + STRUCTURES.len() + SwitchMode::ALL.len();
        assert_eq!(bench.rows().len(), Kind::ALL.len() * FRAMES.len() * candidates * 2);
        for row in bench.rows().iter().filter(|row| row.metric == Metric::PacketRate) {
            assert!(row.median > 0.0, "{}: nothing passed", row.case.structure);
        }
        let (_, exhibits) = bench.finish();
        assert_eq!(exhibits.sheets[0].rows.len(), Kind::ALL.len() * FRAMES.len() * candidates);
        assert!(exhibits.conclusions[0].sentence.starts_with("Over virtio"));
    }
}
