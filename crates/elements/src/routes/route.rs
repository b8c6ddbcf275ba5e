//! Routes in Click's notation.

use crate::values::value;
use scalebricks_click::values::{Prefix as Network, Value};
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_tables::lpm::{Address, Prefix};
use scalebricks_wire::scope::{is_forwarded_v4, is_forwarded_v6};
use std::fmt;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An address family of routes.
pub trait Family: Address + Value + Hash {
    /// Description of a route.
    const ROUTE: &'static str;
    /// Description of a list of routes.
    const ROUTES: &'static str;

    /// Reads a network, or the address of a host. Host bits are ignored, as in Click.
    fn network(text: &str) -> Option<Prefix<Self>>;

    /// Whether the address means "no gateway".
    fn is_none(self) -> bool;

    /// Whether a router forwards packets to it: [`is_forwarded`](scalebricks_wire::scope::is_forwarded).
    fn is_forwarded(self) -> bool;
}

impl Family for Ipv4Addr {
    const ROUTE: &'static str = "a route such as 10.0.0.0/8 192.0.2.1 0";
    const ROUTES: &'static str = "ADDR/MASK [GATEWAY] OUTPUT, …";

    fn network(text: &str) -> Option<Prefix<Self>> {
        let network = |network: Network| Prefix::of(network.network(), network.length).ok();
        let host = || Prefix::of(value(text)?, 32).ok();
        value(text).and_then(network).or_else(host)
    }

    fn is_none(self) -> bool {
        self.is_unspecified()
    }

    #[inline(always)]
    fn is_forwarded(self) -> bool {
        is_forwarded_v4(self)
    }
}

impl Family for Ipv6Addr {
    const ROUTE: &'static str = "a route such as 2001:db8::/32 2001:db8::1 0";
    const ROUTES: &'static str = "IPv6 routes ADDR/LENGTH GATEWAY OUTPUT, …";

    fn network(text: &str) -> Option<Prefix<Self>> {
        let (address, length) = text.split_once('/').unwrap_or((text, "128"));
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        Prefix::of(value(address)?, length.parse().ok().filter(|_| is_number)?).ok()
    }

    fn is_none(self) -> bool {
        self.is_unspecified()
    }

    #[inline(always)]
    fn is_forwarded(self) -> bool {
        is_forwarded_v6(self)
    }
}

/// A route: where packets to a network go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route<A = Ipv4Addr> {
    /// The network.
    pub prefix: Prefix<A>,
    /// The next hop; `None` if it is the destination itself.
    pub gateway: Option<A>,
    /// The output.
    pub output: u16,
}

/// A route to remove: parts that are not given match any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern<A> {
    pub(crate) prefix: Prefix<A>,
    /// Gateway and output.
    pub(crate) target: Option<(Option<A>, u16)>,
}

impl<A: Family> Pattern<A> {
    /// `ADDR/MASK [[GATEWAY] OUTPUT]`; a gateway of `-`, 0.0.0.0 or `::` means none.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let prefix = A::network(words.next()?)?;
        let (second, third) = (words.next(), words.next());
        if words.next().is_some() {
            return None;
        }
        let target = match (second, third) {
            (None, _) => None,
            (Some(output), None) | (Some("-"), Some(output)) => Some((None, value(output)?)),
            (Some(gateway), Some(output)) => {
                let gateway: A = value(gateway)?;
                Some((Some(gateway).filter(|gateway| !gateway.is_none()), value(output)?))
            }
        };
        Some(Self { prefix, target })
    }
}

impl<A: Family> Param for Route<A> {
    const KIND: &'static str = A::ROUTE;

    fn read(text: &str) -> Option<Self> {
        let Pattern { prefix, target } = Pattern::read(text)?;
        target.map(|(gateway, output)| Self { prefix, gateway, output })
    }
}

impl<A: Family> ListItem for Route<A> {
    const KINDS: &'static str = A::ROUTES;
}

impl<A: fmt::Display> fmt::Display for Route<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gateway {
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
            let route = Route::<Ipv4Addr>::read(text).unwrap_or_else(|| panic!("{text}"));
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
            assert_eq!(Route::<Ipv4Addr>::read(wrong), None, "{wrong:?}");
        }
        assert_eq!(Pattern::<Ipv4Addr>::read("10.0.0.0/8").unwrap().target, None);
        assert_eq!(Pattern::<Ipv4Addr>::read("10.0.0.0/8 7").unwrap().target, Some((None, 7)));
    }

    #[test]
    fn ipv6_routes_are_read_too() {
        for (text, written) in [
            ("2001:db8::9/32 2001:db8::1 2", "2001:db8::/32 2001:db8::1 2"),
            ("::/0 fe80::1 1", "::/0 fe80::1 1"),
            ("2001:db8::7 :: 3", "2001:db8::7/128 - 3"),
            ("2001:db8::/64 0", "2001:db8::/64 - 0"),
        ] {
            let route = Route::<Ipv6Addr>::read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(route.to_string(), written);
            assert_eq!(Route::read(written), Some(route));
        }
        for wrong in ["::/129 0", "::/+1 0", "::/ 0", "10.0.0.0/8 0", "::/0 10.0.0.1 0", "::/0"] {
            assert_eq!(Route::<Ipv6Addr>::read(wrong), None, "{wrong:?}");
        }
    }
}
