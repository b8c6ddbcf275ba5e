//! `scalebricks flow`: adds, deletes, moves and shows single flows.

use super::flow_args::{ChangeArgs, FlowCommand, FlowShowArgs};
use super::{CommandError, export, import, list};
use crate::client::FlowCall;
use crate::flow_list::columns::Cell;
use crate::model::{Carried, FlowRecord, FlowsAccepted, PinnedFlow};
use scalebricks_console::quantity::count;
use scalebricks_console::{Console, Interrupt, status as exit};

/// `scalebricks flow`.
///
/// # Errors
/// [`CommandError`].
pub fn flow(command: &FlowCommand, console: &Console, interrupt: &Interrupt) -> Result<u8, CommandError> {
    match command {
        FlowCommand::Add(args) => {
            let flow = FlowRecord {
                node: Cell::Value(args.at.into()),
                base_station: Cell::parse(&args.base_station),
                uplink_teid: Cell::parse(&args.uplink_teid),
                downlink_teid: Cell::parse(&args.downlink_teid),
                qfi: args.qfi.as_ref().into(),
                ..args.name.record()
            };
            change(FlowCall::Pin, &flow, &args.change, console)
        }
        FlowCommand::Del(args) => change(FlowCall::Unpin, &args.name.record(), &args.change, console),
        FlowCommand::Move(args) => {
            let flow = FlowRecord { node: Cell::Value(args.at.into()), ..args.name.record() };
            change(FlowCall::Move, &flow, &args.change, console)
        }
        FlowCommand::Show(args) => show(args, console),
        FlowCommand::Import(args) => import::run(args, console, interrupt),
        FlowCommand::Export(args) => export::run(args, console, interrupt),
    }
}

fn change(
    call: FlowCall,
    flow: &FlowRecord,
    args: &ChangeArgs,
    console: &Console,
) -> Result<u8, CommandError> {
    let answer = args.ask.node()?.flows(call, std::slice::from_ref(flow), args.wait, false)?;
    super::show(console, args.ask.json, &answer, |answer| match (call, answer.absent) {
        (FlowCall::Unpin, 1..) => "the flow did not exist".to_owned(),
        (_, _) => done(answer.is_applied),
    })?;
    Ok(code(args, answer.is_applied, console))
}

pub(super) fn done(is_applied: bool) -> String {
    if is_applied { "accepted, and applied by all living nodes".to_owned() } else { "accepted".to_owned() }
}

/// The exit status of a call that may have waited.
pub(super) fn code(args: &ChangeArgs, is_applied: bool, console: &Console) -> u8 {
    if args.wait && !is_applied {
        console.error("not all living nodes have applied the change yet; they will");
        return exit::FAILURE;
    }
    exit::SUCCESS
}

fn show(args: &FlowShowArgs, console: &Console) -> Result<u8, CommandError> {
    let flow = args.ask.node()?.flow(&args.record())?;
    super::show(console, args.ask.json, &flow, |flow| {
        let station = flow
            .base_station
            .map_or_else(|| "not in the configuration".to_owned(), |station| station.to_string());
        list(&[
            ("node", flow.node.to_string()),
            ("base station", station),
            ("uplink TEID", format!("{:#x}", flow.uplink_teid)),
            ("downlink TEID", format!("{:#x}", flow.downlink_teid)),
            ("QFI", flow.qfi.map_or_else(|| "none".to_owned(), |qfi| qfi.to_string())),
            ("downstream", carried(flow, |c| (c.downstream_packets, c.downstream_bytes))),
            ("upstream", carried(flow, |c| (c.upstream_packets, c.upstream_bytes))),
        ])
    })
}

/// Packets and bytes of one direction, as text.
fn carried(flow: &PinnedFlow, pick: impl Fn(&Carried) -> (u64, u64)) -> String {
    flow.carried.as_ref().map(pick).map_or_else(
        || "not reported by its node".to_owned(),
        |(packets, bytes)| format!("{} packets, {} bytes", count(packets), count(bytes)),
    )
}

/// The sum of several calls.
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
