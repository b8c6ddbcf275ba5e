//! Plans as text.

use crate::figure3::{Figure3, Servers, Switched};
use crate::flows;
use crate::rate::bits_per_second;
use crate::router::{Estimate, Inputs, LinkRule, Plan};
use crate::topology::{Reading, Topology};
use comfy_table::{CellAlignment, Table, presets};
use scalebricks_console::quantity::count;
use std::fmt::Write;

/// A table as Markdown. The first column is aligned to the left, the others to the right.
fn markdown(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(head).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// An amount rounded to a whole number.
fn amount(value: f64) -> String {
    #[expect(clippy::cast_sign_loss, reason = "amounts are at least 0; the cast saturates")]
    let whole = value.round() as u64;
    count(whole)
}

/// A topology's name.
fn name(topology: &Topology) -> String {
    match topology {
        Topology::FullMesh => "full mesh".to_owned(),
        Topology::NFly { reading, radices } => {
            let most = radices.iter().max().copied().unwrap_or_default();
            let how = match reading {
                Reading::OnePass => "one random hop, then digits",
                Reading::TwoPhases => "two phases, own columns",
                Reading::SharedColumns => "two phases, shared columns",
            };
            format!("{most}-ary {}-fly, {how}", radices.len())
        }
    }
}

fn range<T: PartialEq + ToString>((low, high): (T, T)) -> String {
    if low == high { low.to_string() } else { format!("{} to {}", low.to_string(), high.to_string()) }
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// Shows a quantity of a layout.
type Show = fn(&Estimate) -> String;

fn estimates(estimates: &[&Estimate]) -> String {
    let mut head = vec!["quantity".to_owned()];
    head.extend(estimates.iter().map(|estimate| name(&estimate.layout.topology)));
    let quantities: [(&str, Show); 17] = [
        ("servers", |e| count(e.servers)),
        ("servers with ports", |e| count(e.layout.port_servers)),
        ("intermediate servers", |e| count(e.layout.intermediate_servers)),
        ("load of a server, worst case", |e| bits_per_second(e.server_demand_bits_per_second)),
        ("links", |e| count(e.layout.links)),
        ("demand of a link, at most", |e| bits_per_second(e.layout.link_demand_bits_per_second)),
        ("lanes per link, at most", |e| count(e.layout.lanes_per_link)),
        ("cables", |e| count(e.layout.cables)),
        ("internal ports needed per server", |e| {
            count(e.layout.port_server_lanes.max(e.layout.intermediate_server_lanes))
        }),
        ("the servers have these ports", |e| yes(e.fits_ports)),
        ("100 % throughput guaranteed", |e| yes(e.layout.is_guaranteed)),
        ("network cards", |e| count(e.nics)),
        ("cost (US$)", |e| amount(e.cost_usd)),
        ("power (W)", |e| amount(e.power_watts)),
        ("rack units", |e| amount(e.rack_units)),
        ("servers on a path", |e| range(e.layout.path_servers)),
        ("latency without queues (us)", |e| range(e.latency_us)),
    ];
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    markdown(
        &head,
        quantities.iter().map(|(quantity, show)| {
            let values = estimates.iter().map(|estimate| show(estimate));
            std::iter::once((*quantity).to_owned()).chain(values).collect()
        }),
    )
}

fn assumptions(inputs: &Inputs, fanout: u64) -> Vec<String> {
    let parts = &inputs.parts;
    let external = inputs.external_nic.map_or_else(
        || "external ports are on the same cards as internal links".to_owned(),
        |nic| format!("external ports have cards of their own, {nic}"),
    );
    let limit = inputs.server_rate.map_or_else(
        || "no limit of a server's rate was given, so that servers keep up is not checked".to_owned(),
        |limit| format!("a server can process {limit}, by input"),
    );
    vec![
        format!(
            "{} ports of {}, {} per server, full duplex; {external}",
            count(inputs.ports),
            inputs.rate,
            inputs.ports_per_server
        ),
        format!("{} cards of {} per server leave {} internal ports", inputs.nics, inputs.nic, count(fanout)),
        match inputs.link_rule {
            LinkRule::Safe => "mesh links carry 3 s R / servers, which suffices for Direct VLB".to_owned(),
            LinkRule::Paper => {
                "mesh links carry 2 s R / servers: enough for classic VLB, but an admissible traffic matrix \
                                loads a link of Direct VLB with 3 s R / servers"
                    .to_owned()
            }
        },
        format!("a server processes up to 3 s R: input, output, intermediate; {limit}"),
        format!(
            "a server costs US$ {}, takes {} W and {} rack units, and delays a packet by {} us",
            parts.server_usd, parts.server_watts, parts.server_rack_units, parts.server_latency_us
        ),
        format!("a card costs US$ {} and a cable US$ {}", parts.nic_usd, parts.cable_usd),
        "defaults of price, power, latency and size are the paper's of 2009, not today's".to_owned(),
        "each lane is a port of a card with a cable of its own; spare servers are not planned".to_owned(),
        "traffic is admissible: no input sends and no output receives more than R".to_owned(),
    ]
}

/// A plan as text.
pub fn plan(plan: &Plan) -> String {
    let mut text = format!("Recommended: {}\n\n", name(&plan.recommended.layout.topology));
    let mut all = vec![&plan.recommended];
    all.extend(&plan.by_the_paper);
    text += &estimates(&all);
    if let Topology::NFly { radices, .. } = &plan.recommended.layout.topology {
        let radices: Vec<_> = radices.iter().map(u32::to_string).collect();
        let _ = write!(
            text,
            "\nNo full mesh fits. The recommended fly has {} rows of servers with ports; its hops have {} choices. The other \
             columns count ports as the paper does, k = {}: one port for a link out and another link in. With a cable \
             per link they need the ports shown.\n",
            count(plan.recommended.layout.port_servers),
            radices.join(", "),
            count(plan.fanout),
        );
    } else if plan.recommended.layout.port_servers > plan.inputs.port_servers() {
        let _ = write!(
            text,
            "\nThe mesh has {} servers more than the ports need: lanes come whole, and with fewer servers they do not fit.\n",
            count(plan.recommended.layout.port_servers - plan.inputs.port_servers()),
        );
    }
    text += "\nAssumptions\n";
    for assumption in assumptions(&plan.inputs, plan.fanout) {
        let _ = writeln!(text, "- {assumption}");
    }
    text
}

/// Servers by both readings, and the topology.
fn servers(servers: Servers) -> String {
    match servers.n {
        None => format!("{} mesh", count(servers.one_pass)),
        Some(n) if servers.one_pass == servers.two_phases => format!("{} {n}-fly", count(servers.one_pass)),
        Some(n) => format!("{} ({}) {n}-fly", count(servers.one_pass), count(servers.two_phases)),
    }
}

/// The rows of Figure 3 as Markdown.
pub fn figure3_servers(figure: &Figure3) -> String {
    markdown(
        &[
            "N",
            "s = 1, 5 cards",
            "s = 1, 20 cards",
            "s = 2, 20 cards",
            "switched, by port",
            "switched, whole",
        ],
        figure.rows.iter().map(|row| {
            let mut cells = vec![count(row.ports)];
            cells.extend(row.configurations.map(servers));
            cells.extend([count(row.switched.by_port), count(row.switched.by_switch)]);
            cells
        }),
    )
}

/// The mesh limits as Markdown.
pub fn figure3_limits(figure: &Figure3) -> String {
    markdown(
        &["configuration", "in the paper's text", "by its rule", "of the figure's powers of two"],
        figure.mesh_limits.iter().map(|limit| {
            let configuration = limit.configuration;
            vec![
                format!("s = {}, {} cards", configuration.ports_per_server, configuration.nics),
                count(configuration.mesh_limit_in_text),
                count(limit.by_rule),
                count(limit.by_rule_power_of_two),
            ]
        }),
    )
}

/// Figure 3 as text.
pub fn figure3(figure: &Figure3) -> String {
    let cheaper = |index, cost: fn(Switched) -> u64| {
        let ports = figure.cheaper_switched(index, cost);
        ports.into_iter().map(count).collect::<Vec<_>>().join(", ")
    };
    format!(
        "Servers for N ports of 10 Gb/s (switches in the price of servers, $2,000; a switch port costs $500)\n\n{}\n\
         In brackets: servers with both phases of VLB, where they differ. k counts ports as the paper does.\n\n\
         Largest N of a full mesh\n\n{}\n\
         The text's limit of the third configuration contradicts the rule N/s - 1 <= fanout. Its 2,048 is probably the end of \
         the plotted range.\n\n\
         The paper says that switches always cost more. If switches are paid by port, this fails for the first configuration \
         at N = {} and for the second at N = {}; if each switch is bought whole, at N = {} and {}.\n",
        figure3_servers(figure),
        figure3_limits(figure),
        cheaper(0, |switched| switched.by_port),
        cheaper(1, |switched| switched.by_port),
        cheaper(0, |switched| switched.by_switch),
        cheaper(1, |switched| switched.by_switch),
    )
}

/// Where the paper's own measurements differ from its formula.
const PAPER_NOTES: &str = "\
The paper's own measurements, with 1,048,576 sessions, and where they do not fit:
- one core: 3.3 Mpps, above the bound from its stages, which are those of a smaller trace
- \"six cores\", probably 1 + 5: 15.2 Mpps, above the bound; a clock of 2.66 GHz (turbo) may explain most of it
- \"seven cores\", 1 + 6: 16.3 Mpps. The step from six to seven gains 7 %, the formula says 20 %
- the formula gives seven application cores; the paper uses six, as its machine has eight cores and one is left to the system
";

/// A plan of cores. Costs are in `unit`.
pub fn flows(plan: &flows::Plan, unit: &str, is_paper: bool) -> String {
    let costs = &plan.costs;
    let mut out = format!(
        "cost per packet in {unit}: capture {}, balance {}, FIFO {}, L3 {}, TCP {}\n",
        costs.capture, costs.balance, costs.fifo, costs.l3, costs.tcp
    );
    let (input, application) = (plan.input, plan.application);
    let share = application / f64::from(plan.balanced);
    let _ = writeln!(
        out,
        "input {input:.1} with FIFO, application {application:.1} with FIFO: {} application {} balanced, {share:.1} each\n",
        plan.balanced,
        if plan.balanced == 1 { "core is" } else { "cores are" },
    );
    let row = |row: &flows::Row| {
        let stages = if row.applications == 0 { "1".to_owned() } else { format!("1+{}", row.applications) };
        let (mpps, alone) = (row.mpps, row.run_to_completion_mpps);
        vec![
            row.cores.to_string(),
            stages,
            format!("{mpps:.1}"),
            row.limit.name().to_owned(),
            format!("{alone:.1}"),
        ]
    };
    let head = ["cores", "input + application", "Mpps at most", "limit", "each core does all, Mpps at most"];
    out += &markdown(&head, plan.rows.iter().map(row));
    out += "\nThese are bounds by a formula: caches and memory that cores share are not in it.\n";
    if is_paper {
        let _ = write!(out, "\n{PAPER_NOTES}");
    }
    out
}
