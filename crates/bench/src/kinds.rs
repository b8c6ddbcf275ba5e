//! The kinds of data that benchmarks keep for pages.

#[cfg(test)]
mod tests;

use crate::figures::tables;
use crate::report::Report;
use scalebricks_report::pages::Kind;

/// The kinds that benchmarks measure.
pub const MEASURED: [Kind; 10] = [
    Kind { name: "tables", command: "make tables", read: tables::evidence },
    Kind { name: "scale", command: "make scale", read: tables::evidence },
    Kind { name: "cluster-scale", command: "make cluster-scale", read: tables::evidence },
    Kind { name: "choosing", command: "make choosing", read: Report::evidence },
    Kind { name: "figures", command: "make figures", read: Report::evidence },
    Kind { name: "concise-figures", command: "make figures-concise", read: Report::evidence },
    Kind { name: "gateway-figures", command: "make figures-gateway", read: Report::evidence },
    Kind { name: "router-figures", command: "make figures-router", read: Report::evidence },
    Kind { name: "dhash-figures", command: "make figures-dhash", read: Report::evidence },
    Kind { name: "control", command: "make control-figures", read: tables::evidence },
];
