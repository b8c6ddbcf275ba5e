//! `DirectIPLookup`.

use scalebricks_tables::lpm::Params;

crate::routes::class::lookup_class! {
    /// Sends each packet by the longest-prefix route of its destination annotation, and sets the annotation to the
    /// route's gateway, if it has one. For full tables: a 32 MiB index by the first 24 address bits, so most packets
    /// need one load.
    DirectIPLookup as "DirectIPLookup", DirectIPLookupParams, Ipv4Addr, DstIp, { "0.0.0.0/0 0", "10.0.0.0/8 10.0.0.1 1", },
    Params::FAST, changes
}
