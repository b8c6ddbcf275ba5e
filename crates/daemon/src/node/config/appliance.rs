//! What a node does with packets: tunnels, or an appliance.

use super::sections::Appliance as Section;
use super::{Network, Problems, Workers};
use crate::config::Spanned;
use scalebricks_apps::gateway::appliance::{firewall, nat44};
use scalebricks_types::{KeyProfile, PortBlocks};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// The appliance of a node: its configuration in the Click language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplianceFile {
    /// That of a built-in firewall or NAT.
    BuiltIn(String),
    /// In a file.
    File(PathBuf),
}

/// Ports below this one are no block's, unless configured otherwise: well-known ones (RFC 6335 §6).
pub(super) const FIRST_PORT: u16 = 1_024;

/// Default of `appliance.block`.
pub(super) const BLOCK: u16 = 512;

/// Checks the section: the appliance, and the keys of its packets; `None` for a gateway of tunnels.
pub(super) fn appliance(
    section: Option<&Spanned<Section>>,
    key: Option<&Spanned<String>>,
    workers: &Workers,
    problems: &mut Problems<'_>,
) -> Option<(ApplianceFile, KeyProfile)> {
    let section = section?;
    let (span, section) = (section.span(), section.get_ref());
    let options = section.options.as_deref().unwrap_or_default();
    let made = match section.kind.get_ref().as_str() {
        "gtp" => {
            let others = section.file.is_some() || section.options.is_some() || section.inside.is_some();
            if others || section.public.is_some() {
                problems.add(span, "appliance", "a gateway of tunnels has no other keys here");
            }
            return None;
        }
        "firewall" => Some((firewall(options), KeyProfile::Inside)),
        "nat44" => blocks(section, problems).map(|blocks| {
            let [inside, public] = [blocks.inside(), blocks.public()];
            let (first, length) = blocks.layout();
            let plan = format!(
                "INSIDE {}/{}, PUBLIC {}/{}, FIRST_PORT {first}, BLOCK {length}{}{options}",
                inside.0,
                inside.1,
                public.0,
                public.1,
                if options.is_empty() { "" } else { ", " }
            );
            (nat44(&plan), KeyProfile::Nat44(blocks))
        }),
        _ => None,
    };
    if let Some(key) = key {
        problems.add(key.span(), "cluster.key", "an appliance has its own keys: remove this line");
    }
    if workers.count() > 1 {
        // Each worker would have its own flows, and a flow's directions reach a node by different ports.
        problems.add(span, "appliance", "an appliance has one worker: set one of worker.cores, and no split");
    }
    let (text, profile) = made?;
    let file = section.file.clone().map_or(ApplianceFile::BuiltIn(text), ApplianceFile::File);
    Some((file, profile))
}

fn blocks(section: &Section, problems: &mut Problems<'_>) -> Option<PortBlocks> {
    let mut prefix = |given: Option<&Spanned<String>>, key: &str| {
        let Some(given) = given else {
            problems.add(section.kind.span(), key, "a NAT needs it: an IPv4 prefix, like 192.0.2.0/30");
            return None;
        };
        match problems.parse(given, key)? {
            Network(IpAddr::V4(address), length) => Some((address, length)),
            Network(IpAddr::V6(_), _) => {
                problems.add(given.span(), key, "not an IPv4 prefix");
                None
            }
        }
    };
    let inside: Option<(Ipv4Addr, u8)> = prefix(section.inside.as_ref(), "appliance.inside");
    let public = prefix(section.public.as_ref(), "appliance.public");
    let first = section.first_port.unwrap_or(FIRST_PORT);
    let block = section.block.as_ref();
    let span = block.map_or_else(|| section.kind.span(), Spanned::span);
    let length = block.map_or(BLOCK, |block| *block.get_ref());
    PortBlocks::new(inside?, public?, first, length)
        .map_err(|error| problems.add(span, "appliance.block", error.to_string()))
        .ok()
}
