//! `scalebricks flow import`: pins all flows of a file, in calls of some thousands.

use super::CommandError;
use super::flow::Sum;
use super::flow_args::FlowImportArgs;
use crate::client::{Client, ClientError, FlowCall};
use crate::flow_list::{FlowReader, Reading};
use crate::model::{ClusterView, FlowRecord, FlowsProblem};
use scalebricks_console::output;
use scalebricks_console::quantity::count;
use scalebricks_console::{Console, Interrupt, Progress, status as exit};
use scalebricks_types::{ClusterSize, KeyProfile};
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Flows of a call: their keys fit one batch of the log even if there is one partition.
const CALL: usize = 2_000;

/// How long a call is retried that the cluster cannot accept now.
const ENDURANCE: Duration = Duration::from_secs(60);

/// Pause between two attempts: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// The flows of one call, and their lines.
#[derive(Default)]
struct Call {
    flows: Vec<FlowRecord>,
    lines: Vec<u64>,
}

/// The state that all sending threads share.
struct Import<'a> {
    args: &'a FlowImportArgs,
    reader: Mutex<FlowReader<BufReader<File>>>,
    progress: &'a Progress,
    interrupt: &'a Interrupt,
    outcome: Mutex<(Sum, Option<CommandError>)>,
}

pub(super) fn run(
    args: &FlowImportArgs,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<u8, CommandError> {
    // Before the node is asked, which may take seconds to fail.
    drop(open(args)?);
    let cluster: ClusterView = args.change.ask.node()?.cluster()?;
    let profile: KeyProfile = cluster.key.parse().map_err(|error| unknown(&error))?;
    let total = check(args, &cluster, profile, console, interrupt)?;
    let progress = console.progress("flows", total);
    let reader = FlowReader::new(BufReader::new(open(args)?.0), profile);
    let reader = Mutex::new(reader.map_err(|error| bad_file(args, error.to_string()))?);
    let import = Import { args, reader, progress: &progress, interrupt, outcome: Mutex::default() };
    let clients: Vec<Client> =
        (0..args.in_flight).map(|_| args.change.ask.node()).collect::<Result<_, _>>()?;
    std::thread::scope(|scope| {
        for client in clients {
            let import = &import;
            scope.spawn(move || import.run(&client));
        }
    });
    progress.finish();
    let (sum, failed) = import.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    let words = format!("{} of {} flows accepted", count(sum.accepted), count(total));
    if args.change.ask.json {
        let is_applied = args.change.wait && sum.unapplied == 0;
        let answer = json!({ "accepted": sum.accepted, "of": total, "is_applied": is_applied });
        console.result(output::json(&answer)?.trim_end())?;
    } else {
        console.result(&words)?;
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if interrupt.check().is_err() {
        return Ok(exit::INTERRUPTED);
    }
    if args.change.wait && sum.unapplied > 0 {
        console.error("not all living nodes have applied all changes yet; they will");
        return Ok(exit::FAILURE);
    }
    Ok(exit::SUCCESS)
}

fn unknown(what: &impl ToString) -> CommandError {
    CommandError::Usage(format!("cannot interpret the cluster that the node reports: {}", what.to_string()))
}

/// Reads the whole file as a node would, and counts its flows.
fn check(
    args: &FlowImportArgs,
    cluster: &ClusterView,
    profile: KeyProfile,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<u64, CommandError> {
    let size = ClusterSize::new(usize::from(cluster.nodes)).map_err(|error| unknown(&error))?;
    let reading = Reading { profile, size, base_stations: &cluster.base_stations };
    let (file, bytes) = open(args)?;
    let progress = console.progress("checked", bytes);
    let mut flows = 0;
    reading
        .for_each(BufReader::new(file), &progress, |_| flows += 1)
        .map_err(|error| bad_file(args, format!("\n{error}")))?;
    progress.finish();
    if interrupt.check().is_err() {
        return Err(CommandError::Usage("interrupted; nothing was sent".to_owned()));
    }
    Ok(flows)
}

fn open(args: &FlowImportArgs) -> Result<(File, u64), CommandError> {
    let failed = |error: std::io::Error| bad_file(args, error.to_string());
    let file = File::open(&args.file).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    Ok((file, bytes))
}

fn bad_file(args: &FlowImportArgs, what: String) -> CommandError {
    CommandError::File { path: args.file.clone(), what }
}

impl Import<'_> {
    /// Reads the flows of the next call; none at the end of the file.
    fn next_call(&self) -> Result<Call, CommandError> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut call = Call::default();
        for (line, flow) in reader.by_ref().take(CALL) {
            call.flows.push(flow.map_err(|what| bad_file(self.args, format!("line {line}: {what}")))?);
            call.lines.push(line);
        }
        Ok(call)
    }

    fn is_over(&self) -> bool {
        self.interrupt.check().is_err() || self.outcome().1.is_some()
    }

    fn outcome(&self) -> MutexGuard<'_, (Sum, Option<CommandError>)> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one call after another, until the file ends or the import is over.
    fn run(&self, client: &Client) {
        while !self.is_over() {
            let sent = match self.next_call() {
                Ok(call) if call.flows.is_empty() => return,
                call => call.and_then(|call| self.send(client, &call)),
            };
            if let Err(error) = sent {
                self.outcome().1.get_or_insert(error);
            }
        }
    }

    fn send(&self, client: &Client, call: &Call) -> Result<(), CommandError> {
        let (wait_for_all, are_new) = (self.args.change.wait, self.args.new);
        let (began, mut pause) = (Instant::now(), PAUSES.0);
        loop {
            match client.flows(FlowCall::Pin, &call.flows, wait_for_all, are_new) {
                Ok(answer) => {
                    self.outcome().0.add(&answer);
                    self.progress.add(answer.accepted);
                    return Ok(());
                }
                Err(ClientError::NotReady(_) | ClientError::TimedOut(..))
                    if began.elapsed() < ENDURANCE && self.interrupt.wait(pause).is_ok() =>
                {
                    pause = (pause * 2).min(PAUSES.1);
                }
                Err(ClientError::Flows(problem)) => return Err(self.named(call, &problem)),
                // Interrupted: flows that were not accepted are not counted.
                Err(ClientError::NotReady(_) | ClientError::TimedOut(..))
                    if self.interrupt.check().is_err() =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// An error that names the lines of the wrong flows.
    fn named(&self, call: &Call, problem: &FlowsProblem) -> CommandError {
        let line = |index: u64| call.lines.get(index as usize).copied().unwrap_or_default();
        let lines = problem.flows.iter().map(|flow| format!("\nline {}: {}", line(flow.index), flow.error));
        let lines: String = lines.collect();
        bad_file(self.args, if lines.is_empty() { problem.error.clone() } else { lines })
    }
}
