//! `RatedUnqueue`.

crate::paced::rated_unqueue! {
    /// Pulls packets at a rate and pushes them on. After a pause, the packets of 20 ms go at once. It pauses while an
    /// element downstream raises back-pressure.
    RatedUnqueue as "RatedUnqueue", RatedUnqueueParams, Packets of u32: "Packets per second.", "1000"
}
