//! Ports and routes.

use super::{Network, Port, Problems, Role, Route, sections};
use crate::config::Spanned;
use scalebricks_apps::switch::text::parse_mac;
use scalebricks_wire::MacAddr;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Smallest MTU of a port: that of IPv6 (RFC 8200 §5).
const MIN_PORT_MTU: u16 = 1_280;

/// Default MTU of a port.
const PORT_MTU: u16 = 1_500;

/// Largest VLAN number (IEEE 802.1Q: 4095 is reserved).
pub(crate) const MAX_VLAN: u16 = 4_094;

/// The devices of ports: each port has its own, or its own VLAN on a shared one.
#[derive(Debug, Default)]
pub(crate) struct Devices(Vec<UsedDevice>);

#[derive(Debug)]
struct UsedDevice {
    name: String,
    vlan: Option<u16>,
    mac: Option<MacAddr>,
}

impl Devices {
    /// Adds a port.
    pub(crate) fn add(
        &mut self,
        device: &Spanned<String>,
        vlan: Option<&Spanned<u16>>,
        mac: Option<&Spanned<String>>,
        problems: &mut Problems<'_>,
    ) {
        let vlan = vlan.map(|vlan| *vlan.get_ref());
        let name = device.get_ref().split(',').next().unwrap_or_default().to_owned();
        let is_taken = |other: Option<u16>| vlan.is_none() || other.is_none() || other == vlan;
        if self.0.iter().any(|other| other.name == name && is_taken(other.vlan)) {
            let what = format!("'{name}' is used twice; ports that share a device need a 'vlan' each");
            problems.add(device.span(), "port.device", what);
        }
        let address = mac.and_then(|mac| parse_mac(mac.get_ref()));
        let is_same = |other: &UsedDevice| other.name != name && other.mac.is_some() && other.mac == address;
        if let Some(mac) = mac.filter(|_| self.0.iter().any(is_same)) {
            let what = format!("'{}' occurs twice; each device has its own address", mac.get_ref());
            problems.add(mac.span(), "port.mac", what);
        }
        self.0.push(UsedDevice { name, vlan, mac: address });
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
        devices.add(&section.device, section.vlan.as_ref(), section.mac.as_ref(), problems);
        let port = port(section, base_station_mtu, &mut used, problems);
        if found[place].replace(port).is_some() {
            problems.add(span, "port.role", format!("a second port has the role '{role}'"));
        }
    }
    for (role, port) in Role::ALL.into_iter().zip(&found) {
        if port.is_none() {
            problems.add(problems.end(), "port", format!("no port has the role '{role}'"));
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
    let mac = section.mac.as_ref().and_then(|text| parse_mac(text.get_ref()));
    let mut addresses = Vec::new();
    for text in &section.addresses {
        let Some(Network(address, length)) = problems.parse(text, "port.addresses") else { continue };
        if !is_host(address) {
            problems.add(text.span(), "port.addresses", format!("{address} is not the address of a host"));
        } else if !used.insert(address) {
            problems.add(text.span(), "port.addresses", format!("{address} occurs twice"));
        }
        addresses.push((address, length));
    }
    if role == Role::Fabric
        && let Some(first) = section.addresses.first()
    {
        problems.add(
            first.span(),
            "port.addresses",
            "the fabric has no addresses: its frames use MAC addresses",
        );
    }
    let mut gateways = Vec::new();
    for gateway in &section.gateways {
        let address = *gateway.get_ref();
        let what = if !addresses.iter().any(|&(own, length)| is_in(address, own, length)) {
            Some("is in none of the port's networks")
        } else if addresses.iter().any(|&(own, _)| own == address) {
            Some("is the port's own address")
        } else {
            gateways.contains(&address).then_some("occurs twice")
        };
        if let Some(what) = what {
            problems.add(gateway.span(), "port.gateways", format!("{address} {what}"));
        }
        gateways.push(address);
    }
    // A frame that crosses the fabric is as long as one of either side.
    let (default, least) = match role {
        Role::Internet => (PORT_MTU, MIN_PORT_MTU),
        Role::BaseStation => (base_station_mtu, base_station_mtu),
        Role::Fabric => (base_station_mtu.max(PORT_MTU), base_station_mtu.max(PORT_MTU)),
    };
    let mtu = section.mtu.as_ref().map_or(default, |given| {
        let what = |mtu| format!("{mtu} is less than {least}, which packets may need here");
        problems.check(given, "port.mtu", |mtu| mtu >= least, what)
    });
    Port {
        role,
        device: section.device.into_inner(),
        mac,
        vlan: section.vlan.map(Spanned::into_inner),
        mtu,
        addresses,
        gateways,
    }
}

/// All routes: those of the file, and the default routes through the ports' gateways.
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
        let to: Option<Network> = problems.parse(&route.to, "route.to");
        let what = |_| "the fabric has no routes: use 'internet' or 'base-station'".to_owned();
        let role = problems.check(&route.port, "route.port", |role| role != Role::Fabric, what);
        let Some(Network(to, length)) = to.filter(|_| role != Role::Fabric) else { continue };
        let own = || ports.iter().filter(|port| port.role == role).flat_map(|port| &port.addresses);
        if route.via.get_ref().is_empty() {
            problems.add(route.via.span(), "route.via", "empty: set at least one next hop");
        }
        for &via in route.via.get_ref() {
            if via.is_ipv4() != to.is_ipv4() || !own().any(|&(net, length)| is_in(via, net, length)) {
                let what = format!("{via} is in none of the port's networks of this family");
                problems.add(route.via.span(), "route.via", what);
            } else if own().any(|&(own, _)| own == via) {
                problems.add(route.via.span(), "route.via", format!("{via} is the port's own address"));
            }
        }
        routes.push(Route { port: role, to: (to, length), via: route.via.into_inner() });
    }
    routes
}

/// The tunnel addresses of the base stations: different from each other and from this node's.
pub(super) fn base_stations(
    given: &[sections::Station],
    ports: Option<&[Port; 3]>,
    problems: &mut Problems<'_>,
) -> Vec<Ipv4Addr> {
    let mut stations: Vec<Ipv4Addr> = Vec::new();
    for station in given {
        let address = *station.address.get_ref();
        let mut own = ports.into_iter().flatten().flat_map(|port| &port.addresses);
        if own.any(|&(own, _)| own == address) {
            let what = format!("{address} is an address of this node's port");
            problems.add(station.address.span(), "base_station.address", what);
        } else if stations.contains(&address) {
            problems.add(station.address.span(), "base_station.address", format!("{address} occurs twice"));
        }
        stations.push(address);
    }
    stations
}

/// Whether a host may have this address.
pub(crate) fn is_host(address: IpAddr) -> bool {
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !address.is_unspecified() && !address.is_multicast() && !address.is_loopback() && !broadcast
}

/// Whether an address is in the network of another.
pub(crate) fn is_in(address: IpAddr, of: IpAddr, length: u8) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    };
    let differ = bits(address) ^ bits(of);
    address.is_ipv4() == of.is_ipv4() && (length == 0 || differ >> (128 - u32::from(length)) == 0)
}
