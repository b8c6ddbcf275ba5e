//! Small captures with all kinds of frames, and the exact outcome of each frame.

mod build;
mod forwardable;
mod oversize;
mod sample;

use super::*;
pub(super) use sample::{too_large, udp_both_ways};
use scalebricks_elements::gateway::{Oversize, Policy};
use scalebricks_io::{CaptureReader, CaptureWriter};
use scalebricks_types::{ClusterSize, KeyProfile};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

/// A capture in a new directory.
pub(super) fn capture(frames: &[Vec<u8>]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in.pcap");
    let mut writer = CaptureWriter::create(&path).unwrap();
    for (number, frame) in frames.iter().enumerate() {
        writer.write_frame(Duration::from_millis(number as u64), frame).unwrap();
    }
    writer.finish().unwrap();
    (directory, path)
}

/// A replay.
#[derive(Debug, Clone)]
pub(super) struct Options {
    file: PathBuf,
    out: Option<PathBuf>,
    pub(super) config: DemoConfig,
}

impl Options {
    fn run(
        &self,
        progress: &mut dyn FnMut(Step),
        interrupt: &Interrupt,
    ) -> Result<ReplayOutcome, ReplayError> {
        run(&self.config, &self.file, self.out.as_deref(), progress, interrupt)
    }
}

pub(super) fn options(file: &Path) -> Options {
    let config = DemoConfig { policy: Policy::default(), seed: 7, ..DemoConfig::synthetic(0, 0, 2).unwrap() };
    Options { file: file.to_owned(), out: None, config }
}

fn replay(options: &Options) -> ReplayOutcome {
    let outcome = options.run(&mut |_| {}, &Interrupt::default()).unwrap();
    for run in &outcome.runs {
        let totals = &run.totals;
        assert_eq!(totals.problems.lines(), Vec::<String>::new(), "{}", run.architecture);
        assert_eq!((totals.lost, totals.misdelivered), (0, 0), "{}", run.architecture);
        assert_eq!(totals.packets_in, totals.packets_out + totals.dropped_total() + totals.lost);
        assert_eq!(totals.packets_in, outcome.counts.frames - outcome.counts.not_put_in);
        assert!(totals.hops_max <= run.architecture.max_hops());
    }
    outcome
}

#[track_caller]
fn assert_dropped(outcome: &ReplayOutcome, want: &[(&'static str, u64)]) {
    let want: BTreeMap<_, _> = want.iter().copied().collect();
    for run in &outcome.runs {
        assert_eq!(run.totals.dropped, want, "{}", run.architecture);
    }
}

#[test]
fn every_frame_of_the_sample_is_accounted_for_with_its_reason() {
    let (_directory, file) = capture(&sample::frames());
    let outcome = replay(&options(&file));
    let want = Counts {
        frames: 74,
        downstream: 32,
        upstream: 24,
        unclaimed: 18,
        not_put_in: 1,
        fragments: 21,
        ..Counts::default()
    };
    assert_eq!(outcome.counts, want);
    assert_eq!((outcome.conversations, outcome.flows), (17, 17));
    assert_eq!(outcome.flows_per_node.iter().sum::<u64>(), 17);
    assert_dropped(
        &outcome,
        &[
            ("bad_ipv4_checksum", 4),
            ("fragment_without_first", 5),
            ("link_local", 9),
            ("malformed_ip", 1),
            ("multicast", 4),
            ("non_ip", 4),
            ("too_large", 1),
            ("truncated", 4),
        ],
    );
    for run in &outcome.runs {
        // The jumbo frame, at an MTU of 1,600.
        assert_eq!((run.totals.packets_fragmented, run.totals.fragments_made), (1, 6));
    }
}

#[test]
fn checksums_may_be_ignored() {
    let (_directory, file) = capture(&sample::frames());
    let mut options = options(&file);
    options.config.policy.verify_ipv4_checksum = false;
    let outcome = replay(&options);
    assert_dropped(
        &outcome,
        &[
            ("fragment_without_first", 4),
            ("link_local", 10),
            ("malformed_ip", 1),
            ("multicast", 4),
            ("non_ip", 4),
            ("too_large", 1),
            ("truncated", 4),
        ],
    );
}

#[test]
fn with_mobiles_as_keys_no_first_fragment_is_needed() {
    let (_directory, file) = capture(&sample::frames());
    for nodes in [2, 3, 5] {
        let mut options = options(&file);
        options.config.policy.key_profile = KeyProfile::Ue;
        options.config.size = ClusterSize::new(nodes).unwrap();
        let outcome = replay(&options);
        assert_eq!((outcome.conversations, outcome.flows), (17, 5));
        for run in &outcome.runs {
            let mut dropped = run.totals.dropped.clone();
            // A hint about an unknown address may name no node, if the cluster's size leaves such numbers.
            let nowhere = ["unknown_flow", "no_such_node"].map(|name| dropped.remove(name).unwrap_or(0));
            assert_eq!(nowhere.iter().sum::<u64>(), 2, "{}", run.architecture);
            let rest = [
                ("bad_ipv4_checksum", 4),
                ("link_local", 9),
                ("malformed_ip", 1),
                ("multicast", 4),
                ("non_ip", 4),
                ("too_large", 1),
                ("truncated", 4),
            ];
            assert_eq!(dropped, rest.into_iter().collect(), "{}", run.architecture);
        }
    }
}

#[test]
fn threads_and_cluster_sizes_do_not_change_the_counts() {
    let (_directory, file) = capture(&sample::frames());
    let totals = |nodes, threads| {
        let mut options = options(&file);
        (options.config.size, options.config.threads) = (ClusterSize::new(nodes).unwrap(), threads);
        let runs = replay(&options).runs;
        runs.into_iter().map(|run| run.totals).collect::<Vec<_>>()
    };
    // Hops depend on the number of nodes, and VLB draws its way for each packet.
    let but_hops = |mut totals: Vec<Totals>| {
        for t in &mut totals {
            (t.hops_total, t.hops_max) = (0, 0);
        }
        totals
    };
    let reference = but_hops(totals(4, 1));
    for (nodes, threads) in [(4, 2), (4, 4), (1, 1), (2, 1), (7, 3), (64, 2)] {
        assert_eq!(but_hops(totals(nodes, threads)), reference, "{nodes} nodes, {threads} threads");
    }
}

#[test]
fn every_frame_of_damaged_captures_is_accounted_for() {
    let sample = sample::frames();
    let mut random: u64 = 1;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let mut frames = Vec::new();
    for _ in 0..40 {
        for frame in sample.iter().filter(|frame| frame.len() < 2_000) {
            let mut frame = frame.clone();
            for _ in 0..next(4) {
                let header = frame.len().min(60);
                frame[next(header)] = next(256) as u8;
            }
            if next(8) == 0 {
                frame.truncate(next(frame.len()));
            }
            frames.push(frame);
        }
    }
    let (_directory, file) = capture(&frames);
    for key_profile in [KeyProfile::Flow5, KeyProfile::Ue] {
        for verify_ipv4_checksum in [true, false] {
            for oversize in [Oversize::FragmentOuter, Oversize::Icmp] {
                let mut options = options(&file);
                let base_station_mtu = 576;
                options.config.policy = Policy {
                    key_profile,
                    verify_ipv4_checksum,
                    oversize,
                    base_station_mtu,
                    ..options.config.policy
                };
                options.config.size = ClusterSize::new(3).unwrap();
                assert!(replay(&options).runs[3].totals.packets_out > 100);
            }
        }
    }
}

/// What all files in a directory hold: file by file, frames and their times.
fn files(directory: &Path) -> BTreeMap<String, Vec<CapturedFrame>> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    names
        .map(|path| {
            let frames = CaptureReader::open(&path).unwrap().collect::<Result<_, _>>().unwrap();
            (path.file_name().unwrap().to_string_lossy().into_owned(), frames)
        })
        .collect()
}

#[test]
fn each_node_has_one_capture_of_the_frames_that_it_sent() {
    let (directory, file) = capture(&sample::frames());
    let out = |name: &str| Some(directory.path().join("new").join(name));
    let mut options = Options { out: out("a"), ..options(&file) };
    let outcome = replay(&options);
    let written: Vec<usize> = outcome.runs.iter().map(|run| run.captures.len()).collect();
    assert_eq!(written, [0, 0, 0, 4], "ScaleBricks alone");
    let kept = files(options.out.as_ref().unwrap());
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["node-0.pcap", "node-1.pcap", "node-2.pcap", "node-3.pcap"]);
    let totals = &outcome.runs[3].totals;
    let frames = totals.packets_out - totals.packets_fragmented + totals.fragments_made;
    assert_eq!(kept.values().map(Vec::len).sum::<usize>() as u64, frames);
    for frames in kept.values() {
        assert!(frames.is_sorted_by_key(|frame| frame.timestamp));
    }
    // A flow leaves at its node whatever the architecture and the threads.
    let sizes = |kept: &BTreeMap<String, Vec<CapturedFrame>>| -> Vec<Vec<(Duration, usize)>> {
        let frames = kept.values().map(|frames| frames.iter().map(|f| (f.timestamp, f.data.len())).collect());
        frames.collect()
    };
    options.out = out("b");
    options.config.architectures = vec![Architecture::HashPartition, Architecture::Vlb];
    options.config.threads = 1;
    assert_eq!(replay(&options).runs[1].captures.len(), 4);
    assert_eq!(sizes(&files(options.out.as_ref().unwrap())), sizes(&kept));
}

#[test]
fn captures_of_a_larger_cluster_are_not_mixed_with_new_ones() {
    let (directory, file) = capture(&sample::frames());
    let mut options = Options { out: Some(directory.path().join("out")), ..options(&file) };
    replay(&options);
    replay(&options);
    options.config.size = ClusterSize::new(2).unwrap();
    let nothing_yet = |step| assert!(!matches!(step, Step::Forwarded { .. }), "{step:?}");
    let error = options.run(&mut { nothing_yet }, &Interrupt::default()).unwrap_err();
    assert!(matches!(error, ReplayError::Stale(_)), "{error}");
    assert!(error.to_string().contains("node-2.pcap"), "{error}");
}

#[test]
fn an_interrupt_leaves_no_files_and_progress_is_reported() {
    let frames: Vec<Vec<u8>> = (0..60).flat_map(|_| sample::frames()).collect();
    let (directory, file) = capture(&frames);
    let out = directory.path().join("out");
    let options = Options { out: Some(out.clone()), ..options(&file) };
    let interrupt = Interrupt::default();
    let (mut forwarded, mut steps) = (0, Vec::new());
    let mut progress = |step| {
        steps.push(step);
        let scalebricks = Architecture::ScaleBricks;
        forwarded +=
            u64::from(matches!(step, Step::Forwarded { architecture, .. } if architecture == scalebricks));
        interrupt.flag().store(forwarded > 1, Ordering::Relaxed);
    };
    let result = options.run(&mut progress, &interrupt);
    assert!(matches!(result, Err(ReplayError::Interrupted(_))), "{result:?}");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
    let all = frames.len() as u64;
    assert!(steps.contains(&Step::Pinned { frames: all, conversations: 17 }), "{steps:?}");
    assert!(steps.contains(&Step::Forwarded { architecture: Architecture::Vlb, frames: all }));
}

#[test]
fn files_that_are_not_captures_are_refused_and_truncated_ones_are_not() {
    let (directory, file) = capture(&sample::frames());
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 7]).unwrap();
    let outcome = replay(&options(&file));
    assert!(outcome.counts.is_file_cut);
    assert_eq!(outcome.counts.frames, 73);
    for (content, word) in
        [(&bytes[..24], "holds no frames"), (b"%PDF", "neither a pcap"), (b"", "neither a pcap")]
    {
        std::fs::write(&file, content).unwrap();
        let error = options(&file).run(&mut |_| {}, &Interrupt::default()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    let missing = directory.path().join("none.pcap");
    let error = options(&missing).run(&mut |_| {}, &Interrupt::default()).unwrap_err();
    assert!(error.to_string().contains("none.pcap"), "{error}");
}
