//! `gpu-build`: builds SetSep tables on a GPU, compares their digests with the processor's, and prints keys per second.
//!
//! The limit is a copy within device memory, measured in the same run: a build cannot move its bytes faster.

use crate::error::{BenchError, OrFail, ensure};
use crate::keys::KeySet;
use crate::options::named;
use crate::structures::fewest_partitions;
use crate::table::rate;
use crate::timing::timed;
use clap::Args;
use scalebricks_console::quantity::{self, QuantityError, bytes, short_count};
use scalebricks_console::{Console, Interrupt, memory};
use scalebricks_tables::setsep::gpu::GpuBuilder;
use scalebricks_tables::setsep::{Format, Params, SetSep, SetSepBuilder};
use scalebricks_types::PartitionId;

/// The name in messages.
const NAME: &str = "gpu-build";

/// Bytes of host memory per key: the key set, which also makes queries, and the processor's build.
const HOST_BYTES: u64 = 18 + 9 + 4;

/// Parses a number of keys.
fn key_count(text: &str) -> Result<u64, QuantityError> {
    quantity::parse(text, 1..=u32::MAX.into())
}

/// What is built, and how often.
#[derive(Debug, Args)]
pub struct GpuBuild {
    /// Keys, as in 16M
    #[arg(long, value_name = "N", default_value = "16M", value_parser = key_count)]
    keys: u64,

    /// Bits per value
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u8).range(1..=8))]
    value_bits: u8,

    /// Group format: linear or dense
    #[arg(long, value_name = "NAME", default_value = "linear", value_parser = named([Format::Linear, Format::Dense], Format::name))]
    format: Format,

    /// Builds that are timed; the best counts
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,

    /// Number of the GPU
    #[arg(long, value_name = "N", default_value = "0")]
    device: usize,
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError::Structure`] if there is no GPU or it fails; [`BenchError::Check`] if its table differs from the
/// processor's; [`BenchError::Memory`].
pub fn run(args: &GpuBuild, console: &Console, interrupt: &Interrupt) -> Result<(), BenchError> {
    let params = fewest_partitions(|partitions| {
        Params::for_keys_in(args.format, args.keys, args.value_bits, partitions)
    })?;
    // First what may be missing, before minutes of work.
    let mut builder = GpuBuilder::on_device(params, args.device).of(NAME)?;
    let (needed, available) = (args.keys * HOST_BYTES, memory::available_bytes().unwrap_or(u64::MAX));
    if needed > available {
        return Err(BenchError::Memory { keys: args.keys, needed, available });
    }
    let busy = console.busy(NAME, "making keys");
    let set = KeySet::new(args.keys, args.value_bits);
    drop(busy);
    let busy = console.busy(NAME, "building on the processor");
    let processor = SetSepBuilder::new(params).threads(0).build_table(&set.hashes, &set.values).of(NAME)?;
    drop(busy);

    let seconds = Seconds::measure(&mut builder, &set, &processor, args.runs, interrupt)?;
    let name = builder.device_name().of(NAME)?;
    let (traffic, device_bytes) = (builder.traffic_bytes(set.len()), builder.device_bytes(set.len()));
    drop(builder); // its memory is free again, so that the copy fits
    let copy = GpuBuilder::on_device(params, args.device).of(NAME)?;
    let copied = copy.copy_rate(set.len() * 8, args.runs.into()).of(NAME)?;

    let keys = args.keys as f64;
    let limit = traffic as f64 / copied;
    console.result(&format!(
        "{NAME}: {name}, {} keys, {}, {} value bits, best of {} runs, digests equal the processor's\n\
         from device memory            {} keys/s, {:.1} % of the limit\n\
         limit: its bytes, copied      {} keys/s ({} moved at {}B/s)\n\
         download and fallback lists   {:.2} ms\n\
         from host memory, downloaded  {} keys/s\n\
         device memory                 {}, {:.1} bytes per key",
        short_count(args.keys),
        args.format,
        args.value_bits,
        args.runs,
        rate(keys / seconds.from_device),
        100.0 * limit / seconds.from_device,
        rate(keys / limit),
        bytes(traffic as u64),
        rate(copied),
        seconds.download * 1e3,
        rate(keys / seconds.from_host),
        bytes(device_bytes as u64),
        device_bytes as f64 / keys,
    ))?;
    Ok(())
}

/// The shortest times of all runs, in seconds.
#[derive(Debug)]
struct Seconds {
    /// A build from keys in device memory.
    from_device: f64,
    /// The table's way to the host, and its fallback lists.
    download: f64,
    /// Upload, build and download.
    from_host: f64,
}

impl Seconds {
    /// Times builds and compares their tables with the processor's.
    fn measure(
        builder: &mut GpuBuilder,
        set: &KeySet,
        processor: &SetSep,
        runs: u16,
        interrupt: &Interrupt,
    ) -> Result<Self, BenchError> {
        let mut shortest =
            Self { from_device: f64::INFINITY, download: f64::INFINITY, from_host: f64::INFINITY };
        let keys = builder.upload(&set.hashes, &set.values).of(NAME)?;
        for _ in 0..runs {
            interrupt.check()?;
            let (built, seconds) = timed(|| builder.build(&keys));
            let built = built.of(NAME)?;
            shortest.from_device = shortest.from_device.min(seconds);
            let (table, seconds) = timed(|| built.download());
            shortest.download = shortest.download.min(seconds);
            same(&table.of(NAME)?, processor)?;
        }
        drop(keys);
        for _ in 0..runs {
            interrupt.check()?;
            let (table, seconds) = timed(|| builder.build_table(&set.hashes, &set.values));
            shortest.from_host = shortest.from_host.min(seconds);
            same(&table.of(NAME)?, processor)?;
        }
        Ok(shortest)
    }
}

/// An error unless the tables have the same bits and fallback lists.
fn same(got: &SetSep, want: &SetSep) -> Result<(), BenchError> {
    for number in 0..want.params().partitions().get() {
        let digest = |table: &SetSep| table.digest(PartitionId(number as u16)); // at most 2^16
        let (got, want) = (digest(got), digest(want));
        ensure(got.is_some() && got == want, NAME, || {
            format!("partition {number}: the GPU's table has the digest {got:?}, the processor's {want:?}")
        })?;
    }
    Ok(())
}
