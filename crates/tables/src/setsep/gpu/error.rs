//! Errors of builds on a GPU.

use crate::published::BuildError;
use crate::setsep::Format;
use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use cudarc::nvrtc::CompileError;

/// Why a table cannot be built on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The kernels build the formats that solve equations only.
    #[error("format {0} is not built on a GPU: choose linear or dense, or use SetSepBuilder")]
    Format(Format),
    /// The driver's library is not there.
    #[error(
        "no NVIDIA driver: cannot load libcuda.so.1; install the driver of the GPU, or build on the processor"
    )]
    NoDriver,
    /// The library that compiles kernels is not there.
    #[error(
        "no CUDA compiler: cannot load libnvrtc of CUDA 11, 12 or 13; install it (it is part of the CUDA toolkit, and \
         alone in the Python package nvidia-cuda-nvrtc-cu12), and add its folder to LD_LIBRARY_PATH"
    )]
    NoCompiler,
    /// The driver has no such device.
    #[error(
        "no GPU with number {ordinal}: the driver has {devices}; see nvidia-smi, and unset CUDA_VISIBLE_DEVICES if it \
         hides one"
    )]
    NoDevice {
        /// The number asked for.
        ordinal: usize,
        /// Number of devices.
        devices: usize,
    },
    /// The device's memory is too small, or others use it.
    #[error(
        "{need} bytes of device memory are needed and {free} are free: build fewer keys, or stop what uses it"
    )]
    Memory {
        /// Bytes that the build allocates.
        need: usize,
        /// Bytes that are free.
        free: usize,
    },
    /// More keys than the kernels can number.
    #[error("{keys} keys are more than the {limit} that a build on a GPU takes: build partitions one by one")]
    TooManyKeys {
        /// Number of keys.
        keys: usize,
        /// The maximum.
        limit: usize,
    },
    /// The keys are in the memory of another device.
    #[error(
        "the keys are in the memory of device {keys}, and the builder uses device {builder}: upload them again"
    )]
    OtherDevice {
        /// The device of the keys.
        keys: usize,
        /// The device of the builder.
        builder: usize,
    },
    /// The kernels do not compile.
    #[error(
        "NVRTC cannot compile the kernels for compute capability {capability}: use a CUDA version that supports \
         it\n{log}"
    )]
    Compile {
        /// The device's compute capability, such as 9.0.
        capability: String,
        /// What the compiler says.
        log: String,
    },
    /// A call of the driver failed.
    #[error("cannot {doing}: {error}; update the driver if it is older than the CUDA compiler")]
    Driver {
        /// What the call was to do.
        doing: &'static str,
        /// The driver's error.
        error: String,
    },
    /// The keys do not make a table; the builder on the processor returns the same error.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Adds what was to be done to an error of the driver.
pub(super) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, GpuError>;
}

impl<T> Doing<T> for Result<T, DriverError> {
    fn doing(self, doing: &'static str) -> Result<T, GpuError> {
        self.map_err(|error| GpuError::Driver { doing, error: error.to_string() })
    }
}

/// Whether the driver found no device at all.
pub(super) fn is_no_device(error: DriverError) -> bool {
    error.0 == CUresult::CUDA_ERROR_NO_DEVICE
}

/// The error of a compilation, with the compiler's log if there is one.
pub(super) fn compile(capability: String, error: &CompileError) -> GpuError {
    let log = match error {
        CompileError::CompileError { log, .. } => log.to_string_lossy().into_owned(),
        other => other.to_string(),
    };
    GpuError::Compile { capability, log }
}
