//! Builds on a GPU if there is one, and compiles the kernels for GPUs if the compiler is there.

#![cfg(feature = "cuda")]

use super::compile::ptx;
use super::plan::Plan;
use super::{GpuBuilder, GpuError};
use crate::cuckoo::HashWords;
use crate::setsep::geometry::mix64;
use crate::setsep::{Format, Params, SetSepBuilder};
use scalebricks_types::{HashSeed, KeyHash, KeyHasher, PartitionCount, PartitionId};
use std::io::Write;

/// With a GPU, its tables are those of the builder. Without one, the error says what is missing.
#[test]
#[cfg_attr(miri, ignore = "loads libraries")]
fn a_gpu_builds_the_builders_table_or_its_absence_is_reported() {
    let keys: Vec<[u64; 2]> = (0..100_000).map(|i| [mix64(i + 1), i]).collect();
    let values: Vec<u8> = (0..100_000).map(|i| (mix64(i) & 3) as u8).collect();
    let hasher = KeyHasher::new(HashSeed::from_u64(1));
    let hashes: Vec<KeyHash> = keys.iter().map(|key| hasher.hash_words(key)).collect();
    for format in [Format::Linear, Format::Dense] {
        let params = Params::for_keys(100_000, 2, PartitionCount::ONE).unwrap().with_format(format).unwrap();
        let mut builder = match GpuBuilder::new(params) {
            Err(error) => {
                let missing =
                    matches!(error, GpuError::NoDriver | GpuError::NoCompiler | GpuError::NoDevice { .. });
                assert!(missing, "{error}");
                return;
            }
            Ok(builder) => builder,
        };
        let want = SetSepBuilder::new(params).build_table(&hashes, &values).unwrap().digest(PartitionId(0));
        let table = builder.build_table(&hashes, &values).unwrap();
        assert_eq!(table.digest(PartitionId(0)), want);
        let uploaded = builder.upload_keys(&hasher, &keys, &values).unwrap();
        let table = builder.build(&uploaded).unwrap().download().unwrap();
        assert_eq!(table.digest(PartitionId(0)), want);
    }
}

#[test]
fn searched_formats_are_refused_before_anything_is_loaded() {
    let params = Params::for_keys(1000, 2, PartitionCount::ONE).unwrap().with_format(Format::Brute).unwrap();
    assert_eq!(GpuBuilder::new(params).err(), Some(GpuError::Format(Format::Brute)));
}

/// The compiler needs no GPU. Compute capability 7.5 is the oldest of CUDA 13, and 9.0 is that of H100.
#[test]
#[cfg_attr(miri, ignore = "loads libraries")]
fn the_compiler_takes_the_kernels() {
    for (format, bits, capability) in [(Format::Linear, 2, (9, 0)), (Format::Dense, 8, (7, 5))] {
        let params =
            Params::for_keys(1 << 20, bits, PartitionCount::ONE).unwrap().with_format(format).unwrap();
        match ptx(&Plan::new(params).unwrap(), capability) {
            Ok(ptx) => {
                let source = ptx.to_src();
                let kernels =
                    ["hash_keys", "histogram", "scan_tiles", "scan_totals", "scatter", "build_blocks"];
                for kernel in kernels {
                    assert!(source.contains(&format!(".entry {kernel}(")), "{kernel}");
                }
            }
            Err(GpuError::NoCompiler) => {
                writeln!(std::io::stderr(), "skipped: {}", GpuError::NoCompiler).unwrap();
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_source_that_does_not_compile_is_reported_with_the_log() {
    let error = cudarc::nvrtc::CompileError::CompileError {
        nvrtc: cudarc::nvrtc::result::NvrtcError(cudarc::nvrtc::sys::nvrtcResult::NVRTC_ERROR_COMPILATION),
        options: Vec::new(),
        log: c"kernels.cu(7): error: expected a \";\"".to_owned(),
    };
    let text = super::error::compile("9.0".to_owned(), &error).to_string();
    assert!(text.contains("compute capability 9.0") && text.contains("kernels.cu(7): error"), "{text}");
}
