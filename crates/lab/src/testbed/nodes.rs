//! The processes of a lab: nodes, base station, servers. Each runs in a namespace and writes a log.

use super::LabError;
use super::context::{LabContext, poll};
use super::exec::{self, Cmd};
use super::state;
use rustix::process::{Pid, Signal, kill_process};
use scalebricks_console::Interrupt;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Time that a process may take until it is ready.
const START: Duration = Duration::from_secs(30);

/// Time that a node may take to end after SIGTERM.
const DRAIN: Duration = Duration::from_secs(10);

/// Time between two looks at a process.
const POLL: Duration = Duration::from_millis(10);

/// What a node logs when it forwards.
const READY: &str = ": ready";

/// What a node logs when it has all flows of the control plane.
const CAUGHT_UP: &str = "caught up with the cluster";

/// The name of the capture that all checks share.
pub const CAPTURE: &str = "capture";

/// The file of the flows that no phone uses.
const MORE: &str = "more-flows.csv";

/// Time that the import of those flows may take.
const IMPORT: Duration = Duration::from_secs(1_200);

/// Time until nodes must accept flows.
const IMPORT_AT_LAST: Duration = Duration::from_secs(30);

/// Logs of earlier processes of a node that are kept; after that the last one is overwritten.
const MOST_LOGS: u32 = 100;

/// Lines of a log that an error shows.
const TAIL: usize = 12;

/// A running process.
#[derive(Debug)]
pub struct Process {
    command: String,
    child: Child,
    log: PathBuf,
}

impl LabContext<'_> {
    /// Writes the files that nodes and base station read.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn configure(&self) -> Result<(), LabError> {
        state::write(&self.path("flows.csv"), self.plan.flows_csv().as_bytes())?;
        self.configure_servers()?;
        if self.plan.is_controlled {
            // The network and the directory belong to this lab alone.
            state::write_secret(&self.path("cluster.key"), &[0x5b; 32])?;
        }
        for node in self.plan.size.nodes() {
            let text = self.plan.node_toml(node, &self.socket(node).to_string_lossy());
            state::write(&self.path(format!("node{}.toml", node.get())), text.as_bytes())?;
        }
        Ok(())
    }

    /// A node's admin socket.
    pub fn socket(&self, node: NodeId) -> PathBuf {
        self.path(format!("node{}.sock", node.get()))
    }

    /// Imports the flows into the control plane, and waits until all nodes have them.
    ///
    /// # Errors
    /// As [`Cmd::run`].
    pub fn import(&self) -> Result<(), LabError> {
        self.import_command("flows.csv")?.limit(START).run(self.interrupt).map(drop)
    }

    /// Imports the flows, and retries while nodes refuse them: a node whose process ended twice accepts them later.
    ///
    /// # Errors
    /// The last error, if nodes do not accept them in time.
    pub fn import_at_last(&self) -> Result<(), LabError> {
        let mut last = Ok(());
        let imported = poll(IMPORT_AT_LAST, Duration::from_millis(500), self.interrupt, || {
            last = self.import();
            match &last {
                Err(LabError::Failed { .. }) => Ok(None),
                _ => Ok(Some(())),
            }
        });
        imported.and(last)
    }

    /// Starts an import of the flows.
    ///
    /// # Errors
    /// As [`Cmd::start`].
    pub fn start_import(&self) -> Result<Process, LabError> {
        self.start("import", &self.import_command("flows.csv")?)
    }

    /// Imports the flows that no phone uses, and waits until all nodes have them; how long that took.
    ///
    /// # Errors
    /// [`LabError::File`], and as [`Cmd::run`].
    pub fn import_more(&self) -> Result<Duration, LabError> {
        let path = self.path(MORE);
        let mut file = BufWriter::new(File::create(&path).map_err(LabError::file(&path))?);
        self.plan.write_more_flows(&mut file).and_then(|()| file.flush()).map_err(LabError::file(&path))?;
        let began = Instant::now();
        self.import_command(MORE)?.limit(IMPORT).run(self.interrupt)?;
        Ok(began.elapsed())
    }

    fn import_command(&self, file: &str) -> Result<Cmd, LabError> {
        let (socket, flows) = (self.socket(NodeId::new(0)), self.path(file));
        let line = format!("flow import {} --socket {} --wait --quiet", flows.display(), socket.display());
        Ok(own_program()?.words(&line))
    }

    /// The base station's socket.
    pub fn base_station_socket(&self) -> PathBuf {
        self.path("base-station.sock")
    }

    /// Starts the base station. Its TUN is in its own namespace until [`phones`](Self::phones) moves it.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn base_station(&self) -> Result<Process, LabError> {
        let (flows, socket) = (self.path("flows.csv"), self.base_station_socket());
        let line = format!(
            "lab base-station --nodes {} --flows {} --control {}",
            self.plan.size.get(),
            flows.display(),
            socket.display()
        );
        self.helper("base-station", &line, &self.plan.ran())
    }

    /// Starts all nodes, and waits until each is ready.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn nodes(&self) -> Result<BTreeMap<NodeId, Process>, LabError> {
        let start = |node| Ok((node, self.start_node(node)?));
        let started = self.plan.size.nodes().map(start).collect::<Result<Vec<_>, LabError>>()?;
        let ready = |(node, process)| Ok((node, self.await_ready(process)?));
        started.into_iter().map(ready).collect()
    }

    /// Starts a node, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn node(&self, node: NodeId) -> Result<Process, LabError> {
        self.await_ready(self.start_node(node)?)
    }

    fn await_ready(&self, node: Process) -> Result<Process, LabError> {
        let word = if self.plan.is_controlled { CAUGHT_UP } else { READY };
        node.await_word(word, self.interrupt)
    }

    /// Starts a node, without waiting for it. The log of an earlier process is renamed.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_node(&self, node: NodeId) -> Result<Process, LabError> {
        let name = format!("node{}", node.get());
        let log = self.path(format!("{name}.log"));
        let numbered = |number: u32| self.path(format!("{name}.{number}.log"));
        let kept = (1..MOST_LOGS).map(numbered).find(|path| !path.exists());
        if let Some(kept) = kept.filter(|_| log.exists()) {
            fs::rename(&log, kept).map_err(LabError::file(&log))?;
        }
        let line = format!("node run {}", self.path(format!("{name}.toml")).display());
        self.start(&name, &own_program()?.words(&line).inside(&self.plan.node(node)))
    }

    /// As [`Site::helper`](super::site::Site::helper).
    ///
    /// # Errors
    /// The same.
    pub fn helper(&self, name: &str, line: &str, namespace: &str) -> Result<Process, LabError> {
        self.site().helper(name, line, namespace)
    }

    /// As [`Site::start`](super::site::Site::start).
    ///
    /// # Errors
    /// The same.
    pub fn start(&self, name: &str, command: &Cmd) -> Result<Process, LabError> {
        self.site().start(name, command)
    }
}

/// This program, without arguments.
///
/// # Errors
/// [`LabError::Setup`] if its file cannot be found.
pub fn own_program() -> Result<Cmd, LabError> {
    let program = std::env::current_exe()
        .map_err(|error| LabError::Setup(format!("cannot find this program: {error}")))?;
    Ok(Cmd::new("").arg(program.to_string_lossy()))
}

impl Process {
    /// A running child, the command line that started it, and its log.
    pub const fn new(command: String, child: Child, log: PathBuf) -> Self {
        Self { command, child, log }
    }

    /// Waits until the process logs a text.
    ///
    /// # Errors
    /// [`LabError::Died`] if it ends before that, [`LabError::TooSlow`], [`LabError::Interrupted`]. The process is
    /// ended then.
    pub fn await_word(self, word: &str, interrupt: &Interrupt) -> Result<Self, LabError> {
        self.await_word_for(word, START, interrupt)
    }

    /// As [`await_word`](Self::await_word), with this limit.
    ///
    /// # Errors
    /// The same.
    pub fn await_word_for(
        mut self,
        word: &str,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<Self, LabError> {
        let logged = poll(limit, POLL, interrupt, || {
            let running = self.check_running();
            if self.log().contains(word) { Ok(Some(())) } else { running.map(|()| None) }
        });
        match logged.and_then(|logged| logged.ok_or_else(|| self.too_slow(limit))) {
            Ok(()) => Ok(self),
            Err(error) => {
                self.kill();
                Err(error)
            }
        }
    }

    fn too_slow(&self, limit: Duration) -> LabError {
        LabError::TooSlow { command: self.command.clone(), limit }
    }

    /// What the process has logged.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Fails unless the process runs.
    ///
    /// # Errors
    /// [`LabError::Died`].
    pub fn check_running(&mut self) -> Result<(), LabError> {
        self.status()?.map_or(Ok(()), |status| Err(self.died(&status.to_string())))
    }

    /// The exit status; `None` while the process runs.
    ///
    /// # Errors
    /// [`LabError::Died`] if the system does not report it.
    pub fn status(&mut self) -> Result<Option<ExitStatus>, LabError> {
        self.child.try_wait().map_err(|error| self.died(&error.to_string()))
    }

    fn died(&self, how: &str) -> LabError {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        LabError::Died { command: self.command.clone(), how: how.to_owned(), tail }
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// [`LabError::Died`] if the process has ended.
    pub fn signal(&self, signal: Signal) -> Result<(), LabError> {
        kill_process(Pid::from_child(&self.child), signal).map_err(|error| self.died(&error.to_string()))
    }

    /// Waits until the process ends by itself; its log.
    ///
    /// # Errors
    /// [`LabError::Died`] unless its status is 0, [`LabError::TooSlow`], [`LabError::Interrupted`]. The process is
    /// ended then.
    pub fn await_end(mut self, limit: Duration, interrupt: &Interrupt) -> Result<String, LabError> {
        let failed = match poll(limit, POLL, interrupt, || self.status()) {
            Ok(Some(status)) if status.success() => return Ok(self.log()),
            Ok(Some(status)) => self.died(&status.to_string()),
            Ok(None) => self.too_slow(limit),
            Err(error) => error,
        };
        self.kill();
        Err(failed)
    }

    /// Kills the process as a crash would.
    pub fn kill_at_once(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends the process and its children: SIGTERM, and SIGKILL a second later.
    pub fn kill(mut self) {
        exec::end(&mut self.child);
    }

    /// Sends SIGTERM, and waits until the process has ended; its log.
    ///
    /// # Errors
    /// [`LabError::Died`] or [`LabError::TooSlow`] unless it ends with status 0 in time.
    pub fn stop(self) -> Result<String, LabError> {
        self.signal(Signal::TERM)?;
        self.await_end(DRAIN, &Interrupt::default())
    }
}
