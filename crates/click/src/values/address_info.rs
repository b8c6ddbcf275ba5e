//! Named addresses, defined by `AddressInfo` elements.

use super::address::{self, Mac, Prefix};
use crate::config_strings::words;
use crate::configuration::{Argument, Configuration};
use crate::problem::{Errors, Problem, Problems};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The class whose elements define names.
const CLASS: &str = "AddressInfo";

/// Most enclosing compounds, outermost first, in which an element's names are searched; limits allow less nesting.
const MAX_SCOPES: usize = 64;

/// The addresses of one name, at most one per kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) ip: Option<Ipv4Addr>,
    pub(super) ip6: Option<Ipv6Addr>,
    pub(super) prefix: Option<Prefix>,
    pub(super) mac: Option<Mac>,
}

impl Entry {
    /// Adds an address; false if one of its kind exists. A prefix with host bits is an address too.
    fn add(&mut self, text: &str) -> Option<bool> {
        if let Some(prefix) = address::prefix(text) {
            let host = prefix.address != prefix.network() || prefix.length == 32;
            let ok = self.prefix.replace(prefix).is_none();
            return Some(ok && (!host || self.ip.replace(prefix.address).is_none()));
        }
        if let Some(ip) = address::ip(text) {
            return Some(self.ip.replace(ip).is_none());
        }
        if let Some(mac) = address::mac(text) {
            return Some(self.mac.replace(mac).is_none());
        }
        text.parse().ok().map(|ip| self.ip6.replace(ip).is_none())
    }
}

/// The names that a configuration's `AddressInfo(NAME ADDRESS…, …)` elements define. A name is visible in the compound
/// of its `AddressInfo`, and in nested compounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressInfo {
    /// By the compound's name with a trailing slash, and the name.
    entries: HashMap<String, HashMap<String, Entry>>,
}

impl AddressInfo {
    /// Collects the names of a configuration.
    ///
    /// # Errors
    ///
    /// Each argument that is not a name with addresses, and each name with two addresses of a kind.
    pub fn of(configuration: &Configuration) -> Result<Self, Errors> {
        let mut problems = Problems::new(100);
        let mut info = Self::default();
        for element in configuration.elements.iter().filter(|element| element.class == CLASS) {
            let scope = element.name.rfind('/').map_or("", |at| &element.name[..=at]);
            for argument in &element.args {
                if let Err((at, message)) = info.define(scope, argument) {
                    let problem = Problem::Argument { element: element.name.clone(), message };
                    problems.report(argument.place(at, argument.text.len()), problem);
                }
            }
        }
        if problems.is_empty() {
            Ok(info)
        } else {
            Err(problems.into_errors(Arc::clone(&configuration.source)))
        }
    }

    fn define(&mut self, scope: &str, argument: &Argument) -> Result<(), (usize, String)> {
        let text = argument.text.as_str();
        let all: Vec<_> = words(text).collect();
        let Some((name, addresses)) = all.split_first().filter(|(_, addresses)| !addresses.is_empty()) else {
            return Err((0, format!("expected `NAME ADDRESS…`, not `{text}`")));
        };
        let name = &text[name.clone()];
        let entry = self.entries.entry(scope.to_owned()).or_default().entry(name.to_owned()).or_default();
        for word in addresses {
            let address = &text[word.clone()];
            match entry.add(address) {
                Some(true) => {}
                Some(false) => {
                    return Err((
                        word.start,
                        format!("`{name}` has another address of the kind of `{address}`"),
                    ));
                }
                None => return Err((word.start, format!("`{address}` is no address"))),
            }
        }
        Ok(())
    }

    /// The names visible to an element.
    pub fn names<'a>(&'a self, element: &'a str) -> Names<'a> {
        Names { info: Some(self), element }
    }
}

/// The names visible to one element.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    info: Option<&'a AddressInfo>,
    element: &'a str,
}

impl Names<'_> {
    /// No names.
    pub fn none() -> Self {
        Names { info: None, element: "" }
    }

    /// The address of a name, which may have its kind as suffix: `server:ip`.
    pub(super) fn find<T>(&self, text: &str, kind: &str, of: impl Fn(&Entry) -> Option<T>) -> Option<T> {
        let info = self.info?;
        let name = text.strip_suffix(kind).and_then(|name| name.strip_suffix(':')).unwrap_or(text);
        let ends = self.element.match_indices('/').map(|(at, _)| at + 1).take(MAX_SCOPES);
        let mut scopes: Vec<usize> = std::iter::once(0).chain(ends).collect();
        scopes.reverse();
        scopes.into_iter().find_map(|end| of(info.entries.get(&self.element[..end])?.get(name)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;

    fn info(text: &str) -> Result<AddressInfo, Errors> {
        AddressInfo::of(&crate::parse("t.click", text.as_bytes(), &crate::Options::default()).unwrap())
    }

    #[test]
    fn names_stand_for_addresses_where_they_are_visible() {
        let info = info(
            "AddressInfo(me 18.26.4.24/24 0:0:c0:ae:67:ef, net 10.0.0.0/8, six 2001:db8::1);
             a :: { AddressInfo(me 1.1.1.1); x :: X; b :: { X } }",
        )
        .unwrap();
        let outside = info.names("y");
        let inside = info.names("a/b/X@1");
        let me = Ipv4Addr::new(18, 26, 4, 24);
        assert_eq!(Ipv4Addr::read("me", &outside), Some(me));
        assert_eq!(Ipv4Addr::read("me:ip", &outside), Some(me));
        assert_eq!(Ipv4Addr::read("me", &inside), Some(Ipv4Addr::new(1, 1, 1, 1)));
        assert_eq!(Mac::read("me:eth", &inside), Some(Mac([0, 0, 0xc0, 0xae, 0x67, 0xef])));
        assert_eq!(
            Prefix::read("net", &outside),
            Some(Prefix { address: Ipv4Addr::new(10, 0, 0, 0), length: 8 })
        );
        assert_eq!(Prefix::read("me:ipnet", &outside).unwrap().network(), Ipv4Addr::new(18, 26, 4, 0));
        assert!(Ipv4Addr::read("net", &outside).is_none(), "a network is no host");
        assert!(Ipv6Addr::read("six", &outside).is_some());
        assert!(Ipv4Addr::read("you", &outside).is_none());
        assert!(Ipv4Addr::read("me", &Names::none()).is_none());
    }

    #[test]
    fn wrong_definitions_are_located() {
        let shown = info("AddressInfo(me 1.2.3.4 1.2.3.5, you,\n they 1.2.3.x)").unwrap_err().to_string();
        assert!(
            shown
                .contains("t.click:1:24: `AddressInfo@1`: `me` has another address of the kind of `1.2.3.5`"),
            "{shown}"
        );
        assert!(
            shown.contains("t.click:1:33: `AddressInfo@1`: expected `NAME ADDRESS…`, not `you`"),
            "{shown}"
        );
        assert!(shown.contains("t.click:2:7: `AddressInfo@1`: `1.2.3.x` is no address"), "{shown}");
    }
}
