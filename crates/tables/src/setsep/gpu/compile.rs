//! Loads NVIDIA's libraries and compiles the kernels.

use super::error::{Doing, GpuError, compile};
use super::plan::{KERNELS, Plan};
use cudarc::driver::{CudaContext, CudaFunction};
use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts};
use std::sync::Arc;

/// The kernels of one table, loaded on a device.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) hash_keys: CudaFunction,
    pub(super) histogram: CudaFunction,
    pub(super) scan_tiles: CudaFunction,
    pub(super) scan_totals: CudaFunction,
    pub(super) scatter: CudaFunction,
    pub(super) build_blocks: CudaFunction,
}

impl Kernels {
    /// Compiles the kernels for this device and loads them.
    pub(super) fn load(plan: &Plan, context: &Arc<CudaContext>) -> Result<Self, GpuError> {
        let capability = context.compute_capability().doing("read the device's compute capability")?;
        let module = context.load_module(ptx(plan, capability)?).doing("load the kernels")?;
        let kernel = |name| module.load_function(name).doing("find a kernel");
        Ok(Self {
            hash_keys: kernel("hash_keys")?,
            histogram: kernel("histogram")?,
            scan_tiles: kernel("scan_tiles")?,
            scan_totals: kernel("scan_totals")?,
            scatter: kernel("scatter")?,
            build_blocks: kernel("build_blocks")?,
        })
    }
}

/// Compiles the kernels for devices of this compute capability, such as (9, 0). Needs no device.
pub(super) fn ptx(plan: &Plan, (major, minor): (i32, i32)) -> Result<Ptx, GpuError> {
    check_compiler()?;
    let options = CompileOptions {
        options: vec![format!("--gpu-architecture=compute_{major}{minor}")],
        name: Some("kernels.cu".to_owned()),
        ..CompileOptions::default()
    };
    let compiled = compile_ptx_with_opts(plan.macros() + KERNELS, options);
    compiled.map_err(|error| compile(format!("{major}.{minor}"), &error))
}

/// An error if the driver cannot be loaded. Without this check, the binding panics.
#[allow(unsafe_code, reason = "see SAFETY")]
pub(super) fn check_driver() -> Result<(), GpuError> {
    // SAFETY: it only tries to load NVIDIA's driver from where the system keeps libraries. The driver's initialisers
    // may run at any time.
    if unsafe { cudarc::driver::sys::is_culib_present() } { Ok(()) } else { Err(GpuError::NoDriver) }
}

/// An error if the compiler of kernels cannot be loaded. Without this check, the binding panics.
#[allow(unsafe_code, reason = "see SAFETY")]
fn check_compiler() -> Result<(), GpuError> {
    // SAFETY: as above, with NVIDIA's compiler.
    if unsafe { cudarc::nvrtc::sys::is_culib_present() } { Ok(()) } else { Err(GpuError::NoCompiler) }
}
