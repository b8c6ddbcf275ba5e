//! A router to which packets are offered at a rate, in an open loop on one core.
//!
//! Packets arrive on time whether the router keeps up or not. One that finds its link full is lost. A packet's time runs from
//! when it was due until it is taken from the far end of its link, so it includes the time that a late packet waited to
//! enter. Generator and sink run on the same core between the router's turns; their time is part of the capacity.

use crate::gateway::packet_ring::PacketKind;
use crate::gateway::packet_slab::SlabPacket;
use crate::timing::Clock;
use scalebricks_io::{BURST, Burst, MemoryPort, PacketBuf, RxPort, Tag};
use scalebricks_report::stats::percentile;
use std::time::Duration;

/// Nothing has moved for so long at the end of a trial.
pub(super) const PATIENCE: Duration = Duration::from_micros(200);

/// Most links between nodes that packets are told apart by, and one.
const HOPS: usize = 4;

/// Packets that a link holds.
pub(super) const LINK: usize = 4096;

/// What came of packets that were offered.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Packets offered.
    pub(super) offered: usize,
    /// Sorted nanoseconds of those that left, by number of links between nodes that they passed.
    pub(super) times: Vec<Vec<f64>>,
    /// Passes of the loop that found nothing to do while packets were offered.
    empty: u64,
    /// Nanoseconds in which packets were offered.
    pub(super) elapsed_ns: f64,
}

impl Trial {
    /// Packets that left.
    pub(super) fn left(&self) -> usize {
        self.times.iter().map(Vec::len).sum()
    }

    /// Only the packets that passed so many links between nodes; the number offered is theirs too.
    pub(super) fn with_links(&self, links: usize) -> Self {
        let times: Vec<Vec<f64>> = self.times.iter().skip(links).take(1).cloned().collect();
        Self {
            offered: times.iter().map(Vec::len).sum(),
            times,
            empty: self.empty,
            elapsed_ns: self.elapsed_ns,
        }
    }

    /// Share of the packets offered that did not leave.
    pub(super) fn lost_share(&self) -> f64 {
        (self.offered - self.left().min(self.offered)) as f64 / self.offered.max(1) as f64
    }

    /// The time at this quantile of all packets.
    pub(super) fn at(&self, share: f64) -> f64 {
        let mut all: Vec<f64> = self.times.iter().flatten().copied().collect();
        all.sort_unstable_by(f64::total_cmp);
        percentile(&all, share)
    }

    /// The mean time.
    pub(super) fn mean(&self) -> f64 {
        self.times.iter().flatten().sum::<f64>() / self.left().max(1) as f64
    }

    /// Nanoseconds of processor time per packet, without empty polls: RouteBricks' correction.
    pub(super) fn busy_ns(&self, empty_ns: f64) -> f64 {
        (self.elapsed_ns - self.empty as f64 * empty_ns).max(0.0) / self.left().max(1) as f64
    }
}

/// What is offered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Offered {
    /// Packets per second, equally spaced.
    PerSecond(f64),
    /// A burst whenever the router asks.
    All,
}

/// An entry: the sending end of a link into the router, and its packets.
pub(super) struct Entry<K> {
    pub(super) link: MemoryPort<SlabPacket>,
    pub(super) kind: K,
    number: usize,
}

impl<K: PacketKind> Entry<K> {
    /// An entry whose packets begin with the first of their kind.
    pub(super) const fn new(link: MemoryPort<SlabPacket>, kind: K) -> Self {
        Self { link, kind, number: 0 }
    }
}

/// The outside of a router.
pub(super) struct Outside<K> {
    pub(super) entries: Vec<Entry<K>>,
    pub(super) exits: Vec<MemoryPort<SlabPacket>>,
    pub(super) free: Vec<SlabPacket>,
}

impl<K: PacketKind> Outside<K> {
    /// Offers packets for `time`, and waits for those on their way until nothing has moved for `patience`. `turn` runs the
    /// router; its argument is the time since the start.
    pub(super) fn offer(
        &mut self,
        offered: Offered,
        time: Duration,
        patience: Duration,
        mut turn: impl FnMut(Duration) -> usize,
    ) -> Trial {
        let clock = Clock::chosen();
        let start = clock.now();
        let time_ns = time.as_nanos() as f64;
        // How many packets, the time between two, and how many at once at the most.
        let (total, gap, most) = match offered {
            Offered::PerSecond(rate) => ((rate * time.as_secs_f64()).max(1.0), 1e9 / rate, usize::MAX),
            Offered::All => (f64::INFINITY, 0.0, BURST),
        };
        let (mut sent, mut last, patience_ns) = (0.0_f64, 0.0_f64, patience.as_nanos() as f64);
        let mut trial = Trial { times: vec![Vec::new(); HOPS], ..Trial::default() };
        loop {
            let since = clock.now().saturating_sub(start);
            let now = since.as_nanos() as f64;
            let is_over = sent >= total || offered == Offered::All && now > time_ns;
            let mut moved = 0;
            while !is_over && sent < total && sent * gap <= now && moved < most {
                self.inject(trial.offered, if gap > 0.0 { sent * gap } else { now });
                (sent, moved) = (sent + 1.0, moved + 1);
                trial.offered += 1;
            }
            moved += turn(since);
            moved += self.collect(clock.now().saturating_sub(start).as_nanos() as f64, &mut trial);
            if !is_over {
                trial.elapsed_ns = now;
                trial.empty += u64::from(moved == 0);
            } else if moved == 0 && now - last > patience_ns {
                break;
            }
            if moved > 0 {
                last = now;
            }
        }
        trial.times.iter_mut().for_each(|times| times.sort_unstable_by(f64::total_cmp));
        trial
    }

    /// Sends a packet in. It is lost if the link is full.
    #[inline]
    fn inject(&mut self, number: usize, due: f64) {
        let entries = self.entries.len();
        let entry = &mut self.entries[number % entries];
        let Some(mut packet) = self.free.pop() else { return };
        entry.kind.renew(&mut packet, entry.number);
        entry.number = if entry.number + 1 < entry.kind.count() { entry.number + 1 } else { 0 };
        #[expect(clippy::cast_sign_loss, reason = "a time since the start")]
        packet.set_tag(Tag { id: due as u64, ..Tag::default() });
        if let Err(packet) = entry.link.send(packet) {
            self.free.push(packet);
        }
    }

    /// Takes what has left.
    #[inline]
    fn collect(&mut self, now: f64, trial: &mut Trial) -> usize {
        let (mut taken, mut burst) = (0, Burst::new());
        for exit in &mut self.exits {
            while exit.rx_burst(&mut burst) > 0 {
                for packet in burst.drain(..) {
                    let tag = packet.tag();
                    let times = &mut trial.times[usize::from(tag.hops).min(HOPS - 1)];
                    times.push((now - tag.id as f64).max(0.0));
                    self.free.push(packet);
                    taken += 1;
                }
            }
        }
        taken
    }

    /// Nanoseconds of a pass of the loop that finds nothing to do.
    pub(super) fn empty_ns(&mut self, passes: u64, mut turn: impl FnMut(Duration) -> usize) -> f64 {
        let clock = Clock::chosen();
        let (start, mut trial) = (clock.now(), Trial { times: vec![Vec::new(); HOPS], ..Trial::default() });
        for _ in 0..passes {
            let since = clock.now().saturating_sub(start);
            turn(since);
            self.collect(clock.now().saturating_sub(start).as_nanos() as f64, &mut trial);
        }
        clock.now().saturating_sub(start).as_nanos() as f64 / passes.max(1) as f64
    }

    /// Packets per second that leave if more are offered than the router can forward.
    pub(super) fn capacity(&mut self, time: Duration, turn: impl FnMut(Duration) -> usize) -> f64 {
        let trial = self.offer(Offered::All, time, PATIENCE, turn);
        trial.left() as f64 * 1e9 / trial.elapsed_ns.max(1.0)
    }
}
