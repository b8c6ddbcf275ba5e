//! `scalebricks router status`, `routes`, `next-hops` and `links`.

use super::args::RoutesArgs;
use scalebricks_admin::client::sockets::Daemon;
use scalebricks_admin::commands::{AskArgs, CommandError, StatsArgs, list, show, table, trimmed, watch};
use scalebricks_admin::model::router::{
    FeederView, LinkView, NextHopView, RouterView, RoutesRequest, RoutesView,
};
use scalebricks_console::quantity::{bytes, count};
use scalebricks_console::{Console, Interrupt};
use std::fmt::Write;

/// `scalebricks router status`.
///
/// # Errors
/// [`CommandError`].
pub fn status(args: &StatsArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, CommandError> {
    let client = args.ask.reach.client(Daemon::Router)?;
    watch(args, || client.router(), |view, _| render(view), console, interrupt)
}

/// `scalebricks router routes`.
///
/// # Errors
/// [`CommandError`].
pub fn routes(args: &RoutesArgs, console: &Console) -> Result<u8, CommandError> {
    let RoutesArgs { address, after, limit, ask } = args;
    let asked = RoutesRequest { address: address.clone(), after: after.clone(), limit: Some(*limit) };
    let view = ask.reach.client(Daemon::Router)?.routes(&asked)?;
    show(console, ask.json, &view, render_routes)
}

/// `scalebricks router next-hops`.
///
/// # Errors
/// [`CommandError`].
pub fn next_hops(ask: &AskArgs, console: &Console) -> Result<u8, CommandError> {
    let view = ask.reach.client(Daemon::Router)?.next_hops()?;
    show(console, ask.json, &view, |view| render_next_hops(view))
}

/// `scalebricks router links`.
///
/// # Errors
/// [`CommandError`].
pub fn links(ask: &AskArgs, console: &Console) -> Result<u8, CommandError> {
    let view = ask.reach.client(Daemon::Router)?.links()?;
    show(console, ask.json, &view, |view| render_links(view))
}

fn numbers(nodes: &[u8]) -> String {
    nodes.iter().map(u8::to_string).collect::<Vec<_>>().join(" ")
}

fn render(view: &RouterView) -> String {
    let ready = if view.is_ready { "" } else { ", without all routes of the log" };
    let mut facts = vec![
        ("node", format!("{} of {}, {}", view.node, view.nodes, view.steering)),
        ("state", format!("{}{ready}", view.state.name())),
        ("up for", format!("{:.0} s", view.uptime_s)),
        ("nodes alive", numbers(&view.alive)),
        ("prefixes", count(view.prefixes)),
        ("routes in tables", format!("{} IPv4, {} IPv6", count(view.routes_ipv4), count(view.routes_ipv6))),
        (
            "next hops",
            format!(
                "{} of all nodes, {} here, {} of them with a MAC address",
                count(view.next_hops),
                count(view.own_next_hops),
                count(view.resolved_next_hops)
            ),
        ),
        ("memory", format!("{} for lookups", bytes(view.table_bytes))),
        ("log", format!("entry {}", view.position)),
    ];
    if view.walks > 0 {
        let walks = format!("{}, the last in {} ms", count(view.walks), view.last_walk_ms);
        facts.push(("changes of living nodes", walks));
    }
    let problems = [
        ("routes in no table", view.missing_routes),
        ("announcements refused, too many prefixes", view.refused_prefixes),
        ("announcements refused, too many next hops", view.refused_next_hops),
    ];
    facts
        .extend(problems.into_iter().filter(|(_, count)| *count > 0).map(|(name, many)| (name, count(many))));
    if let Some(fault) = &view.fault {
        facts.push(("log", format!("cannot be read: {fault}")));
    }
    let feeders: Vec<String> = view.feeders.iter().map(feeder).collect();
    format!("{}\n{}", list(&facts), feeders.concat())
}

fn feeder(feeder: &FeederView) -> String {
    let FeederView { name, state, routes, unresolved, logged, .. } = feeder;
    let mut text = format!("{name}: {state}, {} routes, {} records logged", count(*routes), count(*logged));
    if *unresolved > 0 {
        let _memory = write!(text, ", {} next hops in no network of a port", count(*unresolved));
    }
    if feeder.surplus > 0 {
        let _memory = write!(text, ", {} paths too many", count(feeder.surplus));
    }
    for (kind, many) in feeder.messages.iter().filter(|(_, many)| **many > 0) {
        let _memory = write!(text, "\n  {} {}", count(*many), kind.replace('_', " "));
    }
    for (what, error) in [("last unreadable message", &feeder.last_error), ("cannot work", &feeder.fault)] {
        if let Some(error) = error {
            let _memory = write!(text, "\n  {what}: {error}");
        }
    }
    text + "\n"
}

fn render_routes(view: &RoutesView) -> String {
    let mut table = table(["prefix", "", "via", "node", "port", "number", "preference", "source"]);
    for route in &view.routes {
        for (at, path) in route.paths.iter().enumerate() {
            let prefix = if at == 0 { route.prefix.clone() } else { String::new() };
            let mark = if path.is_selected { "*" } else { "" };
            table.add_row([
                prefix,
                mark.to_owned(),
                path.next_hop.clone().unwrap_or_else(|| "on the link".to_owned()),
                path.node.to_string(),
                path.port.to_string(),
                path.number.to_string(),
                path.preference.to_string(),
                path.feeder.clone(),
            ]);
        }
    }
    let more = match view.routes.last() {
        None => "\nno route",
        Some(_) if view.has_more => "\nand more: continue with --after and the last prefix",
        Some(_) => "",
    };
    trimmed(&table) + more
}

fn render_next_hops(hops: &[NextHopView]) -> String {
    let mut table = table(["number", "port", "address", "MAC address"]);
    for NextHopView { number, port, address, mac } in hops {
        let mac = mac.clone().unwrap_or_else(|| "not known yet".to_owned());
        table.add_row([number.to_string(), port.to_string(), address.clone(), mac]);
    }
    trimmed(&table)
}

fn render_links(links: &[LinkView]) -> String {
    let mut table = table(["node", "device", "link", "node is reachable", "it reaches"]);
    for LinkView { node, device, is_up, is_reachable, reaches } in links {
        let word = |is: bool, yes: &str, no: &str| if is { yes.to_owned() } else { no.to_owned() };
        let (up, reachable) = (word(*is_up, "up", "down"), word(*is_reachable, "yes", "no"));
        table.add_row([node.to_string(), device.clone(), up, reachable, numbers(reaches)]);
    }
    trimmed(&table)
}
