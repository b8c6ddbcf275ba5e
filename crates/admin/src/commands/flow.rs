//! `scalebricks flow`: flows one by one.

use super::flow_args::{ChangeArgs, FlowAddArgs, FlowCommand, FlowShowArgs};
use super::{CommandError, export, import, list, tell};
use crate::client::FlowCall;
use crate::flow_list::columns::Column;
use crate::model::{Carried, FlowRecord, FlowsAccepted, PinnedFlow};
use scalebricks_console::quantity::count;
use scalebricks_console::{Console, Interrupt, status as exit};
use serde::Serialize;

/// `scalebricks flow`.
///
/// # Errors
/// [`CommandError`].
pub fn flow(command: &FlowCommand, console: &Console, interrupt: &Interrupt) -> Result<u8, CommandError> {
    let at = |node: u16| move |column| (column == Column::Node).then(|| node.to_string());
    match command {
        FlowCommand::Add(args) => change(FlowCall::Pin, &added(args), &args.change, console),
        FlowCommand::Del(args) => change(FlowCall::Unpin, &args.name.record(|_| None), &args.change, console),
        FlowCommand::Move(args) => {
            change(FlowCall::Move, &args.name.record(at(args.at)), &args.change, console)
        }
        FlowCommand::Show(args) => show(args, console),
        FlowCommand::Import(args) => import::run(args, console, interrupt),
        FlowCommand::Export(args) => export::run(args, console, interrupt),
    }
}

fn added(args: &FlowAddArgs) -> FlowRecord {
    args.name.record(|column| match column {
        Column::Node => Some(args.at.to_string()),
        Column::BaseStation => Some(args.base_station.clone()),
        Column::UplinkTeid => Some(args.uplink_teid.clone()),
        Column::DownlinkTeid => Some(args.downlink_teid.clone()),
        Column::Qfi => args.qfi.clone(),
        _ => None,
    })
}

fn change(
    call: FlowCall,
    flow: &FlowRecord,
    args: &ChangeArgs,
    console: &Console,
) -> Result<u8, CommandError> {
    let answer = args.node.client()?.flows(call, std::slice::from_ref(flow), args.wait, false)?;
    tell_change(&answer, args, console, |answer| match (call, answer.absent) {
        (FlowCall::Unpin, 1..) => "the flow was not there".to_owned(),
        (_, _) => done(answer.is_applied),
    })?;
    Ok(code(args, answer.is_applied, console))
}

pub(super) fn tell_change<T: Serialize>(
    answer: &T,
    args: &ChangeArgs,
    console: &Console,
    words: impl FnOnce(&T) -> String,
) -> Result<(), CommandError> {
    tell(console, args.json, answer, words)
}

pub(super) fn done(is_applied: bool) -> String {
    if is_applied { "accepted, and applied by all living nodes".to_owned() } else { "accepted".to_owned() }
}

/// Whether what was waited for came.
pub(super) fn code(args: &ChangeArgs, is_applied: bool, console: &Console) -> u8 {
    if args.wait && !is_applied {
        console.error("not all living nodes have applied it yet; they will");
        return exit::FAILURE;
    }
    exit::SUCCESS
}

fn show(args: &FlowShowArgs, console: &Console) -> Result<u8, CommandError> {
    let flow: PinnedFlow = args.node.client()?.flow(&args.fields())?;
    tell(console, args.json, &flow, |flow| {
        let station = flow
            .base_station
            .map_or_else(|| "not in the configuration any more".to_owned(), |station| station.to_string());
        list(&[
            ("node", flow.node.to_string()),
            ("base station", station),
            ("uplink TEID", format!("{:#x}", flow.uplink_teid)),
            ("downlink TEID", format!("{:#x}", flow.downlink_teid)),
            ("QFI", flow.qfi.map_or_else(|| "none".to_owned(), |qfi| qfi.to_string())),
            ("downstream", carried(flow, |c| (c.downstream_packets, c.downstream_bytes))),
            ("upstream", carried(flow, |c| (c.upstream_packets, c.upstream_bytes))),
        ])
    })?;
    Ok(exit::SUCCESS)
}

/// Packets and bytes of one direction, in words.
fn carried(flow: &PinnedFlow, pick: impl Fn(&Carried) -> (u64, u64)) -> String {
    flow.carried.as_ref().map(pick).map_or_else(
        || "its node does not say".to_owned(),
        |(packets, bytes)| format!("{} packets, {} bytes", count(packets), count(bytes)),
    )
}

/// What calls with flows came to, for a reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) accepted: u64,
    pub(super) unapplied: u64,
}

impl Sum {
    pub(super) const fn add(&mut self, answer: &FlowsAccepted) {
        self.accepted += answer.accepted;
        if !answer.is_applied {
            self.unapplied += answer.accepted;
        }
    }
}
