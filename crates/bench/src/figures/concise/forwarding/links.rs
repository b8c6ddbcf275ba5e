//! Figures 10 and 11: packets that come in by a port of DPDK and leave by four others, with neither network interfaces nor
//! virtual machines: each port's other end is a port of the generator, on a core of its own.
//!
//! | link | the switch's end | the generator's end |
//! |---|---|---|
//! | virtio | `net_virtio_user`, what a virtual machine has | `net_vhost`, what its host has |
//! | memif | `net_memif`, server | `net_memif`, client |
//!
//! Either end copies each packet into or out of memory that both share. The generator sends as fast as the link takes
//! packets and collects those that come back; both ends are in this process, each thread at its own ports.

use super::movers::{Mover, Whole, switch_between, turn_until};
use super::rotation::{PORTS, Rotation, Rule, Side};
use super::{STRUCTURES, Scene};
use crate::error::BenchError;
use crate::figures::concise::fibs::{Asker, Fib};
use crate::figures::concise::{add_point, millions, paper};
use crate::figures::exhibit::{Chart, Scale, Sheet};
use crate::gateway::dpdk;
use crate::gateway::ring::ROTATION;
use crate::pin;
use crate::rounds::{Found, Turn, alternate};
use crate::row::{Metric, Row, Subject};
use crate::session::Session;
use scalebricks_console::quantity::short_count;
use scalebricks_dataplane::{Port, flat::FlatFib};
use scalebricks_dpdk::{Mbuf, PortConfig, RxQueue, Started, TxQueue};
use scalebricks_io::{BURST, Burst, RxPort, TxPort};
use scalebricks_types::KeyHash;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Octets of a frame.
const FRAMES: [usize; 2] = [64, 1500];
/// What rows begin with.
const VARIANT: &str = "links: ";
/// How long ends wait for each other.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing has come until what was sent is lost.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// The contestant that looks nothing up: what the links and the writing of addresses allow.
const NO_LOOKUP: &str = "no lookup";

/// What links are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Virtio,
    Memif,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Virtio, Self::Memif];

    const fn name(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Memif => "memif",
        }
    }

    /// The devices at both ends of a link: the one that has to be there first, which is the generator's for virtio and the
    /// switch's for memif, and the other.
    fn devices(self, link: usize, folder: &Path) -> [String; 2] {
        let socket = folder.join(format!("{}{link}", self.name())).display().to_string();
        match self {
            Self::Virtio => [
                format!("net_vhost{link},iface={socket}"),
                format!("net_virtio_user{link},path={socket},queue_size=1024"),
            ],
            Self::Memif => {
                let of = |role, number| {
                    format!("net_memif{number},role={role},id={link},socket={socket},socket-abstract=no")
                };
                [of("server", link), of("client", PORTS + 1 + link)]
            }
        }
    }
}

/// One end of a link. A clone is the same. One thread uses it at a time: the lock is always free.
#[derive(Clone)]
struct End(Arc<Mutex<(RxQueue, TxQueue)>>);

impl RxPort<Mbuf> for End {
    fn rx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.rx_burst(burst)
    }
}

impl TxPort<Mbuf> for End {
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.tx_burst(burst)
    }
}

/// All links of a kind: those that packets leave by, and behind them the one that they come from.
struct Links {
    kind: Kind,
    switch: Vec<End>,
    generator: Vec<End>,
    /// Where their sockets are.
    folder: PathBuf,
}

impl Links {
    /// Makes them, and waits until packets can pass.
    fn new(kind: Kind) -> Result<Self, BenchError> {
        let failed = |error: &dyn std::fmt::Display| BenchError::check(kind.name(), error.to_string());
        let folder = std::env::temp_dir().join(format!("concise-{}-{}", kind.name(), std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
        let mut links = Self { kind, switch: Vec::new(), generator: Vec::new(), folder };
        for link in 0..=PORTS {
            let [first, second] = kind.devices(link, &links.folder);
            let mut ends = Vec::with_capacity(2);
            for device in [first, second] {
                ends.push(dpdk::port(&device, &PortConfig::default())?);
            }
            for end in &ends {
                wait(end).map_err(|error| failed(&error))?;
            }
            let queues = |end: Started| Some((end.rx.into_iter().next()?, end.tx.into_iter().next()?));
            let mut ends =
                ends.into_iter().filter_map(queues).map(|queues| End(Arc::new(Mutex::new(queues))));
            let (Some(first), Some(second)) = (ends.next(), ends.next()) else {
                return Err(failed(&"a port without a queue"));
            };
            let (switch, generator) = if kind == Kind::Virtio { (second, first) } else { (first, second) };
            links.switch.push(switch);
            links.generator.push(generator);
        }
        Ok(links)
    }

    /// The switch's ends, those to leave by and the one to come from.
    fn sides(&self) -> ([End; PORTS], End) {
        (std::array::from_fn(|exit| self.switch[exit].clone()), self.switch[PORTS].clone())
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.switch.clear();
        self.generator.clear();
        let _ = std::fs::remove_dir_all(&self.folder); // what is left of it is the system's to remove
    }
}

fn wait(end: &Started) -> Result<(), String> {
    let began = Instant::now();
    while !end.port.link().map_err(|error| error.to_string())?.up {
        if began.elapsed() > PATIENCE {
            return Err(format!("the other end of '{}' does not come", end.port.info().name));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// What passed in a while.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    sent: usize,
    came: usize,
    /// Of them while packets were still sent, and in so many seconds.
    in_time: usize,
    seconds: f64,
}

/// Sends packets of the rotation for so long, or so many, while `moving` moves them at the switch's ends until it is told
/// to stop; then waits for the last.
fn pass(
    links: &Links,
    rotation: &Rotation<Mbuf>,
    (most, time): (usize, Duration),
    moving: impl FnOnce(&AtomicBool) + Send,
) -> Result<Passed, BenchError> {
    let stop = AtomicBool::new(false);
    let thread = |error: std::io::Error| BenchError::Threads(error.to_string());
    std::thread::scope(|scope| {
        let mover = std::thread::Builder::new().spawn_scoped(scope, || {
            pin::to_core(0);
            let _registered = dpdk::register();
            moving(&stop);
        });
        mover.map_err(thread)?;
        let generator = std::thread::Builder::new().spawn_scoped(scope, || {
            pin::to_core(1);
            let _registered = dpdk::register();
            let passed = generate(links, rotation, most, time);
            stop.store(true, Ordering::Relaxed);
            passed
        });
        let generator = generator.map_err(|error| {
            stop.store(true, Ordering::Relaxed);
            thread(error)
        })?;
        generator.join().map_err(|_| BenchError::Threads("the generator has panicked".to_owned()))
    })
}

fn generate(links: &Links, rotation: &Rotation<Mbuf>, most: usize, time: Duration) -> Passed {
    let mut ends = links.generator.clone();
    let (mut entry, mut sinks) = (rotation.entry(), sinks(rotation));
    let (mut burst, mut passed) = (Burst::new(), Passed::default());
    let mut collect = |ends: &mut [End]| -> usize {
        let mut back = Burst::new();
        let mut came = 0;
        for (end, sink) in ends[..PORTS].iter_mut().zip(&mut sinks) {
            came += end.rx_burst(&mut back);
            sink.tx_burst(&mut back);
        }
        came
    };
    let began = Instant::now();
    while passed.sent < most && began.elapsed() < time {
        for _ in 0..16 {
            if burst.is_empty() {
                entry.rx_burst(&mut burst);
                burst.truncate(burst.len().min(most - passed.sent.min(most)));
            }
            passed.sent += ends[PORTS].tx_burst(&mut burst);
            passed.came += collect(&mut ends);
        }
    }
    (passed.seconds, passed.in_time) = (began.elapsed().as_secs_f64(), passed.came);
    let mut last = Instant::now();
    while passed.came < passed.sent && last.elapsed() < LOST_AFTER {
        let came = collect(&mut ends);
        if came > 0 {
            (passed.came, last) = (passed.came + came, Instant::now());
        }
    }
    rotation.take_back(&mut burst);
    passed
}

fn sinks(rotation: &Rotation<Mbuf>) -> [Side<Mbuf>; PORTS] {
    std::array::from_fn(|exit| rotation.exit(exit))
}

/// Gives the rotation packets for those that were lost.
fn refill(rotation: &Rotation<Mbuf>) -> Result<(), BenchError> {
    for packet in dpdk::fresh(ROTATION.saturating_sub(rotation.len()))? {
        rotation.add(packet);
    }
    Ok(())
}

/// Looks nothing up: the ports one after the other.
struct Nothing(u16);

impl Asker for Nothing {
    fn ask(&mut self, names: &[KeyHash], actions: &mut [u16]) {
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
    let value_bits = session.options().value_bits(&[8], &[8]).first().copied().unwrap_or(8);
    let mut links = Vec::new();
    for kind in Kind::ALL {
        match Links::new(kind) {
            Ok(made) => links.push(made),
            Err(error) => session.console().note(&format!("no links of {}: {error}", kind.name())),
        }
    }
    if links.is_empty() {
        return Err(BenchError::check("links", "neither virtio nor memif can be had here"));
    }
    for names in session.options().keys(&[262_144], &[262_144, 1_000_000, 4_000_000]) {
        if !session.fits(names, super::NAME_BYTES)? {
            continue;
        }
        let scene = Scene::new(session, names, value_bits)?;
        for octets in FRAMES {
            for links in &links {
                scene.pass(session, links, octets)?;
            }
        }
    }
    show(session);
    Ok(())
}

impl Scene {
    /// Measures all tables with packets over these links.
    fn pass(&self, session: &mut Session<'_>, links: &Links, octets: usize) -> Result<(), BenchError> {
        let mut rotation = Rotation::new(dpdk::fresh(ROTATION)?, &self.stations, octets);
        let time = Duration::from_millis(session.options().pick(50, 250));
        let names = self.stations.set.len();
        let subject = |structure: &str, fib: Option<Fib>| Subject {
            format: fib.and_then(Fib::format),
            variant: Some(format!("{VARIANT}{}, frames of {octets} bytes", links.kind.name())),
            value_bits: Some(self.stations.set.value_bits),
            threads: Some(1),
            batch: Some(BURST),
            ..session.subject(structure, names as u64)
        };
        let rows =
            |subject: Subject| vec![(subject.clone(), Metric::PacketRate), (subject, Metric::PacketLoss)];
        let run = |rotation: &Rotation<Mbuf>, moving: &mut (dyn FnMut(&AtomicBool) + Send)| {
            refill(rotation)?;
            let passed = pass(links, rotation, (usize::MAX, time), moving)?;
            let lost = 1.0 - passed.came as f64 / passed.sent.max(1) as f64;
            let rate = passed.in_time as f64 / passed.seconds;
            Ok(Found { figures: vec![rate, lost], table_bytes: None })
        };
        let nothing = subject(NO_LOOKUP, None);
        let mut turns = vec![Turn::several(rows(nothing), move |rotation: &mut Rotation<Mbuf>| {
            run(rotation, &mut |stop| move_by(links, &mut Nothing(0), stop))
        })];
        for (fib, table) in &self.tables {
            let wrong = self.ambiguous(&**table);
            let judged =
                || pass_all(links, &rotation, names, |stop| move_by(links, &mut *table.asker(), stop));
            judge(fib.name(), Rule::Rewritten, &rotation, wrong, judged)?;
            let subject =
                Subject { table_bytes: Some(table.table_bytes()), ..subject(fib.name(), Some(*fib)) };
            turns.push(Turn::several(rows(subject), move |rotation: &mut Rotation<Mbuf>| {
                run(rotation, &mut |stop| move_by(links, &mut *table.asker(), stop))
            }));
        }
        for (whole, fib) in &self.switches {
            let judged = || pass_all(links, &rotation, names, |stop| switch_by(links, fib, stop));
            judge(whole.name(), whole.rule(), &rotation, 0, judged)?;
            let subject =
                Subject { table_bytes: Some(fib.table_bytes() as u64), ..subject(whole.name(), None) };
            turns.push(Turn::several(rows(subject), move |rotation: &mut Rotation<Mbuf>| {
                run(rotation, &mut |stop| switch_by(links, fib, stop))
            }));
        }
        alternate(session, &mut rotation, turns)
    }
}

/// Moves packets by a bare table until it is told to stop.
fn move_by(links: &Links, asker: &mut dyn Asker, stop: &AtomicBool) {
    let (exits, entry) = links.sides();
    let mut mover = Mover::new(asker, entry, exits);
    while !stop.load(Ordering::Relaxed) {
        mover.turn();
    }
}

/// Moves packets by the whole switch until it is told to stop.
fn switch_by(links: &Links, fib: &FlatFib, stop: &AtomicBool) {
    let ports = links.switch.iter().map(|end| Box::new(end.clone()) as Box<dyn Port<Mbuf>>);
    // Nothing comes back from a switch that cannot be made, which is found out then.
    if let Ok(mut switch) = switch_between(fib, ports) {
        turn_until(&mut switch, stop);
    }
}

/// Sends as many packets as there are names, or for some seconds.
fn pass_all(
    links: &Links,
    rotation: &Rotation<Mbuf>,
    names: usize,
    moving: impl FnOnce(&AtomicBool) + Send,
) -> Result<Passed, BenchError> {
    refill(rotation)?;
    pass(links, rotation, (names.min(200_000), Duration::from_secs(3)), moving)
}

/// Looks at each packet that comes back: all must be right but one in so many of those whose action is ambiguous, and most
/// must come.
fn judge(
    structure: &str,
    rule: Rule,
    rotation: &Rotation<Mbuf>,
    ambiguous: usize,
    doing: impl FnOnce() -> Result<Passed, BenchError>,
) -> Result<(), BenchError> {
    let mut passed = Ok(Passed::default());
    let (judged, right) = rotation.judge(rule, || passed = doing());
    let passed = passed?;
    let wrong = judged - right;
    if judged != passed.came || judged * 2 < passed.sent || judged == 0 || wrong > 2 * ambiguous {
        let problem =
            format!("of {} packets {judged} came, {right} of them where and as they should", passed.sent);
        return Err(BenchError::check(structure, problem));
    }
    Ok(())
}

fn show(session: &mut Session<'_>) {
    let heads = ["names", "links", "structure", "paper", "Mpps", "Gb/s", "lost"];
    let mut sheet = Sheet::new("concise-figure-11", &heads);
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
        let Some(link) = rate.subject.variant.as_deref().and_then(|variant| variant.strip_prefix(VARIANT))
        else {
            continue;
        };
        if (rate.metric, loss.metric) != (Metric::PacketRate, Metric::PacketLoss) {
            continue;
        }
        let octets = FRAMES.into_iter().find(|octets| link.contains(&format!(" {octets} "))).unwrap_or(0);
        sheet.rows.push(vec![
            short_count(rate.subject.keys),
            link.to_owned(),
            rate.subject.structure.clone(),
            paper::links(&rate.subject.structure, octets).to_owned(),
            millions(&rate.summary()),
            format!("{:.1}", gigabits(rate.median, octets)),
            format!("{:.2} %", 100.0 * loss.median),
        ]);
        if link.starts_with(Kind::Virtio.name()) && is_drawn(&rate.subject.structure) {
            let name = format!("{}, {octets} bytes", rate.subject.structure);
            add_point(&mut chart, &name, rate.subject.keys as f64, rate, 1e6);
        }
        shown.push((link.to_owned(), octets, rate.clone()));
    }
    if let Some(sentence) = conclusion(&shown) {
        session.conclude("concise-figure-11-conclusion", sentence);
    }
    session.tabulate(sheet);
    session.show(chart);
}

/// Bits of frames a second, without what a cable would add.
fn gigabits(rate: f64, octets: usize) -> f64 {
    rate * octets as f64 * 8.0 / 1e9
}

/// Whether a contestant has a line in the picture.
fn is_drawn(structure: &str) -> bool {
    structure == NO_LOOKUP
        || structure == Whole::Forwards.name()
        || STRUCTURES.iter().any(|fib| fib.name() == structure && *fib != Fib::SetSep)
}

/// What the figures show of the first kind of links, in a sentence.
fn conclusion(shown: &[(String, usize, Row)]) -> Option<String> {
    let links = shown.first()?.0.split(',').next()?;
    let of = |structure: &str, octets: usize, last: bool| {
        let is_it = |one: &&(String, usize, Row)| {
            one.0.starts_with(links) && one.1 == octets && one.2.subject.structure == structure
        };
        let mut found = shown.iter().filter(is_it);
        let found = if last { found.next_back() } else { found.next() };
        found.map(|one| (one.2.subject.keys, one.2.median))
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
    use scalebricks_console::{Console, Interrupt};

    #[test]
    fn packets_pass_links_of_both_kinds_by_every_fib() {
        let options = Options { keys: Some(vec![3000]), quick: true, runs: Some(1), ..Options::default() };
        let (console, interrupt) = (Console::new(true), Interrupt::default());
        let mut session = Session::new("concise", &options, &console, &interrupt);
        run(&mut session).unwrap();
        let contestants = 1 + STRUCTURES.len() + Whole::ALL.len();
        assert_eq!(session.rows().len(), Kind::ALL.len() * FRAMES.len() * contestants * 2);
        for row in session.rows().iter().filter(|row| row.metric == Metric::PacketRate) {
            assert!(row.median > 0.0, "{}: nothing passed", row.subject.structure);
        }
        let (_, exhibits) = session.finish();
        assert_eq!(exhibits.sheets[0].rows.len(), Kind::ALL.len() * FRAMES.len() * contestants);
        assert!(exhibits.conclusions[0].sentence.starts_with("Over virtio"));
    }
}
