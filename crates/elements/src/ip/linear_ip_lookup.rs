//! `LinearIPLookup`.

use scalebricks_tables::lpm::Params;

crate::routes::class::lookup_class! {
    /// Sends each packet by the longest-prefix route of its destination annotation, and sets the annotation to the
    /// route's gateway, if it has one. The lookup is that of RadixIPLookup, not linear.
    LinearIPLookup as "LinearIPLookup", LinearIPLookupParams, Ipv4Addr, DstIp, { "0.0.0.0/0 0", "10.0.0.0/8 10.0.0.1 1", },
    Params::SMALL, changes
}
