//! The file of security associations: TOML, with one section `[[sa]]` for each.
//!
//! ```toml
//! [[sa]]
//! name = "left-to-right"
//! spi = 0x1001
//! suite = "aes-128-gcm"           # or "aes-128-cbc-hmac-sha1-96", which also has an auth_key
//! key = "000102…"                 # in hexadecimal digits: 16 octets, with GCM followed by 4 octets of salt
//! src = "192.0.2.1"               # outer addresses
//! dst = "192.0.2.2"
//! selectors = [{ src = "10.0.1.0/24", dst = "10.0.2.0/24" }]
//! ```
//!
//! Optional keys are `esn`, `window`, `udp = { src = 4500, dst = 4500 }`, `mtu`, `ttl`, `dscp`, `df` (`"copy"`, `"set"`,
//! `"clear"`), `soft` and `hard` (`{ packets = …, bytes = … }`). Errors never contain key octets.
//!
//! All keys of a file differ. With AES-GCM, one nonce that two associations use under the same key reveals the XOR of
//! their packets and lets others forge packets (RFC 4106 §9). With CBC, IVs are random, so equal keys alone reveal little. But
//! the outer addresses are not authenticated: of two associations with the same SPI and keys to different ends, such as the
//! two directions of a tunnel, each accepts the packets of the other, so packets can be sent back to their sender.

use super::replay::MAX_WINDOW;
use super::sa::{Keys, Lifetime, Network, OuterDf, Sa, Secret, Selector, UdpPorts};
use scalebricks_wire::esp::{self, Spi};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use zeroize::Zeroizing;

/// Most associations in a file.
pub const MAX_ASSOCIATIONS: usize = 4_096;
/// Most selectors of an association, which are compared one by one.
pub const MAX_SELECTORS: usize = 64;
/// Default window, packets.
const WINDOW: u32 = 1_024;
/// Smallest MTU: the one that IPv4 guarantees (RFC 791 §3.1).
const MIN_MTU: u16 = 576;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sa: Vec<Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    name: String,
    spi: u32,
    suite: String,
    key: Hex,
    auth_key: Option<Hex>,
    src: IpAddr,
    dst: IpAddr,
    udp: Option<Ports>,
    selectors: Vec<Networks>,
    #[serde(default)]
    esn: bool,
    window: Option<u32>,
    mtu: Option<u16>,
    ttl: Option<u8>,
    dscp: Option<u8>,
    df: Option<String>,
    #[serde(default)]
    soft: Limits,
    #[serde(default)]
    hard: Limits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ports {
    #[serde(default = "udp_port")]
    src: u16,
    #[serde(default = "udp_port")]
    dst: u16,
}

const fn udp_port() -> u16 {
    esp::UDP_PORT
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Networks {
    src: String,
    dst: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    packets: Option<u64>,
    bytes: Option<u64>,
}

/// Octets in hexadecimal digits. Its errors do not repeat the value, as those of serde do.
struct Hex(Zeroizing<Vec<u8>>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;

        macro_rules! refuse {
            ($($method:ident $type:ty)+) => {
                $(fn $method<E: Error>(self, _: $type) -> Result<Hex, E> {
                    Err(E::custom("a key is a string of hexadecimal digits"))
                })+
            };
        }

        impl Visitor<'_> for Digits {
            type Value = Hex;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of hexadecimal digits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Hex, E> {
                let digit = |octet: u8| char::from(octet).to_digit(16).map(|digit| digit as u8);
                let (pairs, rest) = text.as_bytes().as_chunks::<2>();
                let mut octets = Zeroizing::new(Vec::with_capacity(pairs.len()));
                for [high, low] in pairs {
                    let octet = digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low);
                    octets.push(octet.ok_or_else(|| E::custom("a key is a string of hexadecimal digits"))?);
                }
                if rest.is_empty() {
                    Ok(Hex(octets))
                } else {
                    Err(E::custom("a key has two digits per octet"))
                }
            }

            refuse! { visit_bool bool visit_i64 i64 visit_u64 u64 visit_i128 i128 visit_u128 u128 visit_f64 f64 }
        }
        deserializer.deserialize_any(Digits)
    }
}

impl Hex {
    fn exactly<const N: usize>(&self, key: &str, what: &str) -> Result<Secret<N>, String> {
        let octets = <[u8; N]>::try_from(self.0.as_slice());
        octets
            .map(|octets| Secret(Zeroizing::new(octets)))
            .map_err(|_| format!("{key}: {N} octets expected{what}, {} given", self.0.len()))
    }
}

/// Why a file of associations is refused; without the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is not TOML, or has other keys.
    #[error("line {line}: {what}")]
    Syntax {
        /// The line, from 1 on.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// There are too many associations.
    #[error("{0} associations, more than {MAX_ASSOCIATIONS}")]
    TooMany(usize),
    /// A value is wrong.
    #[error("[[sa]] {name:?}: {what}")]
    Value {
        /// The association.
        name: String,
        /// The key of the value, and what is wrong with it.
        what: String,
    },
    /// Two associations have the same cryptographic key.
    #[error(
        "[[sa]] {name:?}: {key}: is the same as that of [[sa]] {other:?}; each needs a random one of its own"
    )]
    SharedKey {
        /// The second association.
        name: String,
        /// `key` or `auth_key`.
        key: &'static str,
        /// The first one.
        other: String,
    },
}

/// Refuses associations with the same key. Encryption keys must differ whatever their suites and salts are.
fn check_keys(all: &[Sa]) -> Result<(), FileError> {
    for (key, octets) in [("key", Keys::encryption as fn(&Keys) -> &[u8]), ("auth_key", Keys::authentication)]
    {
        // References, because copies would have to be overwritten.
        let mut keys: Vec<_> = all.iter().map(|sa| (octets(&sa.keys), sa)).collect();
        keys.retain(|(octets, _)| !octets.is_empty());
        keys.sort_by_key(|(octets, _)| *octets);
        let shared = keys.windows(2).find_map(|pair| match pair {
            [(one, other), (next, sa)] if one == next => Some((sa, other)),
            _ => None,
        });
        if let Some((sa, other)) = shared {
            return Err(FileError::SharedKey {
                name: sa.name.to_string(),
                key,
                other: other.name.to_string(),
            });
        }
    }
    Ok(())
}

/// Reads a file's text.
///
/// # Errors
/// [`FileError`].
pub fn parse(text: &str) -> Result<Vec<Sa>, FileError> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| {
            1 + text.as_bytes().iter().take(span.start).filter(|octet| **octet == b'\n').count()
        });
        // Without the line itself, which may be that of a key.
        FileError::Syntax { line, what: error.message().to_owned() }
    })?;
    if file.sa.len() > MAX_ASSOCIATIONS {
        return Err(FileError::TooMany(file.sa.len()));
    }
    let (mut names, mut indices) = (HashSet::new(), HashSet::new());
    let mut all = Vec::with_capacity(file.sa.len());
    for section in file.sa {
        let name = section.name.clone();
        let at = |what| FileError::Value { name: name.clone(), what };
        let sa = check(section).map_err(at)?;
        if !names.insert(sa.name.clone()) {
            return Err(at("name: given to another association".to_owned()));
        }
        if !indices.insert((sa.dst, sa.spi)) {
            return Err(at(format!("spi: {} to {} is that of another association", sa.spi, sa.dst)));
        }
        all.push(sa);
    }
    check_keys(&all)?;
    Ok(all)
}

fn check(section: Section) -> Result<Sa, String> {
    let Section { name, suite, key, auth_key, src, dst, dscp, window, .. } = section;
    if name.is_empty() || name.len() > 64 || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("name: 1 to 64 characters without blanks".to_owned());
    }
    let spi = Spi::new(section.spi).ok_or_else(|| format!("spi: {} is below 256", section.spi))?;
    let keys = match (suite.as_str(), auth_key) {
        ("aes-128-gcm", None) => Keys::AesGcm(key.exactly("key", " (key and salt)")?),
        ("aes-128-gcm", Some(_)) => return Err("auth_key: aes-128-gcm has none".to_owned()),
        ("aes-128-cbc-hmac-sha1-96", Some(auth_key)) => {
            Keys::AesCbcSha1 { key: key.exactly("key", "")?, auth_key: auth_key.exactly("auth_key", "")? }
        }
        ("aes-128-cbc-hmac-sha1-96", None) => return Err("auth_key: missing".to_owned()),
        _ => return Err("suite: aes-128-gcm or aes-128-cbc-hmac-sha1-96".to_owned()),
    };
    if src.is_ipv4() != dst.is_ipv4() {
        return Err(format!("dst: {dst} is not of the IP version of src, {src}"));
    }
    if section.selectors.is_empty() || section.selectors.len() > MAX_SELECTORS {
        return Err(format!("selectors: 1 to {MAX_SELECTORS}, not {}", section.selectors.len()));
    }
    let selectors = section.selectors.iter().map(|networks| {
        let selector = Selector { src: network(&networks.src)?, dst: network(&networks.dst)? };
        match selector {
            Selector { src: Network::V4(_), dst: Network::V4(_) }
            | Selector { src: Network::V6(_), dst: Network::V6(_) } => Ok(selector),
            _ => Err(format!("{} and {} are of two IP versions", networks.src, networks.dst)),
        }
    });
    let selectors = selectors.collect::<Result<_, _>>().map_err(|what| format!("selectors: {what}"))?;
    let window = window.unwrap_or(WINDOW);
    if !(32..=MAX_WINDOW).contains(&window) {
        return Err(format!("window: 32 to {MAX_WINDOW} packets, not {window}"));
    }
    let mtu = section.mtu.unwrap_or(1_500);
    if mtu < MIN_MTU {
        return Err(format!("mtu: at least {MIN_MTU} octets, not {mtu}"));
    }
    let ttl = section.ttl.unwrap_or(64);
    if ttl == 0 {
        return Err("ttl: at least 1".to_owned());
    }
    if let Some(dscp) = dscp.filter(|dscp| *dscp > 63) {
        return Err(format!("dscp: below 64, not {dscp}"));
    }
    let df = match section.df.as_deref() {
        None | Some("copy") => OuterDf::Copy,
        Some("set") => OuterDf::Set,
        Some("clear") => OuterDf::Clear,
        Some(other) => return Err(format!("df: copy, set or clear, not {other:?}")),
    };
    let lifetime = |limits: Limits| Lifetime {
        packets: limits.packets.unwrap_or(u64::MAX),
        bytes: limits.bytes.unwrap_or(u64::MAX),
    };
    Ok(Sa {
        name: name.into(),
        spi,
        keys,
        src,
        dst,
        udp: section.udp.map(|ports| UdpPorts { src: ports.src, dst: ports.dst }),
        selectors,
        esn: section.esn,
        window,
        soft: lifetime(section.soft),
        hard: lifetime(section.hard),
        mtu,
        ttl,
        dscp,
        df,
    })
}

fn network(text: &str) -> Result<Network, String> {
    if text.contains(':') {
        text.parse().map(Network::V6).map_err(|error| error.to_string())
    } else {
        text.parse().map(Network::V4).map_err(|error| error.to_string())
    }
}
