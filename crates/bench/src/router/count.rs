//! Runs one router without timing it, for callgrind: `scripts/instructions router`.

use super::bed::{Bed, FORMS, WORKS};
use super::circulation::Cluster;
use super::nodes::{CLUSTER, Plan};
use super::packets::Lengths;
use super::rig::{Measured, WHOLE};
use super::{ipsec, workloads};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use scalebricks_apps::router::cluster::Steering;

/// Runs the work. The instructions in this function are counted.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
}

/// All routers that do this work.
fn routers(bed: &Bed, work: &str, by: &str) -> Result<Vec<Box<dyn Measured>>, BenchError> {
    let lengths = Lengths::of(64);
    if work == CLUSTER {
        let plan = Plan::new(bed)?;
        let one = |steering| {
            Ok::<_, BenchError>(Box::new(Cluster::new(&plan, bed, &lengths, steering)?) as Box<dyn Measured>)
        };
        return Steering::ALL.into_iter().filter(|steering| steering.name() == by).map(one).collect();
    }
    if by.starts_with("l3fwd") {
        #[cfg(feature = "dpdk")]
        crate::gateway::dpdk::start(0)?;
        return workloads::peers(bed, &lengths);
    }
    if ipsec::SUITES.iter().any(|(_, works)| works.contains(&work)) {
        return bed.tunnels(&lengths);
    }
    let ring = bed.ring(&lengths);
    let names = FORMS.into_iter().flat_map(|form| WORKS.map(|one| (one, form)));
    let wanted = names.filter(|(one, (name, _))| (*one, *name) == (work, by));
    let one = |(work, form)| {
        let contender = bed.contender(&ring, &lengths, WHOLE, work, form)?;
        Ok::<_, BenchError>(Box::new(contender) as Box<dyn Measured>)
    };
    wanted.map(one).collect()
}

/// Forwards this many packets by one of the routers, or lets them pass through its ports alone.
///
/// # Errors
/// [`BenchError::Usage`] if there is no such router; otherwise as all benchmarks.
pub fn count(
    bench: &BenchRun<'_>,
    [work, by]: [&str; 2],
    packets: usize,
    is_ports: bool,
) -> Result<(), BenchError> {
    let bed = Bed::small(bench)?;
    let mut all = routers(&bed, work, by)?;
    let router = all.iter_mut().find(|one| one.name() == [work, by]);
    let router = router.ok_or_else(|| BenchError::Usage(format!("no router does '{work}' by '{by}'")))?;
    router.prepare();
    let mut passed = Ok(());
    if is_ports {
        counted(&mut || router.pass_ports(packets));
    } else {
        counted(&mut || passed = router.pass(packets));
    }
    passed
}
