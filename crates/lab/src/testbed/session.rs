//! A lab that stands. However its owner ends, it goes: on return and on panic by its guard, on a kill by a process that
//! waits for just that.

use super::LabError;
use super::args::{NameArgs, UpArgs};
use super::log::{self, Log};
use super::network::Network;
use super::nodes::{Process, Processes};
use super::plan::{Driver, Plan};
use super::state::{self, Lock};
use super::tools;
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_types::{ClusterSize, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What tells the reaper that there is nothing to reap.
const DONE: &[u8] = b"done";

/// The file that says what stands.
const PLAN: &str = "plan.json";

/// A lab that is removed when this value is dropped, unless it is [left standing](Self::leave).
#[derive(Debug)]
pub struct Lab<'a> {
    /// What it consists of.
    pub plan: Plan,
    /// Where its files are.
    pub directory: PathBuf,
    /// The nodes.
    pub nodes: BTreeMap<NodeId, Process>,
    /// The NATS servers that store the log, if flows come from the control plane.
    log: Log,
    /// How long it took to hand over the flows that no phone uses.
    pub handed_over: Option<Duration>,
    /// Everything else that runs.
    pub others: Vec<Process>,
    console: &'a Console,
    interrupt: &'a Interrupt,
    reaper: Option<Child>,
    is_left: bool,
    _lock: Lock,
}

impl<'a> Lab<'a> {
    /// Builds the network and starts everything but the nodes.
    ///
    /// # Errors
    /// [`LabError`]; nothing is left behind then.
    pub fn build(plan: Plan, console: &'a Console, interrupt: &'a Interrupt) -> Result<Self, LabError> {
        log::check_program(&plan, interrupt)?;
        let lock = Lock::take(&plan.name)?;
        let directory = state::directory(&plan.name);
        if directory.join(PLAN).exists() && state::stands(&plan.name) {
            return Err(LabError::Exists { name: plan.name });
        }
        let left = state::remove(&plan.name)?;
        if left > 0 {
            console.note(&format!("removed {left} namespaces that an earlier run left"));
        }
        fs::create_dir_all(&directory).map_err(|error| LabError::File { path: directory.clone(), error })?;
        let reaper = Some(reaper(&plan.name)?);
        let mut lab = Self::of(plan, directory, console, interrupt, reaper, lock);
        console.note("building namespaces, cables and bridges");
        lab.network().build()?;
        lab.processes().configure()?;
        let base_station = lab.processes().base_station()?;
        lab.others.push(base_station);
        lab.network().phones()?;
        let server = lab.processes().file_server()?;
        lab.others.push(server);
        lab.network().check()?;
        Ok(lab)
    }

    /// A lab that stands already, and goes on standing.
    ///
    /// # Errors
    /// [`LabError::Absent`].
    pub fn attach(name: &str, console: &'a Console, interrupt: &'a Interrupt) -> Result<Self, LabError> {
        let lock = Lock::take(name)?;
        let directory = state::directory(name);
        let standing = fs::read(directory.join(PLAN)).ok();
        let standing = standing.and_then(|text| serde_json::from_slice::<Standing>(&text).ok());
        let plan = standing.and_then(|standing| standing.plan(name)).filter(|_| state::stands(name));
        let Some(plan) = plan else { return Err(LabError::Absent { name: name.to_owned() }) };
        Ok(Self::of(plan, directory, console, interrupt, None, lock))
    }

    /// A lab of which nothing runs yet. Without somebody to take it away it is left standing.
    fn of(
        plan: Plan,
        directory: PathBuf,
        console: &'a Console,
        interrupt: &'a Interrupt,
        reaper: Option<Child>,
        lock: Lock,
    ) -> Self {
        let is_left = reaper.is_none();
        Self {
            plan,
            directory,
            nodes: BTreeMap::new(),
            log: Log::default(),
            handed_over: None,
            others: Vec::new(),
            console,
            interrupt,
            reaper,
            is_left,
            _lock: lock,
        }
    }

    /// Its network.
    pub const fn network(&self) -> Network<'_> {
        Network { plan: &self.plan, interrupt: self.interrupt }
    }

    /// Its processes.
    pub fn processes(&self) -> Processes<'_> {
        Processes { plan: &self.plan, directory: &self.directory, interrupt: self.interrupt }
    }

    /// Starts the nodes with an architecture.
    ///
    /// # Errors
    /// [`LabError`] if one of them is not ready in time.
    pub fn start(&mut self, architecture: Architecture) -> Result<(), LabError> {
        self.plan.architecture = architecture;
        self.processes().configure()?;
        self.console.note(&format!("starting {} nodes, {architecture}", self.plan.size.get()));
        if self.plan.is_controlled && self.log.is_empty() {
            self.start_log()?;
        }
        self.nodes = self.processes().nodes()?;
        if self.plan.is_controlled {
            self.console.note("pinning the flows");
            self.processes().import()?;
        }
        if self.plan.flows > 0 {
            self.console.note(&format!("handing over {} more flows", self.plan.flows));
            self.handed_over = Some(self.processes().import_more()?);
        }
        self.network().check()
    }

    /// Starts the NATS servers that store the log and do not run.
    ///
    /// # Errors
    /// [`LabError`] if it is not ready in time.
    pub fn start_log(&mut self) -> Result<(), LabError> {
        let mut log = std::mem::take(&mut self.log);
        let started = log.start(self.processes());
        self.log = log;
        started
    }

    /// Starts a NATS server that stores the log.
    ///
    /// # Errors
    /// [`LabError`] if it is not ready in time.
    pub fn start_log_server(&mut self, server: u8) -> Result<(), LabError> {
        let mut log = std::mem::take(&mut self.log);
        let started = log.start_server(self.processes(), server);
        self.log = log;
        started
    }

    /// The NATS servers that store the log.
    pub const fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Asks the nodes to end, and waits.
    ///
    /// # Errors
    /// The first that does not end as it should.
    pub fn stop(&mut self) -> Result<(), LabError> {
        let mut result = Ok(());
        while let Some((_, node)) = self.nodes.pop_first() {
            result = result.and(node.stop());
        }
        result
    }

    /// Starts all nodes anew with an empty log, whatever they are doing, and pins the flows: nothing is left of what befell them.
    ///
    /// # Errors
    /// [`LabError`] if one of them is not ready in time.
    pub fn start_anew(&mut self) -> Result<(), LabError> {
        while let Some((_, node)) = self.nodes.pop_first() {
            node.kill_at_once();
        }
        self.log.kill();
        self.processes().forget()?;
        self.start_log()?;
        self.nodes = self.processes().nodes()?;
        self.processes().import()
    }

    /// Asserts that nothing has ended on its own.
    ///
    /// # Errors
    /// [`LabError::Died`].
    pub fn check_alive(&mut self) -> Result<(), LabError> {
        self.log.check()?;
        self.nodes.values_mut().chain(&mut self.others).try_for_each(Process::ended)
    }

    /// Copies logs, configurations and captures to a directory.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn keep(&self, out: &Path) -> Result<(), LabError> {
        let told = |error| LabError::File { path: out.to_owned(), error };
        fs::create_dir_all(out).map_err(told)?;
        for entry in fs::read_dir(&self.directory).map_err(told)?.flatten() {
            let path = entry.path();
            if let Some(name) = path.file_name().filter(|_| path.is_file()) {
                fs::copy(&path, out.join(name)).map_err(told)?;
            }
        }
        self.console.note(&format!("logs and captures are in {}", out.display()));
        Ok(())
    }

    /// Lets it stand when this value is gone.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn leave(mut self) -> Result<(), LabError> {
        let standing = Standing::of(&self.plan);
        let text = serde_json::to_vec(&standing).unwrap_or_default(); // numbers and names always serialise
        state::write(&self.directory.join(PLAN), &text)?;
        self.is_left = true;
        Ok(())
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        if !self.is_left {
            self.console.note("removing the lab");
            if let Err(error) = state::remove(&self.plan.name) {
                self.console.error(&format!("the lab is not removed whole: {error}\ntry `make lab-down`"));
            }
        }
        if let Some(mut reaper) = self.reaper.take() {
            // If it is gone already, so is its work.
            drop(reaper.stdin.take().map(|mut stdin| stdin.write_all(DONE)));
            drop(reaper.wait());
        }
    }
}

/// Starts the process that removes the lab if this one is killed.
fn reaper(name: &str) -> Result<Child, LabError> {
    let started = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["lab", "reaper", "--name", name]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    started().map_err(|error: std::io::Error| LabError::NotStarted {
        command: "scalebricks lab reaper".to_owned(),
        why: error.to_string(),
    })
}

/// Waits until its parent is gone, and removes the lab unless that was said to be needless.
///
/// # Errors
/// As [`state::remove`].
pub fn reap(args: &NameArgs) -> Result<u8, LabError> {
    let mut said = Vec::new();
    drop(std::io::stdin().read_to_end(&mut said));
    if said != DONE {
        match Lock::take(&args.name) {
            // A new lab of this name has removed the old one first.
            Err(LabError::Busy { .. }) => {}
            lock => {
                let _lock = lock?;
                state::remove(&args.name)?;
            }
        }
    }
    Ok(status::SUCCESS)
}

/// A lab that stands, as its file says.
#[derive(Debug, Serialize, Deserialize)]
struct Standing {
    nodes: usize,
    phones: u16,
    driver: Driver,
    architecture: String,
    #[serde(default)]
    is_controlled: bool,
    #[serde(default)]
    gpt: String,
    nats: PathBuf,
    log_servers: u8,
    #[serde(default)]
    flows: u32,
}

impl Standing {
    fn of(plan: &Plan) -> Self {
        let (nodes, architecture) = (plan.size.get(), plan.architecture.to_string());
        let (phones, driver) = (plan.ues_per_node, plan.driver);
        let (is_controlled, flows) = (plan.is_controlled, plan.flows);
        let (nats, log_servers) = (plan.nats.clone(), plan.log_servers);
        let gpt = plan.gpt.to_string();
        Self { nodes, phones, driver, architecture, is_controlled, gpt, nats, log_servers, flows }
    }

    fn plan(&self, name: &str) -> Option<Plan> {
        Some(Plan {
            name: name.to_owned(),
            size: ClusterSize::new(self.nodes).ok()?,
            ues_per_node: self.phones,
            driver: self.driver,
            architecture: self.architecture.parse().ok()?,
            is_controlled: self.is_controlled,
            gpt: self.gpt.parse().unwrap_or_default(),
            nats: self.nats.clone(),
            log_servers: self.log_servers,
            flows: self.flows,
        })
    }
}

/// Builds a lab and leaves it standing.
///
/// # Errors
/// [`LabError`].
pub fn up(args: &UpArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let mut wanted = Architecture::ALL.into_iter().filter(|architecture| args.arch.includes(*architecture));
    let (Some(architecture), None) = (wanted.next(), wanted.next()) else {
        return Err(LabError::Usage {
            what: "one architecture at a time stands: --arch scalebricks".to_owned(),
        });
    };
    tools::ensure(args.shape.install, console, interrupt)?;
    let plan = args.shape.plan(architecture).map_err(|error| LabError::Usage { what: error.to_string() })?;
    let mut lab = Lab::build(plan, console, interrupt)?;
    lab.start(architecture)?;
    let (name, directory) = (lab.plan.name.clone(), lab.directory.display().to_string());
    lab.leave()?;
    console.result(&format!(
        "The lab stands. Files and logs: {directory}\n\
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
