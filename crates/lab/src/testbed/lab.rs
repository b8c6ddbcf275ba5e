//! A lab that is up.

use super::LabError;
use super::args::{NameArgs, UpArgs};
use super::context::LabContext;
use super::log::{self, Log};
use super::nodes::Process;
use super::plan::Plan;
use super::site::{Ground, PLAN};
use super::state::{self, Lock};
use super::tools;
use crate::demo::args::ArchChoice;
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A lab that is removed when this value is dropped, unless it is [left up](Self::leave).
#[derive(Debug)]
pub struct Lab<'a> {
    /// What it consists of.
    pub plan: Plan,
    /// The nodes.
    pub nodes: BTreeMap<NodeId, Process>,
    /// How long the import of the flows that no phone uses took.
    pub import_took: Option<Duration>,
    /// Output to the user.
    pub console: &'a Console,
    /// Whether the user wants to stop.
    pub interrupt: &'a Interrupt,
    /// Its names and places.
    ground: Ground<'a>,
    /// The NATS servers of the log, if flows come from the control plane.
    log: Log,
    /// All other processes.
    others: Vec<Process>,
}

impl<'a> Lab<'a> {
    /// Builds the network and starts all processes except the nodes.
    ///
    /// # Errors
    /// [`LabError`]; what was built is removed.
    pub fn build(plan: Plan, console: &'a Console, interrupt: &'a Interrupt) -> Result<Self, LabError> {
        log::check_program(&plan, interrupt)?;
        let ground = Ground::claim(&plan.name, console, interrupt)?;
        let mut lab = Self::of(plan, ground);
        console.note("building namespaces, cables and bridges");
        lab.context().build()?;
        lab.context().configure()?;
        let base_station = lab.context().base_station()?;
        lab.others.push(base_station);
        lab.context().phones()?;
        let server = lab.context().helper("file-server", "lab file-server", &lab.plan.inet())?;
        lab.others.push(server);
        lab.context().check()?;
        Ok(lab)
    }

    /// A lab that is already up, and stays up.
    ///
    /// # Errors
    /// [`LabError::Absent`].
    pub fn attach(name: &str, console: &'a Console, interrupt: &'a Interrupt) -> Result<Self, LabError> {
        let ground = Ground::join(name, console, interrupt)?;
        let plan = fs::read(ground.directory.join(PLAN)).ok().filter(|_| state::is_up(name));
        let plan = plan.and_then(|text| serde_json::from_slice(&text).ok());
        let plan = plan.ok_or_else(|| LabError::Absent(name.to_owned()))?;
        Ok(Self::of(plan, ground))
    }

    /// A lab without processes.
    fn of(plan: Plan, ground: Ground<'a>) -> Self {
        Self {
            plan,
            nodes: BTreeMap::new(),
            import_took: None,
            console: ground.console,
            interrupt: ground.interrupt,
            ground,
            log: Log::default(),
            others: Vec::new(),
        }
    }

    /// What operations on the lab need.
    pub fn context(&self) -> LabContext<'_> {
        LabContext { plan: &self.plan, directory: &self.ground.directory, interrupt: self.interrupt }
    }

    /// Starts the nodes with an architecture.
    ///
    /// # Errors
    /// [`LabError`] if one of them is not ready in time.
    pub fn start(&mut self, architecture: Architecture) -> Result<(), LabError> {
        self.plan.architecture = architecture;
        self.context().configure()?;
        self.console.note(&format!("starting {} nodes, {architecture}", self.plan.size.get()));
        if self.plan.is_controlled && self.log.is_empty() {
            self.start_log()?;
        }
        self.nodes = self.context().nodes()?;
        if self.plan.is_controlled {
            self.console.note("importing the phones' flows");
            self.context().import()?;
        }
        if self.plan.flows > 0 {
            self.console.note(&format!("importing {} more flows", self.plan.flows));
            self.import_took = Some(self.context().import_more()?);
        }
        self.context().check()
    }

    /// Runs an operation of the log that needs the rest of the lab.
    fn with_log(
        &mut self,
        operation: impl FnOnce(&mut Log, LabContext<'_>) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut log = std::mem::take(&mut self.log);
        let done = operation(&mut log, self.context());
        self.log = log;
        done
    }

    /// Starts the NATS servers of the log that do not run.
    ///
    /// # Errors
    /// [`LabError`] if one is not ready in time.
    pub fn start_log(&mut self) -> Result<(), LabError> {
        self.with_log(Log::start)
    }

    /// Starts a NATS server of the log.
    ///
    /// # Errors
    /// [`LabError`] if it is not ready in time.
    pub fn start_log_server(&mut self, server: u8) -> Result<(), LabError> {
        self.with_log(|log, context| log.start_server(context, server))
    }

    /// The NATS servers of the log.
    pub const fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Stops the nodes with SIGTERM.
    ///
    /// # Errors
    /// That of the first node that does not end with status 0.
    pub fn stop(&mut self) -> Result<(), LabError> {
        let mut result = Ok(());
        while let Some((_, node)) = self.nodes.pop_first() {
            result = result.and(node.stop().map(drop));
        }
        result
    }

    /// Kills all nodes, empties the log, starts everything again and imports the phones' flows.
    ///
    /// # Errors
    /// [`LabError`] if one of them is not ready in time.
    pub fn restart(&mut self) -> Result<(), LabError> {
        while let Some((_, node)) = self.nodes.pop_first() {
            node.kill_at_once();
        }
        self.log.kill();
        self.context().forget()?;
        self.start_log()?;
        self.nodes = self.context().nodes()?;
        self.context().import()
    }

    /// Fails if a process has ended by itself.
    ///
    /// # Errors
    /// [`LabError::Died`].
    pub fn check_running(&mut self) -> Result<(), LabError> {
        self.log.check()?;
        self.nodes.values_mut().chain(&mut self.others).try_for_each(Process::check_running)
    }

    /// Copies logs, configurations and captures to a directory.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn keep(&self, out: &Path) -> Result<(), LabError> {
        self.ground.keep(out)
    }

    /// Leaves the lab up when this value is dropped.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn leave(mut self) -> Result<(), LabError> {
        let text = serde_json::to_vec(&self.plan).unwrap_or_default(); // numbers and names always serialise
        state::write(&self.context().path(PLAN), &text)?;
        self.ground.leave();
        Ok(())
    }
}

/// Builds a lab and leaves it up.
///
/// # Errors
/// [`LabError`].
pub fn up(args: &UpArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let [architecture] = ArchChoice::architectures(&[args.arch])[..] else {
        let what = "a lab that stays up has one architecture: --arch scalebricks";
        return Err(LabError::Usage(what.to_owned()));
    };
    args.shape.refuse_useless(&[architecture])?;
    tools::ensure(args.shape.install, console, interrupt)?;
    let mut lab = Lab::build(args.shape.plan(architecture)?, console, interrupt)?;
    lab.start(architecture)?;
    let (name, directory) = (lab.plan.name.clone(), lab.ground.directory.display().to_string());
    lab.leave()?;
    console.result(&format!(
        "The lab is up. Files and logs: {directory}\n\
         a phone:           ip netns exec {name}-ue ping -I 10.45.0.1 192.0.2.1\n\
         the Internet host: ip netns exec {name}-inet ping 10.45.0.1\n\
         the switch:        ip netns exec {name}-switch tshark -i f-n0\n\
         a node:            scalebricks stats --socket {directory}/node0.sock\n\
         Check it with `scalebricks lab test`, remove it with `scalebricks lab down`."
    ))?;
    Ok(status::SUCCESS)
}

/// Removes a lab.
///
/// # Errors
/// [`LabError`].
pub fn down(args: &NameArgs, console: &Console) -> Result<u8, LabError> {
    let _lock = Lock::take(&args.name)?;
    let removed = state::remove(&args.name)?;
    console.result(&format!("removed {removed} namespaces"))?;
    Ok(status::SUCCESS)
}
