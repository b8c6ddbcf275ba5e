//! A k-ary n-fly of nodes (RouteBricks §3.3): for more ports than a full mesh can join.
//!
//! Columns of k^n nodes are joined by n stages of links. In stage i each node reaches the k nodes whose numbers differ
//! from its own in digit i alone. The paper does not say how the two phases of Valiant load balancing pass the fly; both
//! readings are here.

use crate::router::cluster::port_mac;
use crate::router::network::{Network, NetworkError, Wiring};
use scalebricks_elements::fabric::next_hops::NextHops;
use scalebricks_elements::{RestoreMac, RouterInput};
use scalebricks_graph::{Builder, Graph, Ledger};
use scalebricks_io::Packet;
use scalebricks_tables::lpm::{Lpm, Params};
use scalebricks_types::NodeId;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// How packets pass the fly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// n random hops to a port server drawn uniformly, then n hops by the digits of the output node: (2n-1)V servers, and
    /// 2n+1 nodes on a path. Every admissible traffic matrix fits links of R/k.
    TwoPasses,
    /// One random hop, then n hops by digits: (n+1)V servers, and n+2 nodes on a path, as the paper's figures imply.
    /// Some admissible traffic matrices load a link with R.
    OnePass,
}

/// A fly with one external port per port server.
#[derive(Debug, Clone)]
pub struct FlyConfig {
    /// The radix.
    pub k: usize,
    /// The number of digits.
    pub n: u32,
    /// How packets pass it.
    pub reading: Reading,
    /// Rate R of an external port, bytes per second.
    pub port_rate: u64,
    /// Rate of a link, bytes per second.
    pub link_rate: u64,
    /// Packets that a queue before a device holds.
    pub queue: usize,
    /// Seed of random choices.
    pub seed: u64,
}

/// A hop from one column to the next: which digit may change, and how.
#[derive(Debug, Clone, Copy)]
struct Hop {
    digit: u32,
    is_random: bool,
}

impl FlyConfig {
    /// Number of port servers V, k^n.
    pub const fn port_servers(&self) -> usize {
        self.k.pow(self.n)
    }

    /// Number of servers.
    pub const fn servers(&self) -> usize {
        let n = self.n as usize;
        self.port_servers()
            * match self.reading {
                Reading::TwoPasses => 2 * n - 1,
                Reading::OnePass => n + 1,
            }
    }

    fn hops(&self) -> Vec<Hop> {
        let digits = (0..self.n).map(|digit| Hop { digit, is_random: false });
        let random: Vec<Hop> = match self.reading {
            Reading::TwoPasses => (0..self.n).map(|digit| Hop { digit, is_random: true }).collect(),
            // The digit that is set last, so that the choice lasts.
            Reading::OnePass => vec![Hop { digit: self.n - 1, is_random: true }],
        };
        random.into_iter().chain(digits).collect()
    }

    /// Whether the nodes of a column are the port servers.
    fn is_port_column(&self, column: usize) -> bool {
        let hops = self.hops().len();
        column == 0 || column == hops || self.reading == Reading::TwoPasses && column == self.n as usize
    }

    /// The server at a place of a column.
    fn server(&self, column: usize, row: usize) -> usize {
        let v = self.port_servers();
        let before = (0..column).filter(|&column| !self.is_port_column(column)).count();
        if self.is_port_column(column) { row } else { (before + 1) * v + row }
    }

    /// The node with another digit.
    fn with_digit(&self, row: usize, digit: u32, value: usize) -> usize {
        let place = self.k.pow(digit);
        row - row / place % self.k * place + value * place
    }

    /// Declares what leaves a column: a switch, and a queue and a device per link. Returns the switch's name.
    fn stage(&self, builder: &mut Builder<Packet>, column: usize, hop: Hop, server: usize) -> String {
        let switch = format!("switch{column}");
        if hop.is_random {
            let seed = (self.seed ^ (server as u64) << 32 ^ column as u64).to_string();
            builder.declare(&switch, "RandomSwitch", &[&seed]);
        } else {
            let (k, digit) = (self.k.to_string(), hop.digit.to_string());
            builder.declare(&switch, "DigitSwitch", &[&k, &digit]);
        }
        for value in 0..self.k {
            let device = format!("out{column}_{value}");
            let (queue, to) = (format!("queue_{device}"), format!("to_{device}"));
            builder.declare(&queue, "Queue", &[&self.queue.to_string()]).declare(&to, "ToDevice", &[&device]);
            builder.connect(&switch, value, &queue, 0).chain(&[&queue, &to]);
        }
        switch
    }

    /// Declares the devices by which a column is reached, and connects them to an element.
    fn arrivals(&self, builder: &mut Builder<Packet>, column: usize, to: &str) {
        for value in 0..self.k {
            let (from, device) = (format!("from{column}_{value}"), format!("in{column}_{value}"));
            builder.declare(&from, "FromDevice", &[&device]).chain(&[&from, to]);
        }
    }

    /// The graph of a server: all columns that it is part of.
    fn graph(
        &self,
        server: usize,
        table: &Arc<Lpm<Ipv4Addr>>,
        hops_of: &[Arc<NextHops>],
    ) -> Result<(Graph<Packet>, Ledger), NetworkError> {
        let wrong = |errors: String| NetworkError::Graph { node: server, errors };
        let hops = self.hops();
        let mut builder = Builder::new();
        let row = server % self.port_servers();
        for (column, &hop) in
            hops.iter().enumerate().filter(|&(column, _)| self.server(column, row) == server)
        {
            let switch = self.stage(&mut builder, column, hop, server);
            if column > 0 {
                self.arrivals(&mut builder, column, &switch);
                continue;
            }
            builder.declare("from_port", "FromDevice", &["port"]).declare("check", "CheckIPHeader", &["14"]);
            builder
                .declare("ttl", "DecIPTTL", &[])
                .add("route", RouterInput::new(Arc::clone(table), Arc::new(Lpm::new(Params::SMALL)), None));
            builder.chain(&["from_port", "check", "ttl", "route", &switch]);
        }
        if let (true, Some(own)) = (server < self.port_servers(), hops_of.get(server)) {
            let mac = port_mac(NodeId::new(server as u8), 0); // at most 256 port servers
            builder.add("restore", RestoreMac::new(vec![mac], Arc::clone(own)).map_err(wrong)?);
            self.arrivals(&mut builder, hops.len(), "restore");
            builder.declare("queue_port", "Queue", &[&self.queue.to_string()]);
            builder.declare("to_port", "ToDevice", &["port"]).chain(&["restore", "queue_port", "to_port"]);
        }
        let mut ledger = Ledger::new();
        let registry = scalebricks_elements::registry::<Packet>();
        let graph = builder.build(&registry, &mut ledger).map_err(|errors| wrong(errors.to_string()))?;
        Ok((graph, ledger))
    }

    /// The fly as a network. Port server `n` has the external port of number `n`. The second result is the number of
    /// links between servers: they have the numbers below it.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn network(
        &self,
        table: &Arc<Lpm<Ipv4Addr>>,
        hops_of: &[Arc<NextHops>],
        buffers: usize,
    ) -> Result<(Network, usize), NetworkError> {
        let graphs = (0..self.servers()).map(|server| self.graph(server, table, hops_of));
        let mut wiring = Wiring::new(graphs.collect::<Result<_, _>>()?);
        let mut links = 0;
        for (column, hop) in self.hops().into_iter().enumerate() {
            for row in 0..self.port_servers() {
                let own = row / self.k.pow(hop.digit) % self.k;
                for value in 0..self.k {
                    let to = self.server(column + 1, self.with_digit(row, hop.digit, value));
                    let (out, into) = (format!("out{column}_{value}"), format!("in{}_{own}", column + 1));
                    wiring.link((self.server(column, row), &out), (to, &into), self.link_rate);
                    links += 1;
                }
            }
        }
        for server in 0..self.port_servers() {
            wiring.inlet((server, "port"));
            wiring.outlet((server, "port"), self.port_rate);
        }
        Ok((wiring.finish(buffers)?, links))
    }
}
