//! What is done and checked, in order: in at every node to phones pinned at every node, then in anywhere.

use super::LabError;
use super::args::{ChecksArgs, RunArgs, TestArgs};
use super::base_station;
use super::capture::Capture;
use super::counters::{NodeCounts, Observer};
use super::crossings;
use super::faults;
use super::network::Entry;
use super::nodes::CAPTURE;
use super::plan::{Family, Plan, Ue};
use super::report::{Ingress, Report, Round};
use super::session::Lab;
use super::tools;
use super::traffic::{Traffic, Use, Verdict};
use crate::pages;
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::{Console, Interrupt, output, status};
use scalebricks_types::NodeId;
use std::thread;
use std::time::{Duration, Instant};

/// What is left of the files of a quick run.
const QUICK: u64 = 20;

/// Builds a lab, checks it with each architecture, removes it.
///
/// # Errors
/// [`LabError`] if it does not come to the end of its checks.
pub fn run(args: &RunArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    if args.checks.page {
        pages::ensure_reproducible()?;
    }
    tools::ensure(args.shape.install, console, interrupt)?;
    let architectures = args.architectures();
    let first = architectures.first().copied().unwrap_or(Architecture::ScaleBricks);
    let plan = args.shape.plan(first).map_err(|error| LabError::Usage { what: error.to_string() })?;
    let mut report = Report::new(&plan);
    let mut lab = Lab::build(plan, console, interrupt)?;
    let mut done = Ok(());
    for architecture in architectures {
        done = one(&mut lab, args, architecture, &mut report, console, interrupt);
        if done.is_err() || args.leave && !report.passed {
            break;
        }
    }
    let status = finish(done, &lab, &report, &args.checks, console)?;
    if args.leave && !report.passed {
        lab.leave()?;
        console.note("the lab stands; remove it with `make lab-down`");
    }
    Ok(status)
}

/// One architecture from start to stop; it is not stopped if it shall be looked at.
fn one(
    lab: &mut Lab<'_>,
    args: &RunArgs,
    architecture: Architecture,
    report: &mut Report,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<(), LabError> {
    lab.start(architecture)?;
    if let Some(took) = lab.handed_over {
        let says = format!("{} are with all nodes after {:.1} s", lab.plan.flows, took.as_secs_f64());
        let round = Round { architecture: architecture.name(), ingress: Ingress::Any };
        report.add(round.of_all("flows handed over", Verdict { passed: true, says }));
    }
    checks(lab, &args.checks, report, console, interrupt)?;
    if args.faults {
        faults::run(lab, report, console, interrupt)?;
    }
    if args.leave && !report.passed {
        return Ok(());
    }
    let verdict = match lab.stop() {
        Ok(()) => Verdict { passed: true, says: "all ended with status 0".to_owned() },
        Err(error) => Verdict { passed: false, says: error.to_string() },
    };
    report.add(Round { architecture: architecture.name(), ingress: Ingress::Any }.of_all("SIGTERM", verdict));
    Ok(())
}

/// Checks a lab that stands.
///
/// # Errors
/// [`LabError`] if it does not come to the end of its checks.
pub fn test(args: &TestArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    if args.checks.page {
        pages::ensure_reproducible()?;
    }
    tools::ensure(false, console, interrupt)?;
    let mut lab = Lab::attach(&args.lab.name, console, interrupt)?;
    let mut report = Report::new(&lab.plan);
    let done = checks(&mut lab, &args.checks, &mut report, console, interrupt);
    finish(done, &lab, &report, &args.checks, console)
}

/// Tells and keeps what was found.
fn finish(
    done: Result<(), LabError>,
    lab: &Lab<'_>,
    report: &Report,
    args: &ChecksArgs,
    console: &Console,
) -> Result<u8, LabError> {
    let passed = done.is_ok() && report.passed;
    if !passed {
        lab.keep(&args.out)?;
    }
    if !report.outcomes.is_empty() {
        console.keep(&args.json, &output::json(report)?)?;
        if args.page && passed {
            pages::keep(pages::LAB, report, console)?;
        }
        console.result(&report.render())?;
    }
    done?;
    Ok(if passed { status::SUCCESS } else { status::FAILURE })
}

/// One architecture's checks.
struct Checks<'a> {
    lab: &'a Lab<'a>,
    report: &'a mut Report,
    console: &'a Console,
    interrupt: &'a Interrupt,
    traffic: Traffic<'a>,
    observer: Observer<'a>,
    file: u64,
    before: Vec<NodeCounts>,
    is_quick: bool,
}

fn checks(
    lab: &mut Lab<'_>,
    args: &ChecksArgs,
    report: &mut Report,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<(), LabError> {
    {
        let lab = &*lab;
        let limit = Duration::from_secs(120);
        let processes = lab.processes();
        let traffic = Traffic { plan: &lab.plan, interrupt, processes, limit };
        let observer = Observer { plan: &lab.plan, processes, interrupt };
        // A packet socket hears all interfaces until it is bound to its own: what came before now is nobody's fault.
        let before = observer.nodes()?;
        for (node, counts) in
            before.iter().enumerate().filter(|(_, counts)| counts.mistakes().next().is_some())
        {
            let drops: Vec<_> = counts.mistakes().collect();
            console.note(&format!("before anything was sent, node {node} had dropped {drops:?}"));
        }
        let file = if args.quick { args.file / QUICK } else { args.file };
        let mut checks =
            Checks { lab, report, console, interrupt, traffic, observer, file, before, is_quick: args.quick };
        checks.echoes()?;
        checks.captured()?;
        checks.matrix()?;
        checks.spread()?;
        checks.totals()?;
        checks.look()?;
    }
    lab.check_alive()
}

impl Checks<'_> {
    /// After a failure, keeps what can be seen of its cause.
    fn look(&self) -> Result<(), LabError> {
        if self.report.passed { Ok(()) } else { self.observer.look() }
    }

    fn round(&self, entry: Entry) -> Round {
        let ingress = match entry {
            Entry::One(node) => Ingress::Node(node.get()),
            Entry::All => Ingress::Any,
        };
        Round { architecture: self.lab.plan.architecture.name(), ingress }
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.lab.plan.size.nodes().collect()
    }

    /// GTP-U echo with each node, and the Internet host's ping of each.
    fn echoes(&mut self) -> Result<(), LabError> {
        self.console.note("asking each node itself");
        let socket = self.lab.processes().base_station_socket();
        for node in self.nodes() {
            self.lab.network().enter(Entry::One(node))?;
            let round = Round { ingress: Ingress::Itself, ..self.round(Entry::One(node)) };
            for family in Family::ALL {
                let verdict = self.traffic.ping_node(node, family)?;
                self.report.add(round.at("ping of the node", Some(family), node.get(), verdict));
            }
            let before = self.observer.base_station()?.echo_responses;
            base_station::ask(&socket, "echo")?;
            let began = Instant::now();
            let mut answered = 0;
            while answered == 0 && began.elapsed() < Duration::from_secs(2) {
                thread::sleep(Duration::from_millis(10));
                answered = self.observer.base_station()?.echo_responses - before;
            }
            let verdict = Verdict { passed: answered == 1, says: format!("{answered} answer") };
            self.report.add(round.at("GTP-U echo", None, node.get(), verdict));
        }
        Ok(())
    }

    /// A little of everything, in at every node, while everything is captured.
    fn captured(&mut self) -> Result<(), LabError> {
        self.console.note("capturing pings and small files, in at every node, to every node");
        let capture = Capture::start(self.lab.processes(), CAPTURE)?;
        for entry in self.nodes().into_iter().map(Entry::One) {
            self.lab.network().enter(entry)?;
            for ue in self.phones() {
                self.pair(entry, ue, &[Use::PingUp, Use::PingDown, Use::FetchSmall], "hops of pings")?;
            }
        }
        let frames = capture.finish(&self.lab.plan, self.interrupt)?;
        let findings = crossings::judge(&frames, &self.lab.plan);
        let (wrong, first) = &findings.wrong;
        let says = if *wrong == 0 {
            format!(
                "{} frames read, none malformed, {} with checksums verified and none wrong; {} packets entered, {} crossings of the fabric, each as it must be",
                frames.len(),
                findings.verified,
                findings.entered,
                findings.crossed
            )
        } else {
            // The next architecture's capture takes the place of this one.
            let directory = self.lab.processes().directory;
            let kept = directory.join(format!("{CAPTURE}-{}.pcapng", self.lab.plan.architecture));
            if let Err(error) = std::fs::copy(directory.join(format!("{CAPTURE}.pcapng")), &kept) {
                self.console.note(&format!("cannot keep the capture: {error}"));
            }
            format!("{wrong} findings in {} frames\n  {}", frames.len(), first.join("\n  "))
        };
        let verdict = Verdict { passed: *wrong == 0, says };
        self.report.add(self.round(Entry::All).of_all("capture, read by tshark", verdict));
        Ok(())
    }

    /// The first phone pinned to each node.
    fn phones(&self) -> Vec<Ue> {
        self.lab.plan.size.nodes().map(Plan::ue_of).collect()
    }

    /// Real loads, in at every node, to every node.
    fn matrix(&mut self) -> Result<(), LabError> {
        let mut uses = vec![Use::Fetch(self.file / 10), Use::Send(self.file / 10)];
        if !self.is_quick {
            uses.extend([Use::Tcp, Use::Udp]);
        }
        for entry in self.nodes().into_iter().map(Entry::One) {
            self.console.note(&format!("files and streams, in at node {}", self.round(entry).ingress));
            self.lab.network().enter(entry)?;
            for ue in self.phones() {
                self.pair(entry, ue, &uses, HOPS_OF_STREAMS)?;
            }
        }
        Ok(())
    }

    /// What one phone does, and whether its packets crossed the fabric as they must.
    fn pair(&mut self, entry: Entry, ue: Ue, uses: &[Use], hops_of: &str) -> Result<(), LabError> {
        let round = self.round(entry);
        let before = self.observer.nodes()?;
        for what in uses {
            for family in Family::ALL {
                let verdict = self.traffic.run(*what, ue, family)?;
                self.report.add(round.at(what.name(), Some(family), ue.node.get(), verdict));
            }
        }
        let after = self.observer.nodes()?;
        let added: Vec<_> = after.iter().zip(&before).map(|(after, before)| after.since(before)).collect();
        let loss = if hops_of == HOPS_OF_STREAMS { Loss::OfStreams } else { Loss::None };
        let verdict = hops(&added, entry, ue.node, self.lab.plan.architecture, loss);
        self.report.add(round.at(hops_of, None, ue.node.get(), verdict));
        Ok(())
    }

    /// All phones, in anywhere: the kernels of both ends spread flows over the nodes.
    fn spread(&mut self) -> Result<(), LabError> {
        self.console.note("files and streams, in anywhere");
        self.lab.network().enter(Entry::All)?;
        let before = self.observer.nodes()?;
        let mut uses = vec![Use::PingUp, Use::PingDown, Use::Fetch(self.file), Use::Send(self.file)];
        if !self.is_quick {
            uses.extend([Use::Tcp, Use::Udp]);
        }
        for ue in self.phones() {
            self.pair(Entry::All, ue, &uses, HOPS_OF_STREAMS)?;
        }
        // Many small flows, so that each node has its share.
        let phones: Vec<_> = self.lab.plan.ues().collect();
        for ue in phones {
            for family in Family::ALL {
                for _ in 0..3 {
                    let verdict = self.traffic.run(Use::FetchSmall, ue, family)?;
                    if !verdict.passed {
                        let check = format!("small file of {}", ue.address(family));
                        self.report.add(self.round(Entry::All).of_all(&check, verdict));
                    }
                }
            }
        }
        let after = self.observer.nodes()?;
        let entered = |node: usize| {
            let added = after[node].since(&before[node]);
            (added.count("internet_in"), added.count("base_station_in"))
        };
        let shares: Vec<_> = (0..after.len()).map(entered).collect();
        let passed = shares.iter().all(|(down, up)| *down > 0 && *up > 0);
        let says = format!("entered from Internet and base station, by node: {shares:?}");
        self.report
            .add(self.round(Entry::All).of_all("spread by kernel multipath", Verdict { passed, says }));
        Ok(())
    }

    /// What must not have happened in all that time.
    fn totals(&mut self) -> Result<(), LabError> {
        let round = self.round(Entry::All);
        let mistakes = self.observer.base_station()?.mistakes();
        let says = if mistakes.is_empty() { "no mistake".to_owned() } else { format!("{mistakes:?}") };
        self.report.add(round.of_all("base station", Verdict { passed: mistakes.is_empty(), says }));
        let bad = self.observer.bad_checksums()?;
        let says = if bad.is_empty() { "none wrong".to_owned() } else { format!("{bad:?}") };
        self.report.add(round.of_all("checksums, by the kernels", Verdict { passed: bad.is_empty(), says }));
        let (mut mistakes, mut congestion) = (Vec::new(), Vec::new());
        let after = self.observer.nodes()?;
        let added = after.iter().zip(&self.before).map(|(after, before)| after.since(before));
        for (node, counts) in added.enumerate() {
            let tell = |(reason, count)| format!("node {node}: {reason} {count}");
            mistakes.extend(counts.mistakes().map(tell));
            congestion.extend(counts.congestion().map(tell));
        }
        let passed = mistakes.is_empty();
        let says = if passed { "none".to_owned() } else { mistakes.join(", ") };
        self.report.add(round.of_all("packets that nodes refused", Verdict { passed, says }));
        let says = if congestion.is_empty() { "none".to_owned() } else { congestion.join(", ") };
        self.report.add(round.of_all("packets lost for want of room", Verdict { passed: true, says }));
        Ok(())
    }
}

/// What the counters of loads that fill links are checked for.
const HOPS_OF_STREAMS: &str = "hops of streams";

/// What may be lost between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Nothing.
    None,
    /// TCP goes to the point where a link has no room, and a little beyond: one packet in a hundred.
    OfStreams,
}

impl Loss {
    const fn allows(self, lost: u64, crossed: u64) -> bool {
        match self {
            Self::None => lost == 0,
            Self::OfStreams => lost <= crossed / 100,
        }
    }
}

/// Whether what the nodes counted agrees with the packets' way.
fn hops(
    added: &[NodeCounts],
    entry: Entry,
    handling: NodeId,
    architecture: Architecture,
    loss: Loss,
) -> Verdict {
    let left: u64 = added.iter().map(NodeCounts::left).sum();
    let crossed: u64 = added.iter().map(|counts| counts.count("fabric_out")).sum();
    let arrived: u64 = added.iter().map(|counts| counts.count("fabric_in")).sum();
    let lost = crossed.checked_sub(arrived);
    let left_at_home = added.get(handling.index()).map_or(0, NodeCounts::left);
    let is_detour = matches!(architecture, Architecture::HashPartition | Architecture::Vlb);
    let is_right = match entry {
        _ if is_detour => arrived <= 2 * left,
        Entry::One(ingress) if ingress == handling => crossed == 0,
        Entry::One(ingress) => {
            arrived == left
                && added.get(ingress.index()).is_some_and(|counts| counts.count("fabric_out") == crossed)
        }
        Entry::All => arrived <= left,
    };
    let is_little = lost.is_some_and(|lost| loss.allows(lost, crossed));
    let passed = is_right && left > 0 && left_at_home == left && is_little;
    let mean = if left == 0 { 0.0 } else { arrived as f64 / left as f64 };
    let mut says = format!("{mean:.2} over {left}");
    match lost {
        _ if !passed => {
            let fabric = format!("{crossed} sent, {arrived} received on the fabric");
            says = format!("{says} ({fabric}; {left_at_home} left at home)");
        }
        Some(lost) if lost > 0 => says = format!("{says}, {lost} lost on a link"),
        _ => {}
    }
    Verdict { passed, says }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(fabric_in: u64, fabric_out: u64, left: u64) -> NodeCounts {
        NodeCounts::of(&[("fabric_in", fabric_in), ("fabric_out", fabric_out), ("internet_out", left)])
    }

    #[test]
    fn counters_that_do_not_agree_with_one_hop_are_found() {
        let (home, away) = (Entry::One(NodeId::new(0)), Entry::One(NodeId::new(1)));
        let right = |added: &[NodeCounts], entry, architecture| {
            hops(added, entry, NodeId::new(0), architecture, Loss::None).passed
        };
        let one = Architecture::ScaleBricks;
        assert!(right(&[counts(0, 0, 9), counts(0, 0, 0)], home, one));
        assert!(right(&[counts(9, 0, 9), counts(0, 9, 0)], away, one));
        assert!(!right(&[counts(9, 0, 9), counts(0, 9, 0)], home, one));
        assert!(!right(&[counts(8, 0, 8), counts(0, 9, 0)], away, one), "lost on the fabric");
        assert!(!right(&[counts(9, 0, 0), counts(0, 9, 9)], away, one), "left elsewhere");
        assert!(!right(&[counts(0, 0, 0), counts(0, 0, 0)], home, one), "nothing at all");
        assert!(right(&[counts(18, 9, 9), counts(0, 9, 0)], away, Architecture::Vlb));
        assert!(!right(&[counts(27, 18, 9), counts(0, 9, 0)], away, Architecture::Vlb));
    }

    #[test]
    fn streams_may_lose_one_packet_in_a_hundred_on_a_link_and_it_is_told() {
        let away = Entry::One(NodeId::new(1));
        let of = |arrived, sent, left, loss| {
            let added = [counts(arrived, 0, left), counts(0, sent, 0)];
            hops(&added, away, NodeId::new(0), Architecture::ScaleBricks, loss)
        };
        let some = of(990, 1_000, 990, Loss::OfStreams);
        assert!(some.passed && some.says == "1.00 over 990, 10 lost on a link", "{some:?}");
        assert!(!of(990, 1_000, 990, Loss::None).passed);
        assert!(!of(989, 1_000, 989, Loss::OfStreams).passed);
        assert!(!of(990, 1_000, 989, Loss::OfStreams).passed, "lost in a node");
        assert!(!of(1_001, 1_000, 1_001, Loss::OfStreams).passed, "more arrived than was sent");
    }
}
