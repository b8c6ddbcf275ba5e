//! The processes of a lab: nodes, base station, servers. Each is in a namespace, and writes a log.

use super::LabError;
use super::exec::{self, Cmd};
use super::plan::Plan;
use super::state;
use super::streams::StreamEnd;
use rustix::process::{Pid, Signal, kill_process};
use scalebricks_console::Interrupt;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How long a process may take to be ready.
const START: Duration = Duration::from_secs(30);

/// How long a node may take to finish what is under way.
const DRAIN: Duration = Duration::from_secs(10);

/// What a node says when it forwards.
const READY: &str = ": ready";

/// The same where flows come from the control plane.
const CAUGHT_UP: &str = "caught up with the cluster";

/// The name of the capture that all checks share.
pub const CAPTURE: &str = "capture";

/// Flows that no phone uses.
const MORE: &str = "more-flows.csv";

/// How long it may take to hand them over.
const IMPORT: Duration = Duration::from_secs(1_200);

/// How long it may take until nodes take flows.
const IMPORT_AT_LAST: Duration = Duration::from_secs(30);

/// Logs of earlier lives of a node that are kept; after that the last one is written anew.
const MOST_LIVES: u32 = 100;

/// Lines of a log that an error shows.
const TAIL: usize = 12;

/// A running process.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    log: PathBuf,
}

/// Starts and stops processes.
#[derive(Debug, Clone, Copy)]
pub struct Processes<'a> {
    /// Of which lab.
    pub plan: &'a Plan,
    /// Where its files are.
    pub directory: &'a Path,
    /// Whether to go on.
    pub interrupt: &'a Interrupt,
}

impl Processes<'_> {
    /// Writes the files that nodes and base station read.
    ///
    /// # Errors
    /// [`LabError::File`].
    pub fn configure(&self) -> Result<(), LabError> {
        state::write(&self.directory.join("flows.csv"), self.plan.flows_csv().as_bytes())?;
        self.configure_servers()?;
        if self.plan.is_controlled {
            // The lab's network is nobody else's, and its files are in a directory of their own.
            state::write_secret(&self.directory.join("cluster.key"), &[0x5b; 32])?;
        }
        for node in self.plan.size.nodes() {
            let admin = self.socket(node);
            let text = self.plan.node_toml(node, &admin.to_string_lossy());
            state::write(&self.directory.join(format!("node{}.toml", node.get())), text.as_bytes())?;
        }
        Ok(())
    }

    /// A node's socket.
    pub fn socket(&self, node: NodeId) -> PathBuf {
        self.directory.join(format!("node{}.sock", node.get()))
    }

    /// Starts what holds the threads of a process still that have this name.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn halt(&self, process: &Process, thread: &str) -> Result<Process, LabError> {
        let line = format!("lab halt --process {} --thread {thread}", process.child.id());
        self.own("halt", &line, &self.plan.switch())?.await_word("ready", self.interrupt)
    }

    /// Starts one end of the paced streams.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn streams(&self, end: StreamEnd) -> Result<Process, LabError> {
        let (nodes, phones) = (self.plan.size.get(), self.plan.ues().count());
        let line = format!("lab streams --end {} --nodes {nodes} --phones {phones}", end.name());
        let namespace = match end {
            StreamEnd::Phones => self.plan.ue(),
            StreamEnd::Host => self.plan.inet(),
        };
        let name = format!("streams-{}", end.name());
        self.own(&name, &line, &namespace)?.await_word("ready", self.interrupt)
    }

    /// Hands the flows to the control plane, and waits until all nodes have them.
    ///
    /// # Errors
    /// As [`Cmd::run`].
    pub fn import(&self) -> Result<(), LabError> {
        own_program()?.words(&self.import_line("flows.csv")).limit(START).run(self.interrupt).map(drop)
    }

    /// The same, again and again until nodes take flows: one whose process ended twice takes them later.
    ///
    /// # Errors
    /// Why not, if that takes too long.
    pub fn import_at_last(&self) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            match self.import() {
                Err(LabError::Failed { .. }) if began.elapsed() < IMPORT_AT_LAST => {
                    thread::sleep(Duration::from_millis(500));
                }
                done => return done,
            }
        }
    }

    /// Begins to hand the flows to the control plane.
    ///
    /// # Errors
    /// As [`Cmd::start`].
    pub fn start_import(&self) -> Result<Process, LabError> {
        self.start("import", &own_program()?.words(&self.import_line("flows.csv")))
    }

    /// Hands over many more flows, which no phone uses, and waits until all nodes have them; how long that took.
    ///
    /// # Errors
    /// [`LabError::File`], and as [`Cmd::run`].
    pub fn import_more(&self) -> Result<Duration, LabError> {
        let path = self.directory.join(MORE);
        let told = |error| LabError::File { path: path.clone(), error };
        let mut file = BufWriter::new(File::create(&path).map_err(told)?);
        self.plan.write_more_flows(&mut file).and_then(|()| file.flush()).map_err(told)?;
        let began = Instant::now();
        own_program()?.words(&self.import_line(MORE)).limit(IMPORT).run(self.interrupt)?;
        Ok(began.elapsed())
    }

    fn import_line(&self, file: &str) -> String {
        let first = NodeId::new(0);
        let (socket, flows) = (self.socket(first), self.directory.join(file));
        format!("flow import {} --socket {} --wait --quiet", flows.display(), socket.display())
    }

    /// The base station's socket.
    pub fn base_station_socket(&self) -> PathBuf {
        self.directory.join("base-station.sock")
    }

    /// Starts the file server of the Internet host.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn file_server(&self) -> Result<Process, LabError> {
        let server = self.own("file-server", "lab file-server", &self.plan.inet())?;
        server.await_word("ready", self.interrupt)
    }

    /// Starts the base station. Its TUN is in its own namespace still.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn base_station(&self) -> Result<Process, LabError> {
        let (flows, socket) = (self.directory.join("flows.csv"), self.base_station_socket());
        let line = format!(
            "lab base-station --nodes {} --flows {} --control {}",
            self.plan.size.get(),
            flows.display(),
            socket.display()
        );
        let process = self.own("base-station", &line, &self.plan.ran())?;
        process.await_word("ready", self.interrupt)
    }

    /// Starts the nodes, all at once, and waits until each is ready.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn nodes(&self) -> Result<BTreeMap<NodeId, Process>, LabError> {
        let start = |node| Ok((node, self.start_node(node)?));
        let started = self.plan.size.nodes().map(start).collect::<Result<Vec<_>, LabError>>()?;
        let ready = |(node, process): (NodeId, Process)| {
            Ok((node, process.await_word(self.ready(), self.interrupt)?))
        };
        started.into_iter().map(ready).collect()
    }

    /// Starts a node, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn node(&self, node: NodeId) -> Result<Process, LabError> {
        self.start_node(node)?.await_word(self.ready(), self.interrupt)
    }

    /// What a node says when it has all it needs.
    const fn ready(&self) -> &'static str {
        if self.plan.is_controlled { CAUGHT_UP } else { READY }
    }

    /// Starts a node, and does not wait for it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_node(&self, node: NodeId) -> Result<Process, LabError> {
        let name = format!("node{}", node.get());
        self.keep_log(&name)?;
        let config = self.directory.join(format!("{name}.toml"));
        self.own(&name, &format!("node run {}", config.display()), &self.plan.node(node))
    }

    /// Gives the log of an earlier process of this name a number, if there is one.
    fn keep_log(&self, name: &str) -> Result<(), LabError> {
        let log = self.directory.join(format!("{name}.log"));
        let numbered = |number: u32| self.directory.join(format!("{name}.{number}.log"));
        let kept = (1..MOST_LIVES).map(numbered).find(|path| !path.exists());
        match kept.filter(|_| log.exists()) {
            Some(kept) => fs::rename(&log, kept).map_err(|error| LabError::File { path: log, error }),
            None => Ok(()),
        }
    }

    /// Starts what throws so many damaged frames, made of those that were captured. Its interfaces lead nowhere yet.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn frames(&self, count: u64) -> Result<Process, LabError> {
        let corpus = self.directory.join(format!("{CAPTURE}.pcapng"));
        let line = format!("lab frames --count {count} --seed 1 --corpus {}", corpus.display());
        self.own("frames", &line, &self.plan.switch())?.await_word("ready", self.interrupt)
    }

    fn own(&self, name: &str, line: &str, namespace: &str) -> Result<Process, LabError> {
        self.start(name, &own_program()?.words(line).inside(namespace))
    }

    /// Starts a program whose log has this name.
    ///
    /// # Errors
    /// As [`Cmd::start`].
    pub fn start(&self, name: &str, command: &Cmd) -> Result<Process, LabError> {
        let log = self.directory.join(format!("{name}.log"));
        Ok(Process { what: command.line(), child: command.start(&log)?, log })
    }
}

/// This program, without arguments.
fn own_program() -> Result<Cmd, LabError> {
    let program = std::env::current_exe()
        .map_err(|error| LabError::Setup { what: format!("cannot find this program: {error}") })?;
    Ok(Cmd::new("").arg(program.to_string_lossy()))
}

impl Process {
    /// Waits until a process says a word.
    ///
    /// # Errors
    /// [`LabError::Died`] with the end of its log if it ends before that, [`LabError::TooSlow`],
    /// [`LabError::Interrupted`]. It is ended then.
    pub fn await_word(self, word: &str, interrupt: &Interrupt) -> Result<Self, LabError> {
        self.await_word_for(word, START, interrupt)
    }

    /// As [`await_word`](Self::await_word), as long as this.
    ///
    /// # Errors
    /// The same.
    pub fn await_word_for(
        mut self,
        word: &str,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<Self, LabError> {
        match self.says(word, limit, interrupt) {
            Ok(()) => Ok(self),
            Err(error) => {
                self.kill();
                Err(error)
            }
        }
    }

    fn says(&mut self, word: &str, limit: Duration, interrupt: &Interrupt) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            let ended = self.ended();
            if self.log().contains(word) {
                return Ok(());
            }
            ended?;
            interrupt.check()?;
            if began.elapsed() > limit {
                return Err(LabError::TooSlow { command: self.what.clone(), limit });
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it has said.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Whether the process still runs.
    ///
    /// # Errors
    /// [`LabError::Died`] if not.
    pub fn ended(&mut self) -> Result<(), LabError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.died(&status.to_string())),
            Err(error) => Err(self.died(&error.to_string())),
        }
    }

    /// How the process ended; `None` while it runs.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn died(&self, how: &str) -> LabError {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        LabError::Died { what: self.what.clone(), how: how.to_owned(), tail }
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// [`LabError::Died`] if the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<(), LabError> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let sent = pid.is_some_and(|pid| kill_process(pid, signal).is_ok());
        if sent { Ok(()) } else { Err(self.died("it takes no signal")) }
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Errors
    /// [`LabError::Died`] if it ends badly, [`LabError::TooSlow`], [`LabError::Interrupted`]. It is ended then.
    pub fn await_end(mut self, limit: Duration, interrupt: &Interrupt) -> Result<(), LabError> {
        let began = Instant::now();
        let failed = loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => break self.died(&status.to_string()),
                Err(error) => break self.died(&error.to_string()),
                Ok(None) if began.elapsed() > limit => {
                    break LabError::TooSlow { command: self.what.clone(), limit };
                }
                Ok(None) => {}
            }
            if let Err(interrupted) = interrupt.check() {
                break interrupted.into();
            }
            thread::sleep(Duration::from_millis(10));
        };
        self.kill();
        Err(failed)
    }

    /// Kills the process as a crash would.
    pub fn kill_at_once(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends the process, whatever it does.
    pub fn kill(mut self) {
        exec::end(&mut self.child);
    }

    /// Asks the process to end, and waits until it has.
    ///
    /// # Errors
    /// [`LabError::Died`] unless it ends with status 0 in time.
    pub fn stop(mut self) -> Result<(), LabError> {
        drop(Cmd::new("kill -TERM").arg(self.child.id().to_string()).run(&Interrupt::default()));
        let began = Instant::now();
        while began.elapsed() < DRAIN {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(10)),
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(self.died(&format!("{status} after SIGTERM"))),
                Err(error) => return Err(self.died(&error.to_string())),
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        Err(self.died(&format!("no end {} s after SIGTERM", DRAIN.as_secs())))
    }
}
