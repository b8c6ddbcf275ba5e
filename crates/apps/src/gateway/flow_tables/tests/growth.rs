//! Growth from an empty table to many keys.

use super::*;

#[test]
fn tables_grow_from_nothing_to_300_000_keys() {
    let flows = 150_000;
    let mut tables = tables(1, 2, 0);
    let reader = tables.node_tables(1);
    for flow in 0..flows {
        let spec = state(flow, flow).spec(short_key(flow), NodeId::new(1));
        for (key, value) in spec.entries() {
            tables.set_logged(&key, value).unwrap();
        }
        // The first keys are still present.
        let early = flow / 2;
        assert_eq!(look(&reader, short_key(early)).map(|flow| flow.teid), Some(Teid::new(early)));
    }
    let mut indices = std::collections::HashSet::new();
    for flow in 0..flows {
        let [down, up] = [short_key(flow), FlowKey::teid(Teid::new(flow))].map(|key| look(&reader, key));
        assert_eq!(down, up);
        assert_eq!(down.unwrap().teid, Teid::new(flow));
        assert!(indices.insert(down.unwrap().index), "flow {flow} shares counters");
    }
    let sizes = tables.sizes();
    assert_eq!((sizes.keys_here, sizes.flows_here), (300_000, 150_000));
    let listed: usize = (0..16).map(|n| tables.keys(PartitionId(n)).len()).sum();
    assert_eq!(listed, 300_000);
    assert!(sizes.flow_bytes < 20 * sizes.keys_here, "{sizes:?}");
    // And back to an empty table.
    for flow in 0..flows {
        tables.remove(&short_key(flow));
        tables.remove(&FlowKey::teid(Teid::new(flow)));
    }
    for worker in 0..2 {
        drop(tables.mark(worker));
    }
    assert!(!tables.expire(Duration::ZERO), "a grace begins");
    let calls = (1..10).find(|_| !tables.expire(Duration::ZERO)).unwrap();
    assert_eq!(calls, (flows as usize).div_ceil(DEPARTURES));
    assert_eq!((tables.sizes().keys_here, tables.sizes().flows_here), (0, 0));
    assert_eq!(tables.take_departed().len(), flows as usize);
}
