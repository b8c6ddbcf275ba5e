//! Single cases.

use super::*;
use scalebricks_tables::compact::{Control, Op};

#[test]
fn the_gpt_is_fed_by_deltas() {
    use scalebricks_types::Position;
    let mut tables = tables(0, 1, 10);
    let mut control = Control::new(tables.node_lookup.table().unwrap().params());
    let hash = hasher().hash(&short_key(1));
    let delta = control.batch(&[Op::Insert(hash, 9)]).unwrap().remove(0);
    assert_eq!(tables.apply_gpt(&delta), Ok(Applied::Advanced));
    assert_eq!(tables.apply_gpt(&delta), Ok(Applied::Stale));
    let gap = Delta { previous: Position(7), position: Position(8), ..delta };
    assert!(tables.apply_gpt(&gap).is_err());
    let mut hint = [NodeHint::NONE];
    tables.node_tables(0).gpt.lookup_batch(KeyBatch::new(&[short_key(1)], &[hash]), &mut hint);
    assert_eq!(hint[0], NodeHint::new(9));
    // Upstream, as seen by a locator created earlier.
    let mut locator = tables.locator();
    let delta =
        control.batch(&[Op::Insert(hasher().hash(&FlowKey::teid(Teid::new(7))), 11)]).unwrap().remove(0);
    assert_eq!(tables.apply_gpt(&delta), Ok(Applied::Advanced));
    assert_eq!(locator.node(Teid::new(7)), NodeHint::new(11));
}

#[test]
fn any_value_is_taken_and_no_key_that_cannot_be() {
    let mut tables = tables(0, 1, 10);
    tables.set_logged(&short_key(1), [u64::MAX; 2]).unwrap();
    assert_eq!(tables.flow(&short_key(1)).unwrap().qfi, None);
    tables.remove(&short_key(2));
    let zero = FlowKey::Short(scalebricks_types::Key16::from_words([0; 2]));
    assert_eq!(tables.set_logged(&zero, state(5, 5).encode()), Err(FibError::ZeroKey));
    tables.remove(&zero);
    let sizes = tables.sizes();
    assert_eq!((sizes.keys_here, sizes.flows_here, tables.flow(&zero)), (1, 1, None));
    assert_eq!(tables.count(Teid::new(5)), None, "nothing is changed");
    tables.set_logged(&short_key(2), state(6, 6).encode()).unwrap();
    assert_eq!(tables.flow(&short_key(2)).unwrap().index, FlowIndex(1), "its place is free again");
}

#[test]
fn counts_find_their_flow_before_it_comes_and_after_it_has_gone() {
    let mut tables = tables(0, 1, 10);
    let (node, mut mark) = (tables.node_tables(0), tables.mark(0).unwrap());
    let (key, uplink) = (short_key(1), Teid::new(1));
    tables.carry_over(uplink, packets(5));
    assert_eq!(tables.count(uplink), Some(packets(5)), "before its keys");
    assert_eq!((tables.is_here(uplink), tables.strays()), (false, 1));
    tables.set_logged(&key, state(1, 1).encode()).unwrap();
    assert!(tables.is_here(uplink));
    node.counters.count(look(&node, key).unwrap().index, false, 0);
    assert_eq!(tables.count(uplink), Some(packets(6)));
    tables.carry_over(uplink, packets(10));
    tables.remove(&key);
    tables.expire(Duration::ZERO);
    tables.carry_over(uplink, packets(100));
    mark.pass();
    tables.expire(Duration::ZERO);
    assert_eq!(tables.take_departed(), [(uplink, packets(116))]);
    assert_eq!(tables.count(uplink), None);
    tables.carry_over(uplink, packets(1_000));
    assert_eq!(tables.count(uplink), Some(packets(1_000)), "it has gone on");
    tables.expire(Duration::ZERO);
    assert_eq!(tables.take_departed(), [], "or has it yet to come?");
    tables.expire(STRAY_PATIENCE);
    assert_eq!(tables.take_departed(), [(uplink, packets(1_000))]);
    assert_eq!(tables.count(uplink), None);
}

#[test]
fn a_flow_that_comes_back_at_once_goes_on_counting() {
    let mut tables = tables(0, 1, 10);
    let (node, mut mark) = (tables.node_tables(0), tables.mark(0).unwrap());
    let (key, uplink) = (short_key(1), Teid::new(1));
    let set = |tables: &mut FlowTables| tables.set_logged(&key, state(1, 1).encode()).unwrap();
    set(&mut tables);
    let index = look(&node, key).unwrap().index;
    node.counters.count(index, false, 0);
    tables.remove(&key);
    tables.expire(Duration::ZERO);
    set(&mut tables);
    assert_eq!(look(&node, key).unwrap().index, index);
    tables.remove(&key);
    mark.pass();
    tables.expire(Duration::ZERO);
    assert_eq!(tables.take_departed(), [], "it left again, and is waited for again");
    node.counters.count(index, false, 0);
    mark.pass();
    tables.expire(Duration::ZERO);
    assert_eq!(tables.take_departed(), [(uplink, packets(2))]);
}

#[test]
fn in_a_batch_what_comes_is_there_before_the_gpt_changes_and_what_left_until_after() {
    for (architecture, gpt) in all_kinds().filter(|(architecture, _)| !architecture.holds_all_flows()) {
        let mut tables = FlowTables::new(&layout(architecture, gpt), NodeId::new(0), 1, 0).unwrap();
        let node = tables.node_tables(0);
        let (here, away) = (NodeId::new(0), NodeId::new(1));
        let [comes, leaves, goes] = [1, 2, 3].map(short_key);
        tables.set(&leaves, here, &state(2, 2)).unwrap();
        tables.set(&goes, here, &state(3, 3)).unwrap();
        let changes = [
            Change::Remove(comes),
            Change::Set(leaves, away, state(2, 2)),
            Change::Remove(goes),
            Change::Set(comes, here, state(1, 1)),
        ];
        let mut called = false;
        let are_there = |keys: [FlowKey; 3]| keys.map(|key| look(&node, key).is_some());
        tables
            .apply(&changes, |_| {
                called = true;
                assert_eq!(are_there([comes, leaves, goes]), [true; 3]);
                Ok(())
            })
            .unwrap();
        assert_eq!(called, architecture == Architecture::ScaleBricks);
        assert_eq!(are_there([comes, leaves, goes]), [true, false, false]);
    }
}

#[test]
fn a_table_that_is_full_refuses_and_nothing_is_changed() {
    for (architecture, gpt) in all_kinds() {
        let (here, away) = (NodeId::new(0), NodeId::new(1));
        let mut tables = FlowTables::new(&layout(architecture, gpt), here, 1, 0).unwrap().with_max_keys(10);
        assert_eq!(tables.room(), (0, 10));
        let mut node = tables.node_tables(0);
        for n in 0..200 {
            let there = if n % 2 == 0 { here } else { away };
            let before = tables.sizes();
            if let Err(error) = tables.set(&short_key(n), there, &state(n, n)) {
                assert_eq!(error, FibError::Full { len: 10, slots: 10 });
                assert_eq!(tables.sizes(), before);
                assert_eq!(tables.flow(&short_key(n)), None);
                let named = named(&mut node, here, short_key(n));
                assert!(
                    tables.node_lookup.table().is_some() || named.is_none_or(|named| named == NodeHint::NONE)
                );
            }
        }
        assert_eq!(tables.room(), (10, 10), "{architecture}");
        // Existing entries may change.
        tables.set(&short_key(0), here, &state(7, 7)).unwrap();
        assert_eq!(tables.uplink(&short_key(0)), Some(Teid::new(7)));
    }
}

#[test]
fn without_a_gpt_that_takes_deltas_none_is_taken() {
    let layout = layout(Architecture::HashPartition, Structure::SetSep);
    let mut tables = FlowTables::new(&layout, NodeId::new(0), 1, 0).unwrap();
    let params = layout.gpt_params(100).unwrap();
    let insert = Op::Insert(hasher().hash(&short_key(1)), 1);
    let delta = Control::new(params).batch(&[insert]).unwrap().remove(0);
    assert!(tables.apply_gpt(&delta).is_err());
    assert_eq!((tables.begin_gpt(params), tables.gpt_digest(PartitionId(0))), (false, None));
    tables.forget_gpt(PartitionId(0));
}
