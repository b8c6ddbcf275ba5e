//! `BandwidthShaper`.

crate::paced::shaper! {
    /// Limits the bandwidth at which packets are pulled. A packet is due while any byte is; its excess bytes delay the
    /// next one. After a pause, the bytes of 20 ms go at once. It stands between a queue and the element that pulls.
    BandwidthShaper as "BandwidthShaper", BandwidthShaperParams,
    Bytes of crate::values::Bandwidth: "Bytes per second.", "10Mbps"
}
