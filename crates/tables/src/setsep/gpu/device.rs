//! Runs the kernels on a GPU and holds the arrays in device memory.

use super::compile::{Kernels, check_driver};
use super::error::{Doing, GpuError, is_no_device};
use super::finish;
use super::plan::{MAX_KEYS, NOTHING_WRONG, Plan, THREADS, TILE};
use crate::setsep::params::Params;
use crate::setsep::structure::SetSep;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg};
use scalebricks_types::{KeyHash, KeyHasher};
use std::sync::Arc;
use std::time::Instant;

/// Thread blocks of a kernel that has one thread per key, at most; threads then take several keys.
const MOST_THREAD_BLOCKS: usize = 1 << 20;

/// Builds SetSep tables with the same parameters on one GPU.
///
/// It keeps the device memory of its largest build: about 20 bytes per key and the table.
#[derive(Debug)]
pub struct GpuBuilder {
    plan: Plan,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    arrays: Option<Arrays>,
}

/// The arrays that the kernels fill; `reference::Arrays` describes them.
#[derive(Debug)]
struct Arrays {
    keys: usize,
    status: CudaSlice<u64>,
    counts: CudaSlice<u32>,
    starts: CudaSlice<u32>,
    totals: CudaSlice<u32>,
    ranks: CudaSlice<u16>,
    hashes: CudaSlice<u64>,
    values: CudaSlice<u8>,
    table: CudaSlice<u64>,
    marks: CudaSlice<u64>,
}

/// Hashes of keys and their values in device memory: 9 bytes per key.
#[derive(Debug)]
pub struct DeviceKeys {
    keys: usize,
    hashes: CudaSlice<u64>,
    values: CudaSlice<u8>,
}

impl DeviceKeys {
    /// Number of keys.
    pub const fn len(&self) -> usize {
        self.keys
    }

    /// Whether there are no keys.
    pub const fn is_empty(&self) -> bool {
        self.keys == 0
    }
}

/// A table in the device memory of its builder.
#[derive(Debug)]
pub struct DeviceTable<'a> {
    builder: &'a GpuBuilder,
}

impl GpuBuilder {
    /// A builder on the first GPU.
    ///
    /// # Errors
    /// As [`on_device`](Self::on_device).
    pub fn new(params: Params) -> Result<Self, GpuError> {
        Self::on_device(params, 0)
    }

    /// A builder on the GPU with this number. Cost: compiles the kernels, which takes about a second.
    ///
    /// # Errors
    /// [`GpuError`] if the format is not one of equations, or the driver, the compiler or the device is missing or
    /// fails.
    pub fn on_device(params: Params, ordinal: usize) -> Result<Self, GpuError> {
        let plan = Plan::new(params).map_err(GpuError::Format)?;
        check_driver()?;
        let devices = match CudaContext::device_count() {
            Ok(devices) => devices.unsigned_abs() as usize,
            Err(error) if is_no_device(error) => 0,
            Err(error) => return Err(error).doing("start the driver"),
        };
        if ordinal >= devices {
            return Err(GpuError::NoDevice { ordinal, devices });
        }
        let context = CudaContext::new(ordinal).doing("open the device")?;
        let stream = context.default_stream();
        let kernels = Kernels::load(&plan, &context)?;
        Ok(Self { plan, context, stream, kernels, arrays: None })
    }

    /// The parameters of the tables.
    pub const fn params(&self) -> Params {
        self.plan.params
    }

    /// The name of the GPU.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn device_name(&self) -> Result<String, GpuError> {
        self.context.name().doing("read the device's name")
    }

    /// Bytes of device memory that a build of this many keys takes, its keys included.
    pub const fn device_bytes(&self, keys: usize) -> usize {
        self.plan.device_bytes(keys)
    }

    /// Bytes that the kernels read and write in a build of this many keys if every byte is moved once by each kernel
    /// that needs it.
    pub const fn traffic_bytes(&self, keys: usize) -> usize {
        self.plan.traffic_bytes(keys)
    }

    /// Copies hashes and values to the device.
    ///
    /// # Errors
    /// [`GpuError`] if there are too many, or the device has too little memory for them and their build.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn upload(&self, hashes: &[KeyHash], values: &[u8]) -> Result<DeviceKeys, GpuError> {
        assert_eq!(hashes.len(), values.len(), "one value a key");
        self.check_room(hashes.len(), 0)?;
        let keys = DeviceKeys {
            keys: hashes.len(),
            hashes: self.copy_of(words_of(hashes))?,
            values: self.copy_of(values)?,
        };
        self.wait()?;
        Ok(keys)
    }

    /// Copies keys of `K` 64-bit words and their values to the device and hashes them there. The hash of a key is
    /// that of [`KeyHasher::hash`] for the words of a flow key, and of [`KeyHasher::hash_bytes`] for the words'
    /// little-endian bytes.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn upload_keys<const K: usize>(
        &self,
        hasher: &KeyHasher,
        keys: &[[u64; K]],
        values: &[u8],
    ) -> Result<DeviceKeys, GpuError> {
        const { assert!(K > 0 && K < 32, "SipHash's length byte") };
        assert_eq!(keys.len(), values.len(), "one value a key");
        self.check_room(keys.len(), keys.len() * K * 8)?;
        let words = self.copy_of(keys.as_flattened())?;
        let mut hashes = self.array(keys.len())?;
        let (each, count, [v0, v1, v2, v3]) = (K as u32, keys.len() as u64, hasher.state());
        let mut launch = self.stream.launch_builder(&self.kernels.hash_keys);
        launch.arg(&words).arg(&each).arg(&count).arg(&v0).arg(&v1).arg(&v2).arg(&v3).arg(&mut hashes);
        #[allow(unsafe_code, reason = "see SAFETY")]
        // SAFETY: the arguments are those of `hash_keys` in `kernels.cu`. It reads `count * each` words and writes
        // `count` hashes, which the arrays hold.
        unsafe { launch.launch(per_key(keys.len())) }.doing("hash the keys")?;
        let values = self.copy_of(values)?;
        self.wait()?;
        Ok(DeviceKeys { keys: keys.len(), hashes, values })
    }

    /// Builds a table from keys on the device. It stays there until it is [downloaded](DeviceTable::download).
    ///
    /// # Errors
    /// [`GpuError::Build`] with the error that [`build_table`](super::super::SetSepBuilder::build_table) returns for
    /// wide values and full blocks (duplicates are found by the download); [`GpuError`] if the device fails.
    pub fn build(&mut self, keys: &DeviceKeys) -> Result<DeviceTable<'_>, GpuError> {
        let (of_keys, own) = (keys.hashes.ordinal(), self.context.ordinal());
        if of_keys != own {
            return Err(GpuError::OtherDevice { keys: of_keys, builder: own });
        }
        let mut arrays = match self.arrays.take() {
            Some(arrays) if arrays.keys >= keys.keys => arrays,
            other => {
                drop(other);
                Arrays::new(self, keys.keys)?
            }
        };
        self.run(keys, &mut arrays)?;
        self.arrays = Some(arrays);
        Ok(DeviceTable { builder: self })
    }

    /// Uploads hashes and values, builds their table and downloads it.
    ///
    /// # Errors
    /// As [`upload`](Self::upload), [`build`](Self::build) and [`download`](DeviceTable::download).
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn build_table(&mut self, hashes: &[KeyHash], values: &[u8]) -> Result<SetSep, GpuError> {
        let keys = self.upload(hashes, values)?;
        self.build(&keys)?.download()
    }

    /// Bytes per second, read and written, of a copy of this many bytes within device memory: the best of `runs`.
    ///
    /// # Errors
    /// [`GpuError`] if the device has too little memory or fails.
    pub fn copy_rate(&self, bytes: usize, runs: usize) -> Result<f64, GpuError> {
        let words = bytes.div_ceil(8);
        let (from, mut to) = (self.array::<u64>(words)?, self.array::<u64>(words)?);
        let mut best = f64::INFINITY;
        for _ in 0..=runs {
            self.wait()?;
            let start = Instant::now();
            self.stream.memcpy_dtod(&from, &mut to).doing("copy within device memory")?;
            self.wait()?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok((words * 16) as f64 / best)
    }

    /// Launches all kernels and waits for them.
    #[allow(unsafe_code, reason = "see SAFETY")]
    fn run(&self, keys: &DeviceKeys, to: &mut Arrays) -> Result<(), GpuError> {
        let Self { stream, kernels, plan, .. } = self;
        let count = keys.keys as u64;
        stream.memset_zeros(&mut to.counts).doing("clear the counts")?;
        stream.memcpy_htod(&[NOTHING_WRONG; 2], &mut to.status).doing("clear the status")?;

        let mut launch = stream.launch_builder(&kernels.histogram);
        launch.arg(&keys.hashes).arg(&keys.values).arg(&count);
        launch.arg(&mut to.counts).arg(&mut to.ranks).arg(&mut to.status);
        // SAFETY: here and below, the arguments are those of the kernel in `kernels.cu`, in its order and of its
        // types. `keys` holds `count` hashes and values; `Arrays::new` gave the other arrays the lengths that the
        // kernels index: one per key, per block or per tile of `plan`, for which the kernels were compiled. Kernels
        // of one stream run one after another.
        unsafe { launch.launch(per_key(keys.keys)) }.doing("count the keys of blocks")?;

        let mut launch = stream.launch_builder(&kernels.scan_tiles);
        launch.arg(&to.counts).arg(&mut to.starts).arg(&mut to.totals).arg(&mut to.status);
        // SAFETY: as above; one thread block per tile.
        unsafe { launch.launch(thread_blocks(plan.tiles())) }.doing("sum the counts")?;

        let mut launch = stream.launch_builder(&kernels.scan_totals);
        launch.arg(&mut to.totals);
        // SAFETY: as above; one thread block.
        unsafe { launch.launch(thread_blocks(1)) }.doing("sum the tiles")?;

        // Ranks and places are valid only if no block is too full.
        let mut status = [0; 2];
        stream.memcpy_dtoh(&to.status, &mut status).doing("read the status")?;
        self.wait()?;
        finish::check(&plan.params, status)?;

        let mut launch = stream.launch_builder(&kernels.scatter);
        launch.arg(&keys.hashes).arg(&keys.values).arg(&to.ranks).arg(&count);
        launch.arg(&to.starts).arg(&to.totals).arg(&mut to.hashes).arg(&mut to.values);
        // SAFETY: as above. The places are below `count`, because the status word for full blocks says that no rank
        // wrapped.
        unsafe { launch.launch(per_key(keys.keys)) }.doing("move the keys to their blocks")?;

        let mut launch = stream.launch_builder(&kernels.build_blocks);
        launch.arg(&to.hashes).arg(&to.values).arg(&to.counts).arg(&to.starts).arg(&to.totals);
        launch.arg(&mut to.table).arg(&mut to.marks);
        // SAFETY: as above; one thread block per block of the table.
        unsafe { launch.launch(thread_blocks(plan.params.blocks() as usize)) }.doing("build the blocks")?;
        self.wait()
    }

    fn wait(&self) -> Result<(), GpuError> {
        self.stream.synchronize().doing("run the kernels")
    }

    /// An error unless the device has room for this many keys, their build, and `more` bytes. The arrays of the
    /// builder count as free.
    fn check_room(&self, keys: usize, more: usize) -> Result<(), GpuError> {
        if keys > MAX_KEYS {
            return Err(GpuError::TooManyKeys { keys, limit: MAX_KEYS });
        }
        let held =
            self.arrays.as_ref().map_or(0, |arrays| self.plan.device_bytes(arrays.keys) - arrays.keys * 9);
        let (free, need) = (self.free_bytes()? + held, self.plan.device_bytes(keys) + more);
        if need > free { Err(GpuError::Memory { need, free }) } else { Ok(()) }
    }

    fn free_bytes(&self) -> Result<usize, GpuError> {
        self.wait()?; // memory that was freed returns to the device then
        Ok(self.context.mem_get_info().doing("read the free memory")?.0)
    }

    /// Device memory for this many items, at least one, with arbitrary contents.
    #[allow(unsafe_code, reason = "see SAFETY")]
    fn array<T: DeviceRepr>(&self, items: usize) -> Result<CudaSlice<T>, GpuError> {
        // SAFETY: the items are integers; whoever reads them has written them, as `run` and its callers show.
        let array = unsafe { self.stream.alloc(items.max(1)) };
        array.or_else(|error| {
            let (need, free) = (items * size_of::<T>(), self.free_bytes()?);
            if need > free {
                Err(GpuError::Memory { need, free })
            } else {
                Err(error).doing("allocate device memory")
            }
        })
    }

    /// A copy in device memory.
    fn copy_of<T: DeviceRepr>(&self, items: &[T]) -> Result<CudaSlice<T>, GpuError> {
        let mut array = self.array(items.len())?;
        if !items.is_empty() {
            self.stream.memcpy_htod(items, &mut array).doing("copy to the device")?;
        }
        Ok(array)
    }
}

impl Arrays {
    fn new(builder: &GpuBuilder, keys: usize) -> Result<Self, GpuError> {
        let blocks = builder.plan.params.blocks() as usize;
        Ok(Self {
            keys,
            status: builder.array(2)?,
            counts: builder.array(blocks)?,
            starts: builder.array(blocks)?,
            totals: builder.array(builder.plan.tiles())?,
            ranks: builder.array(keys)?,
            hashes: builder.array(keys)?,
            values: builder.array(keys)?,
            table: builder.array(builder.plan.table_words())?,
            marks: builder.array(blocks)?,
        })
    }
}

impl DeviceTable<'_> {
    /// Copies the table to the host and makes the fallback lists there.
    ///
    /// Cost: the table's bytes over the bus; per block with a group that no seed solves, its keys.
    ///
    /// # Errors
    /// [`GpuError::Build`] if a key occurs twice with different values or the fallback is full; [`GpuError`] if the
    /// device fails.
    pub fn download(&self) -> Result<SetSep, GpuError> {
        let GpuBuilder { plan, arrays: Some(arrays), .. } = self.builder else { unreachable!("built") };
        let table = self.fetch(&arrays.table, 0, plan.table_words())?;
        let marks = self.fetch(&arrays.marks, 0, plan.params.blocks() as usize)?;
        finish::table(plan.params, &table, &marks, |block| {
            let block = block as usize;
            let keys = self.fetch(&arrays.counts, block, 1)?[0] as usize;
            let tile = self.fetch(&arrays.totals, block / TILE, 1)?[0] as usize;
            let start = self.fetch(&arrays.starts, block, 1)?[0] as usize + tile;
            let hashes = self.fetch(&arrays.hashes, start, keys)?;
            Ok(hashes.into_iter().zip(self.fetch(&arrays.values, start, keys)?).collect())
        })
    }

    fn fetch<T: DeviceRepr + Clone + Default>(
        &self,
        array: &CudaSlice<T>,
        from: usize,
        items: usize,
    ) -> Result<Vec<T>, GpuError> {
        let mut fetched = vec![T::default(); items];
        if items > 0 {
            let part = array.slice(from..from + items);
            self.builder.stream.memcpy_dtoh(&part, &mut fetched).doing("copy from the device")?;
            self.builder.wait()?;
        }
        Ok(fetched)
    }
}

/// The words of hashes.
#[allow(unsafe_code, reason = "see SAFETY")]
fn words_of(hashes: &[KeyHash]) -> &[u64] {
    // SAFETY: `KeyHash` is `repr(transparent)` over a word, and says so for this purpose.
    unsafe { std::slice::from_raw_parts(hashes.as_ptr().cast(), hashes.len()) }
}

fn per_key(keys: usize) -> LaunchConfig {
    thread_blocks(keys.div_ceil(THREADS).clamp(1, MOST_THREAD_BLOCKS))
}

fn thread_blocks(count: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (count as u32, 1, 1), // at most 2^24
        block_dim: (THREADS as u32, 1, 1),
        shared_mem_bytes: 0,
    }
}
