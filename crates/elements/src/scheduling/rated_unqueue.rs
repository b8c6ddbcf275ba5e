//! `RatedUnqueue`.

crate::paced::rated_unqueue! {
    /// Pulls packets at a rate and pushes them on. After a pause, the packets of 20 ms go at once. While an element behind it asks for
    /// nothing new, it pulls nothing.
    RatedUnqueue as "RatedUnqueue", RatedUnqueueParams, Packets of u32: "Packets a second.", "1000"
}
