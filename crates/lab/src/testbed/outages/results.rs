//! What outages came to: a row for each, as JSON, as a table of the page, and in a few words.

use super::list::{GOAL, HARM, LooksAt, Outage, Place, Recovers, WANTED};
use super::loads;
use super::track::{Damage, Moments, Track};
use crate::testbed::plan::{Driver, Plan};
use scalebricks_console::machine::{self, Processor};
use scalebricks_report::exhibit::{Exhibits, PageTable};
use scalebricks_report::pages::{Evidence, Text};
use scalebricks_report::provenance;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Drops for want of room.
const QUEUES: [&str; 5] = ["port_full", "fabric_full", "no_buffer", "rx_missed", "tx_errors"];

/// How long a machine may stand still and yet be judged by.
const STALL: Duration = Duration::from_millis(100);

/// Flows that are named of those that lost packets before anything happened.
const NAMED: usize = 4;

/// The outages of the short list.
const SUMMARY: [&str; 4] = ["control-pair", "ran-link", "worker-stopped", "node-killed"];

/// All that a run came to.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// Version of the program.
    pub version: String,
    /// The commit of the sources.
    pub commit: String,
    /// The processor.
    pub cpu: String,
    /// The number of its family.
    #[serde(default)]
    pub cpu_family: Option<u32>,
    /// Its number in the family.
    #[serde(default)]
    pub cpu_model: Option<u32>,
    /// Cores, memory, kernel.
    pub machine: String,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// How nodes meet their interfaces.
    pub driver: Driver,
    /// The servers that store the log.
    pub log: String,
    /// One for each outage.
    pub rows: Vec<Row>,
    /// One for each architecture.
    pub isolation: Vec<Isolation>,
}

/// What was seen of the cluster itself.
#[derive(Debug, Default)]
pub struct Cluster {
    /// How often the view changed.
    pub view_changes: u64,
    /// Error Indications, all of them for tunnels that are there.
    pub error_indications: u64,
    /// Packets out of a tunnel that is not there, or of another phone's.
    pub wrong_tunnels: u64,
    /// Packets that nodes dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Until all was in order again after the outage was undone, seconds.
    pub order_s: Option<f64>,
    /// The longest time for which a thread that wanted a core had none.
    pub longest_stall: Duration,
    /// What did not succeed.
    pub wrong: Vec<String>,
    /// Whether all is as it was.
    pub is_over: bool,
}

/// What an outage came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// As the table calls it.
    pub title: String,
    /// Whom it befell.
    pub node: u8,
    /// How long it lasted, seconds.
    pub lasted_s: f64,
    /// Flows that it concerned, each direction one.
    pub concerned: Felt,
    /// All others.
    pub others: Felt,
    /// From when it happened to the last packet that was lost of the flows concerned, seconds; from when it was undone if nobody could
    /// help before.
    pub recovery_s: f64,
    /// The most that this may be.
    pub allowed_s: f64,
    /// Until all nodes were in the view, caught up and with their addresses, after it was undone, seconds.
    pub order_s: Option<f64>,
    /// Packets of other tunnels or at other phones than theirs.
    pub wrong_packets: u64,
    /// Packets that arrived more than once.
    pub doubled: u64,
    /// Packets that arrived 10 s after they were sent, or later: somebody kept them.
    pub stale: u64,
    /// Error Indications for tunnels that are there.
    pub error_indications: u64,
    /// How often the view changed.
    pub view_changes: u64,
    /// How often it may have.
    pub view_changes_allowed: u64,
    /// Transfers over TCP.
    pub transfers: u64,
    /// Those that came to their end, whole.
    pub transfers_completed: u64,
    /// Packets dropped for want of room.
    pub queue_drops: u64,
    /// Packets that nodes dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Whether all is as it must be.
    pub passed: bool,
    /// Whether it is even as is wanted: 1.5 s.
    pub is_as_wanted: bool,
    /// What is not as it must be.
    pub failures: Vec<String>,
    /// The longest time for which a thread that wanted a core had none, milliseconds: how far the machine itself was away.
    #[serde(default)]
    pub longest_stall_ms: u64,
    /// Tries before this one that say nothing, each with why: see [`Row::is_void`].
    #[serde(default)]
    pub void: Vec<String>,
    /// Whether all is as it was.
    #[serde(skip)]
    pub is_over: bool,
}

/// What flows felt.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Felt {
    /// How many.
    pub flows: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets lost before anything happened.
    pub lost_before: u64,
    /// Packets lost while it lasted.
    pub lost: u64,
    /// Packets lost after it was undone.
    pub lost_after: u64,
}

/// What a death came to where nobody takes the flows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Isolation {
    /// The nodes' architecture.
    pub architecture: String,
    /// Flows that enter at a living node and are handled at a living node.
    pub between_living: Felt,
    /// Flows that enter at the dead node or are handled there.
    pub through_it: Felt,
}

const fn felt(damage: Damage) -> Felt {
    let Damage { flows, sent, lost_before, lost, lost_after, .. } = damage;
    Felt { flows, sent, lost_before, lost, lost_after }
}

/// Which flows lost packets before anything happened, and how long before it.
fn early_losses(tracks: &[Track], moments: Moments) -> String {
    let mut flows: Vec<String> = Vec::new();
    for track in tracks {
        let mut lost =
            track.lost_within(moments.from, moments.first_at_risk()).map(|at| moments.at - at).peekable();
        if let Some(first) = lost.peek().copied() {
            flows.push(format!("{} {} from {first:.2} s before it", track.name, lost.count()));
        }
    }
    let more = flows.len().saturating_sub(NAMED);
    flows.truncate(NAMED);
    let rest = if more > 0 { format!(", {more} more flows") } else { String::new() };
    format!("{}{rest}", flows.join(", "))
}

impl Isolation {
    /// Of an architecture, by what flows between living nodes felt, and those that met the dead one.
    pub fn of(architecture: &str, between_living: Damage, through_it: Damage) -> Self {
        let architecture = architecture.to_owned();
        Self { architecture, between_living: felt(between_living), through_it: felt(through_it) }
    }
}

impl Row {
    /// Judges what an outage came to.
    pub fn new(
        outage: &'static Outage,
        place: Place,
        moments: Moments,
        loads: &loads::Results,
        cluster: Cluster,
    ) -> Self {
        let (mut concerned, mut others) = (Damage::default(), Damage::default());
        for track in &loads.tracks {
            let part = if (outage.concerns)(place, track.route) { &mut concerned } else { &mut others };
            *part = part.and(track.damage(moments));
        }
        let (recovery_s, allowed_s) = match outage.recovers {
            Recovers::Within(limit) => (concerned.recovery_s, limit.as_secs_f64()),
            Recovers::OnceUndone(limit) => (concerned.return_s, limit.as_secs_f64()),
        };
        let queue_drops = cluster
            .drops
            .iter()
            .filter(|(reason, _)| QUEUES.contains(&reason.as_str()))
            .map(|(_, n)| n)
            .sum();
        let all = concerned.and(others);
        let mut row = Self {
            name: outage.name.to_owned(),
            title: outage.title.to_owned(),
            node: place.node.get(),
            lasted_s: moments.undone - moments.at,
            concerned: felt(concerned),
            others: felt(others),
            recovery_s,
            allowed_s,
            order_s: cluster.order_s,
            wrong_packets: cluster.wrong_tunnels + loads.misdelivered,
            doubled: all.doubled,
            stale: all.stale,
            error_indications: cluster.error_indications,
            view_changes: cluster.view_changes,
            view_changes_allowed: outage.view_changes,
            transfers: loads.transfers.started,
            transfers_completed: loads.transfers.completed,
            queue_drops,
            drops: cluster.drops,
            passed: false,
            is_as_wanted: false,
            failures: cluster.wrong,
            longest_stall_ms: cluster.longest_stall.as_millis() as u64, // far below 2^64
            void: Vec::new(),
            is_over: cluster.is_over,
        };
        row.judge(outage, all, &early_losses(&loads.tracks, moments), &loads.transfers.failed);
        row
    }

    /// Why this try says nothing of the outage, if so: something was wrong, and meanwhile the machine itself stood still.
    pub fn is_void(&self) -> Option<String> {
        let stall_ms = self.longest_stall_ms;
        let says_nothing = !self.passed && u128::from(stall_ms) >= STALL.as_millis();
        says_nothing
            .then(|| format!("the machine stood still for {stall_ms} ms ({})", self.failures.join("; ")))
    }

    fn judge(&mut self, outage: &Outage, all: Damage, early: &str, transfers: &[String]) {
        let recovers = outage.recovers;
        let failures = &mut self.failures;
        let mut must = |is_so: bool, what: String| {
            if !is_so {
                failures.push(what);
            }
        };
        must(self.recovery_s <= self.allowed_s, format!("packets were lost for {:.2} s", self.recovery_s));
        must(self.others.lost == 0, format!("{} packets of other flows were lost", self.others.lost));
        let before = all.lost_before;
        must(before == 0, format!("{before} packets were lost before anything happened: {early}"));
        let returns_in = match recovers {
            Recovers::Within(_) => HARM.as_secs_f64(),
            Recovers::OnceUndone(limit) => limit.as_secs_f64(),
        };
        must(
            all.return_s <= returns_in,
            format!("packets were lost for {:.2} s after it was undone", all.return_s),
        );
        must(self.wrong_packets == 0, format!("{} packets at the wrong phone or tunnel", self.wrong_packets));
        must(self.doubled == 0, format!("{} packets arrived more than once", self.doubled));
        must(
            self.stale == 0 || outage.looks_at != LooksAt::Stale,
            format!("{} packets were forwarded 10 s after they were sent", self.stale),
        );
        must(self.error_indications == 0, format!("{} Error Indications", self.error_indications));
        must(
            self.view_changes <= self.view_changes_allowed,
            format!("the view changed {} times", self.view_changes),
        );
        failures.extend(transfers.iter().map(|what| format!("TCP: {what}")));
        self.passed = self.failures.is_empty();
        let is_late = matches!(recovers, Recovers::Within(_)) && self.recovery_s > WANTED.as_secs_f64();
        self.is_as_wanted = self.passed && !is_late;
    }

    /// In a line, with its title.
    fn line(&self) -> String {
        format!("{:<7}{}: {}", if self.passed { "ok" } else { "FAILED" }, self.title, self.summary())
    }

    /// In a line.
    pub fn summary(&self) -> String {
        let verdict = if self.passed { "ok".to_owned() } else { self.failed() };
        let verdict = match self.void.len() {
            0 => verdict,
            tries => format!("{verdict} (after {tries} void: {})", self.void.join("; ")),
        };
        format!(
            "{:.2} s; lost: {} of {} concerned, {} of {} others, {} after it was undone; view changed {} times; {verdict}",
            self.recovery_s,
            self.concerned.lost,
            self.concerned.sent,
            self.others.lost,
            self.others.sent,
            self.lost_after(),
            self.view_changes
        )
    }

    /// What is not as it must be, and what nodes dropped meanwhile.
    fn failed(&self) -> String {
        let drops: Vec<String> =
            self.drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let drops = if drops.is_empty() { "nothing".to_owned() } else { drops.join(", ") };
        format!(
            "FAILED: {}; nodes dropped: {drops}; stall {} ms",
            self.failures.join("; "),
            self.longest_stall_ms
        )
    }

    const fn lost_after(&self) -> u64 {
        self.concerned.lost_after + self.others.lost_after
    }

    fn cells(&self) -> Vec<String> {
        let verdict = match (self.passed, self.is_as_wanted) {
            (true, true) => "yes".to_owned(),
            (true, false) => "over 1.5 s".to_owned(),
            (false, _) => format!("**no**: {}", self.failures.join("; ").replace(['|', '\n'], " ")),
        };
        let verdict = match self.void.len() {
            0 => verdict,
            tries => format!("{verdict}, after {tries} void"),
        };
        vec![
            format!("`{}`", self.name),
            self.title.clone(),
            format!("{:.0}", self.lasted_s),
            if self.concerned.flows == 0 { "-".to_owned() } else { format!("{:.2}", self.recovery_s) },
            format!("{} of {}", self.concerned.lost, self.concerned.sent),
            format!("{} of {}", self.others.lost, self.others.sent),
            self.lost_after().to_string(),
            self.wrong_packets.to_string(),
            self.error_indications.to_string(),
            self.view_changes.to_string(),
            format!("{} of {}", self.transfers_completed, self.transfers),
            self.queue_drops.to_string(),
            verdict,
        ]
    }
}

impl Results {
    /// None yet.
    pub fn new(plan: &Plan) -> Self {
        let processor = Processor::here();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: provenance::commit(),
            cpu: processor.brand,
            cpu_family: processor.family,
            cpu_model: processor.model,
            machine: machine::description(),
            nodes: plan.size.get(),
            driver: plan.driver,
            log: if plan.log_servers > 1 { "three NATS servers" } else { "one NATS server" }.to_owned(),
            rows: Vec::new(),
            isolation: Vec::new(),
        }
    }

    /// Whether all is as it must be.
    pub fn passed(&self) -> bool {
        let is_isolated =
            |found: &&Isolation| found.architecture != "scalebricks" || found.between_living.lost == 0;
        self.rows.iter().all(|row| row.passed)
            && self.isolation.iter().filter(|f| !is_isolated(f)).count() == 0
    }

    /// What pages show of it. Nothing is timed over several runs: an outage is as it must be, or not.
    pub fn evidence(self) -> Evidence {
        let sheets = vec![self.run_sheet(), self.outages_sheet(), self.isolation_sheet()];
        let lines = self.rows.iter().filter(|row| SUMMARY.contains(&row.name.as_str())).map(Row::line);
        let lines = lines.collect::<Vec<_>>().join("\n");
        Evidence {
            processor: Processor { brand: self.cpu, family: self.cpu_family, model: self.cpu_model },
            commit: self.commit,
            runs: None,
            runs_are: "runs",
            is_quick: false,
            exhibits: Exhibits { sheets, ..Exhibits::default() },
            texts: vec![Text { name: "summary".to_owned(), lines }],
            pictures: Vec::new(),
        }
    }

    fn run_sheet(&self) -> PageTable {
        let mut sheet = PageTable::new("run", &["", ""]).side_by_side(1);
        let driver = clap::ValueEnum::to_possible_value(&self.driver);
        let driver = driver.map(|value| value.get_name().to_owned()).unwrap_or_default();
        let nodes = format!("{}, {driver}", self.nodes);
        for (what, is) in [
            ("processor", self.cpu.as_str()),
            ("machine", &self.machine),
            ("commit", &self.commit),
            ("nodes", &nodes),
            ("log", &self.log),
        ] {
            sheet.rows.push(vec![what.to_owned(), is.to_owned()]);
        }
        sheet
    }

    fn outages_sheet(&self) -> PageTable {
        let heads = [
            "name",
            "outage",
            "lasts, s",
            "felt for, s",
            "lost, concerned",
            "lost, others",
            "lost after it",
            "wrong",
            "Error Indications",
            "view changes",
            "TCP whole",
            "queue drops",
            "as it must be",
        ];
        let mut sheet = PageTable::new("outages", &heads);
        sheet.rows = self.rows.iter().map(Row::cells).collect();
        sheet
    }

    fn isolation_sheet(&self) -> PageTable {
        let mut sheet = PageTable::new(
            "isolation",
            &["architecture", "lost between living nodes", "lost through the dead node"],
        );
        let cell = |felt: &Felt| {
            let share = felt.lost as f64 * 100.0 / felt.sent.max(1) as f64;
            format!("{} of {} ({share:.1} %)", felt.lost, felt.sent)
        };
        sheet.rows = self
            .isolation
            .iter()
            .map(|found| {
                vec![found.architecture.clone(), cell(&found.between_living), cell(&found.through_it)]
            })
            .collect();
        sheet
    }

    /// As text, without a newline at the end.
    pub fn render(&self) -> String {
        let mut lines: Vec<String> = self.rows.iter().map(Row::line).collect();
        lines.extend(self.isolation.iter().map(|found| {
            format!(
                "       {}, a node dies: lost between living nodes: {} of {}; through it: {} of {}",
                found.architecture,
                found.between_living.lost,
                found.between_living.sent,
                found.through_it.lost,
                found.through_it.sent
            )
        }));
        let failed = self.rows.iter().filter(|row| !row.passed).count();
        let (count, goal) = (self.rows.len(), GOAL.as_secs());
        lines.push(format!(
            "{} of {count} outages are as they must be (goal: {goal} s). {}, {}, commit {}",
            count - failed,
            self.cpu,
            self.machine,
            self.commit
        ));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::outages::list;
    use crate::testbed::outages::track::tests::track;
    use crate::testbed::transfers::Finished;
    use scalebricks_types::NodeId;

    fn row(name: &str, node: u8, is_lost: impl Fn(u64) -> bool, cluster: Cluster) -> Row {
        let outage = list::ALL.iter().find(|outage| outage.name == name).unwrap();
        let place = Place { node: NodeId::new(node), peer: NodeId::new(3) };
        let transfers = Finished { started: 2, completed: 2, failed: Vec::new() };
        let loads = loads::Results { tracks: vec![track(200, is_lost)], misdelivered: 0, transfers };
        Row::new(outage, place, Moments { from: 0.0, at: 1_001.0, undone: 1_007.0 }, &loads, cluster)
    }

    #[test]
    fn a_death_may_be_felt_by_the_nodes_own_flows_for_three_seconds() {
        let felt = |number| (20..60).contains(&number);
        let ok = row("node-killed", 1, felt, Cluster::default());
        assert!(ok.passed && !ok.is_as_wanted, "{ok:?}");
        assert_eq!((ok.concerned.lost, ok.others.flows), (40, 0));
        let soon = row("node-killed", 1, |number| (20..40).contains(&number), Cluster::default());
        assert!(soon.is_as_wanted);
        let longer = row("node-killed", 1, |number| (20..90).contains(&number), Cluster::default());
        assert!(!longer.passed && longer.failures[0].contains("3.4"), "{longer:?}");
        let other = row("node-killed", 2, felt, Cluster::default());
        assert!(!other.passed && other.failures[0].contains("40 packets of other flows"), "{other:?}");
    }

    #[test]
    fn each_promise_that_is_broken_fails_the_row() {
        let none = |_| false;
        assert!(row("control-pair", 0, none, Cluster::default()).passed);
        let broken = [
            Cluster { view_changes: 1, ..Cluster::default() },
            Cluster { error_indications: 1, ..Cluster::default() },
            Cluster { wrong_tunnels: 1, ..Cluster::default() },
            Cluster { wrong: vec!["x".to_owned()], ..Cluster::default() },
        ];
        for cluster in broken {
            let row = row("control-pair", 0, none, cluster);
            assert_eq!((row.passed, row.failures.len()), (false, 1), "{row:?}");
        }
        // One packet of another flow, one before, one long after it.
        for number in [50, 5, 190] {
            assert!(!row("control-pair", 0, |lost| lost == number, Cluster::default()).passed);
        }
        let outage = list::ALL.iter().find(|outage| outage.name == "node-stopped").unwrap();
        let mut stale = row("node-stopped", 0, none, Cluster::default());
        assert!(stale.passed);
        stale.stale = 1;
        stale.judge(outage, Damage::default(), "", &[]);
        assert!(!stale.passed, "forwarded without a lease");
        let undone = row("ran-switch", 0, |number| (20..170).contains(&number), Cluster::default());
        assert!(undone.passed && undone.recovery_s < 3.0, "while it lasts nobody can help: {undone:?}");
    }

    #[test]
    fn flows_that_lose_packets_before_an_outage_are_named() {
        let early = row("control-pair", 0, |number| [5, 6].contains(&number), Cluster::default());
        assert_eq!(
            early.failures,
            ["2 packets were lost before anything happened: x 2 from 0.75 s before it"]
        );
    }

    #[test]
    fn a_failure_is_void_while_the_machine_stands_still() {
        let stalled = |ms| Cluster { longest_stall: Duration::from_millis(ms), ..Cluster::default() };
        let lost = |number| number == 50;
        assert_eq!(row("control-pair", 0, lost, stalled(99)).is_void(), None);
        assert_eq!(row("control-pair", 0, |_| false, stalled(900)).is_void(), None, "nothing failed");
        let why = row("control-pair", 0, lost, stalled(100)).is_void().unwrap();
        assert!(why.contains("100 ms (1 packets of other flows"), "{why}");
        let again = Row { void: vec![why], ..row("control-pair", 0, |_| false, Cluster::default()) };
        assert!(
            again.passed && again.summary().contains("ok (after 1 void: the machine"),
            "{}",
            again.summary()
        );
        assert!(again.cells().last().unwrap().ends_with("yes, after 1 void"));
        let drops = [("no_route".to_owned(), 3)].into();
        let failed = row("control-pair", 0, lost, Cluster { drops, ..stalled(7) });
        assert!(failed.summary().ends_with("nodes dropped: no_route 3; stall 7 ms"), "{}", failed.summary());
    }

    #[test]
    fn the_page_has_a_row_for_each_outage_and_each_architecture() {
        let drops = BTreeMap::from([("port_full".to_owned(), 7), ("no_lease".to_owned(), 9)]);
        let mut results = Results {
            version: "0".to_owned(),
            commit: "c".to_owned(),
            cpu: "p".to_owned(),
            cpu_family: None,
            cpu_model: None,
            machine: "m".to_owned(),
            nodes: 4,
            driver: Driver::Mixed,
            log: "l".to_owned(),
            rows: vec![row("node-killed", 1, |_| false, Cluster { drops, ..Cluster::default() })],
            isolation: ["scalebricks", "hash-partition"]
                .map(|name| Isolation::of(name, Damage::default(), Damage::default()))
                .to_vec(),
        };
        let json = serde_json::to_string(&results).unwrap();
        let evidence = serde_json::from_str::<Results>(&json).unwrap().evidence();
        let tables: Vec<String> = evidence.exhibits.sheets.iter().map(PageTable::markdown).collect();
        assert!(
            tables[1].contains("| `node-killed` | node killed, and started again | 6 | 0.00 | 0 of 200 |"),
            "{tables:?}"
        );
        assert!(
            tables[1].contains("| 2 of 2 | 7 | yes |") && tables[2].contains("| hash-partition |"),
            "{tables:?}"
        );
        assert!(evidence.texts[0].lines.starts_with("ok     node killed"), "{:?}", evidence.texts);
        assert!(results.passed() && results.render().contains("1 of 1 outages"));
        results.isolation[0].between_living.lost = 1;
        assert!(!results.passed(), "a death reached others");
    }
}
