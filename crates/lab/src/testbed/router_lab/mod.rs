//! `scalebricks lab router`: routers of this project between the kernels' own network stacks. Each machine is a network namespace;
//! ordinary programs send, and what arrives is checked.
//!
//! | module | content |
//! |---|---|
//! | `routing` | one router between two kernel routers, IPv4 and IPv6 |
//! | `tunnel`, `secrets` | two ends of an ESP tunnel, and what can be read between them |
//! | `strongswan` | strongSwan as the far end of our tunnel |
//! | `cluster` | a cluster router of four nodes, and failures of links and nodes |
//! | `flows` | a firewall and a NAT of four nodes, a drain and a death |
//! | [`machines`] | namespaces, cables, addresses, routes |
//! | [`process`] | routers as processes, and their counters |
//! | [`results`] | the report |

pub mod args;
mod cluster;
mod flows;
pub mod machines;
pub mod process;
pub mod results;
mod routing;
mod secrets;
mod strongswan;
mod tunnel;

use super::LabError;
use super::ends::Verdict;
use super::site::{Ground, Site};
use super::state;
use super::tools;
use args::RouterArgs;
use machines::Machines;
use results::{RouterResults, ScenarioResult};
use scalebricks_console::{Console, Interrupt, status};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// A router between two kernel routers
    Routing,
    /// Two ends of an ESP tunnel
    Tunnel,
    /// An ESP tunnel whose far end is strongSwan
    Strongswan,
    /// A cluster router of four nodes
    Cluster,
    /// A firewall and a NAT of four nodes
    Flows,
}

impl Scenario {
    /// All, in the order in which they run.
    const ALL: [Self; 5] = [Self::Routing, Self::Tunnel, Self::Strongswan, Self::Cluster, Self::Flows];

    const fn name(self) -> &'static str {
        match self {
            Self::Routing => "routing",
            Self::Tunnel => "tunnel",
            Self::Strongswan => "strongswan",
            Self::Cluster => "cluster",
            Self::Flows => "flows",
        }
    }

    /// Builds and checks it; why not, if something that it needs is missing.
    fn check(self, run: &mut ScenarioRun<'_>) -> Result<Option<String>, LabError> {
        match self {
            Self::Routing => routing::check(run).map(|()| None),
            Self::Tunnel => tunnel::check(run).map(|()| None),
            Self::Strongswan => strongswan::check(run),
            Self::Cluster => cluster::check(run),
            Self::Flows => flows::check(run),
        }
    }
}

/// A scenario that runs.
#[derive(Debug)]
pub struct ScenarioRun<'a> {
    /// Where it is built.
    pub machines: Machines<'a>,
    /// Whether files are small and only one form of each router is checked.
    pub is_quick: bool,
    /// The program of the NATS server that stores the log of a cluster, if there is one.
    pub nats: Option<PathBuf>,
    console: &'a Console,
    result: ScenarioResult,
}

impl<'a> ScenarioRun<'a> {
    /// The names and places of the lab.
    pub const fn site(&self) -> Site<'a> {
        self.machines.0
    }

    /// Adds a check, and shows it.
    ///
    /// # Errors
    /// As [`ScenarioResult::add`].
    pub fn add(
        &mut self,
        check: impl Into<String>,
        verdict: Result<Verdict, LabError>,
    ) -> Result<(), LabError> {
        self.result.add(check, verdict)?;
        if let Some(one) = self.result.checks.last() {
            self.console.note(&format!("  {}", super::report::line(one.passed, &one.check, &one.says)));
        }
        Ok(())
    }

    /// Tells the user what is being done.
    pub fn note(&self, what: &str) {
        self.console.note(what);
    }

    /// Ends all processes of the scenario and removes its machines.
    ///
    /// # Errors
    /// As [`state::remove_namespaces`].
    pub fn clear(&self) -> Result<(), LabError> {
        state::remove_namespaces(self.site().name).map(drop)
    }
}

/// Builds, checks and removes scenarios one after the other.
///
/// # Errors
/// [`LabError`] if there can be no lab; what keeps a scenario from completing is part of the results.
pub fn run(args: &RouterArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    tools::ensure(args.install, console, interrupt)?;
    let ground = Ground::claim(&args.lab.name, console, interrupt)?;
    let mut results = RouterResults::new(args.quick);
    let wanted = |scenario: &Scenario| args.scenarios.is_empty() || args.scenarios.contains(scenario);
    for scenario in Scenario::ALL.into_iter().filter(wanted) {
        let (name, began) = (scenario.name(), Instant::now());
        console.note(name);
        let machines = Machines(ground.site());
        let mut run = ScenarioRun {
            machines,
            is_quick: args.quick,
            nats: args.nats_server.clone(),
            console,
            result: ScenarioResult::new(name),
        };
        let done = scenario.check(&mut run);
        interrupt.check()?;
        let mut result = run.result;
        match done {
            Ok(skipped) => result.skipped = skipped,
            Err(error @ (LabError::Rights(_) | LabError::File { .. })) => return Err(error),
            Err(error) => result.broken = Some(error.to_string()),
        }
        result.took_s = began.elapsed().as_secs_f64();
        if !result.passed() {
            ground.keep(&args.out)?;
        }
        results.scenarios.push(result);
        state::remove_namespaces(&args.lab.name)?;
    }
    args.result.write(&results, Some(Path::new("out/router-lab.json")), console)?;
    args.result.print(&results, RouterResults::render, console)?;
    Ok(if results.passed() { status::SUCCESS } else { status::FAILURE })
}
