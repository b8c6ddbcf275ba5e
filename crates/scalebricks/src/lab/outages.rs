//! What befalls a cluster whose flows come from the control plane, under pings that all enter at the node that it befalls: the
//! node is killed, drained, stopped for a while, cut off; the log is stopped and killed. Base station and router change nothing: they
//! go on sending to the same addresses.

mod heirs;

use super::LabError;
use super::network::Entry;
use super::nodes::Process;
use super::plan::{Family, Link, Plan};
use super::probes::{self, Answers, Probes};
use super::report::{Report, Round};
use super::session::Lab;
use super::traffic::Verdict;
use rustix::process::Signal;
use scalebricks::admin::client::{Client, Target};
use scalebricks::admin::model::{ClusterView, MemberView};
use scalebricks_console::{Console, Interrupt};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Until the living nodes know that one died: 1 s of silence, a beat of 160 ms, and a record that is changed.
const KNOWN: Duration = Duration::from_millis(1_200);

/// Until all flows go again, those that entered or were handled at the node among them.
const FORWARDED: Duration = Duration::from_secs(3);

/// The same two where servers keep the log of which one, a leader of some streams, dies with the node: they have to elect others.
const LEADERLESS: Duration = Duration::from_secs(15);

/// The longest time that pings may be without an answer where nothing is to be lost: a machine with few cores may leave a
/// process without one for a while.
const HARM: Duration = Duration::from_millis(500);

/// How long a node or the log is away, at least.
const AWAY: Duration = Duration::from_secs(3);

/// How long it may take until a node is back, with its addresses and partitions, or until the log's updates go on.
const RETURN: Duration = Duration::from_secs(15);

/// How long pings go on before anything happens, and after all is well.
const CALM: Duration = Duration::from_secs(1);

/// Tables that have not changed for so long have got all.
const SETTLED: Duration = Duration::from_millis(1_500);

/// Flows of a node that dies twice within this time stay where they are (the control plane gives nobody's away more often).
const REST: Duration = Duration::from_secs(31);

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Breaks things, one after the other.
///
/// # Errors
/// [`LabError`] if the lab itself does not work, or a process ends that was not to.
pub fn run(
    lab: &mut Lab<'_>,
    round: Round,
    report: &mut Report,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<(), LabError> {
    let mut outages = Outages { lab, round, report, interrupt, befallen: BTreeMap::new() };
    // The last first: it is started again at the end of the list. Over packet sockets and XDP sockets, if there are both.
    let nodes: Vec<NodeId> = outages.lab.plan.size.nodes().collect();
    let victim = |number: usize| nodes[nodes.len() - 1 - number % nodes.len()];
    console.note("killing a node, and starting it again");
    outages.death(victim(0))?;
    console.note("draining a node");
    outages.drain(victim(1))?;
    console.note("stopping a node for a while");
    outages.pause(victim(1))?;
    console.note("cutting a node off, first from the control network, then from all");
    outages.cut(victim(2), "the control link", &[])?;
    outages.cut(victim(3), "all links", &Link::ALL)?;
    console.note("stopping the log for a while, then killing it");
    outages.silent_log()?;
    outages.lost_log()?;
    outages.lab.check_alive()
}

/// How long things may take.
struct Limits {
    known: Duration,
    forwarded: Duration,
    /// Until a node is back, or anything else is waited for.
    back: Duration,
}

struct Outages<'a, 'b> {
    lab: &'a mut Lab<'b>,
    round: Round,
    report: &'a mut Report,
    interrupt: &'a Interrupt,
    /// When something last befell a node.
    befallen: BTreeMap<NodeId, Instant>,
}

/// What was seen of something that happened.
struct Seen {
    /// When it happened, as Unix time in seconds.
    at: f64,
    answers: Vec<Answers>,
}

impl Seen {
    fn lost(&self) -> u32 {
        self.answers.iter().map(Answers::lost).sum()
    }

    /// Whether all flows went again soon, and how soon.
    fn forwarded(&self, limit: Duration) -> Verdict {
        let worst = self.worst(|answers| answers.well_after(self.at));
        let says = match worst {
            Some((flow, time)) if time.is_infinite() => format!("{flow} never again"),
            Some((flow, time)) => {
                format!(
                    "the last of {} flows after {time:.2} s ({flow}); {} pings lost in all",
                    self.answers.len(),
                    self.lost()
                )
            }
            None => "no flow was tried".to_owned(),
        };
        let passed = worst.is_some_and(|(_, time)| time <= limit.as_secs_f64());
        Verdict { passed, says }
    }

    /// Whether no flow was without an answer for long after a moment.
    fn unharmed(&self, since: f64) -> Verdict {
        let worst = self.worst(|answers| answers.silence_after(since));
        let says = match worst {
            Some((flow, time)) => format!("{time:.2} s without an answer at most ({flow})"),
            None => "no flow was tried".to_owned(),
        };
        Verdict { passed: worst.is_some_and(|(_, time)| time <= HARM.as_secs_f64()), says }
    }

    fn worst(&self, time: impl Fn(&Answers) -> f64) -> Option<(&str, f64)> {
        let times = self.answers.iter().map(|answers| (answers.flow.as_str(), time(answers)));
        times.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

impl Outages<'_, '_> {
    /// What is allowed.
    const fn limits(&self) -> Limits {
        if self.lab.plan.nats.is_some() {
            Limits { known: LEADERLESS, forwarded: LEADERLESS, back: RETURN.saturating_mul(4) }
        } else {
            Limits { known: KNOWN, forwarded: FORWARDED, back: RETURN }
        }
    }

    /// Sends a signal to what keeps the log beside a node, if anything does.
    fn signal_beside(&mut self, node: NodeId, signal: Signal) -> Result<(), LabError> {
        self.lab.log().signal(Some(node), signal)
    }

    /// Does something to a node, as soon as its flows would be given to others again.
    fn befall<T>(
        &mut self,
        node: NodeId,
        act: impl FnOnce(&mut Self) -> Result<T, LabError>,
    ) -> Result<(Seen, T), LabError> {
        while self.befallen.get(&node).is_some_and(|before| before.elapsed() < REST) {
            self.interrupt.check()?;
            thread::sleep(CALM / 4);
        }
        self.befallen.insert(node, Instant::now());
        self.watched(node, act)
    }

    /// Does something, and lets it come to its end, with pings of all phones in at a node all the time.
    fn watched<T>(
        &mut self,
        entry: NodeId,
        act: impl FnOnce(&mut Self) -> Result<T, LabError>,
    ) -> Result<(Seen, T), LabError> {
        self.lab.network().enter(Entry::One(entry))?;
        let probes = Probes::start(self.lab.processes())?;
        thread::sleep(CALM);
        let at = probes::now();
        let done = act(self)?;
        thread::sleep(CALM);
        Ok((Seen { at, answers: probes.finish(self.interrupt)? }, done))
    }

    fn add(&mut self, check: &str, verdict: Verdict) {
        self.report.add(self.round.of_all(check, verdict));
    }

    fn add_known(&mut self, check: &str, known: Duration) {
        let says = format!("after {:.2} s", known.as_secs_f64());
        self.add(check, Verdict { passed: known <= self.limits().known, says });
    }

    /// What another node than this says of the cluster.
    fn cluster(&self, apart_from: NodeId) -> Result<ClusterView, LabError> {
        let others = self.lab.plan.size.nodes().find(|node| *node != apart_from);
        let socket = self.lab.processes().socket(others.unwrap_or(apart_from));
        let told = Client::new(Target::Unix(socket), RETURN).and_then(|client| client.cluster());
        told.map_err(|error| LabError::Setup { what: format!("the cluster's members: {error}") })
    }

    fn member(&self, node: NodeId) -> Result<Option<MemberView>, LabError> {
        let members = self.cluster(node)?.members;
        Ok(members.into_iter().find(|member| member.node == u16::from(node.get())))
    }

    /// Waits until the others hold a node for dead; how long that took.
    fn await_death(&self, node: NodeId) -> Result<Duration, LabError> {
        self.wait("the others give up a node", || {
            Ok(self.member(node)?.is_some_and(|member| !member.is_alive))
        })
    }

    /// Waits until a node lives, owns partitions, and neighbours send to it; how long that took.
    fn await_return(&self, node: NodeId) -> Result<Duration, LabError> {
        self.wait("a node is back", || {
            let member = self.member(node)?;
            let is_in = member.is_some_and(|member| member.is_alive && !member.partitions.is_empty());
            Ok(is_in && self.is_sent_to(node)?)
        })
    }

    /// Whether the base station and the Internet host have the node's MAC addresses for its addresses.
    fn is_sent_to(&self, node: NodeId) -> Result<bool, LabError> {
        let network = self.lab.network();
        for family in Family::ALL {
            let mac = network.neighbour(Link::Internet, Plan::internet_address(node, family))?;
            if mac != Some(Plan::mac(node, Link::Internet).to_string()) {
                return Ok(false);
            }
        }
        let mac = network.neighbour(Link::Ran, Plan::ran_address(node).into())?;
        Ok(mac == Some(Plan::mac(node, Link::Ran).to_string()))
    }

    fn wait(&self, what: &str, is_so: impl Fn() -> Result<bool, LabError>) -> Result<Duration, LabError> {
        let began = Instant::now();
        while !is_so()? {
            self.interrupt.check()?;
            if began.elapsed() > self.limits().back {
                let seconds = self.limits().back.as_secs();
                return Err(LabError::Setup { what: format!("not within {seconds} s: {what}") });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(began.elapsed())
    }

    fn process(&mut self, node: NodeId) -> Result<&mut Process, LabError> {
        let there = self.lab.nodes.get_mut(node.index());
        there.ok_or_else(|| LabError::Setup { what: format!("node {} does not run", node.get()) })
    }

    /// A node that came back gets flows again, if they are pinned to it: as the plan has them.
    fn gets_flows(&mut self, node: NodeId) -> Result<Verdict, LabError> {
        self.lab.processes().import()?;
        let socket = self.lab.processes().socket(node);
        let status = Client::new(Target::Unix(socket), RETURN).and_then(|client| client.status());
        let here = status.map_or(0, |status| status.flows.here);
        let wanted = self.lab.plan.ues().filter(|ue| ue.node == node).count() as u64 * 2;
        Ok(Verdict {
            passed: here >= wanted,
            says: format!("{here} flows handled there; {wanted} at least are to be"),
        })
    }

    /// Kills a node. Its addresses and flows are with others; it comes back.
    fn death(&mut self, node: NodeId) -> Result<(), LabError> {
        let flows = u64::from(self.lab.plan.flows) + 2 * self.lab.plan.ues().count() as u64;
        let (seen, (known, with_others)) = self.befall(node, |outages| {
            let began = Instant::now();
            outages.lab.log().kill_beside(node);
            if let Some(process) = outages.lab.nodes.pop() {
                process.kill_at_once();
            }
            outages.await_death(node)?;
            let known = began.elapsed();
            let with_others = outages.await_flows(node, flows, began)?;
            thread::sleep(outages.limits().forwarded.saturating_sub(began.elapsed()));
            Ok((known, with_others))
        })?;
        self.add_known("a node is killed: the others know", known);
        self.add("its flows are in the tables of others", with_others);
        self.add("packets to its addresses and flows go again", seen.forwarded(self.limits().forwarded));
        let verdict = self.one_heir_each(node)?;
        self.add("both directions of each of its flows are at one node", verdict);
        let began = Instant::now();
        self.lab.start_log_beside(node)?;
        let process = self.lab.processes().node(node)?;
        self.lab.nodes.push(process);
        self.await_return(node)?;
        let says = format!(
            "caught up, with its addresses and partitions, after {:.1} s",
            began.elapsed().as_secs_f64()
        );
        self.add("it is started again", Verdict { passed: true, says });
        let verdict = self.gets_flows(node)?;
        self.add("it gets flows again", verdict);
        Ok(())
    }

    /// Waits until the other nodes' tables have got all flows of one that died, and get no more. While they move a flow may be at two
    /// nodes, so that their number alone does not tell.
    fn await_flows(&self, apart_from: NodeId, flows: u64, began: Instant) -> Result<Verdict, LabError> {
        let others: Vec<NodeId> = self.lab.plan.size.nodes().filter(|node| *node != apart_from).collect();
        let (mut here, mut changed) = (0, began.elapsed());
        while began.elapsed() < changed + SETTLED && began.elapsed() < self.limits().back {
            let mut now = 0;
            for node in &others {
                let socket = self.lab.processes().socket(*node);
                let status = Client::new(Target::Unix(socket), RETURN).and_then(|client| client.status());
                now += status.map_or(0, |status| status.flows.here);
            }
            if now != here {
                (here, changed) = (now, began.elapsed());
            }
            self.interrupt.check()?;
            thread::sleep(LOOK_EVERY);
        }
        let says = format!("the last after {:.2} s", changed.as_secs_f64());
        Ok(Verdict { passed: here >= flows && changed <= self.limits().forwarded, says })
    }

    /// Stops a node for a while. It wakes, with tables and neighbours of another time.
    fn pause(&mut self, node: NodeId) -> Result<(), LabError> {
        let (seen, (known, woke, back)) = self.befall(node, |outages| {
            let began = Instant::now();
            outages.process(node)?.signal(Signal::STOP)?;
            outages.signal_beside(node, Signal::STOP)?;
            outages.await_death(node)?;
            let known = began.elapsed();
            thread::sleep(AWAY.saturating_sub(began.elapsed()));
            let woke = probes::now();
            outages.process(node)?.signal(Signal::CONT)?;
            outages.signal_beside(node, Signal::CONT)?;
            Ok((known, woke, outages.await_return(node)?))
        })?;
        self.add_known("a node is stopped: the others know", known);
        // What waited for it is answered when it wakes; so long nobody waited in vain.
        let mut verdict = seen.forwarded(self.limits().forwarded);
        verdict.says = format!("stopped for {:.1} s: {}", woke - seen.at, verdict.says);
        self.add("packets to its addresses and flows go again", verdict);
        self.add("it wakes, and does no harm", seen.unharmed(woke));
        let says = format!("with its addresses and partitions after {:.1} s", back.as_secs_f64());
        self.add("it is back", Verdict { passed: true, says });
        let verdict = self.gets_flows(node)?;
        self.add("it gets flows again", verdict);
        Ok(())
    }

    /// Takes a node's control link and others down for a while.
    fn cut(&mut self, node: NodeId, what: &str, links: &[Link]) -> Result<(), LabError> {
        let (seen, (known, healed, back)) = self.befall(node, |outages| {
            let began = Instant::now();
            outages.set_links(node, links, false)?;
            outages.await_death(node)?;
            let known = began.elapsed();
            thread::sleep(AWAY.saturating_sub(began.elapsed()));
            outages.set_links(node, links, true)?;
            Ok((known, probes::now(), outages.await_return(node)?))
        })?;
        self.add_known(&format!("{what} of a node cut: the others know"), known);
        self.add("packets to its addresses and flows go again", seen.forwarded(self.limits().forwarded));
        self.add("the links are back, and do no harm", seen.unharmed(healed));
        let says = format!("with its addresses and partitions after {:.1} s", back.as_secs_f64());
        self.add("it is back", Verdict { passed: true, says });
        let verdict = self.gets_flows(node)?;
        self.add("it gets flows again", verdict);
        Ok(())
    }

    fn set_links(&self, node: NodeId, links: &[Link], is_up: bool) -> Result<(), LabError> {
        let network = self.lab.network();
        network.set_control_port(node, is_up)?;
        links.iter().try_for_each(|link| network.set_port(*link, node, is_up))
    }

    /// Stops who keeps the log, while flows are handed to the control plane.
    fn silent_log(&mut self) -> Result<(), LabError> {
        let (seen, updated) = self.watched(NodeId::new(0), |outages| {
            outages.lab.log().signal(None, Signal::STOP)?;
            let import = outages.lab.processes().start_import()?;
            thread::sleep(AWAY);
            let woke = Instant::now();
            outages.lab.log().signal(None, Signal::CONT)?;
            import.await_end(outages.limits().back, outages.interrupt)?;
            Ok(woke.elapsed())
        })?;
        self.add("the log is stopped: packets go on", seen.unharmed(seen.at));
        let says = format!(
            "flows handed over meanwhile are with all {:.2} s after it goes on",
            updated.as_secs_f64()
        );
        self.add("updates go on by themselves", Verdict { passed: true, says });
        Ok(())
    }

    /// Kills who keeps the log, and starts it again.
    fn lost_log(&mut self) -> Result<(), LabError> {
        let (seen, updated) = self.watched(NodeId::new(0), |outages| {
            outages.lab.log().kill();
            thread::sleep(AWAY);
            outages.lab.start_log()?;
            let began = Instant::now();
            outages.lab.processes().import()?;
            Ok(began.elapsed())
        })?;
        self.add("the log is killed: packets go on", seen.unharmed(seen.at));
        let says = format!("flows are with all {:.2} s after it was started again", updated.as_secs_f64());
        self.add("updates go on by themselves", Verdict { passed: true, says });
        Ok(())
    }
}
