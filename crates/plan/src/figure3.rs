//! Figure 3 of the `RouteBricks` paper: servers for N ports of 10 Gb/s in three configurations, and in a cluster of
//! servers around switches.
//!
//! The figure is a picture in the paper. Its rules and the numbers in the text are known, so every number here comes from
//! the rules.

use crate::rate::{Nic, Rate};
use crate::router::{Inputs, LinkRule, Parts};
use crate::topology::{Reading, digits, fly_by_the_paper, mesh};
use serde::Serialize;

/// Ports of the paper's switch, $500 each: four cost as much as a server.
const SWITCH_PORTS: u64 = 48;
const SWITCH_PORTS_PER_SERVER: u64 = 4;
/// A strictly non-blocking Clos network: an edge switch with n ports down has at least 2 n - 1 up.
const EDGE_DOWN: u64 = 16;
const EDGE_UP: u64 = 2 * EDGE_DOWN - 1;

/// A configuration of a server in the figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// External ports per server, s.
    pub ports_per_server: u32,
    /// Cards per server. One has two 10 Gb/s ports, for external links; the others have eight 1 Gb/s ports.
    pub nics: u32,
    /// Up to which N a full mesh is possible, as the paper's text says.
    pub mesh_limit_in_text: u64,
}

/// The three configurations: current, more cards, faster servers with more cards.
pub const CONFIGURATIONS: [Configuration; 3] = [
    Configuration { ports_per_server: 1, nics: 5, mesh_limit_in_text: 32 },
    Configuration { ports_per_server: 1, nics: 20, mesh_limit_in_text: 128 },
    Configuration { ports_per_server: 2, nics: 20, mesh_limit_in_text: 2_048 },
];

impl Configuration {
    /// The inputs of a plan of N ports. Links follow the paper's rule, 2R/N.
    pub fn inputs(self, ports: u64) -> Inputs {
        Inputs {
            ports,
            rate: Rate::gigabits(10),
            ports_per_server: self.ports_per_server,
            nic: Nic { ports: 8, rate: Rate::gigabits(1) },
            nics: self.nics,
            external_nic: Some(Nic { ports: 2, rate: Rate::gigabits(10) }),
            server_rate: None,
            link_rule: LinkRule::Paper,
            parts: Parts::default(),
        }
    }

    /// The most ports of a full mesh by the paper's rule: N/s - 1 <= fanout.
    pub fn mesh_limit(self) -> u64 {
        let fanout = self.inputs(2).internal_lanes().map_or(0, |lanes| lanes.count);
        u64::from(self.ports_per_server) * (fanout + 1)
    }

    /// The largest power of two up to [`Self::mesh_limit`].
    pub fn mesh_limit_power_of_two(self) -> u64 {
        1 << self.mesh_limit().ilog2()
    }

    fn servers(self, ports: u64) -> Option<Servers> {
        let inputs = self.inputs(ports);
        let lanes = inputs.internal_lanes().ok()?;
        let (rows, rate) = (inputs.port_servers(), inputs.external_bits());
        if let Some(mesh) = mesh(rows, rate, inputs.link_rule.factor(), lanes) {
            let servers = mesh.servers();
            return Some(Servers { one_pass: servers, two_phases: servers, n: None });
        }
        let fly = |reading| fly_by_the_paper(reading, rows, rate, lanes).map(|fly| fly.servers());
        Some(Servers {
            one_pass: fly(Reading::OnePass)?,
            two_phases: fly(Reading::TwoPhases)?,
            n: digits(lanes.count, rows),
        })
    }
}

/// Servers of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Servers {
    /// By the reading that gives the paper's numbers.
    pub one_pass: u64,
    /// With both phases of Valiant load balancing.
    pub two_phases: u64,
    /// Hops by digits of an n-fly; `None` in a full mesh.
    pub n: Option<u32>,
}

/// The cluster of switches, in the cost of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Switched {
    /// Each used port of a switch costs a 48th of the switch.
    pub by_port: u64,
    /// Each switch of the Clos network is bought whole.
    pub by_switch: u64,
}

/// A row of the figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// External ports, N.
    pub ports: u64,
    /// Servers by configuration.
    pub configurations: [Servers; 3],
    /// The rival.
    pub switched: Switched,
}

/// Ports of switches for a non-blocking network of `ports` servers, if `edge` ports of each edge switch and all ports of
/// the last switch, at least `least`, are paid. About `log_16 ports` steps.
fn switch_ports(ports: u64, edge: u64, least: u64) -> u64 {
    if ports <= SWITCH_PORTS {
        return ports.max(least);
    }
    let edges = ports.div_ceil(EDGE_DOWN);
    edge * edges + EDGE_UP * switch_ports(edges, edge, least)
}

/// Servers at 2R and 48-port switches between them.
pub fn switched(ports: u64) -> Switched {
    let cost = |edge, least| ports + switch_ports(ports, edge, least).div_ceil(SWITCH_PORTS_PER_SERVER);
    Switched { by_port: cost(EDGE_DOWN + EDGE_UP, 0), by_switch: cost(SWITCH_PORTS, SWITCH_PORTS) }
}

/// The figure's rows: N = 4 to 2,048 by powers of two.
pub fn rows() -> Vec<Row> {
    let row = |ports| {
        let [first, second, third] = CONFIGURATIONS.map(|configuration| configuration.servers(ports));
        Some(Row { ports, configurations: [first?, second?, third?], switched: switched(ports) })
    };
    (2..=11).filter_map(|exponent| row(1 << exponent)).collect()
}

/// A mesh limit, as the text has it and by the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MeshLimit {
    /// The configuration.
    pub configuration: Configuration,
    /// By the rule.
    pub by_rule: u64,
    /// By the rule, of the powers of two that the figure shows.
    pub by_rule_power_of_two: u64,
}

/// The figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Figure3 {
    /// By N.
    pub rows: Vec<Row>,
    /// By configuration.
    pub mesh_limits: [MeshLimit; 3],
}

impl Figure3 {
    /// The numbers of ports for which switches cost less than a configuration by the paper's rule.
    pub fn cheaper_switched(&self, configuration: usize, cost: impl Fn(Switched) -> u64) -> Vec<u64> {
        let cheaper = |row: &&Row| {
            row.configurations.get(configuration).is_some_and(|servers| cost(row.switched) < servers.one_pass)
        };
        self.rows.iter().filter(cheaper).map(|row| row.ports).collect()
    }
}

/// Computes the figure.
pub fn figure3() -> Figure3 {
    let mesh_limits = CONFIGURATIONS.map(|configuration| MeshLimit {
        configuration,
        by_rule: configuration.mesh_limit(),
        by_rule_power_of_two: configuration.mesh_limit_power_of_two(),
    });
    Figure3 { rows: rows(), mesh_limits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(configuration: usize, servers: impl Fn(Servers) -> u64) -> Vec<u64> {
        rows().iter().map(|row| servers(row.configurations[configuration])).collect()
    }

    #[test]
    fn the_paper_s_rule_gives_these_servers() {
        let one_pass = |configuration| column(configuration, |servers| servers.one_pass);
        assert_eq!(one_pass(0), [4, 8, 16, 32, 192, 384, 768, 1_536, 3_072, 8_192]);
        assert_eq!(one_pass(1), [4, 8, 16, 32, 64, 128, 768, 1_536, 3_072, 6_144]);
        assert_eq!(one_pass(2), [2, 4, 8, 16, 32, 64, 128, 768, 1_536, 3_072]);
    }

    #[test]
    fn two_phases_cost_the_same_until_n_is_three() {
        for configuration in 0..3 {
            let pairs = column(configuration, |servers| servers.one_pass)
                .into_iter()
                .zip(column(configuration, |servers| servers.two_phases));
            for (one_pass, two_phases) in pairs {
                let expected = if one_pass == 8_192 { 10_240 } else { one_pass };
                assert_eq!(two_phases, expected);
            }
        }
    }

    #[test]
    fn latency_of_1024_ports_in_the_first_configuration() {
        let inputs = CONFIGURATIONS[0].inputs(1_024);
        let lanes = inputs.internal_lanes().unwrap();
        let fly = |reading| fly_by_the_paper(reading, 1_024, inputs.external_bits(), lanes).unwrap();
        let latency = |path: u32| f64::from(path) * inputs.parts.server_latency_us;
        // "2 intermediate servers per port" and 4 x 24 us.
        let one_pass = fly(Reading::OnePass);
        assert_eq!((one_pass.intermediate_servers, one_pass.servers()), (2_048, 3_072));
        assert!((latency(one_pass.path_servers.1) - 96.0).abs() < 1e-9);
        let two_phases = fly(Reading::TwoPhases);
        assert_eq!(two_phases.servers(), 3_072);
        assert!((latency(two_phases.path_servers.1) - 120.0).abs() < 1e-9);
        assert!(two_phases.is_guaranteed && !one_pass.is_guaranteed);
    }

    #[test]
    fn mesh_limits_differ_from_the_text_in_the_third() {
        let limits = figure3().mesh_limits;
        assert_eq!(limits.map(|limit| limit.by_rule), [33, 153, 306]);
        assert_eq!(limits.map(|limit| limit.by_rule_power_of_two), [32, 128, 256]);
        assert_eq!(limits.map(|limit| limit.configuration.mesh_limit_in_text), [32, 128, 2_048]);
    }

    /// The paper's rule ignores that lanes come whole; it matters for two numbers of ports only.
    #[test]
    fn whole_lanes_refuse_the_paper_s_mesh_for_18_and_19_ports_only() {
        for (index, configuration) in CONFIGURATIONS.into_iter().enumerate() {
            let step = usize::try_from(configuration.ports_per_server).unwrap();
            for ports in (4..=configuration.mesh_limit()).step_by(step) {
                let inputs = configuration.inputs(ports);
                let servers = inputs.port_servers();
                let lanes = inputs.internal_lanes().unwrap();
                let layout = mesh(servers, inputs.external_bits(), 2, lanes).unwrap();
                let expected = if index == 0 && [18, 19].contains(&ports) { 20 } else { servers };
                assert_eq!(layout.servers(), expected, "{ports} ports");
            }
        }
    }

    #[test]
    fn the_switched_cluster() {
        let by_port = |ports| switched(ports).by_port;
        assert_eq!([64, 128, 256, 512, 1_024, 2_048].map(by_port), [142, 284, 568, 1_136, 4_194, 8_388]);
        assert_eq!(switched(4), Switched { by_port: 5, by_switch: 16 });
        assert_eq!(switched(48), Switched { by_port: 60, by_switch: 60 });
        // 4 edge switches and 31 others, 12 servers each.
        assert_eq!(switched(64).by_switch, 64 + 35 * 12);
        // Where the paper's claim that switches always cost more fails.
        let figure = figure3();
        assert_eq!(figure.cheaper_switched(0, |switched| switched.by_port), [64, 128, 256, 512]);
        assert_eq!(figure.cheaper_switched(1, |switched| switched.by_port), [256, 512]);
        assert_eq!(figure.cheaper_switched(2, |switched| switched.by_port), Vec::<u64>::new());
        let whole = [0, 1, 2].map(|index| figure.cheaper_switched(index, |switched| switched.by_switch));
        assert_eq!(whole, [vec![512], vec![512], Vec::new()]);
    }
}
