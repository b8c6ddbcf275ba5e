//! Running the system's own programs, in a namespace if need be. Nothing is waited for without a limit, and a run that
//! the user stops ends its children first.

use super::LabError;
use super::tools;
use scalebricks_console::Interrupt;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Limit of commands that only configure something.
const CONFIGURE: Duration = Duration::from_secs(20);

/// Longest time between two looks at a child.
const POLL: Duration = Duration::from_millis(10);

/// A command line, not yet run.
#[derive(Debug, Clone)]
pub struct Cmd {
    words: Vec<String>,
    namespace: Option<String>,
    input: Vec<u8>,
    limit: Duration,
}

/// What a command left.
#[derive(Debug)]
pub struct Done {
    /// How it was called.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it printed as an error.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

impl Cmd {
    /// A program with its arguments, separated by blanks.
    pub fn new(line: &str) -> Self {
        let words = line.split_ascii_whitespace().map(str::to_owned).collect();
        Self { words, namespace: None, input: Vec::new(), limit: CONFIGURE }
    }

    /// One more argument, blanks and all.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.words.push(argument.into());
        self
    }

    /// More arguments, separated by blanks.
    pub fn words(mut self, line: &str) -> Self {
        self.words.extend(line.split_ascii_whitespace().map(str::to_owned));
        self
    }

    /// Runs inside a network namespace.
    pub fn inside(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self }
    }

    /// What it reads.
    pub fn input(self, input: impl Into<Vec<u8>>) -> Self {
        Self { input: input.into(), ..self }
    }

    /// How long it may take.
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// As one could type it.
    pub fn line(&self) -> String {
        let mut line = String::new();
        if let Some(namespace) = &self.namespace {
            let _ = write!(line, "ip netns exec {namespace} ");
        }
        line + &self.words.join(" ")
    }

    fn command(&self) -> Command {
        let mut words = self.words.iter();
        let program = words.next().map_or("", String::as_str);
        let mut command = match &self.namespace {
            None => Command::new(program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace, program]);
                command
            }
        };
        // In a group of its own: a Ctrl-C is for us, and we end our children in order.
        command.args(words).process_group(0);
        command
    }

    fn no_such(&self, error: &io::Error) -> LabError {
        let program = self.words.first().map_or("", String::as_str);
        let hint = tools::hint(if self.namespace.is_some() { "ip" } else { program });
        LabError::NotStarted { command: self.line(), why: format!("{error}{hint}") }
    }

    /// Runs it to its end, whatever that is.
    ///
    /// # Errors
    /// [`LabError::NotStarted`], [`LabError::TooSlow`], [`LabError::Interrupted`].
    pub fn finish(&self, interrupt: &Interrupt) -> Result<Done, LabError> {
        let began = Instant::now();
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| self.no_such(&error))?;
        let (input, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let bytes = self.input.clone();
        let writer = thread::spawn(move || {
            // A program that does not read to the end says so by its status.
            input.map(|mut input| input.write_all(&bytes))
        });
        let stdout = thread::spawn(move || all(stdout));
        let stderr = thread::spawn(move || all(stderr));
        let ended = wait(&mut child, self.limit, interrupt);
        if !matches!(ended, Ok(Some(_))) {
            end(&mut child);
        }
        drop(writer.join());
        let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
        let status = ended?.ok_or_else(|| LabError::TooSlow { command: self.line(), limit: self.limit })?;
        Ok(Done { command: self.line(), status, stdout, stderr, took: began.elapsed() })
    }

    /// Runs it to its good end and returns what it printed.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and [`LabError::Failed`].
    pub fn run(&self, interrupt: &Interrupt) -> Result<String, LabError> {
        let done = self.finish(interrupt)?;
        if done.status.success() { Ok(done.text()) } else { Err(done.failed()) }
    }

    /// Starts it and lets it run. What it prints goes to a file.
    ///
    /// # Errors
    /// [`LabError::NotStarted`], [`LabError::File`].
    pub fn start(&self, log: &Path) -> Result<Child, LabError> {
        let told = |error| LabError::File { path: log.to_owned(), error };
        let out = File::create(log).map_err(told)?;
        let err = out.try_clone().map_err(told)?;
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        command.spawn().map_err(|error| self.no_such(&error))
    }
}

impl Done {
    /// What it printed, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// That it failed.
    pub fn failed(self) -> LabError {
        let said = if self.stderr.is_empty() { self.text() } else { self.stderr };
        LabError::Failed { command: self.command, status: self.status, said }
    }
}

fn all(from: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before an error is all there is.
    drop(from.map(|mut from| from.read_to_end(&mut bytes)));
    bytes
}

/// The status of a child that ends within the limit.
fn wait(child: &mut Child, limit: Duration, interrupt: &Interrupt) -> Result<Option<ExitStatus>, LabError> {
    let began = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Ok(Some(status));
        }
        interrupt.check()?;
        if began.elapsed() > limit {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(POLL);
    }
}

/// Ends a child: it may tidy up for a second.
pub fn end(child: &mut Child) {
    let group = child.id().to_string();
    let signal = |name: &str| {
        let mut kill = Command::new("kill");
        drop(kill.args([name, "--", &format!("-{group}")]).stderr(Stdio::null()).status());
    };
    signal("-TERM");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        thread::sleep(POLL);
    }
    signal("-KILL");
    drop(child.wait());
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
    fn what_takes_too_long_is_ended_with_its_children() {
        // Nobody else sleeps for so long.
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
