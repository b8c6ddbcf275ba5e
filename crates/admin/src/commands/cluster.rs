//! `scalebricks cluster`: shows the cluster, and drains, forgets and verifies nodes.

use super::cluster_args::{ClusterCommand, ClusterDrainArgs, StandbyArg};
use super::flow::{code, done};
use super::{CommandError, list, right, show, status, table, trimmed, verify};
use crate::model::{ClusterView, MemberView};
use comfy_table::Cell;
use scalebricks_cluster::repins::RepinNotice;
use scalebricks_console::quantity::count;
use scalebricks_console::{Console, Interrupt};
use std::time::{SystemTime, UNIX_EPOCH};

/// `scalebricks cluster`.
///
/// # Errors
/// [`CommandError`].
pub fn cluster(
    command: &ClusterCommand,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<u8, CommandError> {
    match command {
        ClusterCommand::Status(args) => show(console, args.json, &args.node()?.cluster()?, render),
        ClusterCommand::Drain(args) => drain(args, console),
        ClusterCommand::Undrain(args) => {
            let answer = args.ask.node()?.undrain(args.number)?;
            show(console, args.ask.json, &answer, |answer| {
                format!("node {} may get flows again", answer.node)
            })
        }
        ClusterCommand::Forget(args) => {
            let answer = args.ask.node()?.forget(args.number)?;
            show(console, args.ask.json, &answer, |answer| format!("node {} is given up", answer.node))
        }
        ClusterCommand::Standby(args) => {
            let answer = args.ask.node()?.set_standby(args.of, args.to.one())?;
            show(console, args.ask.json, &answer, |answer| {
                let to = match args.to {
                    StandbyArg::All => "all others".to_owned(),
                    StandbyArg::One(one) => format!("node {one}"),
                };
                format!("when node {} dies or is drained, its flows go to {to}", answer.node)
            })
        }
        ClusterCommand::Verify(args) => verify::run(args, console, interrupt),
    }
}

fn render(view: &ClusterView) -> String {
    let caught_up = if view.has_caught_up { "caught up" } else { "not caught up yet" };
    let mut rows = vec![
        ("asked", format!("node {} of up to {}, {caught_up}", view.node, view.nodes)),
        ("key", view.key.clone()),
        ("epoch", view.epoch.to_string()),
        ("flows", count(view.flows)),
    ];
    if !view.unowned_partitions.is_empty() {
        rows.push(("unowned", format!("{} partitions", view.unowned_partitions.len())));
    }
    let is_member = |node: u16| view.members.iter().any(|member| member.node == node);
    let absent: Vec<String> =
        view.drained.iter().filter(|node| !is_member(**node)).map(u16::to_string).collect();
    if !absent.is_empty() {
        rows.push(("drained", format!("{}, never seen", absent.join(", "))));
    }
    let mut members = table(["node", "state", "life", "partitions owned", "flows go to"]);
    for member in &view.members {
        let MemberView { node, life, .. } = *member;
        let standby =
            view.standbys.iter().find(|standby| standby.node == node).and_then(|standby| standby.to);
        members.add_row(vec![
            right(node),
            Cell::new(state(member, view)),
            right(life),
            right(member.partitions.len()),
            Cell::new(standby.map_or_else(|| "all".to_owned(), |to| format!("node {to}"))),
        ]);
    }
    let mut parts = vec![list(&rows), trimmed(&members)];
    if !view.repins.is_empty() {
        parts.push(repins(&view.repins));
    }
    parts.join("\n\n")
}

fn state(member: &MemberView, view: &ClusterView) -> String {
    let mut state = if member.is_alive { "alive" } else { "dead" }.to_owned();
    if view.drained.contains(&member.node) {
        state.push_str(", drained");
    }
    if !member.suspended_for.is_empty() {
        state = format!("{state}, unfit ({})", member.suspended_for.join(", "));
    }
    state
}

/// The moves of a node's flows to others, the newest first.
fn repins(repins: &[RepinNotice]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut table = table(["node", "life", "why", "keys", "went to", "when"]);
    for repin in repins.iter().rev() {
        let heirs: Vec<String> = repin.heirs.iter().map(u16::to_string).collect();
        // Clocks of machines differ: times in the future count as now.
        let age_s = now.as_secs_f64() - repin.at_unix_ms as f64 / 1_000.0;
        table.add_row(vec![
            right(repin.node),
            right(repin.life),
            Cell::new(repin.cause.name()),
            right(repin.keys.map_or_else(|| "unknown".to_owned(), count)),
            Cell::new(heirs.join(", ")),
            right(format!("{} ago", status::time(age_s.max(0.0)))),
        ]);
    }
    trimmed(&table)
}

fn drain(args: &ClusterDrainArgs, console: &Console) -> Result<u8, CommandError> {
    let (change, drained) = (&args.change, args.drained);
    let answer = change.ask.node()?.drain(drained, change.wait)?;
    show(console, change.ask.json, &answer, |answer| {
        let heirs: Vec<String> = answer.heirs.iter().map(u16::to_string).collect();
        let done = done(answer.is_applied);
        format!("node {drained} gets no new flows, its flows move to {}: {done}", heirs.join(", "))
    })?;
    Ok(code(change, answer.is_applied, console))
}
