//! Replaces names that `AddressInfo` defines in the arguments of other elements.

use scalebricks_click::values::{AddressInfo, Mac, Names, Prefix, Value};
use scalebricks_click::{Argument, Declaration, Diagnostic, Problem, words};
use scalebricks_graph::Spec;
use scalebricks_graph::spec::ParamSpec;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// The kind of address that a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressKind {
    Ip,
    Ip6,
    /// A prefix, or otherwise an address.
    Prefix,
    /// An address, or otherwise a prefix.
    Host,
    Mac,
    /// An address or a prefix, and the MAC address.
    HostAndMac,
}

/// Suffixes that select one of a name's addresses.
const SUFFIXES: [(&str, AddressKind); 7] = [
    (":ip", AddressKind::Ip),
    (":ip4", AddressKind::Ip),
    (":ip6", AddressKind::Ip6),
    (":ipnet", AddressKind::Prefix),
    (":ipprefix", AddressKind::Prefix),
    (":eth", AddressKind::Mac),
    (":ether", AddressKind::Mac),
];

/// The structure of an argument's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArgumentKind {
    /// Text, in which only names with a suffix are replaced.
    Text,
    /// One or more of these.
    Each(AddressKind),
    /// Addresses and prefixes, and a MAC address as the last word.
    Hosts,
    /// A network, an optional gateway, and an output.
    Route,
    /// A filter: names follow `host` and `net`.
    Filter,
}

/// The structure of a parameter's words, derived from its type.
fn kind(param: &ParamSpec) -> ArgumentKind {
    let has = |word: &str| param.kind.contains(word);
    match () {
        () if has("prefixes and a MAC") => ArgumentKind::Hosts,
        () if has("[GATEWAY]") => ArgumentKind::Route,
        () if has("filter") => ArgumentKind::Filter,
        () if has("MAC address") => ArgumentKind::Each(AddressKind::Mac),
        () if has("IPv6 address") => ArgumentKind::Each(AddressKind::Ip6),
        () if has("IP address") && has("prefix") => ArgumentKind::Each(AddressKind::Prefix),
        () if has("IP address") => ArgumentKind::Each(AddressKind::Ip),
        () => ArgumentKind::Text,
    }
}

impl ArgumentKind {
    /// The kind of word `at` of `all`, given the previous word; `None` if it cannot be a name.
    fn wanted(self, at: usize, all: usize, before: &str) -> Option<AddressKind> {
        match (self, before) {
            (Self::Each(wanted), _) => Some(wanted),
            (Self::Hosts, _) if all == 1 => Some(AddressKind::HostAndMac),
            (Self::Hosts, _) => Some(if at + 1 == all { AddressKind::Mac } else { AddressKind::Host }),
            (Self::Route, _) if at == 0 => Some(AddressKind::Prefix),
            (Self::Route, _) if all == 3 && at == 1 => Some(AddressKind::Ip),
            (Self::Filter, "host") => Some(AddressKind::Ip),
            (Self::Filter, "net") => Some(AddressKind::Prefix),
            _ => None,
        }
    }
}

/// The address that a word is or stands for.
fn address(name: &str, wanted: AddressKind, names: &Names<'_>) -> Option<String> {
    let read = |wanted| address(name, wanted, names);
    match wanted {
        AddressKind::Ip => Ipv4Addr::read(name, names).map(|ip| ip.to_string()),
        AddressKind::Ip6 => Ipv6Addr::read(name, names).map(|ip| ip.to_string()),
        AddressKind::Mac => Mac::read(name, names).map(|mac| mac.to_string()),
        AddressKind::Prefix => {
            let prefix = Prefix::read(name, names).map(|prefix| prefix.to_string());
            prefix.or_else(|| read(AddressKind::Ip))
        }
        AddressKind::Host => read(AddressKind::Ip).or_else(|| read(AddressKind::Prefix)),
        AddressKind::HostAndMac => Some(format!("{} {}", read(AddressKind::Host)?, read(AddressKind::Mac)?)),
    }
}

/// Whether a word can be a name.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@');
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_part)
}

/// The replacement of a word: none, an address, or an unknown name.
enum Word {
    Same,
    Address(String),
    Unknown,
}

fn word(text: &str, kind: ArgumentKind, wanted: Option<AddressKind>, names: &Names<'_>) -> Word {
    let suffix = SUFFIXES.iter().find_map(|(suffix, wanted)| Some((text.strip_suffix(suffix)?, *wanted)));
    let (name, wanted) = match (suffix.filter(|(name, _)| is_name(name)), wanted) {
        (Some(named), _) => named,
        (None, Some(wanted)) => (text, wanted),
        (None, None) => return Word::Same,
    };
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return Word::Same;
    }
    match address(name, wanted, names) {
        Some(address) => Word::Address(address),
        None if kind != ArgumentKind::Text && is_name(name) => Word::Unknown,
        None => Word::Same,
    }
}

/// An element's arguments with names replaced by addresses, and the undefined names.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) arguments: Vec<String>,
    pub(super) unknown: Vec<Diagnostic>,
}

/// Replaces names by addresses.
pub(super) fn resolve(element: &Declaration, spec: Option<&Spec>, info: &AddressInfo) -> Resolved {
    let names = info.names(&element.name);
    let params = spec.map_or(&[][..], |spec| spec.params);
    let mut resolved = Resolved::default();
    let mut by_place = 0;
    // A list takes all further arguments by place.
    let list = params.iter().position(|param| param.kind.ends_with('…'));
    let last = list.unwrap_or(params.len().saturating_sub(1));
    for argument in &element.args {
        let text = argument.text.as_str();
        let first = text.split_whitespace().next().unwrap_or_default();
        let keyword = params.iter().find(|param| param.name.to_ascii_uppercase() == first);
        let param = keyword.or_else(|| params.get(by_place.min(last)));
        by_place += usize::from(keyword.is_none());
        let kind = param.map_or(ArgumentKind::Text, kind);
        // Without definitions there is nothing to search for in a possibly long text.
        if kind == ArgumentKind::Text && *info == AddressInfo::default() {
            resolved.arguments.push(text.to_owned());
            continue;
        }
        let (text, unknown) = substituted(text, kind, usize::from(keyword.is_some()), &names);
        resolved.arguments.push(text);
        resolved.unknown.extend(unknown.into_iter().map(|range| no_address(element, argument, range)));
    }
    resolved.arguments.extend(mac_of_the_same_name(element, params, &names));
    resolved
}

/// `ARPQuerier(NAME)` also takes the MAC address of the name: this applies to a class with an address and then a MAC
/// address as required parameters, given a single name without a keyword.
fn mac_of_the_same_name(element: &Declaration, params: &[ParamSpec], names: &Names<'_>) -> Option<String> {
    let [ip, eth, ..] = params else { return None };
    let is_needed =
        matches!((kind(ip), kind(eth)), (ArgumentKind::Each(_), ArgumentKind::Each(AddressKind::Mac)))
            && eth.default.is_none();
    let is_keyword = |text: &&str| {
        let first = text.split_whitespace().next().unwrap_or_default();
        params.iter().any(|param| param.name.to_ascii_uppercase() == first)
    };
    let given = |keyword: &str| {
        element.args.iter().any(|argument| argument.text.split_whitespace().next() == Some(keyword))
    };
    let mut plain = element.args.iter().map(|argument| argument.text.trim()).filter(|text| !is_keyword(text));
    let name = plain.next().filter(|name| is_needed && is_name(name) && plain.next().is_none())?;
    let keyword = eth.name.to_ascii_uppercase();
    let mac = if given(&keyword) { None } else { address(name, AddressKind::Mac, names) };
    mac.map(|mac| format!("{keyword} {mac}"))
}

fn no_address(element: &Declaration, argument: &Argument, range: Range<usize>) -> Diagnostic {
    let name = argument.text.get(range.clone()).unwrap_or_default();
    let message =
        format!("`{name}` is no address, and no AddressInfo gives it one of the kind that belongs here");
    let problem = Problem::Argument { element: element.name.clone(), message };
    Diagnostic::new(argument.place(range.start, range.end), problem)
}

/// The text with names replaced by addresses, except in the first `skip` words, and the positions of unknown names.
fn substituted(
    text: &str,
    kind: ArgumentKind,
    skip: usize,
    names: &Names<'_>,
) -> (String, Vec<Range<usize>>) {
    let mut written = String::with_capacity(text.len());
    let (mut done, mut unknown) = (0, Vec::new());
    let words: Vec<_> = words(text).collect();
    let mut before = "";
    for (at, range) in words.iter().enumerate().skip(skip) {
        let Some(this) = text.get(range.clone()) else { continue };
        let wanted = kind.wanted(at - skip, words.len() - skip, before);
        before = if wanted.is_some() { "" } else { this };
        match word(this, kind, wanted, names) {
            Word::Same => {}
            Word::Unknown => unknown.push(range.clone()),
            Word::Address(address) => {
                written.push_str(text.get(done..range.start).unwrap_or_default());
                written.push_str(&address);
                done = range.end;
            }
        }
    }
    written.push_str(text.get(done..).unwrap_or_default());
    (written, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_click::{Options, parse};

    const CONFIG: &str =
        "AddressInfo(me 18.26.4.24/24 0:0:c0:ae:67:ef, net 10.0.0.0/8, six 2001:db8::1, far 18.26.7.1);";

    fn resolved(text: &str, kind: ArgumentKind) -> String {
        let info = AddressInfo::of(&parse("t", CONFIG.as_bytes(), &Options::default()).unwrap()).unwrap();
        let (mut text, unknown) = {
            let (written, unknown) = substituted(text, kind, 0, &info.names("x"));
            (written, unknown.into_iter().map(|range| text[range].to_owned()).collect::<Vec<_>>())
        };
        for name in unknown {
            text.push_str(" ?");
            text.push_str(&name);
        }
        text
    }

    #[test]
    fn names_become_addresses_where_such_are_wanted_or_meant() {
        const EACH: fn(AddressKind) -> ArgumentKind = ArgumentKind::Each;
        for (text, kind, expected) in [
            ("me:ip me:eth", ArgumentKind::Text, "18.26.4.24 00:00:c0:ae:67:ef"),
            (
                "src host  me:ip and net me:ipnet",
                ArgumentKind::Text,
                "src host  18.26.4.24 and net 18.26.4.24/24",
            ),
            ("six:ip6", ArgumentKind::Text, "2001:db8::1"),
            ("me", ArgumentKind::Text, "me"),
            ("you:ip \"me:ip\" http://me:ip", ArgumentKind::Text, "you:ip \"me:ip\" http://me:ip"),
            ("me", EACH(AddressKind::Mac), "00:00:c0:ae:67:ef"),
            ("aa:bb:cc:dd:ee:ff", EACH(AddressKind::Mac), "aa:bb:cc:dd:ee:ff"),
            ("me 1.2.3.4", EACH(AddressKind::Ip), "18.26.4.24 1.2.3.4"),
            ("me far net", EACH(AddressKind::Prefix), "18.26.4.24/24 18.26.7.1 10.0.0.0/8"),
            ("me you net 7", EACH(AddressKind::Ip), "18.26.4.24 you net 7 ?you ?net"),
            ("me", ArgumentKind::Hosts, "18.26.4.24 00:00:c0:ae:67:ef"),
            ("me net far me", ArgumentKind::Hosts, "18.26.4.24 10.0.0.0/8 18.26.7.1 00:00:c0:ae:67:ef"),
            ("far", ArgumentKind::Hosts, "far ?far"),
            ("me 0", ArgumentKind::Route, "18.26.4.24/24 0"),
            ("net far 1", ArgumentKind::Route, "10.0.0.0/8 18.26.7.1 1"),
            ("net you 1", ArgumentKind::Route, "10.0.0.0/8 you 1 ?you"),
            (
                "allow src host me and dst net net or tcp",
                ArgumentKind::Filter,
                "allow src host 18.26.4.24 and dst net 10.0.0.0/8 or tcp",
            ),
            ("src host you or dst you:ip", ArgumentKind::Filter, "src host you or dst you:ip ?you ?you:ip"),
            ("", EACH(AddressKind::Ip), ""),
        ] {
            assert_eq!(resolved(text, kind), expected);
        }
    }

    #[test]
    fn the_type_of_a_parameter_tells_what_is_wanted() {
        let kind = |kind| super::kind(&ParamSpec { name: "x", kind, default: None, doc: &[] });
        assert_eq!(kind("text"), ArgumentKind::Text);
        assert_eq!(kind("an IP protocol"), ArgumentKind::Text);
        assert_eq!(kind("an IP address"), ArgumentKind::Each(AddressKind::Ip));
        assert_eq!(kind("a MAC address"), ArgumentKind::Each(AddressKind::Mac));
        assert_eq!(
            kind("an IP address, optionally with a prefix length"),
            ArgumentKind::Each(AddressKind::Prefix)
        );
        let of = |class: &str| {
            let registry = scalebricks_elements::registry::<scalebricks_io::Packet>();
            super::kind(&registry.spec(class).unwrap().params[0])
        };
        let classes =
            ["ARPResponder", "StaticIPLookup", "IPFilter", "IPClassifier", "Classifier", "ARPQuerier"];
        let expected = [
            ArgumentKind::Hosts,
            ArgumentKind::Route,
            ArgumentKind::Filter,
            ArgumentKind::Filter,
            ArgumentKind::Text,
            ArgumentKind::Each(AddressKind::Prefix),
        ];
        assert_eq!(classes.map(of), expected);
    }
}
