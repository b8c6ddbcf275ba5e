//! `DirectIPLookup`.

use scalebricks_tables::lpm::Params;

crate::routes::class::lookup_class! {
    /// Sends each packet by the route of the longest prefix that covers its destination address, and puts the route's gateway, if it
    /// has one, in the address's place. For full tables: 64 MiB are indexed by the first 24 bits of the address, so most packets
    /// need one load.
    DirectIPLookup as "DirectIPLookup", DirectIPLookupParams, Params::FAST, changes
}
