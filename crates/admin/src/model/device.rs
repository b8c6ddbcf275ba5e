//! The counters of a node's devices: one list for metrics and tables.

use super::PortRole;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A metric of one or several counters.
#[derive(Debug, PartialEq, Eq)]
pub struct DeviceMetric {
    /// Its name, without prefix and suffix.
    pub name: &'static str,
    /// Its description.
    pub help: &'static str,
}

const PACKETS: DeviceMetric =
    DeviceMetric { name: "port_packets", help: "Packets received or sent by a device." };
const BYTES: DeviceMetric = DeviceMetric { name: "port_bytes", help: "Bytes received or sent by a device." };
const ERRORS: DeviceMetric =
    DeviceMetric { name: "port_error_packets", help: "Packets that a device could not receive or send." };
const MISSED: DeviceMetric =
    DeviceMetric { name: "port_missed_packets", help: "Packets that arrived while no descriptor was free." };
const NO_BUFFER: DeviceMetric =
    DeviceMetric { name: "port_no_buffer", help: "Receptions that found no free buffer." };
const REFUSED: DeviceMetric = DeviceMetric {
    name: "port_refused_packets",
    help: "Received packets freed at once: shared with others, or too large for one buffer.",
};

/// A counter of a device.
#[derive(Debug)]
pub struct DeviceCounter {
    /// The metric it is part of.
    pub metric: &'static DeviceMetric,
    /// Its label beside the port's.
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
        /// Counters of a port: those of its device, and received packets that were freed at once.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub struct PortCounters {
            /// The port.
            pub role: PortRole,
            $($(#[doc = $doc])+ #[serde(default)] pub $name: u64,)+
        }

        /// All counters.
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
    /// Packets that arrived while no descriptor was free.
    rx_missed: MISSED, "missed";
    /// Packets received with errors.
    rx_errors: ERRORS["direction" = "in"], "errors in";
    /// Receptions that found no free buffer.
    rx_no_buffer: NO_BUFFER, "no buffer";
    /// Received packets refused because another owner may read or write their bytes.
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
