//! What of a packet is its key.

use crate::{FiveTuple, FlowKey, PortBlocks};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// What of a packet is its key. Configured once per cluster. A gateway keys upstream packets by TEID; a firewall and a NAT
/// key packets from inside by their source address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyProfile {
    /// The five-tuple as seen on the wire, IPv4 and IPv6.
    Flow5,
    /// The destination, a UE: its IPv4 address or IPv6 /64.
    Ue,
    /// The destination, an inside host of a firewall.
    Inside,
    /// The public address and the block of the destination port, of a NAT with these blocks.
    Nat44(PortBlocks),
}

impl KeyProfile {
    /// The key of a downstream packet with this tuple; `None` if the addresses are of two families, or a NAT has no such
    /// port.
    #[inline]
    pub fn downstream_key(self, tuple: &FiveTuple) -> Option<FlowKey> {
        match self {
            Self::Flow5 => FlowKey::five_tuple(tuple),
            Self::Ue | Self::Inside => Some(FlowKey::ue(tuple.dst)),
            Self::Nat44(blocks) => {
                let IpAddr::V4(public) = tuple.dst else { return None };
                Some(FlowKey::port_block(public, blocks.of_public(public, tuple.dst_port)?))
            }
        }
    }

    /// Whether packets are keyed for a firewall or a NAT: those from inside by their source address.
    pub const fn is_of_appliance(self) -> bool {
        matches!(self, Self::Inside | Self::Nat44(_))
    }

    /// The name of its kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow5 => "flow5",
            Self::Ue => "ue",
            Self::Inside => "inside",
            Self::Nat44(_) => NAT44,
        }
    }
}

const NAT44: &str = "nat44";

/// The name, and for a NAT its blocks: `nat44:` and the text of [`PortBlocks`]. [`FromStr`] reads it.
impl fmt::Display for KeyProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nat44(blocks) => write!(f, "{NAT44}:{blocks}"),
            _ => f.write_str(self.name()),
        }
    }
}

/// A name that is no key profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown key profile {0:?}: use flow5 or ue")]
pub struct ParseKeyProfileError(String);

impl FromStr for KeyProfile {
    type Err = ParseKeyProfileError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "flow5" => Ok(Self::Flow5),
            "ue" => Ok(Self::Ue),
            "inside" => Ok(Self::Inside),
            other => {
                let blocks = other.strip_prefix(NAT44).and_then(|rest| rest.strip_prefix(':'));
                let blocks = blocks.and_then(|blocks| blocks.parse().ok());
                blocks.map(Self::Nat44).ok_or_else(|| ParseKeyProfileError(other.to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(src: IpAddr, dst: IpAddr) -> FiveTuple {
        FiveTuple { src, dst, protocol: 6, src_port: 80, dst_port: 4000 }
    }

    #[test]
    fn profiles_pick_their_part_of_the_tuple() {
        let (server, ue) = (IpAddr::V4(1.into()), IpAddr::V4(2.into()));
        let t = tuple(server, ue);
        assert_eq!(KeyProfile::Ue.downstream_key(&t), Some(FlowKey::ue(ue)));
        assert_eq!(KeyProfile::Flow5.downstream_key(&t), FlowKey::five_tuple(&t));
        assert_eq!(KeyProfile::Flow5.downstream_key(&tuple(server, IpAddr::V6(2.into()))), None);
        assert_eq!(t.reversed().reversed(), t);
    }

    #[test]
    fn an_appliance_is_keyed_by_inside_address_or_port_block() {
        let blocks: PortBlocks = "10.1.0.0/24:192.0.2.0/30:1024:512".parse().unwrap();
        let (server, inside) = (IpAddr::from([198, 51, 100, 1]), IpAddr::from([10, 1, 0, 7]));
        assert_eq!(KeyProfile::Inside.downstream_key(&tuple(server, inside)), Some(FlowKey::ue(inside)));
        let public = IpAddr::from([192, 0, 2, 1]);
        let block = FlowKey::port_block([192, 0, 2, 1].into(), 5);
        assert_eq!(
            KeyProfile::Nat44(blocks).downstream_key(&tuple(server, public)),
            Some(block),
            "port 4000"
        );
        assert_eq!(KeyProfile::Nat44(blocks).downstream_key(&tuple(server, inside)), None);
        for profile in [KeyProfile::Flow5, KeyProfile::Ue, KeyProfile::Inside, KeyProfile::Nat44(blocks)] {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert!("nat44:10.1.0.0/24".parse::<KeyProfile>().is_err());
    }
}
