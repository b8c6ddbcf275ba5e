//! `scalebricks graph show`, `read`, `write` and `reload`: commands that ask a run.

use super::args::{ReadArgs, ReloadArgs, ShowArgs, WriteArgs};
use super::report::{elements_table, nonzero};
use crate::error::ProcessError;
use scalebricks_admin::client::sockets::Daemon;
use scalebricks_admin::commands::{self, list, table, trimmed};
use scalebricks_admin::model::{ElementCounts, ElementView, GraphView, LinkView, ReplacedView};
use scalebricks_console::{Console, status};

/// Shows the elements of a run, or one of them.
pub(super) fn show(args: &ShowArgs, console: &Console) -> Result<u8, ProcessError> {
    let client = args.ask.reach.client(Daemon::Graph)?;
    Ok(match &args.element {
        None => commands::show(console, args.ask.json, &client.graph(args.worker)?, graph)?,
        Some(name) => commands::show(console, args.ask.json, &client.element(name, args.worker)?, element)?,
    })
}

/// Shows the value of a read handler.
pub(super) fn read(args: &ReadArgs, console: &Console) -> Result<u8, ProcessError> {
    let (element, handler) = &args.handler;
    let client = args.reach.client(Daemon::Graph)?;
    let answer = client.read_handler(element, handler, &args.parameter.join(" "), args.worker)?;
    if let (Some(worker), None) = (answer.worker, args.worker) {
        console.note(&format!("of worker {worker}; --worker asks another"));
    }
    console.result(answer.value.trim_end_matches('\n'))?;
    Ok(status::SUCCESS)
}

/// Sets the value of a write handler.
pub(super) fn write(args: &WriteArgs) -> Result<u8, ProcessError> {
    let (element, handler) = &args.handler;
    args.reach.client(Daemon::Graph)?.write_handler(element, handler, &args.value.join(" "))?;
    Ok(status::SUCCESS)
}

/// Replaces the configuration of a run.
pub(super) fn reload(args: &ReloadArgs, console: &Console) -> Result<u8, ProcessError> {
    let text = |path: &std::path::PathBuf| {
        let text = std::fs::read(path).map_err(|error| ProcessError::File { path: path.clone(), error })?;
        Ok::<_, ProcessError>((path.display().to_string(), text))
    };
    let with = args.file.as_ref().map(text).transpose()?;
    let with = with.as_ref().map(|(name, text)| (name.as_str(), text.clone()));
    let ReplacedView { elements, connections, replacements } =
        args.reach.client(Daemon::Graph)?.replace_graph(with)?;
    console.result(&format!(
        "{elements} elements, {connections} connections; replaced {} until now",
        times(replacements)
    ))?;
    Ok(status::SUCCESS)
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn links(all: &[LinkView], arrow: &str) -> String {
    let link = |link: &LinkView| {
        format!("[{}] {arrow} {} [{}], {}", link.port, link.element, link.other_port, link.flow)
    };
    all.iter().map(link).collect::<Vec<_>>().join("\n")
}

fn graph(view: &GraphView) -> String {
    let counts = |one: &ElementView| ElementCounts {
        name: one.name.clone(),
        class: one.class.clone(),
        counters: one.counters.clone(),
        dropped: one.dropped.clone(),
    };
    let former =
        view.former.iter().map(|one| ElementCounts { name: format!("{} (gone)", one.name), ..one.clone() });
    let elements: Vec<ElementCounts> = view.elements.iter().map(counts).chain(former).collect();
    let facts = list(&[
        ("file", view.file.clone()),
        ("up for", format!("{:.0} s", view.uptime_s)),
        ("workers", view.workers.to_string()),
        ("replaced", if view.is_replaceable { times(view.replacements) } else { "never".to_owned() }),
    ]);
    format!("{facts}\n{}", elements_table(&elements))
}

fn element(view: &ElementView) -> String {
    let facts = [
        ("element", view.name.clone()),
        ("class", view.class.clone()),
        ("configuration", view.configuration.clone()),
        ("inputs", links(&view.inputs, "<-")),
        ("outputs", links(&view.outputs, "->")),
        ("counters", nonzero(&view.counters)),
        ("dropped", nonzero(&view.dropped)),
    ];
    let facts: Vec<_> = facts.into_iter().filter(|(_, what)| !what.is_empty()).collect();
    let mut table = table(["handler", "access", "meaning"]);
    for handler in &view.handlers {
        let access = match (handler.reads, handler.writes) {
            (true, true) => "read, write",
            (true, false) => "read",
            (false, _) => "write",
        };
        table.add_row([&handler.name, access, &handler.doc]);
    }
    format!("{}\n{}", list(&facts), trimmed(&table))
}
