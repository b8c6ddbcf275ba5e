//! Full mesh and k-ary n-fly (`RouteBricks`, section 3.3).
//!
//! A *port server* has external ports. An *intermediate server* of a fly has none. A *link* leads from one server to
//! another and consists of one or more *lanes*, the ports of the network cards for internal links. All demands are
//! numbers of bits per second.

use serde::Serialize;

/// How a k-ary n-fly carries Valiant load balancing. The paper does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The reading that gives the paper's numbers: one random hop, then n hops by the digits of the destination. It has
    /// no guarantee in the worst case.
    OnePass,
    /// Valiant's two phases over columns of their own: n random hops to any port server, then n hops by digits.
    TwoPhases,
    /// The same two phases over one set of columns: the second phase runs through the cables of the first, backwards.
    SharedColumns,
}

/// What connects the servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Topology {
    /// Every server has a link to every other.
    FullMesh,
    /// Rows of servers in columns; hop i changes digit i of the row's number.
    NFly {
        /// How the two phases run.
        reading: Reading,
        /// The number of choices of each hop, at most k. The product is the number of rows.
        radices: Vec<u32>,
    },
}

/// A topology with its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// What connects the servers.
    pub topology: Topology,
    /// Servers with external ports, or as intermediates of the first phase in their place.
    pub port_servers: u64,
    /// Servers without external ports.
    pub intermediate_servers: u64,
    /// Links, each for both directions in a mesh and with shared columns, else for one.
    pub links: u64,
    /// The most that a link must carry in a direction, rounded up.
    pub link_demand_bits_per_second: u128,
    /// Lanes of each link.
    pub lanes_per_link: u64,
    /// Cables: one per lane.
    pub cables: u64,
    /// Internal ports that a port server needs if each lane has its own cable.
    pub port_server_lanes: u64,
    /// Internal ports that an intermediate server needs if each lane has its own cable.
    pub intermediate_server_lanes: u64,
    /// Servers on the shortest and on the longest path, input and output included.
    pub path_servers: (u32, u32),
    /// Whether every admissible traffic matrix fits the links.
    pub is_guaranteed: bool,
}

impl Layout {
    /// All servers.
    pub const fn servers(&self) -> u64 {
        self.port_servers + self.intermediate_servers
    }

    /// Whether the servers have the internal ports that the layout needs.
    pub fn fits(&self, lanes: u64) -> bool {
        self.port_server_lanes <= lanes && self.intermediate_server_lanes <= lanes
    }
}

/// The internal ports of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lanes {
    /// Their number: the fanout.
    pub count: u64,
    /// The rate of each in bits per second, at least 1.
    pub bits_per_second: u128,
}

impl Lanes {
    /// Lanes for this demand: at least one.
    fn per_link(self, demand: u128) -> u64 {
        u64::try_from(demand.div_ceil(self.bits_per_second)).unwrap_or(u64::MAX).max(1)
    }
}

/// The smallest full mesh of at least `least` servers, each with `server_rate` bits per second of external traffic, whose
/// links carry `factor` (2 or 3) times `server_rate` / servers. Lanes come whole, so a few servers more than needed for
/// the external ports may fit where fewer do not. At most `lanes.count` steps.
pub fn mesh(least: u64, server_rate: u128, factor: u32, lanes: Lanes) -> Option<Layout> {
    (least..=lanes.count.saturating_add(1)).find_map(|servers| {
        let demand = (u128::from(factor) * server_rate).div_ceil(u128::from(servers));
        let per_link = lanes.per_link(demand);
        let needed = per_link.checked_mul(servers - 1).filter(|needed| *needed <= lanes.count)?;
        let links = servers * (servers - 1) / 2;
        Some(Layout {
            topology: Topology::FullMesh,
            port_servers: servers,
            intermediate_servers: 0,
            links,
            link_demand_bits_per_second: demand,
            lanes_per_link: per_link,
            cables: links * per_link,
            port_server_lanes: needed,
            intermediate_server_lanes: 0,
            path_servers: (2, 3),
            is_guaranteed: factor >= 3,
        })
    })
}

/// `ceil(log_k v)`, without floating point, so that `log_32 1024` is 2; at least 1. `None` if k < 2.
pub fn digits(k: u64, v: u64) -> Option<u32> {
    if k < 2 {
        return None;
    }
    let (mut n, mut rows) = (1, k);
    while rows < v {
        n += 1;
        rows = rows.saturating_mul(k);
    }
    Some(n)
}

/// A fly as the paper counts it: `rows` port servers, arity k = the fanout, as if each port had one link out and one
/// link in to different servers. `None` for [`Reading::SharedColumns`], if k < 2, or if a lane is slower than a link.
pub fn fly_by_the_paper(reading: Reading, rows: u64, server_rate: u128, lanes: Lanes) -> Option<Layout> {
    let k = lanes.count;
    let n = digits(k, rows)?;
    let demand = server_rate.div_ceil(u128::from(k));
    if lanes.per_link(demand) > 1 {
        return None;
    }
    // Columns of intermediate servers, hops, and ends of links at a port server in units of k.
    let (columns, hops, ends, path) = match reading {
        Reading::OnePass => (n, n + 1, 2, n + 2),
        Reading::TwoPhases => (2 * (n - 1), 2 * n, 4, 2 * n + 1),
        Reading::SharedColumns => return None,
    };
    let links = rows.checked_mul(k)?.checked_mul(u64::from(hops))?;
    Some(Layout {
        topology: Topology::NFly { reading, radices: vec![u32::try_from(k).ok()?; n as usize] },
        port_servers: rows,
        intermediate_servers: rows.checked_mul(u64::from(columns))?,
        links,
        link_demand_bits_per_second: demand,
        lanes_per_link: 1,
        cables: links,
        port_server_lanes: ends * k,
        intermediate_server_lanes: 2 * k,
        path_servers: (path, path),
        is_guaranteed: reading == Reading::TwoPhases,
    })
}

/// The smallest fly of at least `rows` rows with two phases over shared columns, each lane a duplex cable of its own.
///
/// A server has cables to the column before and to the column after, so a hop of radix a takes `2 a` links at a server.
/// The first phase takes n random hops to a uniformly random row, the second phase returns through the same columns,
/// each link carries `server_rate / a` in each direction, and an intermediate server carries twice `server_rate`. The
/// radices of a fly are a or a - 1, and their product is the number of rows: no digit is half used. At most
/// (fanout / 2) (n + 1) steps.
pub fn fly_of_shared_columns(rows: u64, server_rate: u128, lanes: Lanes) -> Option<Layout> {
    let fits = |radix: u64| {
        radix >= 2
            && lanes
                .per_link(server_rate.div_ceil(u128::from(radix)))
                .checked_mul(2 * radix)
                .is_some_and(|needed| needed <= lanes.count)
    };
    let widest = (2..=lanes.count / 2).rev().find(|radix| fits(*radix))?;
    let n = digits(widest, rows)?.max(2);
    let mut best: Option<(u64, Vec<u64>)> = None;
    for radix in (2..=widest).filter(|radix| fits(*radix)) {
        for smaller in 0..=n {
            if smaller > 0 && !fits(radix - 1) {
                break;
            }
            let radices: Vec<u64> =
                (0..n).map(|digit| if digit < smaller { radix - 1 } else { radix }).collect();
            let product = radices.iter().fold(1_u64, |rows, radix| rows.saturating_mul(*radix));
            if product >= rows && best.as_ref().is_none_or(|(rows, _)| product < *rows) {
                best = Some((product, radices));
            }
        }
    }
    let (rows, radices) = best?;
    let narrow = radices.iter().copied().min()?;
    let demand = server_rate.div_ceil(u128::from(narrow));
    let lanes_of = |radix: u64| radix * lanes.per_link(server_rate.div_ceil(u128::from(radix)));
    let most = radices.iter().map(|radix| 2 * lanes_of(*radix)).max()?;
    Some(Layout {
        port_servers: rows,
        intermediate_servers: rows.checked_mul(u64::from(n - 1))?,
        links: rows.checked_mul(radices.iter().sum())?,
        link_demand_bits_per_second: demand,
        lanes_per_link: lanes.per_link(demand),
        cables: rows.checked_mul(radices.iter().map(|radix| lanes_of(*radix)).sum())?,
        port_server_lanes: most,
        intermediate_server_lanes: most,
        path_servers: (2 * n + 1, 2 * n + 1),
        is_guaranteed: true,
        topology: Topology::NFly {
            reading: Reading::SharedColumns,
            radices: radices.into_iter().map(u32::try_from).collect::<Result<_, _>>().ok()?,
        },
    })
}
