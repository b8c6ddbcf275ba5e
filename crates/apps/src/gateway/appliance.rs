//! What a node does with packets instead of tunnelling them: a firewall, a NAT, or any configuration in the Click language.
//!
//! A configuration defines `elementclass Appliance` with two inputs and three outputs. Packets are IPv4 behind 14 octets.
//!
//! | port | packets |
//! |---|---|
//! | input 0, input 1 | from inside, from outside |
//! | output 0, output 1 | to outside, to inside |
//! | output 2 | refused; the node drops and counts them |
//!
//! The node gives it only packets that are pinned here, so all packets of a pinned host, in both directions, pass one
//! appliance. Drops of its elements count as [`Refused`](scalebricks_elements::gateway::DropReason::Refused).

use crate::click::Router;
use scalebricks_click::Errors;
use scalebricks_graph::{BuildErrors, Builder, Ledger};
use scalebricks_io::PacketBuf;
use std::fmt::Write;

/// The compound's name in the node's graph.
const NAME: &str = "appliance";

/// The ends of a node's graph that the appliance is connected to, as elements of the configuration.
const FROM_INSIDE: &str = "from_inside";
const FROM_OUTSIDE: &str = "from_outside";
const TO_OUTSIDE: &str = "to_outside";
const TO_INSIDE: &str = "to_inside";
const REFUSED: &str = "refused";
const ENDS: [&str; 5] = [FROM_INSIDE, FROM_OUTSIDE, TO_OUTSIDE, TO_INSIDE, REFUSED];

/// The firewall's configuration: `Appliance` with its options.
const FIREWALL: &str = include_str!("appliance/firewall.click");

/// The NAT's configuration.
const NAT44: &str = include_str!("appliance/nat44.click");

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Appliance(Router);

/// Why a configuration cannot be an appliance.
#[derive(Debug, thiserror::Error)]
pub enum ApplianceError {
    /// The text is wrong.
    #[error("{0}")]
    Text(Errors),
    /// An element outside of `elementclass Appliance`.
    #[error("`{0}` is not in `elementclass Appliance`, which is all that a node uses")]
    Outside(String),
    /// The elements cannot be connected.
    #[error("{0}")]
    Graph(BuildErrors),
}

/// A firewall as an appliance. `options` are arguments of its element, such as its rules.
pub fn firewall(options: &str) -> String {
    with_options(FIREWALL, options)
}

/// A NAT as an appliance. `options` are arguments of its element: its addresses, its blocks of ports.
pub fn nat44(options: &str) -> String {
    with_options(NAT44, options)
}

fn with_options(text: &str, options: &str) -> String {
    let options = if options.is_empty() { String::new() } else { format!("{options}, ") };
    text.replace("/* options */ ", &options)
}

/// Whether an element of a node's graph belongs to the appliance.
pub(crate) fn owns(element: &str) -> bool {
    element.strip_prefix(NAME).is_some_and(|rest| rest.starts_with('/')) || ENDS.contains(&element)
}

impl Appliance {
    /// Reads a configuration. Its elements are checked one by one; see [`Self::check`] for all.
    ///
    /// # Errors
    /// [`ApplianceError::Text`], [`ApplianceError::Outside`].
    pub fn read<P: PacketBuf + 'static>(text: &str) -> Result<Self, ApplianceError> {
        let mut text = text.to_owned();
        // After the text, so that errors in it have its lines. Writing to a string cannot fail.
        let _always = write!(
            text,
            "\n{NAME} :: Appliance;\n\
             {FROM_INSIDE} :: Null -> [0] {NAME} [0] -> {TO_OUTSIDE} :: Null;\n\
             {FROM_OUTSIDE} :: Null -> [1] {NAME} [1] -> {TO_INSIDE} :: Null;\n\
             {NAME} [2] -> {REFUSED} :: Null;\n"
        );
        let registry = scalebricks_elements::registry::<P>();
        let router =
            Router::read("appliance", text.as_bytes(), &[], &registry).map_err(ApplianceError::Text)?;
        let elements = &router.configuration().elements;
        match elements.iter().find(|element| !owns(&element.name)) {
            Some(element) => Err(ApplianceError::Outside(element.name.clone())),
            None => Ok(Self(router)),
        }
    }

    /// Checks a configuration completely: also how its elements are connected.
    ///
    /// # Errors
    /// [`ApplianceError`].
    pub fn check<P: PacketBuf + 'static>(text: &str) -> Result<(), ApplianceError> {
        let appliance = Self::read::<P>(text)?;
        let mut builder = Builder::<P>::new();
        builder.declare("inside", "Idle", &[]).declare("outside", "Idle", &[]).declare("end", "Discard", &[]);
        appliance.add_elements(&mut builder);
        builder.connect("inside", 0, FROM_INSIDE, 0).connect("outside", 0, FROM_OUTSIDE, 0);
        for end in [TO_OUTSIDE, TO_INSIDE, REFUSED] {
            builder.connect(end, 0, "end", 0);
        }
        let built = builder.build(&scalebricks_elements::registry(), &mut Ledger::new());
        built.map(drop).map_err(ApplianceError::Graph)
    }

    fn add_elements<P: PacketBuf + 'static>(&self, builder: &mut Builder<P>) {
        self.0.declare_in(builder);
    }

    /// Adds its elements to a node's graph, behind `handle` and in front of `to_next_hop`.
    pub(crate) fn add_to<P: PacketBuf + 'static>(
        &self,
        builder: &mut Builder<P>,
        handle: &str,
        to_next_hop: &str,
    ) {
        self.add_elements(builder);
        builder.connect(handle, 5, FROM_INSIDE, 0).connect(handle, 6, FROM_OUTSIDE, 0);
        builder.connect(TO_OUTSIDE, 0, to_next_hop, 0).connect(TO_INSIDE, 0, to_next_hop, 1);
        builder.connect(REFUSED, 0, to_next_hop, 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_io::Packet;

    #[test]
    fn the_firewall_and_the_nat_are_appliances() {
        let nat = nat44("INSIDE 10.1.0.0/24, PUBLIC 192.0.2.0/30, BLOCK 512");
        for text in [firewall(""), firewall("RULE outside allow icmp"), nat] {
            Appliance::check::<Packet>(&text).unwrap();
        }
    }

    #[test]
    fn a_wrong_configuration_is_refused_and_its_line_told() {
        for (text, told) in [
            (
                "elementclass Appliance { input[0] -> [0] output; input[1] -> [1] output; Idle -> Quue -> [2] output; }",
                "Quue",
            ),
            ("elementclass Appliance { input[0] -> Discard; }", "`appliance` has no input 1"),
            ("elementclass Firewall { input -> output; }", "Appliance"),
            (
                "elementclass Appliance { input[0] -> [0] output; input[1] -> [1] output; Idle -> [2] output; }\nx :: Idle -> Discard;",
                "`x` is not in",
            ),
            ("elementclass Appliance { input[0] -> Discard; input[1] -> Discard; }", "appliance"),
        ] {
            let error = Appliance::check::<Packet>(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
