//! Names that `AddressInfo` defines, in the arguments of other elements.

use scalebricks_click::values::{AddressInfo, Mac, Names, Prefix, Value};
use scalebricks_click::{Declaration, words};
use scalebricks_graph::Spec;
use scalebricks_graph::spec::ParamSpec;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The kind of address that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Ip,
    Ip6,
    Prefix,
    Mac,
}

/// How a name says which of its addresses is meant.
const SUFFIXES: [(&str, Wanted); 7] = [
    (":ip", Wanted::Ip),
    (":ip4", Wanted::Ip),
    (":ip6", Wanted::Ip6),
    (":ipnet", Wanted::Prefix),
    (":ipprefix", Wanted::Prefix),
    (":eth", Wanted::Mac),
    (":ether", Wanted::Mac),
];

/// What a parameter takes, if that is an address: its type says so in words.
fn wanted(param: &ParamSpec) -> Option<Wanted> {
    let has = |word: &str| param.kind.contains(word);
    match () {
        () if has("MAC") || has("Ethernet address") => Some(Wanted::Mac),
        () if has("prefix") => Some(Wanted::Prefix),
        () if has("IPv6") => Some(Wanted::Ip6),
        () if has("IP") => Some(Wanted::Ip),
        () => None,
    }
}

/// The address that a word stands for.
fn address(name: &str, wanted: Wanted, names: &Names<'_>) -> Option<String> {
    match wanted {
        Wanted::Ip => Ipv4Addr::read(name, names).ok().map(|ip| ip.to_string()),
        Wanted::Ip6 => Ipv6Addr::read(name, names).ok().map(|ip| ip.to_string()),
        Wanted::Mac => Mac::read(name, names).ok().map(|mac| mac.to_string()),
        Wanted::Prefix => {
            let prefix = Prefix::read(name, names).ok().map(|prefix| prefix.to_string());
            prefix.or_else(|| address(name, Wanted::Ip, names))
        }
    }
}

/// A word, or the address it stands for.
fn word(text: &str, kind: Option<Wanted>, names: &Names<'_>) -> Option<String> {
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    for (suffix, wanted) in SUFFIXES {
        if let Some(name) = text.strip_suffix(suffix) {
            return address(name, wanted, names);
        }
    }
    address(text, kind?, names)
}

/// An element's arguments, with addresses in the place of names.
pub(super) fn arguments(element: &Declaration, spec: Option<&Spec>, info: &AddressInfo) -> Vec<String> {
    let texts = element.args.iter().map(|argument| argument.text.as_str());
    // Without a definition there is nothing to look for in what may be long.
    if *info == AddressInfo::default() {
        return texts.map(str::to_owned).collect();
    }
    let names = info.names(&element.name);
    let params = spec.map_or(&[][..], |spec| spec.params);
    let mut by_place = 0;
    let mut resolved = Vec::with_capacity(element.args.len());
    for text in texts {
        let first = text.split_whitespace().next().unwrap_or_default();
        let keyword = params.iter().find(|param| param.name.to_ascii_uppercase() == first);
        let param = keyword.or_else(|| params.get(by_place.min(params.len().saturating_sub(1))));
        by_place += usize::from(keyword.is_none());
        resolved.push(substituted(text, param.and_then(wanted), &names));
    }
    resolved
}

fn substituted(text: &str, kind: Option<Wanted>, names: &Names<'_>) -> String {
    let mut written = String::with_capacity(text.len());
    let mut done = 0;
    for range in words(text) {
        if let Some(address) = text.get(range.clone()).and_then(|text| word(text, kind, names)) {
            written.push_str(text.get(done..range.start).unwrap_or_default());
            written.push_str(&address);
            done = range.end;
        }
    }
    written.push_str(text.get(done..).unwrap_or_default());
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_click::{Options, parse};

    fn resolved(text: &str, kind: Option<Wanted>) -> String {
        let config = "AddressInfo(me 18.26.4.24/24 0:0:c0:ae:67:ef, net 10.0.0.0/8, six 2001:db8::1);";
        let info = AddressInfo::of(&parse("t", config.as_bytes(), &Options::default()).unwrap()).unwrap();
        substituted(text, kind, &info.names("x"))
    }

    #[test]
    fn names_become_addresses_where_such_are_wanted_or_meant() {
        assert_eq!(resolved("me:ip me:eth", None), "18.26.4.24 00:00:c0:ae:67:ef");
        assert_eq!(
            resolved("src host  me:ip and net me:ipnet", None),
            "src host  18.26.4.24 and net 18.26.4.24/24"
        );
        assert_eq!(resolved("six:ip6", None), "2001:db8::1");
        assert_eq!(resolved("me", None), "me", "it may be the name of a device");
        assert_eq!(resolved("me", Some(Wanted::Mac)), "00:00:c0:ae:67:ef");
        assert_eq!(resolved("me 1.2.3.4", Some(Wanted::Ip)), "18.26.4.24 1.2.3.4");
        assert_eq!(resolved("net you 0:1", Some(Wanted::Prefix)), "10.0.0.0/8 you 0:1");
        assert_eq!(resolved("you:ip \"me:ip\"", None), "you:ip \"me:ip\"");
        assert_eq!(resolved("", Some(Wanted::Ip)), "");
    }

    #[test]
    fn the_type_of_a_parameter_tells_what_is_wanted() {
        let param = |kind| wanted(&ParamSpec { name: "x", kind, default: None, doc: &[] });
        assert_eq!(param("text"), None);
        assert_eq!(param("an IP address"), Some(Wanted::Ip));
        assert_eq!(param("a MAC address"), Some(Wanted::Mac));
        assert_eq!(param("an IP address, perhaps with a prefix length"), Some(Wanted::Prefix));
    }
}
