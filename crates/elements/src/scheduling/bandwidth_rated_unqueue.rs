//! `BandwidthRatedUnqueue`.

crate::paced::rated_unqueue! {
    /// Pulls packets at a bandwidth and pushes them on. A packet is due while any byte is; its excess bytes delay the
    /// next one. After a pause, the bytes of 20 ms go at once. It pauses while an element downstream raises
    /// back-pressure.
    BandwidthRatedUnqueue as "BandwidthRatedUnqueue", BandwidthRatedUnqueueParams,
    Bytes of crate::values::Bandwidth: "Bytes per second.", "10Mbps"
}
