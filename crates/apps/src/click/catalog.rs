//! The classes of a registry, in the form that Click's checker needs.

use super::config_only;
use scalebricks_click::ClassSpec;
use scalebricks_graph::Registry;
use scalebricks_graph::Spec;
use scalebricks_graph::spec::{PortArity, PortKind, PortSpec};
use scalebricks_io::PacketBuf;
use std::collections::BTreeMap;

/// Classes by name, with port counts and processing codes derived from their specs. Arguments are checked when elements
/// are created, and so is which optional port may stay unconnected.
#[derive(Debug)]
pub struct Catalog {
    classes: BTreeMap<&'static str, Codes>,
}

#[derive(Debug)]
struct Codes {
    ports: String,
    processing: String,
}

/// The number of ports of a side: `2`, `1-2`, `1-`.
fn count(ports: &[PortSpec]) -> String {
    let is_wanted = |port: &PortSpec| matches!(port.many, PortArity::One | PortArity::OneOrMore);
    let least = ports.iter().rposition(is_wanted).map_or(0, |last| last + 1);
    match ports.last().map(|last| last.many) {
        Some(PortArity::OneOrMore | PortArity::ZeroOrMore) => format!("{least}-"),
        _ if least == ports.len() => least.to_string(),
        _ => format!("{least}-{}", ports.len()),
    }
}

/// One letter per port of a side.
fn letters(ports: &[PortSpec]) -> String {
    let letter = |port: &PortSpec| match port.flow {
        PortKind::Push => 'h',
        PortKind::Pull => 'l',
        PortKind::Agnostic => 'a',
    };
    if ports.is_empty() { "a".to_owned() } else { ports.iter().map(letter).collect() }
}

impl Codes {
    fn of(spec: &Spec) -> Self {
        let Spec { inputs, outputs, .. } = spec;
        Self {
            ports: format!("{}/{}", count(inputs), count(outputs)),
            processing: format!("{}/{}", letters(inputs), letters(outputs)),
        }
    }
}

impl Catalog {
    /// The classes of a registry, and those [beside] a graph.
    pub fn new<P: PacketBuf + 'static>(registry: &Registry<P>) -> Self {
        let specs = registry.specs().chain(config_only::specs());
        Self { classes: specs.map(|spec| (spec.class, Codes::of(spec))).collect() }
    }
}

impl scalebricks_click::Catalog for Catalog {
    fn class(&self, name: &str) -> Option<ClassSpec<'_>> {
        let codes = self.classes.get(name)?;
        Some(ClassSpec::new(&codes.ports, &codes.processing).holes())
    }

    fn names(&self) -> Vec<&str> {
        self.classes.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_io::Packet;

    #[test]
    fn specs_become_clicks_codes() {
        let catalog = Catalog::new(&scalebricks_elements::registry::<Packet>());
        let codes = |class| {
            let codes = &catalog.classes[class];
            (codes.ports.as_str(), codes.processing.as_str())
        };
        assert_eq!(codes("Queue"), ("1/1", "h/l"));
        assert_eq!(codes("Tee"), ("1/1-", "h/h"));
        assert_eq!(codes("FromDevice"), ("0/1", "a/h"));
        assert_eq!(codes("ToDump"), ("1/0-1", "a/a"));
        assert_eq!(codes("CheckPaint"), ("1/1-2", "a/ah"));
        assert_eq!(codes("AddressInfo"), ("0/0", "a/a"));
    }
}
