//! DPDK's tables and packets.

use super::read_only::{Frozen, Lookup};
use super::tables::GptSource;
use crate::error::BenchError;
use scalebricks_dpdk::peers::{Efd, HASH_KEYS, KEYS, Key, RteHash};
use scalebricks_dpdk::{
    Eal, EalConfig, Mbuf, Memory, Pool, PoolConfig, Port, PortConfig, RegisteredThread, SimdBits, Started,
};
use scalebricks_elements::gateway::FlowState;
use scalebricks_io::PacketSource;
use scalebricks_tables::{Fib, FibError, FibValue, GptReader, KeyBatch, prefetch_read};
use scalebricks_types::{FlowKey, KeyHash, NodeHint};
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

/// DPDK in this process, once started.
static EAL: OnceLock<Eal> = OnceLock::new();

/// DPDK memory per flow in bytes: two keys in three `rte_hash` tables, one of them for a quarter of the
/// flows, and in an EFD.
const FLOW_BYTES: u64 = 400;

/// DPDK memory in MiB that depends on no table.
const BASE_MIB: u64 = 512;

/// DPDK memory for tables of routes in MiB: arrays of 2^24 entries, and nodes of tries for a million routes.
const ROUTES_MIB: u64 = 1536;

/// The free huge pages in MiB with which DPDK has tables of routes on them.
pub const HUGE_MIB_FOR_ROUTES: u64 = BASE_MIB + ROUTES_MIB;

/// The right to count and take the system's huge pages. Other processes of ours wait for it, so that none takes the pages
/// that another has just found free.
#[derive(Debug)]
pub struct HugePagesLock {
    _file: Option<File>,
}

impl HugePagesLock {
    /// Waits for the other processes. Without huge pages in the kernel there is nothing to wait for.
    pub fn take() -> Self {
        let file = File::open("/sys/kernel/mm/hugepages").ok();
        Self { _file: file.filter(|file| file.lock().is_ok()) }
    }
}

/// Starts DPDK with memory for the tables of `flows` flows, and for tables of routes if there is enough: on
/// huge pages if the system has reserved enough of them.
///
/// # Errors
/// [`BenchError::Structure`] if it does not start.
pub fn start(flows: u64) -> Result<(), BenchError> {
    start_alone(flows, &HugePagesLock::take())
}

/// As [`start`], for a caller that has changed the number of huge pages.
///
/// # Errors
/// As [`start`].
pub fn start_alone(flows: u64, _: &HugePagesLock) -> Result<(), BenchError> {
    if EAL.get().is_some() {
        return Ok(());
    }
    let mib = BASE_MIB + ((flows * FLOW_BYTES) >> 20);
    // Suppresses messages about missing devices.
    let mut extra = vec!["--log-level=*:error".to_owned()];
    let free = free_huge_mib();
    let mib = if flows == 0 || free >= mib + ROUTES_MIB || free < mib { mib + ROUTES_MIB } else { mib };
    let memory = if free >= mib {
        // All at once. When memory grows, each virtio port tells its vhost port while it holds the lock of the
        // heap; here both are in one process, and the vhost port waits for that lock without end.
        extra.extend(["-m".to_owned(), mib.to_string()]);
        Memory::HugePages
    } else {
        Memory::Ordinary { mib: u32::try_from(mib).unwrap_or(u32::MAX) }
    };
    let eal = Eal::start(&EalConfig { memory, extra, ..EalConfig::default() });
    let eal = eal.map_err(|error| BenchError::of("DPDK", error))?;
    SimdBits::at_most(eal, 128).keep(); // for `Efd`
    EAL.get_or_init(|| eal);
    Ok(())
}

/// Whether DPDK's memory is on huge pages; `None` before it is started.
pub fn has_huge_pages() -> Option<bool> {
    EAL.get().map(|eal| eal.has_huge_pages())
}

/// MiB of free huge pages.
pub fn free_huge_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    (of("HugePages_Free:") * of("Hugepagesize:")) >> 10
}

/// DPDK in this process.
///
/// # Errors
/// [`BenchError::Check`] if it was not started.
pub fn eal() -> Result<Eal, BenchError> {
    EAL.get().copied().ok_or_else(|| BenchError::check("DPDK", "it was not started"))
}

/// A table name that is unique in the process.
pub fn name() -> String {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    format!("bench{}", MADE.fetch_add(1, Ordering::Relaxed))
}

/// Empty DPDK packets.
///
/// # Errors
/// [`BenchError::Structure`] if there is no memory.
pub fn packets(count: usize) -> Result<Vec<Mbuf>, BenchError> {
    let failed = |error| BenchError::of("mbufs", error);
    let config = PoolConfig { packets: (2 * count - 1) as u32, ..PoolConfig::default() };
    let mut pool = Pool::new(eal()?, &name(), &config).map_err(failed)?;
    Ok(std::iter::from_fn(|| pool.alloc()).take(count).collect())
}

/// The pool that ports and generators share.
static PORTS: OnceLock<Pool> = OnceLock::new();

fn port_pool() -> Result<Pool, BenchError> {
    if let Some(pool) = PORTS.get() {
        return Ok(*pool);
    }
    let config = PoolConfig { packets: (1 << 15) - 1, ..PoolConfig::default() };
    let pool = Pool::new(eal()?, &name(), &config).map_err(|error| BenchError::of("mbufs", error))?;
    Ok(*PORTS.get_or_init(|| pool))
}

/// Starts a port with the shared pool.
///
/// # Errors
/// [`BenchError::Structure`] with DPDK's error.
pub fn port(device: &str, config: &PortConfig) -> Result<Started, BenchError> {
    Port::start(eal()?, device, config, port_pool()?).map_err(|error| BenchError::of("port", error))
}

/// Empty packets of the shared pool.
///
/// # Errors
/// [`BenchError::Check`] if too few are left.
pub fn fresh(count: usize) -> Result<Vec<Mbuf>, BenchError> {
    let mut pool = port_pool()?;
    let packets: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).take(count).collect();
    if packets.len() < count {
        return Err(BenchError::check("mbufs", "the pool of the ports is empty"));
    }
    Ok(packets)
}

/// Registers the calling thread with DPDK, which gives it its own cache of each pool, if possible.
pub fn register() -> Option<RegisteredThread> {
    eal().ok()?.register_thread().ok()
}

/// `rte_hash` as an exact table: it maps keys to positions in an array of values.
#[derive(Debug)]
pub struct RteFib(RwLock<Inner>);

#[derive(Debug)]
struct Inner {
    table: RteHash,
    values: Vec<FibValue>,
    /// Which positions hold a key.
    held: Vec<bool>,
    len: usize,
}

impl RteFib {
    /// A table with room for `keys` keys.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if there is no memory.
    pub fn new(keys: usize) -> Result<Self, BenchError> {
        let table = RteHash::new(eal()?, &name(), keys).map_err(|error| BenchError::of("rte_hash", error))?;
        let (values, held) = (vec![[0; 2]; table.places()], vec![false; table.places()]);
        Ok(Self(RwLock::new(Inner { table, values, held, len: 0 })))
    }

    /// The same table, read-only and without the lock.
    pub fn freeze(self) -> impl Fib {
        Frozen(self.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The words of a short key.
const fn words(key: &FlowKey) -> Key {
    match key {
        FlowKey::Short(key) => *key.words(),
        FlowKey::Long(_) => [0; 2], // no key of a flow
    }
}

impl Inner {
    /// The value at a position; `None` for the position of a missing key.
    #[inline]
    fn at(&self, place: i32) -> Option<&FibValue> {
        self.values.get(usize::try_from(place).ok()?)
    }

    fn place(&self, key: &FlowKey, hash: KeyHash) -> Option<usize> {
        let mut place = [-1];
        self.table.find(&[words(key)], &mut [hash.get() as u32], &mut place);
        usize::try_from(place[0]).ok().filter(|&place| self.held[place])
    }
}

impl Lookup for Inner {
    fn lookup_batch(&self, keys: KeyBatch<'_>, values: &mut [Option<FibValue>]) {
        let values = &mut values[..keys.len()];
        let lanes = keys
            .keys()
            .chunks(HASH_KEYS)
            .zip(keys.hashes().chunks(HASH_KEYS))
            .zip(values.chunks_mut(HASH_KEYS));
        for ((keys, hashes), values) in lanes {
            let (mut own, mut short, mut places) = ([[0; 2]; HASH_KEYS], [0; HASH_KEYS], [-1; HASH_KEYS]);
            for ((own, short), (key, hash)) in own.iter_mut().zip(&mut short).zip(keys.iter().zip(hashes)) {
                (*own, *short) = (words(key), hash.get() as u32);
            }
            let count = keys.len();
            self.table.find(&own[..count], &mut short[..count], &mut places[..count]);
            for value in places[..count].iter().filter_map(|&place| self.at(place)) {
                prefetch_read(value);
            }
            for (value, &place) in values.iter_mut().zip(&places) {
                *value = self.at(place).copied();
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    /// According to its documentation: a power of two of one-line buckets for eight keys each, 32 bytes per
    /// key with its position, and the values.
    fn table_bytes(&self) -> usize {
        let places = self.values.len();
        places.next_power_of_two() / 8 * 64 + places * (32 + size_of::<FibValue>())
    }
}

impl Fib for RteFib {
    fn lookup_batch(&self, keys: KeyBatch<'_>, values: &mut [Option<FibValue>]) {
        self.read().lookup_batch(keys, values);
    }

    fn insert(&self, key: &FlowKey, hash: KeyHash, value: FibValue) -> Result<(), FibError> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let full = FibError::Full { len: inner.len, slots: inner.values.len() };
        let place = inner.table.add(&words(key), hash.get() as u32).map_err(|_| full)?;
        if std::mem::replace(&mut inner.held[place], true) {
            return Err(FibError::Exists);
        }
        inner.values[place] = value;
        inner.len += 1;
        Ok(())
    }

    fn update(&self, key: &FlowKey, hash: KeyHash, value: FibValue) -> Result<FibValue, FibError> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let place = inner.place(key, hash).ok_or(FibError::Missing)?;
        Ok(std::mem::replace(&mut inner.values[place], value))
    }

    /// The benchmark removes no keys, and the wrapper has no call for it.
    fn remove(&self, _: &FlowKey, _: KeyHash) -> Result<FibValue, FibError> {
        Err(FibError::Missing)
    }

    fn len(&self) -> usize {
        self.read().len
    }

    fn table_bytes(&self) -> usize {
        self.read().table_bytes()
    }
}

/// EFD as a GPT.
#[derive(Debug)]
pub struct EfdGpt {
    table: Arc<Efd>,
    keys: u64,
}

impl EfdGpt {
    /// A table that maps each key to its node.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if it cannot be filled.
    pub fn new(
        keys: u64,
        entries: impl Iterator<Item = (FlowKey, KeyHash, FlowState)>,
    ) -> Result<Self, BenchError> {
        let failed = |error| BenchError::of("efd", error);
        let mut table = Efd::new(eal()?, &name(), keys as usize).map_err(failed)?;
        for (key, _, state) in entries {
            table.set(&words(&key), state.node.get()).map_err(failed)?;
        }
        Ok(Self { table: Arc::new(table), keys })
    }
}

impl GptSource for EfdGpt {
    fn reader(&self) -> Box<dyn GptReader> {
        Box::new(EfdReader(Arc::clone(&self.table)))
    }

    /// Approximate bytes that lookups read, because EFD has no call for it. As built, it holds 8 value bits,
    /// which take about 16 bits.
    fn table_bytes(&self) -> usize {
        self.keys as usize * 2
    }

    fn value_bits(&self) -> Option<u8> {
        Some(scalebricks_dpdk::peers::EFD_VALUE_BITS)
    }
}

/// A reader for one thread.
struct EfdReader(Arc<Efd>);

impl GptReader for EfdReader {
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        let hints = &mut hints[..keys.len()];
        for (keys, hints) in keys.keys().chunks(KEYS).zip(hints.chunks_mut(KEYS)) {
            let (mut own, mut values) = ([[0; 2]; KEYS], [0; KEYS]);
            for (own, key) in own.iter_mut().zip(keys) {
                *own = words(key);
            }
            self.0.values(&own[..keys.len()], &mut values[..keys.len()]);
            for (hint, value) in hints.iter_mut().zip(values) {
                *hint = NodeHint::new(value.into());
            }
        }
    }
}
