//! Routes in Click's notation.

use crate::values::value;
use scalebricks_click::values::Prefix as Network;
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_tables::lpm::Prefix;
use std::fmt;
use std::net::Ipv4Addr;

/// A route: where packets to a network go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The network.
    pub prefix: Prefix<Ipv4Addr>,
    /// The next hop; `None` if it is the destination itself.
    pub gateway: Option<Ipv4Addr>,
    /// The output.
    pub output: u16,
}

/// A route to remove: parts that are not given match any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) prefix: Prefix<Ipv4Addr>,
    /// Gateway and output.
    pub(crate) target: Option<(Option<Ipv4Addr>, u16)>,
}

/// `ADDR/MASK`, or `ADDR` for a host. Host bits are ignored, as in Click.
fn prefix(text: &str) -> Option<Prefix<Ipv4Addr>> {
    let network = |network: Network| Prefix::of(network.network(), network.length).ok();
    let host = || Prefix::of(value(text)?, 32).ok();
    value(text).and_then(network).or_else(host)
}

impl Pattern {
    /// `ADDR/MASK [[GATEWAY] OUTPUT]`; a gateway of `-` or 0.0.0.0 means none.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let prefix = prefix(words.next()?)?;
        let (second, third) = (words.next(), words.next());
        if words.next().is_some() {
            return None;
        }
        let target = match (second, third) {
            (None, _) => None,
            (Some(output), None) | (Some("-"), Some(output)) => Some((None, value(output)?)),
            (Some(gateway), Some(output)) => {
                let gateway: Ipv4Addr = value(gateway)?;
                Some((Some(gateway).filter(|gateway| !gateway.is_unspecified()), value(output)?))
            }
        };
        Some(Self { prefix, target })
    }
}

impl Param for Route {
    const KIND: &'static str = "a route such as 10.0.0.0/8 192.0.2.1 0";

    fn read(text: &str) -> Option<Self> {
        let Pattern { prefix, target } = Pattern::read(text)?;
        target.map(|(gateway, output)| Self { prefix, gateway, output })
    }
}

impl ListItem for Route {
    const KINDS: &'static str = "ADDR/MASK [GATEWAY] OUTPUT, …";
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gateway {
            Some(gateway) => write!(f, "{} {gateway} {}", self.prefix, self.output),
            None => write!(f, "{} - {}", self.prefix, self.output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_as_click_writes_them() {
        for (text, written) in [
            ("18.26.4.24/255.255.255.255 0", "18.26.4.24/32 - 0"),
            ("18.26.4.24 3", "18.26.4.24/32 - 3"),
            (" 18.26.4.9/24  1 ", "18.26.4.0/24 - 1"),
            ("0/0 18.26.4.1 1", "0.0.0.0/0 18.26.4.1 1"),
            ("10/8 - 2", "10.0.0.0/8 - 2"),
            ("10.0.0.0/8 0.0.0.0 2", "10.0.0.0/8 - 2"),
        ] {
            let route = Route::read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(route.to_string(), written);
            assert_eq!(Route::read(written), Some(route));
        }
        for wrong in [
            "",
            "0/0",
            "0/0 1.2.3.4",
            "0/0 1.2.3.4 -1",
            "0/0 1.2.3.4 65536",
            "0/0 x 1",
            "0/0 1.2.3.4 1 1",
            "1.2.3.4/33 0",
            "1.2.3.4/255.0.255.0 0",
            "x 0",
        ] {
            assert_eq!(Route::read(wrong), None, "{wrong:?}");
        }
        assert_eq!(Pattern::read("10.0.0.0/8").unwrap().target, None);
        assert_eq!(Pattern::read("10.0.0.0/8 7").unwrap().target, Some((None, 7)));
    }
}
