//! Ports and their groups.

use super::{Port, sections};
use crate::config::Spanned;
use crate::node::config::{Devices, Problems};
use scalebricks_apps::switch::PortGroup;
use scalebricks_apps::switch::text::PortNames;
use scalebricks_elements::flat::MAX_PORTS;

/// Default MTU of a port.
pub(super) const MTU: u16 = 1_500;

/// Smallest MTU of a port: the least payload of an Ethernet frame is 46 bytes, that of an IPv4 host 576 (RFC 791).
pub(super) const MIN_MTU: u16 = 576;

pub(super) fn ports(
    given: Vec<Spanned<sections::Port>>,
    problems: &mut Problems<'_>,
) -> Option<(Vec<Port>, PortNames)> {
    if !(2..=MAX_PORTS).contains(&given.len()) {
        let what = format!("{} [[port]] sections; a switch has 2 to {MAX_PORTS} ports", given.len());
        problems.add(problems.end(), "port", what);
    }
    let (mut ports, mut names, mut groups): (Vec<Port>, Vec<String>, Vec<String>) = Default::default();
    let mut devices = Devices::default();
    for section in given {
        let section = section.into_inner();
        let (span, name) = (section.name.span(), section.name.into_inner());
        if !PortNames::is_name(&name) {
            let what = format!("'{name}' is not a name of 1 to 32 letters, digits, '-' and '_'");
            problems.add(span, "port.name", what);
        } else if names.contains(&name) {
            problems.add(span, "port.name", format!("'{name}' occurs twice"));
        }
        names.push(name);
        if let Some(device) = &section.device {
            devices.add(device, section.vlan.as_ref(), None, problems);
        }
        ports.push(Port {
            device: section.device.map(Spanned::into_inner),
            vlan: section.vlan.map(Spanned::into_inner),
            group: section.group.map(|group| self::group(group.into_inner(), &mut groups)),
            mtu: section.mtu.map_or(MTU, Spanned::into_inner),
        });
    }
    Some((ports, PortNames::new(names).ok()?))
}

/// The number of a group, in the order of the file.
fn group(name: String, groups: &mut Vec<String>) -> PortGroup {
    let at = groups.iter().position(|other| *other == name).unwrap_or_else(|| {
        groups.push(name);
        groups.len() - 1
    });
    PortGroup(at as u16) // not more than ports
}
