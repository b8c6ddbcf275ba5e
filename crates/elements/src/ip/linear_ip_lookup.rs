//! `LinearIPLookup`.

use scalebricks_tables::lpm::Params;

crate::routes::class::lookup_class! {
    /// Sends each packet by the route of the longest prefix that covers its destination address, and puts the route's gateway, if it
    /// has one, in the address's place. Looks up as RadixIPLookup does: nothing about it is linear.
    LinearIPLookup as "LinearIPLookup", LinearIPLookupParams, Params::SMALL, changes
}
