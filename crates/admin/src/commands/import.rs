//! `scalebricks flow import`: all flows of a file, in calls of some thousands.

use super::flow::Sum;
use super::flow_args::FlowImportArgs;
use super::{CommandError, TICK, wait};
use crate::client::{Client, ClientError, FlowCall};
use crate::flow_list::columns::Columns;
use crate::flow_list::{Line, Places, Reading, reader};
use crate::model::{ClusterView, FlowRecord, FlowsProblem};
use csv::ByteRecord;
use scalebricks_console::output;
use scalebricks_console::quantity::count;
use scalebricks_console::{Console, Interrupt, Progress, status as exit};
use scalebricks_types::{ClusterSize, KeyProfile};
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Flows of a call: their keys fit one batch of the log even if there is one partition.
const CALL: usize = 2_000;

/// For so long a call that the cluster cannot take now is sent again.
const ENDURANCE: Duration = Duration::from_secs(60);

/// Between two tries: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// Flows that go together, and their lines.
#[derive(Default)]
struct Call {
    flows: Vec<FlowRecord>,
    lines: Vec<u64>,
}

/// What all senders have in common.
struct Sending<'a> {
    args: &'a FlowImportArgs,
    calls: Mutex<Receiver<Call>>,
    progress: &'a Progress,
    interrupt: &'a Interrupt,
    outcome: Mutex<(Sum, Option<CommandError>)>,
}

pub(super) fn run(
    args: &FlowImportArgs,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<u8, CommandError> {
    let cluster: ClusterView = args.change.node.client()?.cluster()?;
    let total = check(args, &cluster, console, interrupt)?;
    let progress = console.progress("flows", total);
    let (sender, calls) = sync_channel(usize::from(args.in_flight));
    let sending =
        Sending { args, calls: Mutex::new(calls), progress: &progress, interrupt, outcome: Mutex::default() };
    let clients: Vec<Client> =
        (0..args.in_flight).map(|_| args.change.node.client()).collect::<Result<_, _>>()?;
    let read = std::thread::scope(|scope| {
        for client in clients {
            let sending = &sending;
            scope.spawn(move || sending.run(&client));
        }
        let read = sending.read(&sender);
        drop(sender);
        read
    });
    progress.finish();
    let (sum, failed) = sending.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    let words = format!("{} of {} flows accepted", count(sum.accepted), count(total));
    if args.change.json {
        let is_applied = args.change.wait && sum.unapplied == 0;
        let answer = json!({ "accepted": sum.accepted, "of": total, "is_applied": is_applied });
        console.result(output::json(&answer)?.trim_end())?;
    } else {
        console.result(&words)?;
    }
    if let Some(error) = failed {
        return Err(error);
    }
    read?;
    if interrupt.check().is_err() {
        return Ok(exit::INTERRUPTED);
    }
    if args.change.wait && sum.unapplied > 0 {
        console.error("not all living nodes have applied all of them yet; they will");
        return Ok(exit::FAILURE);
    }
    Ok(exit::SUCCESS)
}

/// Reads the whole file as the node would, and counts its flows.
fn check(
    args: &FlowImportArgs,
    cluster: &ClusterView,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<u64, CommandError> {
    let strange = |what: String| CommandError::Usage(format!("the node's cluster is not understood: {what}"));
    let profile: KeyProfile = cluster.key.parse().map_err(|error| strange(format!("{error}")))?;
    let size = ClusterSize::new(usize::from(cluster.nodes)).map_err(|error| strange(error.to_string()))?;
    let reading = Reading { profile, size, base_stations: &cluster.base_stations };
    let (file, bytes) = open(args)?;
    let progress = console.progress("checked", bytes);
    let mut flows = 0;
    reading
        .for_each(BufReader::new(file), &progress, |_| flows += 1)
        .map_err(|error| CommandError::File { path: args.file.clone(), what: format!("\n{error}") })?;
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

impl Sending<'_> {
    /// Reads the file, and hands its flows over until there are no more or nobody wants them.
    fn read(&self, sender: &SyncSender<Call>) -> Result<(), CommandError> {
        let bad = |what: String| bad_file(self.args, what);
        let mut reader = reader(BufReader::new(open(self.args)?.0));
        let places = Places::of(reader.byte_headers()).map_err(bad)?;
        let mut record = ByteRecord::new();
        let mut call = Call::default();
        while reader.read_byte_record(&mut record).map_err(|error| bad(error.to_string()))? {
            let line = Line { places: &places, record: &record };
            call.flows.push(FlowRecord::of(|column| {
                let text = line.text(column).ok().flatten()?;
                (!text.is_empty()).then(|| text.into_owned())
            }));
            call.lines.push(record.position().map_or(0, csv::Position::line));
            if call.flows.len() == CALL && !self.hand_over(std::mem::take(&mut call), sender) {
                return Ok(());
            }
        }
        if !call.flows.is_empty() {
            self.hand_over(call, sender);
        }
        Ok(())
    }

    /// Whether to go on.
    fn hand_over(&self, mut call: Call, sender: &SyncSender<Call>) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            match sender.try_send(call) {
                Ok(()) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(again)) => call = again,
            }
            std::thread::sleep(TICK / 10);
        }
    }

    fn is_over(&self) -> bool {
        self.interrupt.check().is_err() || self.outcome().1.is_some()
    }

    fn outcome(&self) -> std::sync::MutexGuard<'_, (Sum, Option<CommandError>)> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one call after the other, until there are no more or the import is over.
    fn run(&self, client: &Client) {
        loop {
            let next = self.calls.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(call) = next else { return };
            if self.is_over() {
                continue; // whoever hands over must not wait for room
            }
            if let Err(error) = self.send(client, &call) {
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
                    if began.elapsed() < ENDURANCE && wait(pause, self.interrupt) =>
                {
                    pause = (pause * 2).min(PAUSES.1);
                }
                Err(ClientError::Flows(problem)) => return Err(self.named(call, &problem)),
                // Interrupted: what was not accepted is not counted, and that is all there is to say.
                Err(ClientError::NotReady(_) | ClientError::TimedOut(..))
                    if self.interrupt.check().is_err() =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What is wrong with flows, by their lines.
    fn named(&self, call: &Call, problem: &FlowsProblem) -> CommandError {
        let line = |index: u64| call.lines.get(index as usize).copied().unwrap_or_default();
        let lines = problem.flows.iter().map(|flow| format!("\nline {}: {}", line(flow.index), flow.error));
        let told: String = lines.collect();
        bad_file(self.args, if told.is_empty() { problem.error.clone() } else { told })
    }
}
