//! Ports and routes.

use super::{Port, Problems, Role, Route, network, sections};
use scalebricks_wire::MacAddr;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use toml::Spanned;

/// Smallest MTU of a port: that of IPv6 (RFC 8200 §5).
const MIN_PORT_MTU: u16 = 1_280;

/// MTU of a port that does not say.
const PORT_MTU: u16 = 1_500;

/// Largest VLAN number (IEEE 802.1Q: 4095 is reserved).
const MAX_VLAN: u16 = 4_094;

/// The devices of ports, and the VLANs by which they are shared.
#[derive(Debug, Default)]
pub(crate) struct Devices(Vec<(String, Option<u16>)>);

impl Devices {
    /// One more port, which may have a device for itself, or share it by a VLAN of its own.
    pub(crate) fn add(
        &mut self,
        device: &Spanned<String>,
        vlan: Option<&Spanned<u16>>,
        problems: &mut Problems<'_>,
    ) {
        let text = device.get_ref();
        if text.trim().is_empty() {
            let what = "empty; a PCI address (0000:01:00.0) or a virtual device (net_af_packet0,iface=eth1)";
            problems.add(device.span(), "port.device", what);
        }
        if let Some(vlan) = vlan.filter(|vlan| !(1..=MAX_VLAN).contains(vlan.get_ref())) {
            problems.add(vlan.span(), "port.vlan", format!("{} is not 1 to {MAX_VLAN}", vlan.get_ref()));
        }
        let (name, vlan) =
            (text.split(',').next().unwrap_or_default().to_owned(), vlan.map(|vlan| *vlan.get_ref()));
        let is_taken = |other: Option<u16>| vlan.is_none() || other.is_none() || other == vlan;
        if self.0.iter().any(|(other, other_vlan)| *other == name && is_taken(*other_vlan)) {
            let what = format!("'{name}' is used twice; ports that share a device need a 'vlan' each");
            problems.add(device.span(), "port.device", what);
        }
        self.0.push((name, vlan));
    }
}

/// The three ports, in the order of [`Role::ALL`].
pub(super) fn ports(
    given: Vec<Spanned<sections::Port>>,
    base_station_mtu: u16,
    problems: &mut Problems<'_>,
) -> Option<[Port; 3]> {
    let mut found: [Option<Port>; 3] = [None, None, None];
    let mut devices = Devices::default();
    let mut used = BTreeSet::new();
    for section in given {
        let span = section.span();
        let section = section.into_inner();
        let role = *section.role.get_ref();
        let place = Role::ALL.iter().position(|&other| other == role)?;
        devices.add(&section.device, section.vlan.as_ref(), problems);
        let port = port(section, base_station_mtu, &mut used, problems);
        if found[place].replace(port).is_some() {
            problems.add(span, "port.role", format!("a second port is '{}'", role.name()));
        }
    }
    for (role, port) in Role::ALL.into_iter().zip(&found) {
        if port.is_none() {
            let end = problems.text.len();
            problems.add(end..end, "port", format!("none has the role '{}'", role.name()));
        }
    }
    let [internet, base_station, fabric] = found;
    Some([internet?, base_station?, fabric?])
}

fn port(
    section: sections::Port,
    base_station_mtu: u16,
    used: &mut BTreeSet<IpAddr>,
    problems: &mut Problems<'_>,
) -> Port {
    let role = *section.role.get_ref();
    let mac = section.mac.as_ref().and_then(|text| {
        let mac = mac(text.get_ref());
        if mac.is_none() {
            let what = format!("'{}' is not a unicast address like 02:00:00:00:00:01", text.get_ref());
            problems.add(text.span(), "port.mac", what);
        }
        mac
    });
    let mut addresses = Vec::new();
    for text in &section.addresses {
        if let Some(address) = network(text.get_ref()).filter(|(address, _)| is_host(*address)) {
            if !used.insert(address.0) {
                problems.add(text.span(), "port.addresses", format!("{} is there twice", address.0));
            }
            addresses.push(address);
        } else {
            let what = format!("'{}' is not an address with its network, like 192.0.2.1/24", text.get_ref());
            problems.add(text.span(), "port.addresses", what);
        }
    }
    if role == Role::Fabric
        && let Some(first) = section.addresses.first()
    {
        problems.add(
            first.span(),
            "port.addresses",
            "the fabric has none: its frames say by MAC where they go",
        );
    }
    for gateway in &section.gateways {
        let address = *gateway.get_ref();
        if !addresses.iter().any(|&(own, length)| is_in(address, own, length)) {
            let what = format!("{address} is in none of the port's networks");
            problems.add(gateway.span(), "port.gateways", what);
        }
    }
    // A frame that crosses the fabric is as long as one of either side.
    let needed = base_station_mtu.max(PORT_MTU);
    let mtu = section.mtu.as_ref().map_or(
        match role {
            Role::Internet => PORT_MTU,
            Role::BaseStation => base_station_mtu,
            Role::Fabric => needed,
        },
        |mtu| *mtu.get_ref(),
    );
    if let Some(given) = &section.mtu {
        let least = match role {
            Role::Internet => MIN_PORT_MTU,
            Role::BaseStation => base_station_mtu,
            Role::Fabric => needed,
        };
        if mtu < least {
            let what = format!("{mtu} is less than the {least} that packets may need here");
            problems.add(given.span(), "port.mtu", what);
        }
    }
    Port {
        role,
        device: section.device.into_inner(),
        mac,
        vlan: section.vlan.map(Spanned::into_inner),
        mtu,
        addresses,
        gateways: section.gateways.into_iter().map(Spanned::into_inner).collect(),
    }
}

/// All routes: those of the file, and the default ones that ports' gateways are.
pub(super) fn routes(
    given: Vec<sections::Route>,
    ports: &[Port; 3],
    problems: &mut Problems<'_>,
) -> Vec<Route> {
    let mut routes = Vec::new();
    for port in ports {
        for default in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            let same = |via: &&IpAddr| via.is_ipv4() == default.is_ipv4();
            let via: Vec<IpAddr> = port.gateways.iter().filter(same).copied().collect();
            if !via.is_empty() {
                routes.push(Route { port: port.role, to: (default, 0), via });
            }
        }
    }
    for route in given {
        let Some(to) = network(route.to.get_ref()) else {
            let what = format!("'{}' is not a network, like 10.0.0.0/8", route.to.get_ref());
            problems.add(route.to.span(), "route.to", what);
            continue;
        };
        let role = *route.port.get_ref();
        if role == Role::Fabric {
            problems.add(
                route.port.span(),
                "route.port",
                "the fabric has no routes; 'internet' or 'base-station'",
            );
            continue;
        }
        let own = ports.iter().filter(|port| port.role == role).flat_map(|port| &port.addresses);
        let own: Vec<(IpAddr, u8)> = own.copied().collect();
        if route.via.get_ref().is_empty() {
            problems.add(route.via.span(), "route.via", "no next hop");
        }
        for &via in route.via.get_ref() {
            if via.is_ipv4() != to.0.is_ipv4() || !own.iter().any(|&(net, length)| is_in(via, net, length)) {
                let what = format!("{via} is in none of the port's networks of this family");
                problems.add(route.via.span(), "route.via", what);
            }
        }
        routes.push(Route { port: role, to, via: route.via.into_inner() });
    }
    routes
}

/// An address that one station may have.
pub(super) fn is_host(address: IpAddr) -> bool {
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !address.is_unspecified() && !address.is_multicast() && !address.is_loopback() && !broadcast
}

/// Whether an address is in the network of another.
pub(super) fn is_in(address: IpAddr, of: IpAddr, length: u8) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    };
    let differ = bits(address) ^ bits(of);
    address.is_ipv4() == of.is_ipv4() && (length == 0 || differ >> (128 - u32::from(length)) == 0)
}

fn mac(text: &str) -> Option<MacAddr> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        *octet =
            parts.next().filter(|part| part.len() == 2).and_then(|part| u8::from_str_radix(part, 16).ok())?;
    }
    let mac = MacAddr(octets);
    (parts.next().is_none() && !mac.is_multicast()).then_some(mac)
}
