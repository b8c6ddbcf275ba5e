//! Links between DPDK ports, with the switch at one end and a generator at the other.

use super::forwarders::exits;
use super::rotation::{PORTS, Rotation, port_of};
use crate::error::{BenchError, joined};
use crate::gateway::dpdk;
use crate::gateway::packet_ring::ROTATION;
use crate::pin;
use scalebricks_dpdk::{Mbuf, PortConfig, RxQueue, Started, TxQueue};
use scalebricks_io::{Burst, RxPort, TxPort};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for the other end of a link.
const PATIENCE: Duration = Duration::from_secs(10);
/// Packets count as lost when none has arrived for this long.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// Kinds of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Virtio,
    Memif,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Virtio, Self::Memif];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Memif => "memif",
        }
    }

    /// The devices at both ends of a link. The first one must exist first: the generator's for virtio, the
    /// switch's for memif. Device names are unique in the process.
    fn devices(self, folder: &Path) -> [String; 2] {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let link = MADE.fetch_add(1, Ordering::Relaxed);
        let socket = folder.join(format!("{}{link}", self.name())).display().to_string();
        match self {
            Self::Virtio => [
                format!("net_vhost{link},iface={socket}"),
                format!("net_virtio_user{link},path={socket},queue_size=1024"),
            ],
            Self::Memif => {
                let of = |role, number| {
                    format!("net_memif{number},role={role},id={link},socket={socket},socket-abstract=no")
                };
                [of("server", 2 * link), of("client", 2 * link + 1)]
            }
        }
    }
}

/// Delay between closing two link ends.
const SETTLE: Duration = Duration::from_millis(20);

/// One end of a link. Clones share it. Only one thread uses it at a time, so the lock is always free.
#[derive(Clone)]
pub(super) struct LinkEnd(Arc<Mutex<(RxQueue, TxQueue)>>);

impl RxPort<Mbuf> for LinkEnd {
    fn rx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.rx_burst(burst)
    }
}

impl TxPort<Mbuf> for LinkEnd {
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.tx_burst(burst)
    }
}

/// All links of one kind: those by which packets leave, then the one at which they arrive.
pub(super) struct Links {
    pub(super) kind: Kind,
    pub(super) switch: Vec<LinkEnd>,
    generator: Vec<LinkEnd>,
    /// Directory of their sockets.
    folder: PathBuf,
}

impl Links {
    /// Makes the links, and waits until packets can pass.
    pub(super) fn new(kind: Kind) -> Result<Self, BenchError> {
        let failed = |error: &dyn std::fmt::Display| BenchError::check(kind.name(), error.to_string());
        let folder =
            std::env::temp_dir().join(format!("{}-{}-{}", kind.name(), std::process::id(), dpdk::name()));
        std::fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
        let mut links = Self { kind, switch: Vec::new(), generator: Vec::new(), folder };
        for _ in 0..=PORTS {
            let [first, second] = kind.devices(&links.folder);
            let mut ends = Vec::with_capacity(2);
            for device in [first, second] {
                ends.push(dpdk::port(&device, &PortConfig::default())?);
            }
            for end in &ends {
                wait(end).map_err(|error| failed(&error))?;
            }
            let queues = |end: Started| Some((end.rx.into_iter().next()?, end.tx.into_iter().next()?));
            let mut ends =
                ends.into_iter().filter_map(queues).map(|queues| LinkEnd(Arc::new(Mutex::new(queues))));
            let (Some(first), Some(second)) = (ends.next(), ends.next()) else {
                return Err(failed(&"a port without a queue"));
            };
            let (switch, generator) = if kind == Kind::Virtio { (second, first) } else { (first, second) };
            links.switch.push(switch);
            links.generator.push(generator);
        }
        Ok(links)
    }

    /// The switch's ends: those by which packets leave, and the one at which they arrive.
    pub(super) fn sides(&self) -> ([LinkEnd; PORTS], LinkEnd) {
        (std::array::from_fn(|exit| self.switch[exit].clone()), self.switch[PORTS].clone())
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // DPDK's socket thread frees the memory of a closed end, and crashed when the next end closed
        // meanwhile.
        for end in self.switch.drain(..).chain(self.generator.drain(..)) {
            drop(end);
            std::thread::sleep(SETTLE);
        }
        let _ = std::fs::remove_dir_all(&self.folder); // what is left of it is the system's to remove
    }
}

fn wait(end: &Started) -> Result<(), String> {
    let began = Instant::now();
    while !end.port.link().map_err(|error| error.to_string())?.up {
        if began.elapsed() > PATIENCE {
            return Err(format!("the other end of '{}' does not come", end.port.info().name));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Packet counts of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LinkCounts {
    pub(super) sent: usize,
    pub(super) came: usize,
    /// Packets received while the generator was still sending, which took `seconds`.
    pub(super) in_time: usize,
    pub(super) seconds: f64,
}

/// Sends packets of the rotation for a time or up to a number, while `moving` forwards them at the switch's
/// ends until told to stop. Then waits for the last packets.
pub(super) fn pass(
    links: &Links,
    rotation: &Rotation<Mbuf>,
    (most, time): (usize, Duration),
    moving: impl FnOnce(&AtomicBool) + Send,
) -> Result<LinkCounts, BenchError> {
    let stop = AtomicBool::new(false);
    let thread = |error: std::io::Error| BenchError::Threads(error.to_string());
    std::thread::scope(|scope| {
        let mover = std::thread::Builder::new().spawn_scoped(scope, || {
            pin::to_core(0);
            let _registered = dpdk::register();
            moving(&stop);
        });
        mover.map_err(thread)?;
        let generator = std::thread::Builder::new().spawn_scoped(scope, || {
            pin::to_core(1);
            let _registered = dpdk::register();
            let passed = generate(links, rotation, most, time);
            stop.store(true, Ordering::Relaxed);
            passed
        });
        let generator = generator.map_err(|error| {
            stop.store(true, Ordering::Relaxed);
            thread(error)
        })?;
        joined(generator.join())
    })
}

fn generate(links: &Links, rotation: &Rotation<Mbuf>, most: usize, time: Duration) -> LinkCounts {
    let mut ends = links.generator.clone();
    let (mut entry, mut sinks) = (port_of(rotation, PORTS), exits(rotation));
    let (mut burst, mut passed) = (Burst::new(), LinkCounts::default());
    let mut collect = |ends: &mut [LinkEnd]| -> usize {
        let mut back = Burst::new();
        let mut came = 0;
        for (end, sink) in ends[..PORTS].iter_mut().zip(&mut sinks) {
            came += end.rx_burst(&mut back);
            sink.tx_burst(&mut back);
        }
        came
    };
    let began = Instant::now();
    while passed.sent < most && began.elapsed() < time {
        for _ in 0..16 {
            if burst.is_empty() {
                entry.rx_burst(&mut burst);
                burst.truncate(burst.len().min(most - passed.sent.min(most)));
            }
            passed.sent += ends[PORTS].tx_burst(&mut burst);
            passed.came += collect(&mut ends);
        }
    }
    (passed.seconds, passed.in_time) = (began.elapsed().as_secs_f64(), passed.came);
    let mut last = Instant::now();
    while passed.came < passed.sent && last.elapsed() < LOST_AFTER {
        let came = collect(&mut ends);
        if came > 0 {
            (passed.came, last) = (passed.came + came, Instant::now());
        }
    }
    rotation.take_back(&mut burst);
    passed
}

/// Replaces lost packets of the rotation.
pub(super) fn refill(rotation: &Rotation<Mbuf>) -> Result<(), BenchError> {
    for packet in dpdk::fresh(ROTATION.saturating_sub(rotation.len()))? {
        rotation.add(packet);
    }
    Ok(())
}
