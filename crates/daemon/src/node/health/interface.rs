//! The kernel's state of the interface below a virtual device. The drivers `net_af_packet`, `net_af_xdp` and `net_pcap`
//! always report that their links are up.

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::collections::BTreeMap;

/// Drivers that use an interface of the kernel without checking its state.
const DRIVERS: [&str; 3] = ["net_af_packet", "net_af_xdp", "net_pcap"];

/// The interface below a device whose driver does not know the state of its link: `eth1` for
/// `net_af_packet0,iface=eth1`.
pub fn behind(device: &str) -> Option<&str> {
    let mut words = device.split(',');
    let name = words.next()?;
    let is_blind = DRIVERS.iter().any(|driver| {
        name.strip_prefix(driver).is_some_and(|rest| rest.bytes().all(|octet| octet.is_ascii_digit()))
    });
    words.filter(|_| is_blind).find_map(|word| word.trim().strip_prefix("iface="))
}

/// The interfaces of the process's network namespace, and whether frames can pass each: it is up (`IFF_UP`) and has a
/// carrier (`IFF_LOWER_UP`). Cost: two system calls and an answer per address.
///
/// # Errors
/// The error of the system.
pub fn states() -> Result<BTreeMap<String, bool>, nix::Error> {
    // Not IFF_RUNNING, which the kernel updates only once per second.
    let passes = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_LOWER_UP;
    Ok(getifaddrs()?.map(|one| (one.interface_name, one.flags.contains(passes))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_of_a_blind_driver_is_found_in_its_arguments() {
        for (device, interface) in [
            ("net_af_packet0,iface=sb0", Some("sb0")),
            ("net_af_packet7,qpairs=2,iface=sb1,blocksz=4096", Some("sb1")),
            ("net_af_xdp1,iface=eth2", Some("eth2")),
            ("net_pcap0,iface=lo", Some("lo")),
            ("net_pcap0,rx_pcap=in.pcap", None),
            ("net_tap0,iface=sb0", None),
            ("net_af_packet_like0,iface=sb0", None),
            ("0000:01:00.0", None),
            ("0000:01:00.0,iface=sb0", None),
            ("", None),
        ] {
            assert_eq!(behind(device), interface, "{device}");
        }
    }

    #[test]
    fn the_loopback_is_up_if_it_is_there() {
        assert!(states().unwrap().get("lo").is_none_or(|is_up| *is_up));
    }
}
