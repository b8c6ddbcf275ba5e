//! Parameters as a configuration.

use super::Nat44Params;
use crate::values::Prefixes;
use scalebricks_flows::nat::{Allocation, Config, Filtering, Plan, Prefix, Timeouts};
use scalebricks_graph::args::Param;

/// RFC 4787 §5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filter(Filtering);

impl Param for Filter {
    const KIND: &'static str = "endpoint-independent, address-dependent or address-and-port-dependent";

    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "endpoint-independent" => Some(Self(Filtering::EndpointIndependent)),
            "address-dependent" => Some(Self(Filtering::AddressDependent)),
            "address-and-port-dependent" => Some(Self(Filtering::AddressAndPortDependent)),
            _ => None,
        }
    }
}

fn prefixes(prefixes: &Prefixes) -> Vec<Prefix> {
    prefixes.0.iter().filter_map(|prefix| Prefix::new(prefix.address, prefix.length)).collect()
}

pub(super) fn of(params: &Nat44Params) -> Result<Config, String> {
    let (inside, public) = (prefixes(&params.inside), prefixes(&params.public));
    let plan = Plan::new(&inside, &public, params.first_port..=params.last_port, params.block)
        .map_err(|error| error.to_string())?;
    let blocks = if params.deterministic { 1 } else { params.subscriber_blocks };
    let ports = u32::from(blocks).saturating_mul(3 * u32::from(params.block));
    Ok(Config {
        allocation: if params.deterministic { Allocation::Deterministic } else { Allocation::Dynamic },
        subscriber_blocks: blocks,
        subscriber_mappings: params.subscriber_mappings.unwrap_or(ports),
        subscriber_sessions: params.subscriber_flows,
        filtering: params.filter.0,
        parity: params.parity,
        pick_up: params.pickup.unwrap_or(params.deterministic),
        timeouts: Timeouts {
            udp: params.udp_timeout,
            tcp: params.tcp_timeout,
            tcp_transitory: params.transitory_timeout,
            icmp: params.icmp_timeout,
            block: params.block_timeout,
        },
        sessions: params.flows,
        young_sessions: params.young,
        verify_checksums: params.checksums,
        ..Config::new(plan)
    })
}
