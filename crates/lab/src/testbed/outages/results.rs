//! The results of outages: a row for each, as JSON, as a table of the page, and as lines of text.

use super::isolation::Isolation;
use super::list::{Check, GOAL, HARM, Outage, Place, Recovers, WANTED};
use super::loads;
use super::track::{Damage, Moments, Track};
use crate::pages::Source;
use crate::testbed::plan::{Driver, Plan};
use scalebricks_console::machine;
use scalebricks_report::exhibit::{Exhibits, PageTable};
use scalebricks_report::pages::{Evidence, Text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Drops because of full buffers or links.
const QUEUES: [&str; 5] = ["port_full", "fabric_full", "no_buffer", "rx_missed", "tx_errors"];

/// A failed try with a longer stall of the machine is void, milliseconds.
const STALL_MS: u64 = 100;

/// Flows that are named of those that lost packets before the failure.
const NAMED: usize = 4;

/// The outages of the short list.
const SUMMARY: [&str; 4] = ["control-pair", "ran-link", "worker-stopped", "node-killed"];

/// The results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// Program, commit and processor.
    #[serde(flatten)]
    pub source: Source,
    /// Cores, memory, kernel.
    pub machine: String,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// The sockets over which nodes use their interfaces.
    pub driver: Driver,
    /// The servers of the log.
    pub log: String,
    /// One for each outage.
    pub rows: Vec<Row>,
    /// One for each architecture.
    pub isolation: Vec<Isolation>,
}

/// What was observed of the cluster besides the loads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Observed {
    /// From the repair until all nodes were in the view, had caught up and had their addresses, seconds.
    pub order_s: Option<f64>,
    /// Packets of the wrong tunnel or at the wrong phone.
    pub wrong_packets: u64,
    /// Error Indications for tunnels that exist.
    pub error_indications: u64,
    /// View changes.
    pub view_changes: u64,
    /// Packets that nodes dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// What was wrong.
    pub failures: Vec<String>,
    /// The longest time for which a thread that was ready to run did not run, milliseconds.
    #[serde(default)]
    pub longest_stall_ms: u64,
    /// Whether the cluster has recovered.
    #[serde(skip)]
    pub has_recovered: bool,
}

/// The result of an outage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its name in the table.
    pub title: String,
    /// The node that failed.
    pub node: u8,
    /// How long it lasted, seconds.
    pub lasted_s: f64,
    /// The losses of affected flows, where each direction is a flow.
    pub concerned: Damage,
    /// The losses of all others.
    pub others: Damage,
    /// From the failure to the last lost packet of affected flows, seconds; from the repair if the cluster cannot recover earlier.
    pub recovery_s: f64,
    /// The limit for it.
    pub allowed_s: f64,
    /// Packets that arrived more than once.
    pub doubled: u64,
    /// Packets that arrived 10 s after they were sent, or later.
    pub stale: u64,
    /// Most view changes that are allowed.
    pub view_changes_allowed: u64,
    /// Transfers over TCP.
    pub transfers: u64,
    /// Transfers that completed without errors.
    pub transfers_completed: u64,
    /// Packets dropped because of full buffers or links.
    pub queue_drops: u64,
    /// Whether it passed.
    pub passed: bool,
    /// Whether it also recovered within the wanted 1.5 s.
    pub is_as_wanted: bool,
    /// The reasons why earlier tries were void: see [`Row::is_void`].
    #[serde(default)]
    pub void: Vec<String>,
    /// What was observed of the cluster.
    #[serde(flatten)]
    pub observed: Observed,
}

/// The flows that lost packets before the failure, and how long before it.
fn early_losses(tracks: &[Track], moments: Moments) -> String {
    let mut flows: Vec<String> = Vec::new();
    for track in tracks {
        let lost: Vec<f64> = track.lost_within(moments.from, moments.first_at_risk()).collect();
        if let Some(first) = lost.first() {
            let before = moments.at - first;
            flows.push(format!("{} {} from {before:.2} s before it", track.name, lost.len()));
        }
    }
    let more = flows.len().saturating_sub(NAMED);
    flows.truncate(NAMED);
    let rest = if more > 0 { format!(", {more} more flows") } else { String::new() };
    format!("{}{rest}", flows.join(", "))
}

impl Row {
    /// Evaluates an outage.
    pub fn new(
        outage: &'static Outage,
        place: Place,
        moments: Moments,
        loads: &loads::Results,
        mut observed: Observed,
    ) -> Self {
        let (concerned, others) = loads.damage(place, outage.affects, moments);
        let (recovery_s, limit) = match outage.recovers {
            Recovers::Within(limit) => (concerned.recovery_s, limit),
            Recovers::OnceRepaired(limit) => (concerned.return_s, limit),
        };
        observed.wrong_packets += loads.misdelivered;
        let all = concerned.and(others);
        let mut row = Self {
            name: outage.name.to_owned(),
            title: outage.title.to_owned(),
            node: place.node.get(),
            lasted_s: moments.repaired - moments.at,
            concerned,
            others,
            recovery_s,
            allowed_s: limit.as_secs_f64(),
            doubled: all.doubled,
            stale: all.stale,
            view_changes_allowed: outage.view_changes,
            transfers: loads.transfers.started,
            transfers_completed: loads.transfers.completed,
            queue_drops: QUEUES.iter().filter_map(|reason| observed.drops.get(*reason)).sum(),
            passed: false,
            is_as_wanted: false,
            void: Vec::new(),
            observed,
        };
        row.judge(outage, all, &early_losses(&loads.tracks, moments), &loads.transfers.failed);
        row
    }

    /// Why this try is void, if it is: it failed, and the machine stalled meanwhile.
    pub fn is_void(&self) -> Option<String> {
        let Observed { longest_stall_ms: stall_ms, failures, .. } = &self.observed;
        let is_void = !self.passed && *stall_ms >= STALL_MS;
        is_void.then(|| format!("the machine stood still for {stall_ms} ms ({})", failures.join("; ")))
    }

    fn judge(&mut self, outage: &Outage, all: Damage, early: &str, transfers: &[String]) {
        let Observed { wrong_packets, error_indications, view_changes, .. } = self.observed;
        let returns_in = match outage.recovers {
            Recovers::Within(_) => HARM.as_secs_f64(),
            Recovers::OnceRepaired(limit) => limit.as_secs_f64(),
        };
        let (others, before, stale) = (self.others.lost, all.lost_before, self.stale);
        let checks = [
            (self.recovery_s <= self.allowed_s, format!("packets were lost for {:.2} s", self.recovery_s)),
            (others == 0, format!("{others} packets of other flows were lost")),
            (before == 0, format!("{before} packets were lost before anything happened: {early}")),
            (
                all.return_s <= returns_in,
                format!("packets were lost for {:.2} s after it was undone", all.return_s),
            ),
            (wrong_packets == 0, format!("{wrong_packets} packets at the wrong phone or tunnel")),
            (self.doubled == 0, format!("{} packets arrived more than once", self.doubled)),
            (
                stale == 0 || outage.check != Check::Stale,
                format!("{stale} packets were forwarded 10 s after they were sent"),
            ),
            (error_indications == 0, format!("{error_indications} Error Indications")),
            (view_changes <= self.view_changes_allowed, format!("the view changed {view_changes} times")),
        ];
        let failed = checks.into_iter().filter(|(passed, _)| !passed).map(|(_, what)| what);
        self.observed.failures.extend(failed);
        self.observed.failures.extend(transfers.iter().map(|what| format!("TCP: {what}")));
        self.passed = self.observed.failures.is_empty();
        let is_late =
            matches!(outage.recovers, Recovers::Within(_)) && self.recovery_s > WANTED.as_secs_f64();
        self.is_as_wanted = self.passed && !is_late;
    }

    /// One line, with the title.
    fn line(&self) -> String {
        format!("{:<7}{}: {}", if self.passed { "ok" } else { "FAILED" }, self.title, self.summary())
    }

    /// One line.
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
            self.observed.view_changes
        )
    }

    /// What was wrong, and what nodes dropped meanwhile.
    fn failed(&self) -> String {
        let Observed { drops, failures, longest_stall_ms, .. } = &self.observed;
        let drops: Vec<String> = drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let drops = if drops.is_empty() { "nothing".to_owned() } else { drops.join(", ") };
        format!("FAILED: {}; nodes dropped: {drops}; stall {longest_stall_ms} ms", failures.join("; "))
    }

    const fn lost_after(&self) -> u64 {
        self.concerned.lost_after + self.others.lost_after
    }

    /// The cells of the page's table, under their heads.
    fn cells(&self) -> Vec<(&'static str, String)> {
        let verdict = match (self.passed, self.is_as_wanted) {
            (true, true) => "yes".to_owned(),
            (true, false) => "over 1.5 s".to_owned(),
            (false, _) => {
                format!("**no**: {}", self.observed.failures.join("; ").replace(['|', '\n'], " "))
            }
        };
        let verdict = match self.void.len() {
            0 => verdict,
            tries => format!("{verdict}, after {tries} void"),
        };
        let has_affected = self.concerned.flows > 0;
        let of = |part: u64, all: u64| format!("{part} of {all}");
        vec![
            ("name", format!("`{}`", self.name)),
            ("outage", self.title.clone()),
            ("lasts, s", format!("{:.0}", self.lasted_s)),
            ("felt for, s", if has_affected { format!("{:.2}", self.recovery_s) } else { "-".to_owned() }),
            ("lost, concerned", of(self.concerned.lost, self.concerned.sent)),
            ("lost, others", of(self.others.lost, self.others.sent)),
            ("lost after it", self.lost_after().to_string()),
            ("wrong", self.observed.wrong_packets.to_string()),
            ("Error Indications", self.observed.error_indications.to_string()),
            ("view changes", self.observed.view_changes.to_string()),
            ("TCP whole", of(self.transfers_completed, self.transfers)),
            ("queue drops", self.queue_drops.to_string()),
            ("as it must be", verdict),
        ]
    }
}

impl Results {
    /// Results without rows.
    pub fn new(plan: &Plan) -> Self {
        Self {
            source: Source::here(),
            machine: machine::description(),
            nodes: plan.size.get(),
            driver: plan.driver,
            log: if plan.log_servers > 1 { "three NATS servers" } else { "one NATS server" }.to_owned(),
            rows: Vec::new(),
            isolation: Vec::new(),
        }
    }

    /// Whether all outages passed.
    pub fn passed(&self) -> bool {
        let is_isolated =
            |found: &Isolation| found.architecture != "scalebricks" || found.between_living.lost == 0;
        self.rows.iter().all(|row| row.passed) && self.isolation.iter().all(is_isolated)
    }

    /// The content of pages. No figure needs several runs: an outage passes or fails.
    pub fn evidence(self) -> Evidence {
        let sheets = vec![self.run_sheet(), self.outages_sheet(), self.isolation_sheet()];
        let lines = self.rows.iter().filter(|row| SUMMARY.contains(&row.name.as_str())).map(Row::line);
        let lines = lines.collect::<Vec<_>>().join("\n");
        Evidence {
            exhibits: Exhibits { sheets, ..Exhibits::default() },
            texts: vec![Text { name: "summary".to_owned(), lines }],
            ..self.source.evidence()
        }
    }

    fn run_sheet(&self) -> PageTable {
        let mut sheet = PageTable::new("run", &["", ""]).side_by_side(1);
        let driver = clap::ValueEnum::to_possible_value(&self.driver);
        let driver = driver.map(|value| value.get_name().to_owned()).unwrap_or_default();
        let nodes = format!("{}, {driver}", self.nodes);
        sheet.rows = [
            ("processor", &self.source.cpu),
            ("machine", &self.machine),
            ("commit", &self.source.commit),
            ("nodes", &nodes),
            ("log", &self.log),
        ]
        .map(|(what, is)| vec![what.to_owned(), is.clone()])
        .into();
        sheet
    }

    fn outages_sheet(&self) -> PageTable {
        let rows: Vec<_> = self.rows.iter().map(Row::cells).collect();
        let heads: Vec<&str> = rows.first().into_iter().flatten().map(|(head, _)| *head).collect();
        let mut sheet = PageTable::new("outages", &heads);
        sheet.rows = rows.into_iter().map(|row| row.into_iter().map(|(_, cell)| cell).collect()).collect();
        sheet
    }

    fn isolation_sheet(&self) -> PageTable {
        let heads = ["architecture", "lost between living nodes", "lost through the dead node"];
        let mut sheet = PageTable::new("isolation", &heads);
        let cell = |Damage { lost, sent, .. }: Damage| {
            let share = lost as f64 * 100.0 / sent.max(1) as f64;
            format!("{lost} of {sent} ({share:.1} %)")
        };
        let row = |found: &Isolation| {
            vec![found.architecture.clone(), cell(found.between_living), cell(found.through_it)]
        };
        sheet.rows = self.isolation.iter().map(row).collect();
        sheet
    }

    /// As text, without a newline at the end.
    pub fn render(&self) -> String {
        let mut lines: Vec<String> = self.rows.iter().map(Row::line).collect();
        for Isolation { architecture, between_living, through_it } in &self.isolation {
            lines.push(format!(
                "       {architecture}, a node dies: lost between living nodes: {} of {}; through it: {} of {}",
                between_living.lost, between_living.sent, through_it.lost, through_it.sent
            ));
        }
        let passed = self.rows.iter().filter(|row| row.passed).count();
        let (count, goal, Source { cpu, commit, .. }) = (self.rows.len(), GOAL.as_secs(), &self.source);
        lines.push(format!(
            "{passed} of {count} outages are as they must be (goal: {goal} s). {cpu}, {}, commit {commit}",
            self.machine
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

    fn row(name: &str, node: u8, is_lost: impl Fn(u64) -> bool, observed: Observed) -> Row {
        let outage = list::ALL.iter().find(|outage| outage.name == name).unwrap();
        let place = Place { node: NodeId::new(node), peer: NodeId::new(3) };
        let transfers = Finished { started: 2, completed: 2, failed: Vec::new() };
        let loads = loads::Results { tracks: vec![track(200, is_lost)], misdelivered: 0, transfers };
        Row::new(outage, place, Moments { from: 0.0, at: 1_001.0, repaired: 1_007.0 }, &loads, observed)
    }

    #[test]
    fn a_failed_node_may_affect_its_own_flows_for_three_seconds() {
        let lost = |number| (20..60).contains(&number);
        let ok = row("node-killed", 1, lost, Observed::default());
        assert!(ok.passed && !ok.is_as_wanted, "{ok:?}");
        assert_eq!((ok.concerned.lost, ok.others.flows), (40, 0));
        let soon = row("node-killed", 1, |number| (20..40).contains(&number), Observed::default());
        assert!(soon.is_as_wanted);
        let longer = row("node-killed", 1, |number| (20..90).contains(&number), Observed::default());
        assert!(!longer.passed && longer.observed.failures[0].contains("3.4"), "{longer:?}");
        let other = row("node-killed", 2, lost, Observed::default());
        assert!(
            !other.passed && other.observed.failures[0].contains("40 packets of other flows"),
            "{other:?}"
        );
    }

    #[test]
    fn each_violated_guarantee_fails_the_row() {
        let none = |_| false;
        assert!(row("control-pair", 0, none, Observed::default()).passed);
        let broken = [
            Observed { view_changes: 1, ..Observed::default() },
            Observed { error_indications: 1, ..Observed::default() },
            Observed { wrong_packets: 1, ..Observed::default() },
            Observed { failures: vec!["x".to_owned()], ..Observed::default() },
        ];
        for observed in broken {
            let row = row("control-pair", 0, none, observed);
            assert_eq!((row.passed, row.observed.failures.len()), (false, 1), "{row:?}");
        }
        // One packet of another flow, one before, one long after it.
        for number in [50, 5, 190] {
            assert!(!row("control-pair", 0, |lost| lost == number, Observed::default()).passed);
        }
        let outage = list::ALL.iter().find(|outage| outage.name == "node-stopped").unwrap();
        let mut stale = row("node-stopped", 0, none, Observed::default());
        assert!(stale.passed);
        stale.stale = 1;
        stale.judge(outage, Damage::default(), "", &[]);
        assert!(!stale.passed, "forwarded without a lease");
        let undone = row("ran-switch", 0, |number| (20..170).contains(&number), Observed::default());
        assert!(
            undone.passed && undone.recovery_s < 3.0,
            "the cluster cannot recover while it lasts: {undone:?}"
        );
    }

    #[test]
    fn flows_that_lose_packets_before_an_outage_are_named() {
        let early = row("control-pair", 0, |number| [5, 6].contains(&number), Observed::default());
        assert_eq!(
            early.observed.failures,
            ["2 packets were lost before anything happened: x 2 from 0.75 s before it"]
        );
    }

    #[test]
    fn a_failure_is_void_if_the_machine_stalled() {
        let stalled = |ms| Observed { longest_stall_ms: ms, ..Observed::default() };
        let lost = |number| number == 50;
        assert_eq!(row("control-pair", 0, lost, stalled(99)).is_void(), None);
        assert_eq!(row("control-pair", 0, |_| false, stalled(900)).is_void(), None, "nothing failed");
        let why = row("control-pair", 0, lost, stalled(100)).is_void().unwrap();
        assert!(why.contains("100 ms (1 packets of other flows"), "{why}");
        let again = Row { void: vec![why], ..row("control-pair", 0, |_| false, Observed::default()) };
        assert!(
            again.passed && again.summary().contains("ok (after 1 void: the machine"),
            "{}",
            again.summary()
        );
        assert!(again.cells().last().unwrap().1.ends_with("yes, after 1 void"));
        let drops = [("no_route".to_owned(), 3)].into();
        let failed = row("control-pair", 0, lost, Observed { drops, ..stalled(7) });
        assert!(failed.summary().ends_with("nodes dropped: no_route 3; stall 7 ms"), "{}", failed.summary());
    }

    #[test]
    fn the_page_has_a_row_for_each_outage_and_each_architecture() {
        let drops = BTreeMap::from([("port_full".to_owned(), 7), ("no_lease".to_owned(), 9)]);
        let mut results = Results {
            source: Source { commit: "c".to_owned(), cpu: "p".to_owned(), ..Source::here() },
            machine: "m".to_owned(),
            nodes: 4,
            driver: Driver::Mixed,
            log: "l".to_owned(),
            rows: vec![row("node-killed", 1, |_| false, Observed { drops, ..Observed::default() })],
            isolation: ["scalebricks", "hash-partition"]
                .map(|name| Isolation {
                    architecture: name.to_owned(),
                    between_living: Damage::default(),
                    through_it: Damage::default(),
                })
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
        assert!(!results.passed(), "a failure affected other flows");
    }
}
