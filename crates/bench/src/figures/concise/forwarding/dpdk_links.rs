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
use super::rotation::{Expected, PORTS, Rotation};
use super::{BuiltFib, ForwardingSetup, STRUCTURES};
use crate::error::BenchError;
use crate::figures::concise::fibs::{Fib, FibReader};
use crate::figures::concise::{add_point, millions, paper};
use crate::gateway::dpdk;
use crate::gateway::packet_ring::ROTATION;
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric, Row};
use crate::session::Session;
use scalebricks_console::quantity::short_count;
use scalebricks_dpdk::Mbuf;
use scalebricks_elements::flat::FlatFib;
use scalebricks_io::BURST;
use scalebricks_report::exhibit::{Chart, PageTable, Scale};
use scalebricks_types::KeyHash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Frame lengths in bytes.
const FRAMES: [usize; 2] = [64, 1500];
/// Prefix of the variants.
const VARIANT: &str = "links: ";
/// The candidate without lookups, which shows the limit of links and address rewriting.
const NO_LOOKUP: &str = "no lookup";

/// Uses the ports in turn without any lookup.
struct NoLookup(u16);

impl FibReader for NoLookup {
    fn lookup(&mut self, names: &[KeyHash], actions: &mut [u16]) {
        for (action, _) in actions.iter_mut().zip(names) {
            *action = self.0;
            self.0 = (self.0 + 1) % PORTS as u16; // few
        }
    }
}

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    dpdk::start(0)?;
    let value_bits = session.options().first_value_bits(8);
    let mut links = Vec::new();
    for kind in Kind::ALL {
        match Links::new(kind) {
            Ok(made) => links.push(made),
            Err(error) => session.console().note(&format!("no links of {}: {error}", kind.name())),
        }
    }
    if links.is_empty() {
        return Err(BenchError::check("links", "neither virtio nor memif is available"));
    }
    for names in session.options().keys(&[262_144], &[262_144, 1_000_000, 4_000_000]) {
        if !session.fits(names, super::NAME_BYTES)? {
            continue;
        }
        let scene = ForwardingSetup::new(session, names, value_bits)?;
        for octets in FRAMES {
            for links in &links {
                scene.pass(session, links, octets)?;
            }
        }
    }
    show(session);
    Ok(())
}

impl ForwardingSetup {
    /// Measures all tables with packets over these links.
    fn pass(&self, session: &mut Session<'_>, links: &Links, octets: usize) -> Result<(), BenchError> {
        let mut rotation = Rotation::new(dpdk::fresh(ROTATION)?, &self.hosts, octets);
        let time = Duration::from_millis(session.options().pick(50, 250));
        let names = self.hosts.set.len();
        let case = |structure: &str, fib: Option<Fib>| {
            session
                .case(structure, names as u64)
                .format(fib.and_then(Fib::format))
                .variant(format!("{VARIANT}{}, frames of {octets} bytes", links.kind.name()))
                .value_bits(self.hosts.set.value_bits)
                .threads(1)
                .batch(BURST)
        };
        let rows = |case: Case| vec![(case.clone(), Metric::PacketRate), (case, Metric::PacketLoss)];
        let run = |rotation: &Rotation<Mbuf>, moving: &mut (dyn FnMut(&AtomicBool) + Send)| {
            refill(rotation)?;
            let passed = pass(links, rotation, (usize::MAX, time), moving)?;
            let lost = 1.0 - passed.came as f64 / passed.sent.max(1) as f64;
            let rate = passed.in_time as f64 / passed.seconds;
            Ok(vec![rate, lost].into())
        };
        let nothing = case(NO_LOOKUP, None);
        let mut turns = vec![Measurement::several(rows(nothing), move |rotation: &mut Rotation<Mbuf>| {
            run(rotation, &mut |stop| move_by(links, &mut NoLookup(0), stop))
        })];
        for BuiltFib { fib, table, ambiguous } in &self.tables {
            let verified =
                || pass_all(links, &rotation, names, |stop| move_by(links, &mut *table.reader(), stop));
            verify(fib.name(), Expected::Rewritten, &rotation, *ambiguous, verified)?;
            let case = case(fib.name(), Some(*fib)).table_bytes(table.table_bytes());
            turns.push(Measurement::several(rows(case), move |rotation: &mut Rotation<Mbuf>| {
                run(rotation, &mut |stop| move_by(links, &mut *table.reader(), stop))
            }));
        }
        for (mode, fib) in &self.switches {
            let verified = || pass_all(links, &rotation, names, |stop| switch_by(links, fib, stop));
            verify(mode.name(), mode.rule(), &rotation, 0, verified)?;
            let case = case(mode.name(), None).table_bytes(fib.table_bytes() as u64);
            turns.push(Measurement::several(rows(case), move |rotation: &mut Rotation<Mbuf>| {
                run(rotation, &mut |stop| switch_by(links, fib, stop))
            }));
        }
        interleave(session, &mut rotation, turns)
    }
}

/// Forwards packets by a bare table until stopped.
fn move_by(links: &Links, reader: &mut dyn FibReader, stop: &AtomicBool) {
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
    let (verified, right) = rotation.verify(rule, || passed = doing());
    let passed = passed?;
    let wrong = verified - right;
    if verified != passed.came || verified * 2 < passed.sent || verified == 0 || wrong > 2 * ambiguous {
        let problem =
            format!("of {} packets {verified} came, {right} of them where and as they should", passed.sent);
        return Err(BenchError::check(structure, problem));
    }
    Ok(())
}

fn show(session: &mut Session<'_>) {
    let heads = ["names", "links", "structure", "paper", "Mpps", "Gb/s", "lost"];
    let mut sheet = PageTable::new("concise-figure-11", &heads);
    let mut chart = Chart::new(
        "concise-figure-11",
        "Packets forwarded a second between ports of virtio, one core",
        ("names", Scale::Doublings),
        ("million packets a second", Scale::Linear),
    );
    let rows: Vec<Row> = session.rows().to_vec();
    let mut shown: Vec<(String, usize, Row)> = Vec::new();
    for pair in rows.windows(2) {
        let [rate, loss] = pair else { continue };
        let Some(link) = rate.case.variant.as_deref().and_then(|variant| variant.strip_prefix(VARIANT))
        else {
            continue;
        };
        if (rate.metric, loss.metric) != (Metric::PacketRate, Metric::PacketLoss) {
            continue;
        }
        let octets = FRAMES.into_iter().find(|octets| link.contains(&format!(" {octets} "))).unwrap_or(0);
        sheet.rows.push(vec![
            short_count(rate.case.keys),
            link.to_owned(),
            rate.case.structure.clone(),
            paper::links(&rate.case.structure, octets).to_owned(),
            millions(&rate.summary()),
            format!("{:.1}", gigabits(rate.median, octets)),
            format!("{:.2} %", 100.0 * loss.median),
        ]);
        if link.starts_with(Kind::Virtio.name()) && is_drawn(&rate.case.structure) {
            let name = format!("{}, {octets} bytes", rate.case.structure);
            add_point(&mut chart, &name, rate.case.keys as f64, rate, 1e6);
        }
        shown.push((link.to_owned(), octets, rate.clone()));
    }
    if let Some(sentence) = conclusion(&shown) {
        session.add_conclusion("concise-figure-11-conclusion", sentence);
    }
    session.add_table(sheet);
    session.add_chart(chart);
}

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
fn conclusion(shown: &[(String, usize, Row)]) -> Option<String> {
    let links = shown.first()?.0.split(',').next()?;
    let of = |structure: &str, octets: usize, last: bool| {
        let is_it = |one: &&(String, usize, Row)| {
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
        let mut session = Session::for_test("concise", options);
        run(&mut session).unwrap();
        let candidates = 1 + STRUCTURES.len() + SwitchMode::ALL.len();
        assert_eq!(session.rows().len(), Kind::ALL.len() * FRAMES.len() * candidates * 2);
        for row in session.rows().iter().filter(|row| row.metric == Metric::PacketRate) {
            assert!(row.median > 0.0, "{}: nothing passed", row.case.structure);
        }
        let (_, exhibits) = session.finish();
        assert_eq!(exhibits.sheets[0].rows.len(), Kind::ALL.len() * FRAMES.len() * candidates);
        assert!(exhibits.conclusions[0].sentence.starts_with("Over virtio"));
    }
}
