//! Tables changed from list to list, compared with plain maps and with newly built tables.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test helper fails by panicking")]

use crate::gateway::common::{SEED, flows};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use scalebricks_apps::gateway::flow_tables::list::Changes;
use scalebricks_apps::gateway::{Architecture, FlowList, FlowSpec, Layout};
use scalebricks_elements::gateway::{BaseStationId, FlowState};
use scalebricks_tables::KeyBatch;
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, FlowKey, KeyHasher, KeyProfile, NodeHint, NodeId, Qfi, Teid};
use std::collections::HashMap;

const NODES: usize = 4;

fn tables(architecture: Architecture, gpt: Structure, id: u8, expected: usize) -> FlowList {
    let layout = Layout { size: ClusterSize::new(NODES).unwrap(), architecture, gpt, seed: SEED };
    FlowList::new(&layout, NodeId::new(id), 2, expected).unwrap()
}

/// Every architecture, and the one with a GPT with both kinds of it.
fn all_kinds() -> impl Iterator<Item = (Architecture, Structure)> {
    let with = |gpt| move |architecture| (architecture, gpt);
    let other = [Architecture::ScaleBricks].into_iter().map(with(Structure::Othello));
    Architecture::ALL.into_iter().map(with(Structure::SetSep)).chain(other)
}

/// Removes flows, moves some, gives others a new tunnel, swaps uplink TEIDs of some, adds new ones, shuffles.
fn next_list(list: &[FlowSpec], fresh: &mut Vec<FlowSpec>, random: &mut StdRng) -> Vec<FlowSpec> {
    let mut next: Vec<FlowSpec> = list.iter().copied().filter(|_| random.random_bool(0.9)).collect();
    for flow in &mut next {
        match random.random_range(0..10) {
            0 => flow.node = NodeId::new(random.random_range(0..NODES as u8)),
            1 => flow.downlink_teid = Teid::new(random.random()),
            2 => flow.base_station = BaseStationId(random.random_range(0..4)),
            3 => flow.qfi = Some(Qfi::new(random.random_range(0..64)).unwrap()),
            _ => {}
        }
    }
    for _ in 0..next.len() / 10 {
        let (a, b) = (random.random_range(0..next.len()), random.random_range(0..next.len()));
        let teid = next[a].uplink_teid;
        next[a].uplink_teid = next[b].uplink_teid;
        next[b].uplink_teid = teid;
    }
    let more = fresh.len().min(random.random_range(0..200));
    next.extend(fresh.drain(..more));
    next.shuffle(random);
    next
}

/// Every key of `all` is answered as `list` says.
fn check(tables: &FlowList, architecture: Architecture, id: u8, list: &[FlowSpec], all: &[FlowSpec]) {
    let keys_of = |flow: &FlowSpec| [flow.key, FlowKey::teid(flow.uplink_teid)];
    let wanted: HashMap<FlowKey, &FlowSpec> =
        list.iter().flat_map(|flow| keys_of(flow).map(|key| (key, flow))).collect();
    let hasher = KeyHasher::new(SEED);
    let mut node = tables.tables().node_tables(1);
    let mut indices: HashMap<u32, FlowKey> = HashMap::new();
    for key in all.iter().flat_map(keys_of) {
        let (keys, hashes) = ([key], [hasher.hash(&key)]);
        let batch = || KeyBatch::new(&keys, &hashes);
        let (mut value, mut hint) = ([None], [NodeHint::NONE]);
        node.fib.lookup_batch(batch(), &mut value);
        let state = value[0].map(FlowState::decode);
        let spec = wanted.get(&key).copied();
        let everywhere = matches!(architecture, Architecture::FullDuplication | Architecture::Vlb);
        let here = spec.filter(|spec| everywhere || spec.node.get() == id);
        assert_eq!(state.is_some(), here.is_some(), "{architecture} {key:?}");
        if let (Some(state), Some(spec)) = (state, here) {
            assert_eq!(
                (state.teid, state.base_station, state.node, state.qfi),
                (spec.downlink_teid, spec.base_station, spec.node, spec.qfi)
            );
            if spec.node.get() == id {
                let other = indices.insert(state.index.0, spec.key);
                assert!(other.is_none_or(|other| other == spec.key), "two flows share counters");
            }
        }
        let Some(spec) = spec else { continue };
        match (&mut node.lookup, architecture) {
            (None, Architecture::HashPartition) => panic!("no lookup table"),
            (Some(lookup), _) => {
                node.gpt.lookup_batch(batch(), &mut hint);
                if hint[0] != NodeHint::new(u16::from(id)) {
                    continue;
                }
                lookup.lookup_batch(batch(), &mut hint);
            }
            (None, _) => node.gpt.lookup_batch(batch(), &mut hint),
        }
        assert_eq!(hint[0], NodeHint::new(u16::from(spec.node.get())), "{architecture} {key:?}");
    }
}

#[test]
fn list_after_list_is_answered_as_it_says() {
    for (architecture, gpt) in all_kinds() {
        for id in [0, 3] {
            let random = &mut StdRng::seed_from_u64(5 + u64::from(id));
            let mut fresh = flows(6_000, NODES, KeyProfile::Flow5);
            let all = fresh.clone();
            // Sized for fewer flows than it will get: it has to grow.
            let mut tables = tables(architecture, gpt, id, 100);
            let mut list: Vec<FlowSpec> = fresh.drain(..3_000).collect();
            for _ in 0..12 {
                let before: HashMap<FlowKey, FlowSpec> = list.iter().map(|flow| (flow.key, *flow)).collect();
                tables.change_to(&list, |_| {}).unwrap();
                check(&tables, architecture, id, &list, &all);
                let here = list.iter().filter(|flow| flow.node.get() == id).count();
                assert_eq!((tables.flows(), tables.tables().sizes().flows_here), (list.len(), here));
                let again = tables.change_to(&list, |_| {}).unwrap();
                assert_eq!(again, Changes { kept: list.len(), ..Changes::default() });
                list = next_list(&list, &mut fresh, random);
                let next = tables.change_to(&list, |_| {}).unwrap();
                let kept = list.iter().filter(|flow| before.get(&flow.key) == Some(flow)).count();
                let added = list.iter().filter(|flow| !before.contains_key(&flow.key)).count();
                let want = Changes {
                    added,
                    kept,
                    changed: list.len() - added - kept,
                    removed: before.len() + added - list.len(),
                };
                assert_eq!(next, want, "{architecture}");
            }
        }
    }
}

#[test]
fn a_flow_that_stays_keeps_the_place_of_its_counters() {
    let list = flows(400, NODES, KeyProfile::Flow5);
    let mut tables = tables(Architecture::ScaleBricks, Structure::SetSep, 0, 400);
    tables.change_to(&list, |_| {}).unwrap();
    let index = |tables: &FlowList, flow: &FlowSpec| tables.tables().flow(&flow.key).unwrap().index;
    let here: Vec<FlowSpec> = list.iter().copied().filter(|flow| flow.node.get() == 0).collect();
    let (stays, goes) = (here[0], here[1]);
    let kept = index(&tables, &stays);
    let without: Vec<FlowSpec> = list.iter().copied().filter(|flow| *flow != goes).collect();
    tables.change_to(&without, |_| {}).unwrap();
    assert_eq!(index(&tables, &stays), kept);
    assert_eq!(tables.tables().flow(&goes.key), None);
    tables.change_to(&list, |_| {}).unwrap();
    assert_eq!(index(&tables, &stays), kept);
    assert_ne!(index(&tables, &goes), kept);
}
