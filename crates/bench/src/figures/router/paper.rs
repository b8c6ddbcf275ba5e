//! Numbers of the RouteBricks paper (SOSP 2009), and of today's routers as seen elsewhere.

/// Table 1: packets per poll (kp) and per transaction (kn), and Gb/s of 64-byte packets on eight cores.
pub(super) const BATCHING: [(usize, usize, f64); 3] = [(1, 1, 1.46), (32, 1, 4.97), (32, 16, 9.77)];

/// Bits of a 64-byte packet by the paper's count, which has no preamble and no gap.
pub(super) const PACKET_BITS: f64 = 512.0;

/// Figure 6: layouts, as named in our rows, and Gb/s of 64-byte packets per path.
pub(super) const LAYOUTS: [(&str, &str); 6] = [
    ("one core", ""),
    ("parallel, multi-queue", "1.7 per path"),
    ("pipeline", "1.2 (shared L3) or 0.6 (another L3) per path"),
    ("one port, single queue", "less than a third of multi-queue"),
    ("overlapping, single queue", "0.7 per path"),
    ("overlapping, multi-queue", "about 1.7 per path"),
];

/// Figure 7: times the untouched server by several queues and batches together.
pub(super) const QUEUES_AND_BATCHES: f64 = 6.7;

/// A workload of Figure 8 and Table 3 on eight cores of 2.8 GHz.
pub(super) struct Workload {
    /// As named in our rows.
    pub(super) work: &'static str,
    /// Gb/s of 64-byte packets, and of the Abilene trace; the latter is the network cards' limit for the first two.
    pub(super) gbps: [f64; 2],
    /// Instructions per packet, and cycles per instruction.
    pub(super) instructions: f64,
    pub(super) cpi: f64,
    /// Projected Gb/s of 64-byte packets on four sockets of eight cores.
    pub(super) projected_gbps: f64,
}

/// The workloads.
pub(super) const WORKLOADS: [Workload; 3] = [
    Workload { work: "forward", gbps: [9.7, 24.6], instructions: 1033.0, cpi: 1.19, projected_gbps: 38.8 },
    Workload { work: "route", gbps: [6.35, 24.6], instructions: 1512.0, cpi: 1.23, projected_gbps: 19.9 },
    Workload {
        work: "encrypt, AES-128-GCM",
        gbps: [1.4, 4.45],
        instructions: 14221.0,
        cpi: 0.55,
        projected_gbps: 5.8,
    },
];

/// Cores of the paper's server, and of the projected one.
pub(super) const CORES: f64 = 8.0;
pub(super) const PROJECTED_CORES: f64 = 32.0;

/// The workload of this name.
pub(super) fn workload(work: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|one| one.work == work)
}

/// RB4, four servers: Gb/s of 64-byte packets and of the Abilene trace.
pub(super) const RB4_GBPS: [f64; 2] = [12.0, 35.0];

/// The rate that the single server's rates of routing and forwarding let expect, Gb/s of 64-byte packets.
pub(super) const RB4_EXPECTED_GBPS: f64 = 15.4;

/// Latency over one server, two and three, microseconds: an estimate.
pub(super) const LATENCY_US: [f64; 3] = [23.84, 47.6, 66.4];

/// Routers as seen on one core elsewhere, on another processor: work, name, Mpps of 64-byte packets.
pub(super) const ELSEWHERE: [(&str, &str, f64); 4] = [
    ("forward", "testpmd, macswap over net_null", 134.0),
    ("route", "l3fwd, rte_lpm with 512,621 prefixes, 64 K destinations", 90.0),
    ("route", "VPP 26.06, 512 K routes, 64 K destinations", 28.9),
    ("route", "Click, DirectIPLookup with the same table", 2.35),
];
