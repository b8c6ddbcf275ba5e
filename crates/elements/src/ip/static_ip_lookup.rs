//! `StaticIPLookup`.

use scalebricks_tables::lpm::Params;

crate::routes::class::lookup_class! {
    /// Sends each packet by the longest-prefix route of its destination annotation, and sets the annotation to the
    /// route's gateway, if it has one. Routes cannot be changed. The lookup is that of RadixIPLookup.
    StaticIPLookup as "StaticIPLookup", StaticIPLookupParams, Ipv4Addr, DstIp, { "0.0.0.0/0 0", "10.0.0.0/8 10.0.0.1 1", },
    Params::SMALL,
}
