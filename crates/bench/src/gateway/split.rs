//! What the times of the roles mean for a node: the rate of packets that enter at it, as many leaving.
//!
//! Of the packets that enter at a node, the share `1/n` is handled there and the rest at the others; as many come over
//! the fabric from them. With the paper's *core split* one core has what enters, the other what comes over the fabric,
//! and the slower one decides. *Run to completion* has one core do both, one after the other.

use super::flows::NODES;
use super::stages::{EXTERNAL, HANDLING, Times};
use super::tables::{Exact, Spread};
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::stats::Summary;

/// Of the packets that enter at a node, those that come to it over the fabric.
const FROM_FABRIC: f64 = (NODES - 1) as f64 / NODES as f64;

/// The rates of one node, run by run.
struct Rates {
    split: Vec<f64>,
    completion: Vec<f64>,
}

fn rates(found: &[Times], spread: Spread, exact: Exact) -> Option<Rates> {
    let of = |role| {
        let is = |times: &&Times| {
            times.role == role && times.tables.spread == spread && times.tables.exact == exact
        };
        found.iter().find(is).map(|times| &times.packet)
    };
    let (external, internal) = (of(EXTERNAL)?, of(HANDLING)?);
    let both = || external.iter().zip(internal);
    Some(Rates {
        split: both().map(|(external, internal)| 1e9 / external.max(FROM_FABRIC * internal)).collect(),
        completion: both().map(|(external, internal)| 1e9 / (external + FROM_FABRIC * internal)).collect(),
    })
}

/// Leaves the rates of nodes, and how `ScaleBricks` compares with full duplication by the same table: in all; by its
/// smaller tables alone, with one core for everything; and by what the second core then adds.
pub fn tell(session: &mut Session<'_>, found: &[Times], flows: u64, suffix: &str) {
    for exact in Exact::built_in() {
        let mut both = Vec::new();
        for spread in [Spread::FullDuplication, Spread::ScaleBricks, Spread::Efd] {
            let Some(rates) = rates(found, spread, exact) else { continue };
            let name = format!("{} {}", spread.name(), exact.name());
            for (variant, threads, figures) in
                [("core split", 2, &rates.split), ("run to completion", 1, &rates.completion)]
            {
                let subject = Subject {
                    variant: Some(format!("{variant}{suffix}")),
                    threads: Some(threads),
                    ..session.subject(&name, flows)
                };
                session.add(subject, Metric::PacketRate, Summary::of(figures));
            }
            if spread != Spread::Efd {
                both.push(rates);
            }
        }
        let [full, ours] = &both[..] else { continue };
        let ratio = |of: &dyn Fn(usize) -> f64| -> Vec<f64> { (0..full.split.len()).map(of).collect() };
        let tables = ratio(&|run| ours.completion[run] / full.completion[run]);
        let all = ratio(&|run| ours.split[run] / full.split[run]);
        let core = ratio(&|run| all[run] / tables[run]);
        for (variant, figures) in [
            ("core split, over full duplication", all),
            ("of it by smaller tables", tables),
            ("of it by the idle core", core),
        ] {
            let subject = Subject {
                variant: Some(format!("{variant}{suffix}")),
                ..session.subject(&format!("scalebricks {}", exact.name()), flows)
            };
            session.add(subject, Metric::Ratio, Summary::of(&figures));
        }
    }
}
