//! The checks, in order: with each node as ingress to phones of each node, then with all nodes as ingress.

use super::LabError;
use super::args::{ChecksArgs, RunArgs, TestArgs};
use super::capture::Capture;
use super::counters::NodeCounts;
use super::crossings;
use super::ends::Verdict;
use super::faults;
use super::lab::Lab;
use super::network::Entry;
use super::nodes::CAPTURE;
use super::plan::{Family, Plan, Ue};
use super::report::{Ingress, Report, Round};
use super::tools;
use super::traffic::Use;
use crate::pages;
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_types::NodeId;
use std::path::Path;

/// Files of a quick run are smaller by this factor.
const QUICK: u64 = 20;

/// Builds a lab, checks it with each architecture, removes it.
///
/// # Errors
/// [`LabError`] if the checks did not complete.
pub fn run(args: &RunArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let architectures = args.architectures();
    args.shape.refuse_useless(&architectures)?;
    if args.checks.page {
        pages::ensure_reproducible()?;
    }
    tools::ensure(args.shape.install, console, interrupt)?;
    let first = architectures.first().copied().unwrap_or(Architecture::ScaleBricks);
    let plan = args.shape.plan(first)?;
    let mut report = Report::new(&plan);
    let mut lab = Lab::build(plan, console, interrupt)?;
    let mut done = Ok(());
    for architecture in architectures {
        done = one(&mut lab, args, architecture, &mut report);
        if done.is_err() || args.leave && !report.passed {
            break;
        }
    }
    let status = finish(done, &lab, &report, &args.checks)?;
    if args.leave && !report.passed {
        lab.leave()?;
        console.note("the lab is up; remove it with `make lab-down`");
    }
    Ok(status)
}

/// Starts, checks and stops the nodes with one architecture. After a failure with `--leave` the nodes are not stopped.
fn one(
    lab: &mut Lab<'_>,
    args: &RunArgs,
    architecture: Architecture,
    report: &mut Report,
) -> Result<(), LabError> {
    let round = Round { architecture: architecture.name(), ingress: Ingress::Any };
    lab.start(architecture)?;
    if let Some(took) = lab.import_took {
        let says = format!("{} are with all nodes after {:.1} s", lab.plan.flows, took.as_secs_f64());
        report.add(round.of_all("flows handed over", Verdict::new(true, says)));
    }
    checks(lab, &args.checks, report)?;
    if args.faults {
        faults::run(lab, report)?;
    }
    if args.leave && !report.passed {
        return Ok(());
    }
    let verdict = match lab.stop() {
        Ok(()) => Verdict::new(true, "all ended with status 0"),
        Err(error) => Verdict::new(false, error.to_string()),
    };
    report.add(round.of_all("SIGTERM", verdict));
    Ok(())
}

/// Checks a lab that is up.
///
/// # Errors
/// [`LabError`] if the checks did not complete.
pub fn test(args: &TestArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    if args.checks.page {
        pages::ensure_reproducible()?;
    }
    tools::ensure(false, console, interrupt)?;
    let mut lab = Lab::attach(&args.lab.name, console, interrupt)?;
    let mut report = Report::new(&lab.plan);
    let done = checks(&mut lab, &args.checks, &mut report);
    finish(done, &lab, &report, &args.checks)
}

/// Prints and keeps the results.
fn finish(
    done: Result<(), LabError>,
    lab: &Lab<'_>,
    report: &Report,
    args: &ChecksArgs,
) -> Result<u8, LabError> {
    let passed = done.is_ok() && report.passed;
    if !passed {
        lab.keep(&args.out)?;
    }
    if !report.outcomes.is_empty() {
        args.result.write(report, Some(Path::new("out/lab.json")), lab.console)?;
        if args.page && passed {
            pages::keep(pages::LAB, report, lab.console)?;
        }
        args.result.print(report, Report::render, lab.console)?;
    }
    done?;
    Ok(if passed { status::SUCCESS } else { status::FAILURE })
}

/// The checks of one architecture.
struct Checks<'a> {
    lab: &'a Lab<'a>,
    report: &'a mut Report,
    /// Size of files.
    file: u64,
    before: Vec<NodeCounts>,
    is_quick: bool,
}

fn checks(lab: &mut Lab<'_>, args: &ChecksArgs, report: &mut Report) -> Result<(), LabError> {
    // A packet socket receives from all interfaces until it is bound to its own, so earlier drops are not errors.
    let before = lab.context().settled_counts()?;
    for (node, counts) in before.iter().enumerate() {
        let drops: Vec<_> = counts.mistakes().collect();
        if !drops.is_empty() {
            lab.console.note(&format!("before the first packet, node {node} had dropped {drops:?}"));
        }
    }
    let file = if args.quick { args.file / QUICK } else { args.file };
    let mut checks = Checks { lab, report, file, before, is_quick: args.quick };
    checks.echoes()?;
    checks.captured()?;
    checks.matrix()?;
    checks.spread()?;
    checks.totals()?;
    if !checks.report.passed {
        lab.context().write_status()?;
    }
    lab.check_running()
}

impl Checks<'_> {
    fn round(&self, entry: Entry) -> Round {
        let ingress = match entry {
            Entry::One(node) => Ingress::Node(node.get()),
            Entry::All => Ingress::Any,
        };
        Round { architecture: self.lab.plan.architecture.name(), ingress }
    }

    /// Adds a check of all nodes.
    fn add(&mut self, check: &str, verdict: Verdict) {
        self.report.add(self.round(Entry::All).of_all(check, verdict));
    }

    /// GTP-U echo with each node, and a ping of each node by the Internet host.
    fn echoes(&mut self) -> Result<(), LabError> {
        self.lab.console.note("asking each node itself");
        let context = self.lab.context();
        for node in self.lab.plan.size.nodes() {
            context.enter(Entry::One(node))?;
            let round = Round { ingress: Ingress::Itself, ..self.round(Entry::One(node)) };
            for family in Family::ALL {
                let verdict = context.ping_node(node, family)?;
                self.report.add(round.at("ping of the node", Some(family), node.get(), verdict));
            }
            let answers = context.ask_and_count("echo", |counts| counts.echo_responses)?;
            let verdict = Verdict::new(answers == 1, format!("{answers} answer"));
            self.report.add(round.at("GTP-U echo", None, node.get(), verdict));
        }
        Ok(())
    }

    /// Pings and small files with each node as ingress, all of them captured.
    fn captured(&mut self) -> Result<(), LabError> {
        self.lab.console.note("capturing pings and small files, in at every node, to every node");
        let capture = Capture::start(self.lab.context(), CAPTURE)?;
        let uses = [Use::PingUp, Use::PingDown, Use::FetchSmall];
        self.lab.plan.size.nodes().try_for_each(|node| self.pairs(Entry::One(node), &uses, HOPS_OF_PINGS))?;
        let frames = capture.finish(&self.lab.plan, self.lab.interrupt)?;
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
            // The next architecture's capture will overwrite this one.
            let path = |name: String| self.lab.context().path(format!("{name}.pcapng"));
            let kept = path(format!("{CAPTURE}-{}", self.lab.plan.architecture));
            if let Err(error) = std::fs::copy(path(CAPTURE.to_owned()), &kept) {
                self.lab.console.note(&format!("cannot keep the capture: {error}"));
            }
            format!("{wrong} findings in {} frames\n  {}", frames.len(), first.join("\n  "))
        };
        self.add("capture, read by tshark", Verdict::new(*wrong == 0, says));
        Ok(())
    }

    /// Uses that fill the links, with files of this size.
    fn loads(&self, file: u64) -> Vec<Use> {
        let streams: &[Use] = if self.is_quick { &[] } else { &[Use::Tcp, Use::Udp] };
        [&[Use::Fetch(file), Use::Send(file)], streams].concat()
    }

    /// Loads with each node as ingress, to each node.
    fn matrix(&mut self) -> Result<(), LabError> {
        let uses = self.loads(self.file / 10);
        for node in self.lab.plan.size.nodes() {
            self.lab.console.note(&format!("files and streams, in at node {}", node.get()));
            self.pairs(Entry::One(node), &uses, HOPS_OF_STREAMS)?;
        }
        Ok(())
    }

    /// Sets the ingress, runs the uses for the first phone of each node, and checks how their packets crossed the fabric.
    fn pairs(
        &mut self,
        entry: Entry,
        uses: &[Use],
        (check, max_loss): (&str, MaxLoss),
    ) -> Result<(), LabError> {
        let (context, round) = (self.lab.context(), self.round(entry));
        context.enter(entry)?;
        for ue in self.lab.plan.size.nodes().map(Plan::ue_of) {
            let before = context.settled_counts()?;
            for what in uses {
                for family in Family::ALL {
                    let verdict = context.use_network(*what, ue, family)?;
                    self.report.add(round.at(what.name(), Some(family), ue.node.get(), verdict));
                }
            }
            let added = since(&context.settled_counts()?, &before);
            let verdict = hops(&added, entry, ue.node, self.lab.plan.architecture, max_loss);
            self.report.add(round.at(check, None, ue.node.get(), verdict));
        }
        Ok(())
    }

    /// Loads with all nodes as ingress: the kernels of both ends spread flows over the nodes.
    fn spread(&mut self) -> Result<(), LabError> {
        self.lab.console.note("files and streams, in anywhere");
        let before = self.lab.context().settled_counts()?;
        let uses = [&[Use::PingUp, Use::PingDown], &self.loads(self.file)[..]].concat();
        self.pairs(Entry::All, &uses, HOPS_OF_STREAMS)?;
        // Many small flows, so that each node receives some of them.
        let phones: Vec<Ue> = self.lab.plan.ues().collect();
        for (ue, family) in phones.into_iter().flat_map(|ue| Family::ALL.map(|family| (ue, family))) {
            for _ in 0..3 {
                let verdict = self.lab.context().use_network(Use::FetchSmall, ue, family)?;
                if !verdict.passed {
                    self.add(&format!("small file of {}", ue.address(family)), verdict);
                }
            }
        }
        let added = since(&self.lab.context().settled_counts()?, &before);
        let entered = |counts: &NodeCounts| (counts.count("internet_in"), counts.count("base_station_in"));
        let shares: Vec<_> = added.iter().map(entered).collect();
        let passed = shares.iter().all(|(down, up)| *down > 0 && *up > 0);
        let says = format!("entered from Internet and base station, by node: {shares:?}");
        self.add("spread by kernel multipath", Verdict::new(passed, says));
        Ok(())
    }

    /// Errors that must not have been counted since the first check.
    fn totals(&mut self) -> Result<(), LabError> {
        let context = self.lab.context();
        let mistakes = context.base_station_counts()?.mistakes();
        self.add("base station", Verdict::of_problems(&mistakes, "no mistake"));
        let bad = context.bad_checksums()?;
        self.add("checksums, by the kernels", Verdict::of_problems(&bad, "none wrong"));
        let added = since(&context.settled_counts()?, &self.before);
        let by_node = |drops: fn(&NodeCounts) -> Vec<(&str, u64)>| {
            let of_node = |(node, counts)| {
                let line = move |(reason, count)| format!("node {node}: {reason} {count}");
                drops(counts).into_iter().map(line)
            };
            let lines: Vec<String> = added.iter().enumerate().flat_map(of_node).collect();
            (lines.is_empty(), if lines.is_empty() { "none".to_owned() } else { lines.join(", ") })
        };
        let (passed, mistakes) = by_node(|counts| counts.mistakes().collect());
        let (_, congestion) = by_node(|counts| counts.congestion().collect());
        self.add("packets that nodes refused", Verdict::new(passed, mistakes));
        self.add("packets lost for want of room", Verdict::new(true, congestion));
        Ok(())
    }
}

/// The increase of the counters of all nodes.
pub fn since(after: &[NodeCounts], before: &[NodeCounts]) -> Vec<NodeCounts> {
    after.iter().zip(before).map(|(after, before)| after.since(before)).collect()
}

/// The check of how pings crossed the fabric.
const HOPS_OF_PINGS: (&str, MaxLoss) = ("hops of pings", MaxLoss::Nothing);

/// The check of how loads that fill links crossed the fabric.
const HOPS_OF_STREAMS: (&str, MaxLoss) = ("hops of streams", MaxLoss::OnePercent);

/// Packets that may be lost between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MaxLoss {
    /// None.
    Nothing,
    /// One in a hundred: TCP sends more until a link is full.
    OnePercent,
}

/// Checks that the counters of nodes agree with the packets' path.
fn hops(
    added: &[NodeCounts],
    entry: Entry,
    handling: NodeId,
    architecture: Architecture,
    max_loss: MaxLoss,
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
    let max_lost = if max_loss == MaxLoss::OnePercent { crossed / 100 } else { 0 };
    let passed = is_right && left > 0 && left_at_home == left && lost.is_some_and(|lost| lost <= max_lost);
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
    Verdict::new(passed, says)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(fabric_in: u64, fabric_out: u64, left: u64) -> NodeCounts {
        NodeCounts::of(&[("fabric_in", fabric_in), ("fabric_out", fabric_out), ("internet_out", left)])
    }

    #[test]
    fn counters_that_disagree_with_one_hop_are_found() {
        let (home, away) = (Entry::One(NodeId::new(0)), Entry::One(NodeId::new(1)));
        let right = |added: &[NodeCounts], entry, architecture| {
            hops(added, entry, NodeId::new(0), architecture, MaxLoss::Nothing).passed
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
    fn streams_may_lose_one_packet_in_a_hundred_on_a_link_which_is_reported() {
        let away = Entry::One(NodeId::new(1));
        let of = |arrived, sent, left, loss| {
            let added = [counts(arrived, 0, left), counts(0, sent, 0)];
            hops(&added, away, NodeId::new(0), Architecture::ScaleBricks, loss)
        };
        let some = of(990, 1_000, 990, MaxLoss::OnePercent);
        assert!(some.passed && some.says == "1.00 over 990, 10 lost on a link", "{some:?}");
        assert!(!of(990, 1_000, 990, MaxLoss::Nothing).passed);
        assert!(!of(989, 1_000, 989, MaxLoss::OnePercent).passed);
        assert!(!of(990, 1_000, 989, MaxLoss::OnePercent).passed, "lost in a node");
        assert!(!of(1_001, 1_000, 1_001, MaxLoss::OnePercent).passed, "more arrived than was sent");
    }
}
