//! `BandwidthShaper`.

crate::paced::shaper! {
    /// Lets packets be pulled at a bandwidth at most. While a byte is due, a packet is, and what it has more delays the next. After
    /// a pause, the bytes of 20 ms go at once. Stands between a queue and the element that pulls.
    BandwidthShaper as "BandwidthShaper", BandwidthShaperParams,
    Bytes of crate::values::Bandwidth: "Bytes a second.", "10Mbps"
}
