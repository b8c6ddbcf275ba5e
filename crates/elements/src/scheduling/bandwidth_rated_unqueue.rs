//! `BandwidthRatedUnqueue`.

crate::paced::rated_unqueue! {
    /// Pulls packets at a bandwidth and pushes them on. While a byte is due, a packet is, and what it has more delays the next. After
    /// a pause, the bytes of 20 ms go at once. While an element behind it asks for nothing new, it pulls nothing.
    BandwidthRatedUnqueue as "BandwidthRatedUnqueue", BandwidthRatedUnqueueParams,
    Bytes of crate::values::Bandwidth: "Bytes a second.", "10Mbps"
}
