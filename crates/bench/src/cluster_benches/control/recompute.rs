//! Changes a second that a partition and its owner apply on one core, by changes an entry.

use super::flows::{Flow, changed, flows, moved};
use super::gpts;
use super::machine::Fed;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scalebricks_bench::rounds::{Measurement, RunResult, interleave};
use scalebricks_bench::{BenchError, BenchRun, Metric, timing};
use scalebricks_control::record::Change;
use scalebricks_tables::compact::Structure;

/// Nodes that flows are at, and that follow the owner.
const NODES: usize = 4;

/// Bytes of memory a key takes here, about.
const BYTES_PER_KEY: u64 = 400;

/// What changes of a key.
#[derive(Clone, Copy)]
enum Kind {
    /// Its node, and so GPT bits.
    Moves,
    /// Its value alone.
    Values,
}

/// The partition alone, and its owner.
struct Both([Fed; 2]);

/// Measures all sizes.
pub(super) fn measure(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    for keys in options.pick(&[16_384][..], &[16_384, 250_000]) {
        for value_bits in options.value_bits(&[2], &[2]) {
            for gpt in gpts(bench.options, &Structure::ALL) {
                if bench.fits(*keys, BYTES_PER_KEY)? {
                    one(bench, *keys, value_bits, gpt)?;
                }
            }
        }
    }
    Ok(())
}

fn one(bench: &mut BenchRun<'_>, keys: u64, value_bits: u8, gpt: Structure) -> Result<(), BenchError> {
    let options = bench.options;
    let nodes = NODES.min(1 << value_bits);
    let busy = bench.busy("filling partitions");
    let flows = flows(keys, nodes);
    let mut both = Both([
        Fed::new(flows.clone(), gpt, value_bits, None)?,
        Fed::new(flows, gpt, value_bits, Some(nodes))?,
    ]);
    drop(busy);
    let changes = options.pick(1 << 15, 1 << 18);
    let mut rng = SmallRng::seed_from_u64(keys);
    let mut turns = Vec::new();
    for batch in options.batches(&[1, 64, 512, 4096]) {
        for (kind, variant) in [(Kind::Moves, "moves"), (Kind::Values, "values")] {
            for which in [0, 1] {
                let nodes_told = (which == 1).then_some(nodes);
                let case = bench
                    .case(both.0[which].name(), keys)
                    .format(gpt.name())
                    .variant(variant.to_owned())
                    .value_bits(value_bits)
                    .threads(1)
                    .batch(batch)
                    .nodes(nodes_told);
                let mut rows = vec![(case.clone(), Metric::UpdateRate)];
                if matches!(kind, Kind::Moves) {
                    rows.push((case, Metric::DeltaBytes));
                }
                let seed = rng.random();
                turns.push(Measurement::several(rows, move |both: &mut Both| {
                    run(&mut both.0[which], kind, nodes, batch, changes, seed)
                }));
            }
        }
    }
    interleave(bench, &mut both, turns)?;
    let _busy = bench.busy("checking all keys");
    both.0.iter().try_for_each(Fed::check)
}

/// Feeds entries of so many changes, to keys drawn at random.
fn run(
    fed: &mut Fed,
    kind: Kind,
    nodes: usize,
    batch: usize,
    changes: usize,
    seed: u64,
) -> Result<RunResult, BenchError> {
    let mut rng = SmallRng::seed_from_u64(seed ^ fed.flows.len() as u64);
    // One change an entry takes longest.
    let count = (changes / batch).clamp(1, changes / 4);
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let entry: Vec<Change> = (0..batch).map(|_| draw(&mut fed.flows, &mut rng, kind, nodes)).collect();
        entries.push(fed.entry(&entry)?);
    }
    let (deltas, seconds) = timing::pinned(|| fed.feed(&entries))?;
    let deltas = deltas?;
    fed.follow(&deltas)?;
    let changed = (count * batch) as f64;
    let bytes: usize = deltas.iter().map(|delta| delta.encode().len()).sum();
    Ok(RunResult { figures: vec![changed / seconds, bytes as f64 / changed], table_bytes: None })
}

fn draw(flows: &mut [Flow], rng: &mut SmallRng, kind: Kind, nodes: usize) -> Change {
    let at = rng.random_range(0..flows.len());
    match kind {
        Kind::Moves => moved(&mut flows[at], nodes),
        Kind::Values => changed(&mut flows[at]),
    }
}
