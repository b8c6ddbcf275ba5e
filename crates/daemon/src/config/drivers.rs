//! Names of DPDK's virtual devices.

use scalebricks_click::similar;

/// Drivers of virtual devices: DPDK 22.11 to 25.11. A device's name begins with the name of its driver.
const DRIVERS: [&str; 19] = [
    "net_af_packet",
    "net_af_xdp",
    "net_bonding",
    "net_enetfec",
    "net_failsafe",
    "net_memif",
    "net_mvneta",
    "net_mvpp2",
    "net_null",
    "net_pcap",
    "net_pfe",
    "net_ring",
    "net_softnic",
    "net_tap",
    "net_tun",
    "net_vdev_netvsc",
    "net_vhost",
    "net_virtio",
    "virtio_user",
];

/// Older names of the same drivers.
const ALIASES: [&str; 7] =
    ["eth_af_packet", "eth_bond", "eth_null", "eth_pcap", "eth_ring", "eth_tap", "eth_vhost"];

/// Whether DPDK can make this device: a PCI address, or a virtual device of a driver that it has.
pub(super) fn is_device(device: &str) -> bool {
    let name = device.split(',').next().unwrap_or_default();
    is_pci(name) || DRIVERS.iter().chain(&ALIASES).any(|driver| name.starts_with(driver))
}

/// Whether this is a PCI address, with or without the domain: `0000:01:00.0`.
fn is_pci(name: &str) -> bool {
    let is_hex = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let Some((bus, function)) = name.rsplit_once('.') else { return false };
    let parts: Vec<&str> = bus.split(':').collect();
    let is_bus = match parts[..] {
        [bus, device] => is_hex(bus, 2) && is_hex(device, 2),
        [domain, bus, device] => is_hex(domain, 8) && is_hex(bus, 2) && is_hex(device, 2),
        _ => false,
    };
    is_bus && is_hex(function, 1)
}

/// A device with a name that was probably meant.
pub(super) fn meant(device: &str) -> Option<String> {
    let name = device.split(',').next().unwrap_or_default();
    let driver = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let with_net = format!("net_{driver}");
    let exact = DRIVERS.contains(&with_net.as_str()).then(|| with_net.clone());
    let found = exact.or_else(|| similar(driver, DRIVERS)).or_else(|| similar(&with_net, DRIVERS))?;
    Some(format!("{found}{}", &name[driver.len()..]))
}

#[test]
fn devices_are_pci_addresses_or_of_a_known_driver() {
    for device in [
        "0000:01:00.0",
        "01:00.1",
        "10000:e1:00.0",
        "0000:01:00.0,rx_timestamp=1",
        "net_af_packet0,iface=eth1",
        "net_virtio_user7",
        "net_null",
    ] {
        assert!(is_device(device), "{device}");
    }
    for (device, expected) in [
        ("net_af_xpd0,iface=eth1", Some("net_af_xdp0")),
        ("af_xdp0", Some("net_af_xdp0")),
        ("net_afpacket12", Some("net_af_packet12")),
        ("net_pcpa0", Some("net_pcap0")),
        ("eth1", None),
        ("0000:01:00", None),
        ("0000:01:00.0.0", None),
        ("", None),
    ] {
        assert!(!is_device(device), "{device}");
        assert_eq!(meant(device).as_deref(), expected, "{device}");
    }
}
