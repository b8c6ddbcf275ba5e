//! Any bytes decode to a batch of routes or a RIB, or to an error, and a value encodes to the bytes that it was decoded from. A
//! RIB accepts any batch.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_control::codec::Encoded;
use scalebricks_control::routes::{RouteBatch, RouteChanges, RouteRib};
use scalebricks_types::{NodeId, NodeSet};

fuzz_target!(|bytes: &[u8]| {
    let alive: NodeSet = [0, 2].into_iter().map(NodeId::new).collect();
    let mut rib = RouteRib::new(alive);
    if let Ok(batch) = RouteBatch::decode(bytes) {
        assert_eq!(batch.encode(), bytes);
        let mut changes = RouteChanges::default();
        let counts = rib.apply(&batch, &mut changes);
        assert_eq!(counts.applied + counts.without_number, batch.0.len() as u64);
        rib.set_alive(NodeSet::EMPTY, &mut changes);
        assert_eq!(rib.routes().count(), 0);
    }
    if let Ok(rib) = RouteRib::decode(bytes, alive) {
        assert_eq!(rib.encode(), bytes);
    }
});
