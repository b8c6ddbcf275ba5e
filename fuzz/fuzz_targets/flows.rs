//! Packets of any kind at a small tracker: bounds hold, every packet is counted once, streams are in order, and all flows
//! that began end. A balancer sends all packets of a flow to the same pipeline.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_flows::reassembly::{self, Chunk, Overlap};
use scalebricks_flows::tcp::{self, Vantage};
use scalebricks_flows::tracker::{Balancer, Config, Ended, Event, Sink, Tables, Tracker};
use scalebricks_flows::{Direction, fragments};
use scalebricks_fuzz::{Steps, mend};
use scalebricks_types::HashSeed;
use std::collections::HashMap;
use std::time::Duration;

/// Where each stream must go on.
#[derive(Default)]
struct Check {
    offsets: HashMap<(u64, usize), u64>,
    ended: u64,
}

impl Sink for Check {
    fn chunk(&mut self, serial: u64, direction: Direction, chunk: Chunk<'_>) {
        let next = self.offsets.entry((serial, direction.index())).or_default();
        let (offset, len) = match chunk {
            Chunk::Data { offset, bytes } => (offset, bytes.len() as u64),
            Chunk::Gap(gap) => (gap.offset, gap.len),
        };
        assert_eq!(offset, *next);
        assert!(len > 0);
        *next += len;
    }

    fn ended(&mut self, ended: &Ended<'_>) {
        self.ended += 1;
        let streams = ended.streams.map_or([0; 2], |streams| streams.map(|s| s.delivered() + s.missing()));
        for (direction, len) in streams.iter().enumerate() {
            let seen = self.offsets.remove(&(ended.flow.serial, direction)).unwrap_or(0);
            assert_eq!(seen, *len);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let overlap = if kind & 1 == 0 { Overlap::FirstWins } else { Overlap::LastWins };
    let vantage = if kind & 2 == 0 { Vantage::InPath } else { Vantage::Capture };
    let config = Config {
        tcp: tcp::Config { vantage, pick_up: kind & 4 != 0, ..tcp::Config::default() },
        reassembly: Some(reassembly::Config { overlap, stream_bytes: 2_000, stream_pieces: 8, total_bytes: 4_000 }),
        fragments: fragments::Config { packets: 4, packet_fragments: 6, bytes: 8_000, ..Default::default() },
        verify_checksums: kind & 8 != 0,
        flows: 16,
        young_flows: 8,
        ..Config::default()
    };
    let mut tracker = Tracker::new(&config, HashSeed::new(1, 2), Tables::default()).expect("a small one");
    let mut balancer = Balancer::new(3, HashSeed::new(1, 2), config.fragments, config.verify_checksums);
    let mut pipelines = HashMap::new();
    let mut check = Check::default();
    let (mut now, mut packets) = (Duration::from_secs(1), 0);
    for (what, later, packet) in Steps(rest) {
        let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], packet].concat();
        if packet.first().is_some_and(|first| first >> 4 == 6) {
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        }
        if what & 1 != 0 {
            mend(&mut frame);
        }
        let balanced = balancer.take(&frame[14..], u16::from(what >> 6), now).map(|balanced| balanced.pipeline);
        if let Ok(tracked) = tracker.track(&frame[14..], u16::from(what >> 6), now, &mut check) {
            let pipeline = balanced.expect("a packet of a flow goes to a pipeline");
            assert!(pipeline < 3 && *pipelines.entry(tracked.serial).or_insert(pipeline) == pipeline);
            let flow = tracker.flow(&tracked);
            assert!(flow.serial > 0 && flow.packets.iter().sum::<u64>() + u64::from(tracked.is_related) > 0);
        }
        packets += 1;
        now += Duration::from_millis(u64::from(later) * u64::from(later));
        if what & 2 != 0 {
            tracker.sweep(now, 5, &mut check);
            balancer.expire(now);
        }
        assert!(tracker.flows() <= 32 && tracker.young_flows() <= 16);
        assert!(tracker.reassembler().expect("it reassembles").waiting_bytes() <= 4_000);
        assert!(tracker.defragmenter().bytes() <= 8_000 && tracker.defragmenter().packets() <= 4);
    }
    tracker.finish(&mut check);
    let events = tracker.events();
    assert_eq!(events.get(Event::Packets), packets);
    assert_eq!(events.get(Event::Tracked) + tracker.untracked().total(), packets);
    assert_eq!((events.get(Event::Began), events.get(Event::Ended)), (check.ended, check.ended));
    assert_eq!(tracker.reassembler().expect("it reassembles").waiting_bytes(), 0);
    assert!(check.offsets.is_empty());
});
