//! Figure 8: forwarding, routing and tunnels by frame length, beside DPDK.

use super::bed::{Bed, FORWARD};
use super::packets::Lengths;
use super::rig::{Measured, WHOLE, packets_per_run};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::row::{Case, Metric};
use crate::{rounds, timing};
use scalebricks_report::stats::Summary;

/// Lengths of frames with FCS.
pub(crate) const FRAMES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// Those of a quick run.
const FRAMES_OF_QUICK_RUNS: [u16; 2] = [64, 1024];

/// Suffix of packets in DPDK's memory.
pub(crate) const MBUFS: &str = ", mbufs";

/// Figures of a router, by run.
struct Found {
    case: Case,
    packets: usize,
    times: Vec<f64>,
    ports: Vec<f64>,
    /// Whether every try of a run was rejected.
    is_left_out: bool,
}

/// Measures.
///
/// # Errors
/// [`BenchError`], also for a packet that is lost or wrong.
pub(super) fn run(bench: &mut BenchRun<'_>, bed: &Bed) -> Result<(), BenchError> {
    let frames = bench.options.pick(&FRAMES_OF_QUICK_RUNS[..], &FRAMES[..]);
    let lengths = frames.iter().map(|bytes| Lengths::of(*bytes)).chain([bed.mix.clone()]);
    for lengths in lengths {
        let name = &lengths.name;
        each(bench, bed, name, ours(bed, &lengths)?)?;
        if *name == "64 bytes" || lengths == bed.mix {
            each(bench, bed, &format!("{name}{MBUFS}"), beside(bed, &lengths)?)?;
        }
    }
    Ok(())
}

fn each(
    bench: &mut BenchRun<'_>,
    bed: &Bed,
    packets: &str,
    mut all: Vec<Box<dyn Measured>>,
) -> Result<(), BenchError> {
    let mut all: Vec<&mut dyn Measured> =
        all.iter_mut().map(|one| one.as_mut() as &mut dyn Measured).collect();
    measure(bench, bed, packets, &mut all)
}

fn ours(bed: &Bed, lengths: &Lengths) -> Result<Vec<Box<dyn Measured>>, BenchError> {
    let contenders = bed.ours(&bed.ring(lengths), lengths, WHOLE)?;
    let mut all: Vec<Box<dyn Measured>> = Vec::new();
    for contender in contenders {
        all.push(Box::new(contender));
    }
    all.extend(bed.tunnels(lengths)?);
    Ok(all)
}

/// Ours and DPDK's with DPDK's packets.
#[cfg(feature = "dpdk")]
fn beside(bed: &Bed, lengths: &Lengths) -> Result<Vec<Box<dyn Measured>>, BenchError> {
    let ring = super::peers::ring(bed, lengths)?;
    let mut all = super::peers::contenders(bed, lengths, &ring)?;
    for contender in bed.ours(&ring, lengths, WHOLE)? {
        all.push(Box::new(contender));
    }
    Ok(all)
}

#[cfg(not(feature = "dpdk"))]
fn beside(_: &Bed, _: &Lengths) -> Result<Vec<Box<dyn Measured>>, BenchError> {
    Ok(Vec::new())
}

/// DPDK's alone.
#[cfg(feature = "dpdk")]
pub(super) fn peers(bed: &Bed, lengths: &Lengths) -> Result<Vec<Box<dyn Measured>>, BenchError> {
    super::peers::contenders(bed, lengths, &super::peers::ring(bed, lengths)?)
}

#[cfg(not(feature = "dpdk"))]
pub(super) fn peers(_: &Bed, _: &Lengths) -> Result<Vec<Box<dyn Measured>>, BenchError> {
    Ok(Vec::new())
}

/// Judges all, and measures them in turns.
pub(super) fn measure(
    bench: &mut BenchRun<'_>,
    bed: &Bed,
    packets: &str,
    all: &mut [&mut dyn Measured],
) -> Result<(), BenchError> {
    let mut found = Vec::new();
    for candidate in &mut *all {
        bench.check()?;
        candidate.judge()?;
        let ([work, by], count) = (candidate.name(), packets_per_run(*candidate, bench.options.quick)?);
        let case = bench.case(work, bed.routes()).format(by).variant(packets.to_owned()).threads(1);
        found.push(Found { case, packets: count, times: Vec::new(), ports: Vec::new(), is_left_out: false });
    }
    let runs = bench.options.runs();
    let bar = bench.progress(runs * all.len());
    for _ in 0..runs {
        for (candidate, found) in all.iter_mut().zip(&mut found) {
            if found.is_left_out {
                continue;
            }
            let run = rounds::retry_rejected(bench, || {
                let ports = candidate.ports(found.packets)?;
                let [work, by] = candidate.name();
                let whole = candidate.measure(found.packets)?;
                // Minimal forwarding is hardly more than its ports.
                let part = if work == FORWARD { 0.0 } else { ports };
                Ok((ports, timing::net(&format!("{work}, {by}"), whole, part)?))
            });
            match run {
                Ok((ports, time)) => {
                    found.ports.push(ports);
                    found.times.push(time);
                }
                // On a busy machine the ports alone may take longer; the others shall not be lost for it.
                Err(error @ BenchError::Rejected { .. }) => {
                    bench.console.note(&format!("router: left out: {error}"));
                    found.is_left_out = true;
                }
                Err(error) => return Err(error),
            }
            bar.add(1);
        }
    }
    bar.finish();
    for (case, times) in decrypts(&found) {
        let bytes = all.first().map_or(0.0, |one| one.frame_bytes());
        add(bench, &case, &times, bytes);
    }
    for (candidate, Found { case, times, ports, is_left_out, .. }) in all.iter().zip(found) {
        if is_left_out {
            continue;
        }
        add(bench, &case, &times, candidate.frame_bytes());
        bench.add(case, Metric::PortTime, Summary::of(&ports));
    }
    Ok(())
}

/// Adds the rows of a router whose frames have so many bytes on average.
fn add(bench: &mut BenchRun<'_>, case: &Case, times: &[f64], frame_bytes: f64) {
    let rates: Vec<f64> = times.iter().map(|time| 1e9 / time).collect();
    let bits: Vec<f64> = rates.iter().map(|rate| rate * frame_bytes * 8.0).collect();
    bench.add(case.clone(), Metric::PacketTime, Summary::of(times));
    bench.add(case.clone(), Metric::PacketRate, Summary::of(&rates));
    bench.add(case.clone(), Metric::BitRate, Summary::of(&bits));
}

/// Decryption: the time of a tunnel with both ends without that of its first end, by run. It includes a header check and a
/// decremented TTL.
fn decrypts(found: &[Found]) -> Vec<(Case, Vec<f64>)> {
    let mut all = Vec::new();
    for both in found.iter().filter(|both| !both.is_left_out) {
        let Some(suite) = both.case.structure.strip_prefix("encrypt and decrypt, ") else { continue };
        let encrypt = format!("encrypt, {suite}");
        let one = found.iter().find(|one| one.case.structure == encrypt && !one.is_left_out);
        let Some(one) = one else { continue };
        let times: Vec<f64> = both.times.iter().zip(&one.times).map(|(both, one)| both - one).collect();
        // A disturbed run gives no time.
        if times.iter().all(|&time| time > 0.0) {
            let structure = format!("decrypt, {suite}");
            all.push((Case { structure, ..both.case.clone() }, times));
        }
    }
    all
}
