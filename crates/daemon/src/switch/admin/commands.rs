//! `scalebricks switch status` and `scalebricks switch names`.

use super::super::ports_table::ports_table;
use super::args::{NamesCommand, OneArgs};
use scalebricks_admin::client::sockets::Daemon;
use scalebricks_admin::commands::{CommandError, ReachArgs, StatsArgs, list, show, watch};
use scalebricks_admin::model::switch::{Change, ChangeView, ChangedView, FoundView, SwitchView};
use scalebricks_console::quantity::{bytes, count};
use scalebricks_console::{Console, Interrupt, status as exit};
use std::io::{self, ErrorKind, Write};
use std::time::Duration;

/// `scalebricks switch status`.
///
/// # Errors
/// [`CommandError`].
pub fn status(args: &StatsArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, CommandError> {
    let client = args.ask.reach.client(Daemon::Switch)?;
    watch(args, || client.switch(), render, console, interrupt)
}

/// `scalebricks switch names`.
///
/// # Errors
/// [`CommandError`].
pub fn names(command: &NamesCommand, console: &Console) -> Result<u8, CommandError> {
    match command {
        NamesCommand::Add(args) => change(&args.reach, &[one(Change::Add, args)], console),
        NamesCommand::Alter(args) => change(&args.reach, &[one(Change::Alter, args)], console),
        NamesCommand::Remove(args) => {
            let gone = |name: &String| ChangeView { op: Change::Remove, name: name.clone(), action: None };
            change(&args.reach, &args.names.iter().map(gone).collect::<Vec<_>>(), console)
        }
        NamesCommand::List(reach) => {
            let mut out = io::stdout().lock();
            reach.client(Daemon::Switch)?.names(|bytes| match out.write_all(bytes) {
                // The reader has closed the pipe.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
                written => written.map(|()| true),
            })?;
            Ok(exit::SUCCESS)
        }
        NamesCommand::Lookup(args) => {
            let found = args.ask.reach.client(Daemon::Switch)?.look_name_up(&args.name)?;
            show(console, args.ask.json, &found, found_words)
        }
    }
}

fn one(op: Change, args: &OneArgs) -> ChangeView {
    ChangeView { op, name: args.name.clone(), action: Some(args.action.join(" ")) }
}

fn change(reach: &ReachArgs, changes: &[ChangeView], console: &Console) -> Result<u8, CommandError> {
    let done = reach.client(Daemon::Switch)?.change_names(changes)?;
    console.result(&done_words(&done))?;
    Ok(exit::SUCCESS)
}

fn done_words(done: &ChangedView) -> String {
    let ChangedView { added, altered, removed, position } = done;
    let place = position.map_or_else(String::new, |position| format!("; entry {position} of the log"));
    format!("{added} added, {altered} altered, {removed} removed{place}")
}

fn found_words(found: &FoundView) -> String {
    let none = || "none".to_owned();
    let answer = match (&found.answer, found.is_alien) {
        (Some(answer), false) => answer.clone(),
        (Some(answer), true) => format!("{answer} (the name is unknown)"),
        (None, _) => "the name is unknown".to_owned(),
    };
    list(&[
        ("name", found.name.clone()),
        ("action", found.action.clone().unwrap_or_else(none)),
        ("the table answers", answer),
    ])
}

fn render(view: &SwitchView, before: Option<&SwitchView>) -> String {
    let source = view.position.map_or_else(
        || format!("a {}", view.source),
        |position| format!("a {}, entry {position}", view.source),
    );
    let mut facts = vec![
        ("switch by", format!("{}, names from {source}", view.kind)),
        ("state", view.state.name().to_owned()),
        ("up for", format!("{:.0} s", view.uptime_s)),
        ("names", count(view.names)),
        (
            "actions",
            format!(
                "{}, {} value bits, {} check bits",
                count(view.actions),
                view.value_bits,
                view.check_bits
            ),
        ),
        (
            "memory",
            format!("{} for lookups, {} beside it", bytes(view.table_bytes), bytes(view.control_bytes)),
        ),
    ];
    if let Some(fault) = &view.fault {
        facts.push(("log", format!("cannot be read: {fault}")));
    }
    let before = before.map(|before| {
        let time = Duration::try_from_secs_f64(view.uptime_s - before.uptime_s).unwrap_or_default();
        (&before.ports[..], time)
    });
    format!("{}\n{}", list(&facts), ports_table(&view.ports, before))
}
