//! Runs the system's programs, in a namespace if required. Every wait has a limit. An interrupted run ends its
//! children first.

use super::LabError;
use super::context::poll;
use super::tools;
use rustix::process::{Pid, Signal, kill_process_group};
use scalebricks_console::Interrupt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Limit of commands that only configure something.
const CONFIGURE: Duration = Duration::from_secs(20);

/// Time between two looks at a child.
const POLL: Duration = Duration::from_millis(1);

/// A command line.
#[derive(Debug, Clone)]
pub struct Cmd {
    words: Vec<String>,
    input: Vec<u8>,
    limit: Duration,
}

/// The result of a command.
#[derive(Debug)]
pub struct Done {
    /// The command line.
    pub command: String,
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

impl Cmd {
    /// A program with its arguments, separated by blanks.
    pub fn new(line: &str) -> Self {
        Self { words: Vec::new(), input: Vec::new(), limit: CONFIGURE }.words(line)
    }

    /// Adds one argument, which may contain blanks.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.words.push(argument.into());
        self
    }

    /// Adds arguments, separated by blanks.
    pub fn words(mut self, line: &str) -> Self {
        self.words.extend(line.split_ascii_whitespace().map(str::to_owned));
        self
    }

    /// Runs inside a network namespace.
    pub fn inside(mut self, namespace: &str) -> Self {
        self.words.splice(..0, ["ip", "netns", "exec", namespace].map(str::to_owned));
        self
    }

    /// Sets the standard input.
    pub fn input(self, input: impl Into<Vec<u8>>) -> Self {
        Self { input: input.into(), ..self }
    }

    /// Sets the time limit.
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// The command line as one could type it.
    pub fn line(&self) -> String {
        self.words.join(" ")
    }

    fn spawn(&self, input: Stdio, out: Stdio, err: Stdio) -> Result<Child, LabError> {
        let (program, arguments) =
            self.words.split_first().map_or(("", &[][..]), |(program, rest)| (program.as_str(), rest));
        // In its own process group: Ctrl-C reaches this process only, which ends its children in order.
        let mut command = Command::new(program);
        let spawned = command.args(arguments).process_group(0).stdin(input).stdout(out).stderr(err).spawn();
        let not_started = |error: io::Error| LabError::NotStarted {
            command: self.line(),
            why: format!("{error}{}", tools::hint(program)),
        };
        spawned.map_err(not_started)
    }

    /// Runs the command to its end, whatever its status.
    ///
    /// # Errors
    /// [`LabError::NotStarted`], [`LabError::TooSlow`], [`LabError::Interrupted`].
    pub fn finish(&self, interrupt: &Interrupt) -> Result<Done, LabError> {
        let began = Instant::now();
        let mut child = self.spawn(Stdio::piped(), Stdio::piped(), Stdio::piped())?;
        let (input, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let bytes = self.input.clone();
        // A program that does not read all of its input reports that by its status.
        let writer = thread::spawn(move || input.map(|mut input| input.write_all(&bytes)));
        let stdout = thread::spawn(move || all(stdout));
        let stderr = thread::spawn(move || all(stderr));
        let ended = poll(self.limit, POLL, interrupt, || Ok(child.try_wait().ok().flatten()));
        if !matches!(ended, Ok(Some(_))) {
            end(&mut child);
        }
        drop(writer.join());
        let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
        let status = ended?.ok_or_else(|| LabError::TooSlow { command: self.line(), limit: self.limit })?;
        Ok(Done { command: self.line(), status, stdout, stderr, took: began.elapsed() })
    }

    /// Runs the command, which must succeed; its output.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and [`LabError::Failed`].
    pub fn run(&self, interrupt: &Interrupt) -> Result<String, LabError> {
        let done = self.finish(interrupt)?;
        if done.status.success() {
            return Ok(done.text());
        }
        let output = if done.stderr.is_empty() { done.text() } else { done.stderr };
        Err(LabError::Failed { command: done.command, status: done.status, output })
    }

    /// Starts the command without waiting for it. Its output goes to a file.
    ///
    /// # Errors
    /// [`LabError::NotStarted`], [`LabError::File`].
    pub fn start(&self, log: &Path) -> Result<Child, LabError> {
        let out = File::create(log).map_err(LabError::file(log))?;
        let err = out.try_clone().map_err(LabError::file(log))?;
        self.spawn(Stdio::null(), out.into(), err.into())
    }
}

impl Done {
    /// Its standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

fn all(from: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // After an error, the bytes read so far are the output.
    drop(from.map(|mut from| from.read_to_end(&mut bytes)));
    bytes
}

/// Ends a child and its process group: SIGTERM, and SIGKILL a second later.
pub fn end(child: &mut Child) {
    let group = Pid::from_child(child);
    // Errors mean that the group has ended.
    let _ = kill_process_group(group, Signal::TERM);
    let ended = || Ok(child.try_wait().ok().flatten());
    if !matches!(poll(Duration::from_secs(1), POLL, &Interrupt::default(), ended), Ok(Some(_))) {
        let _ = kill_process_group(group, Signal::KILL);
        drop(child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_status_and_input_are_those_of_the_program() {
        let interrupt = Interrupt::default();
        assert_eq!(Cmd::new("cat").input("x y").run(&interrupt).unwrap(), "x y");
        let error = Cmd::new("sh -c").arg("echo no >&2; exit 3").run(&interrupt).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no"), "{error}");
        let error = Cmd::new("scalebricks-no-such-program").run(&interrupt).unwrap_err().to_string();
        assert!(error.contains("scalebricks-no-such-program"), "{error}");
    }

    #[test]
    fn commands_that_take_too_long_are_ended_with_their_children() {
        // No other process sleeps for this time.
        let time = format!("300.{:09}", std::process::id());
        let slow =
            Cmd::new("sh -c").arg(format!("sleep {time} & sleep {time}")).limit(Duration::from_millis(50));
        assert!(matches!(slow.finish(&Interrupt::default()), Err(LabError::TooSlow { .. })));
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines =
            processes.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
        assert_eq!(lines.filter(|line| line.contains(&time)).count(), 0, "some still sleep");
    }
}
