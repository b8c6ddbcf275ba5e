//! A router of servers: inputs, plan, and why there is none.

use crate::rate::{Nic, Rate, bits_per_second};
use crate::topology::{Lanes, Layout, Reading, Topology, fly_by_the_paper, fly_of_shared_columns, mesh};
use serde::Serialize;

/// The most external ports of a plan.
pub const MAX_PORTS: u64 = 1_000_000;
/// The most network cards of a server.
pub const MAX_NICS: u32 = 64;

/// The capacity of an internal link of a mesh as a multiple of R/N.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkRule {
    /// 2R/N: enough for Valiant load balancing, not for Direct VLB (the paper's rule).
    Paper,
    /// 3R/N: enough for both.
    Safe,
}

impl LinkRule {
    /// The multiple.
    pub const fn factor(self) -> u32 {
        match self {
            Self::Paper => 2,
            Self::Safe => 3,
        }
    }
}

/// Prices, power, latency and size of parts. The defaults are the paper's assumptions of 2009, not today's prices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parts {
    /// Price of a server in US dollars.
    pub server_usd: f64,
    /// Price of a network card in US dollars.
    pub nic_usd: f64,
    /// Price of a cable in US dollars.
    pub cable_usd: f64,
    /// Power of a server with its cards in watts.
    pub server_watts: f64,
    /// Time that a packet spends in a server in microseconds.
    pub server_latency_us: f64,
    /// Height of a server in rack units.
    pub server_rack_units: f64,
}

impl Default for Parts {
    /// Section 3.3: $2,000 per server, cards included. Section 6: 24 us per server; RB4 with 4 servers takes 2.6 kW
    /// and 4 rack units.
    fn default() -> Self {
        Self {
            server_usd: 2_000.0,
            nic_usd: 0.0,
            cable_usd: 0.0,
            server_watts: 650.0,
            server_latency_us: 24.0,
            server_rack_units: 1.0,
        }
    }
}

/// The inputs of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Inputs {
    /// External ports, N.
    pub ports: u64,
    /// The rate of an external port, R, full duplex.
    pub rate: Rate,
    /// External ports per server, s.
    pub ports_per_server: u32,
    /// Cards of internal links.
    pub nic: Nic,
    /// Cards per server, those of external ports included.
    pub nics: u32,
    /// The card of external ports; `None` if they are ports of the same cards as internal links.
    pub external_nic: Option<Nic>,
    /// What a server can process; `None` if that is not checked.
    pub server_rate: Option<Rate>,
    /// The rule of mesh links.
    pub link_rule: LinkRule,
    /// Prices and the like.
    pub parts: Parts,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Number of external ports.
    #[error("{0} external ports: a plan has 2 to {MAX_PORTS}")]
    Ports(u64),
    /// External ports per server.
    #[error("{0} external ports per server: a plan of {1} ports has 1 to {1} per server")]
    PortsPerServer(u32, u64),
    /// Network cards per server.
    #[error("{0} network cards per server: a plan has 1 to {MAX_NICS}")]
    Nics(u32),
    /// No port is left for internal links.
    #[error(
        "the external ports of a server need {needed} {unit}, and a server has {available}; at least one must remain for \
         internal links: take more or larger cards, or fewer external ports per server"
    )]
    NoInternalPort {
        /// What external ports take.
        needed: u64,
        /// What there is.
        available: u64,
        /// Ports or cards.
        unit: &'static str,
    },
    /// Servers are too slow.
    #[error(
        "a server must process 3 s R = {} in the worst case, and its limit is {limit}; this limit allows {allowed} external \
         ports of this rate per server",
        bits_per_second(*.needed)
    )]
    ServerTooSlow {
        /// 3sR.
        needed: u128,
        /// The limit.
        limit: Rate,
        /// The most external ports per server.
        allowed: u64,
    },
    /// The internal ports cannot carry the load in any topology.
    #[error(
        "{lanes} internal ports of {rate} per server carry neither a full mesh nor an n-fly of {servers} servers with {} of \
         external traffic each: a fly needs at least 4 internal ports, and both ways twice this traffic; take more or faster \
         cards, or fewer external ports per server",
        bits_per_second(*.server_rate)
    )]
    InternalPorts {
        /// Internal ports of a server.
        lanes: u64,
        /// Rate of each.
        rate: Rate,
        /// Servers for the external ports.
        servers: u64,
        /// sR.
        server_rate: u128,
    },
}

/// A layout with cost, power, latency and size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Servers, links and cables.
    #[serde(flatten)]
    pub layout: Layout,
    /// All servers.
    pub servers: u64,
    /// What the busiest server must process in the worst case, in bits per second.
    pub server_demand_bits_per_second: u128,
    /// Cards that the layout uses in all servers.
    pub nics: u64,
    /// Whether a server has the internal ports if each lane has its own cable.
    pub fits_ports: bool,
    /// Servers, cards and cables.
    pub cost_usd: f64,
    /// All servers.
    pub power_watts: f64,
    /// Shortest and longest path without queueing.
    pub latency_us: (f64, f64),
    /// All servers.
    pub rack_units: f64,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The inputs.
    pub inputs: Inputs,
    /// Internal ports per server: the fanout.
    pub fanout: u64,
    /// The recommended layout: the smallest full mesh if one fits, else a fly with shared columns.
    pub recommended: Estimate,
    /// If no mesh fits: the readings of the paper's rule, with the paper's count of ports.
    pub by_the_paper: Vec<Estimate>,
}

impl Inputs {
    /// Servers for the external ports.
    pub fn port_servers(&self) -> u64 {
        self.ports.div_ceil(u64::from(self.ports_per_server.max(1)))
    }

    /// The external traffic of a server, sR, in bits per second and direction.
    pub fn external_bits(&self) -> u128 {
        u128::from(self.ports_per_server) * u128::from(self.rate.bits())
    }

    /// Ports of cards of this rate for the external ports of a server.
    fn external_lanes(&self, nic: Nic) -> u64 {
        u64::from(self.ports_per_server) * self.rate.bits().div_ceil(nic.rate.bits())
    }

    /// The internal ports of a server.
    ///
    /// # Errors
    /// [`PlanError::NoInternalPort`].
    pub fn internal_lanes(&self) -> Result<Lanes, PlanError> {
        let ports = u64::from(self.nic.ports);
        let (needed, available, per_unit, unit) = match self.external_nic {
            Some(nic) => {
                let cards = self.external_lanes(nic).div_ceil(u64::from(nic.ports));
                (cards, u64::from(self.nics), ports, "cards")
            }
            None => (self.external_lanes(self.nic), ports * u64::from(self.nics), 1, "ports"),
        };
        match available.checked_sub(needed) {
            None | Some(0) => Err(PlanError::NoInternalPort { needed, available, unit }),
            Some(left) => {
                Ok(Lanes { count: left * per_unit, bits_per_second: u128::from(self.nic.rate.bits()) })
            }
        }
    }

    fn check(&self) -> Result<(), PlanError> {
        if !(2..=MAX_PORTS).contains(&self.ports) {
            return Err(PlanError::Ports(self.ports));
        }
        if self.ports_per_server == 0 || u64::from(self.ports_per_server) > self.ports {
            return Err(PlanError::PortsPerServer(self.ports_per_server, self.ports));
        }
        if !(1..=MAX_NICS).contains(&self.nics) {
            return Err(PlanError::Nics(self.nics));
        }
        let needed = 3 * self.external_bits();
        match self.server_rate {
            Some(limit) if u128::from(limit.bits()) < needed => Err(PlanError::ServerTooSlow {
                needed,
                limit,
                allowed: limit.bits() / self.rate.bits().saturating_mul(3),
            }),
            _ => Ok(()),
        }
    }

    fn estimate(&self, layout: Layout, lanes: Lanes) -> Estimate {
        let cards = |internal: u64, has_ports: bool| {
            let ports = u64::from(self.nic.ports);
            match self.external_nic {
                Some(nic) if has_ports => {
                    self.external_lanes(nic).div_ceil(u64::from(nic.ports)) + internal.div_ceil(ports)
                }
                None if has_ports => (self.external_lanes(self.nic) + internal).div_ceil(ports),
                _ => internal.div_ceil(ports),
            }
        };
        // What does not fit is counted with the cards that a server has.
        let internal = |needed: u64| needed.min(lanes.count);
        let nics = layout.port_servers * cards(internal(layout.port_server_lanes), true)
            + layout.intermediate_servers * cards(internal(layout.intermediate_server_lanes), false);
        let servers = layout.servers();
        let parts = &self.parts;
        let latency = |path: u32| f64::from(path) * parts.server_latency_us;
        let one_pass = matches!(layout.topology, Topology::NFly { reading: Reading::OnePass, .. });
        Estimate {
            servers,
            server_demand_bits_per_second: if one_pass { 2 } else { 3 } * self.external_bits(),
            nics,
            fits_ports: layout.fits(lanes.count),
            cost_usd: servers as f64 * parts.server_usd
                + nics as f64 * parts.nic_usd
                + layout.cables as f64 * parts.cable_usd,
            power_watts: servers as f64 * parts.server_watts,
            latency_us: (latency(layout.path_servers.0), latency(layout.path_servers.1)),
            rack_units: servers as f64 * parts.server_rack_units,
            layout,
        }
    }
}

/// Plans a router.
///
/// # Errors
/// [`PlanError`] names the input that does not fit, and what would.
pub fn plan(inputs: &Inputs) -> Result<Plan, PlanError> {
    inputs.check()?;
    let lanes = inputs.internal_lanes()?;
    let (servers, rate) = (inputs.port_servers(), inputs.external_bits());
    let estimate = |layout| inputs.estimate(layout, lanes);
    // A single server needs no links, but a cluster is what is planned.
    if let Some(layout) = mesh(servers.max(2), rate, inputs.link_rule.factor(), lanes) {
        return Ok(Plan {
            inputs: *inputs,
            fanout: lanes.count,
            recommended: estimate(layout),
            by_the_paper: Vec::new(),
        });
    }
    let layout = fly_of_shared_columns(servers, rate, lanes).ok_or(PlanError::InternalPorts {
        lanes: lanes.count,
        rate: inputs.nic.rate,
        servers,
        server_rate: rate,
    })?;
    let by_the_paper = [Reading::OnePass, Reading::TwoPhases]
        .into_iter()
        .filter_map(|reading| fly_by_the_paper(reading, servers, rate, lanes))
        .map(estimate)
        .collect();
    Ok(Plan { inputs: *inputs, fanout: lanes.count, recommended: estimate(layout), by_the_paper })
}

#[cfg(test)]
mod tests;
