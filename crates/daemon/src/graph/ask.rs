//! `scalebricks graph show`, `read`, `write` and `reload`: what a run is asked.

use super::GraphError;
use super::args::{Reach, ReadArgs, ReloadArgs, ShowArgs, WriteArgs};
use comfy_table::{Cell, CellAlignment, Table, presets};
use scalebricks_admin::client::sockets::Daemon;
use scalebricks_admin::client::{Client, ClientError};
use scalebricks_admin::commands::{list, tell};
use scalebricks_admin::model::{ElementView, GraphView, LinkView, ReplacedView};
use scalebricks_console::quantity::count;
use scalebricks_console::{Console, status};
use std::collections::BTreeMap;

impl Reach {
    fn client(&self) -> Result<Client, ClientError> {
        self.remote.client(self.socket.as_deref(), Daemon::Graph)
    }
}

/// Shows the elements of a run, or one of them.
pub(super) fn show(args: &ShowArgs, console: &Console) -> Result<u8, GraphError> {
    let client = args.reach.client()?;
    match &args.element {
        None => tell(console, args.json, &client.graph(args.worker)?, graph)?,
        Some(name) => tell(console, args.json, &client.element(name, args.worker)?, element)?,
    }
    Ok(status::SUCCESS)
}

/// Tells what a read handler answers.
pub(super) fn read(args: &ReadArgs, console: &Console) -> Result<u8, GraphError> {
    let (element, handler) = &args.handler;
    let client = args.reach.client()?;
    let answer = client.read_handler(element, handler, &args.parameter.join(" "), args.worker)?;
    if let (Some(worker), None) = (answer.worker, args.worker) {
        console.note(&format!("of worker {worker}; --worker asks another"));
    }
    console.result(answer.value.trim_end_matches('\n'))?;
    Ok(status::SUCCESS)
}

/// Gives a write handler a value.
pub(super) fn write(args: &WriteArgs) -> Result<u8, GraphError> {
    let (element, handler) = &args.handler;
    args.reach.client()?.write_handler(element, handler, &args.value.join(" "))?;
    Ok(status::SUCCESS)
}

/// Has another configuration run.
pub(super) fn reload(args: &ReloadArgs, console: &Console) -> Result<u8, GraphError> {
    let text = |path: &std::path::PathBuf| {
        let text = std::fs::read(path).map_err(|error| GraphError::Read { path: path.clone(), error })?;
        Ok::<_, GraphError>((path.display().to_string(), text))
    };
    let with = args.file.as_ref().map(text).transpose()?;
    let with = with.as_ref().map(|(name, text)| (name.as_str(), text.clone()));
    let ReplacedView { elements, connections, replacements } = args.reach.client()?.replace_graph(with)?;
    console.result(&format!(
        "{elements} elements, {connections} connections; replaced {} until now",
        times(replacements)
    ))?;
    Ok(status::SUCCESS)
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn counts(all: &BTreeMap<String, u64>) -> String {
    let happened = all.iter().filter(|(_, value)| **value > 0);
    happened.map(|(name, value)| format!("{name} {}", count(*value))).collect::<Vec<_>>().join("\n")
}

fn links(all: &[LinkView], arrow: &str) -> String {
    let link = |link: &LinkView| {
        format!("[{}] {arrow} {} [{}], {}", link.port, link.element, link.other_port, link.flow)
    };
    all.iter().map(link).collect::<Vec<_>>().join("\n")
}

fn graph(view: &GraphView) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["element", "class", "packets", "counters", "dropped"]);
    let former = view
        .former
        .iter()
        .map(|one| (format!("{} (gone)", one.name), &one.class, &one.counters, &one.dropped));
    let elements =
        view.elements.iter().map(|one| (one.name.clone(), &one.class, &one.counters, &one.dropped));
    for (name, class, counters, dropped) in elements.chain(former) {
        let mut own = counters.clone();
        own.retain(|name, _| !matches!(name.as_str(), "packets" | "batches"));
        let packets = counters.get("packets").map_or_else(String::new, |packets| count(*packets));
        table.add_row([
            Cell::new(name),
            Cell::new(class),
            Cell::new(packets).set_alignment(CellAlignment::Right),
            Cell::new(counts(&own)),
            Cell::new(counts(dropped)),
        ]);
    }
    let facts = list(&[
        ("file", view.file.clone()),
        ("up for", format!("{:.0} s", view.uptime_s)),
        ("workers", view.workers.to_string()),
        ("replaced", if view.is_replaceable { times(view.replacements) } else { "never".to_owned() }),
    ]);
    format!("{facts}\n{table}")
}

fn element(view: &ElementView) -> String {
    let facts = [
        ("element", view.name.clone()),
        ("class", view.class.clone()),
        ("configuration", view.configuration.clone()),
        ("inputs", links(&view.inputs, "<-")),
        ("outputs", links(&view.outputs, "->")),
        ("counters", counts(&view.counters)),
        ("dropped", counts(&view.dropped)),
    ];
    let facts: Vec<_> = facts.into_iter().filter(|(_, what)| !what.is_empty()).collect();
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["handler", "access", "meaning"]);
    for handler in &view.handlers {
        let access = match (handler.reads, handler.writes) {
            (true, true) => "read, write",
            (true, false) => "read",
            (false, _) => "write",
        };
        table.add_row([&handler.name, access, &handler.doc]);
    }
    format!("{}\n{table}", list(&facts))
}
