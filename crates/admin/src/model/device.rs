//! What the devices of a node count, declared once: metrics and tables go through this list.

use super::PortRole;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A metric, with the series of one or several counters.
#[derive(Debug, PartialEq, Eq)]
pub struct DeviceMetric {
    /// Its name, without prefix and suffix.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
}

const PACKETS: DeviceMetric = DeviceMetric { name: "port_packets", help: "Packets a device counted." };
const BYTES: DeviceMetric = DeviceMetric { name: "port_bytes", help: "Bytes a device counted." };
const ERRORS: DeviceMetric =
    DeviceMetric { name: "port_error_packets", help: "Packets a device could not take or send." };
const MISSED: DeviceMetric =
    DeviceMetric { name: "port_missed_packets", help: "Packets that came while no descriptor was free." };
const NO_BUFFER: DeviceMetric =
    DeviceMetric { name: "port_no_buffer", help: "Receptions that found no free buffer." };
const REFUSED: DeviceMetric = DeviceMetric {
    name: "port_refused_packets",
    help: "Received packets given back at once: shared with others, or too large for one buffer.",
};

/// Something that a device counts.
#[derive(Debug)]
pub struct DeviceCounter {
    /// The metric it is part of.
    pub metric: &'static DeviceMetric,
    /// By which label beside the port's.
    pub label: Option<(&'static str, &'static str)>,
    /// The heading of its column; counters of one heading are added.
    pub column: &'static str,
    /// Its value.
    pub value: fn(&PortCounters) -> u64,
}

macro_rules! counters {
    (@label) => { None };
    (@label $label:literal = $value:literal) => { Some(($label, $value)) };
    ($($(#[doc = $doc:literal])+ $name:ident: $metric:ident $([$label:literal = $value:literal])?, $column:literal;)+) => {
        /// A port's counters: its device's, and what was given back when it was received.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub struct PortCounters {
            /// The port.
            pub role: PortRole,
            $($(#[doc = $doc])+ #[serde(default)] pub $name: u64,)+
        }

        /// All of them.
        pub const DEVICE_COUNTERS: &[DeviceCounter] = &[$(DeviceCounter {
            metric: &$metric,
            label: counters!(@label $($label = $value)?),
            column: $column,
            value: |port| port.$name,
        },)+];
    };
}

counters! {
    /// Packets received.
    rx_packets: PACKETS["direction" = "in"], "in";
    /// Their bytes.
    rx_bytes: BYTES["direction" = "in"], "bytes in";
    /// Packets that came while no descriptor was free.
    rx_missed: MISSED, "missed";
    /// Packets received with errors.
    rx_errors: ERRORS["direction" = "in"], "errors in";
    /// Receptions that found no free buffer.
    rx_no_buffer: NO_BUFFER, "no buffer";
    /// Received packets refused because somebody else may read or write their bytes.
    rx_shared: REFUSED["reason" = "shared"], "refused";
    /// Received packets dropped because they did not fit into one buffer.
    rx_unusable: REFUSED["reason" = "unusable"], "refused";
    /// Packets sent.
    tx_packets: PACKETS["direction" = "out"], "out";
    /// Their bytes.
    tx_bytes: BYTES["direction" = "out"], "bytes out";
    /// Packets that could not be sent.
    tx_errors: ERRORS["direction" = "out"], "errors out";
}
