//! Forms of text in a configuration: which texts are right, how a message describes them, and replacements of wrong ones.

use super::drivers;
use crate::node::config::Network;
use scalebricks_admin::model::PortRole;
use scalebricks_apps::gateway::Architecture;
use scalebricks_apps::switch::text::parse_mac;
use scalebricks_tables::compact::Structure;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A form of text.
pub(super) struct Form {
    /// The `format` in the schema.
    pub name: &'static str,
    /// What a text of this form is.
    pub what: &'static str,
    /// Whether a text has the form.
    pub is_right: fn(&str) -> bool,
    /// The text that was probably meant by a wrong one.
    pub meant: fn(&str) -> Option<String>,
    /// Right texts, different for different numbers.
    pub candidate: fn(usize) -> String,
}

const fn no_hint(_: &str) -> Option<String> {
    None
}

/// Any text.
pub(super) static TEXT: Form =
    Form { name: "", what: "a text", is_right: |_| true, meant: no_hint, candidate: |n| format!("x{n}") };

/// The forms that have a name in a schema.
pub(super) static FORMS: [Form; 9] = [
    Form {
        name: "path",
        what: "a path",
        is_right: |text| !text.is_empty(),
        meant: no_hint,
        candidate: |n| format!("x{n}"),
    },
    Form {
        name: "ipv4",
        what: "an IPv4 address, like 192.0.2.1",
        is_right: |text| text.parse::<Ipv4Addr>().is_ok(),
        meant: no_hint,
        candidate: |n| format!("198.51.100.{}", n % 250 + 1),
    },
    Form {
        name: "ipv6",
        what: "an IPv6 address, like 2001:db8::1",
        is_right: |text| text.parse::<Ipv6Addr>().is_ok(),
        meant: no_hint,
        candidate: |n| format!("2001:db8:ffff::{n}"),
    },
    Form {
        name: "ip",
        what: "an IPv4 or IPv6 address, like 192.0.2.1",
        is_right: |text| text.parse::<IpAddr>().is_ok(),
        meant: no_hint,
        candidate: |n| format!("198.51.100.{}", n % 250 + 1),
    },
    Form {
        name: "socket-address",
        what: "ADDRESS:PORT, like 192.0.2.1:7400 or [2001:db8::1]:7400",
        is_right: |text| text.parse::<SocketAddr>().is_ok(),
        meant: no_hint,
        candidate: |n| format!("198.51.100.{}:7", n % 250 + 1),
    },
    Form {
        name: "network",
        what: "an address with a prefix length, like 192.0.2.1/24",
        is_right: |text| text.parse::<Network>().is_ok(),
        meant: no_hint,
        // They contain every address, so that no other key seems wrong beside them.
        candidate: |n| if n.is_multiple_of(2) { "0.0.0.0/0" } else { "::/0" }.to_owned(),
    },
    Form {
        name: "mac",
        what: "a unicast address like 02:00:00:00:00:01",
        is_right: |text| parse_mac(text).is_some_and(|mac| !mac.is_multicast()),
        meant: no_hint,
        candidate: |n| format!("02:ff:ff:ff:ff:{:02x}", n % 256),
    },
    Form {
        name: "hash-secret",
        what: "32 hexadecimal digits",
        is_right: |text| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        meant: no_hint,
        candidate: |n| format!("{n:032x}"),
    },
    Form {
        name: "device",
        what: "a PCI address (0000:01:00.0) or a virtual device of DPDK (net_af_packet0,iface=eth1)",
        is_right: drivers::is_device,
        meant: drivers::meant,
        candidate: |n| format!("net_null{}", 1_000 + n),
    },
];

/// Stands for a type in a schema: a text of a form, or one of several names.
macro_rules! schema {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )*};
}

fn names<const N: usize>(names: [&str; N]) -> Schema {
    json_schema!({ "type": "string", "enum": names.as_slice() })
}

schema! {
    /// A place of a secret.
    Secret = json_schema!({ "type": "object", "format": "secret" });
    /// `ADDRESS:PORT`.
    Socket = json_schema!({ "type": "string", "format": "socket-address" });
    /// An address and a prefix length.
    Prefix = json_schema!({ "type": "string", "format": "network" });
    /// A unicast MAC address.
    Mac = json_schema!({ "type": "string", "format": "mac" });
    /// The secret of a hash function. Messages do not show it.
    HashSecret = json_schema!({ "type": "string", "format": "hash-secret", "writeOnly": true });
    /// A DPDK device.
    Device = json_schema!({ "type": "string", "format": "device" });
    /// The role of a node's port.
    RoleName = names(PortRole::ALL.map(PortRole::name));
    /// An architecture of a cluster.
    ArchitectureName = names(Architecture::ALL.map(Architecture::name));
    /// A structure of the GPT.
    StructureName = names(Structure::ALL.map(Structure::name));
}
