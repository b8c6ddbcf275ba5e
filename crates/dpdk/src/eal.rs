//! DPDK's environment: memory, devices and threads.

use crate::error::{DpdkError, check};
use crate::mbuf;
use scalebricks_dpdk_sys as sys;
use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

/// Whether a start was tried.
static STARTED: AtomicBool = AtomicBool::new(false);

/// The kind of memory for packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Huge pages, as pools need them. Required for physical devices.
    HugePages,
    /// Ordinary pages, allocated at the start. For virtual devices; needs no privileges.
    Ordinary {
        /// The size in MiB.
        mib: u32,
    },
}

/// The configuration of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EalConfig {
    /// The kind of memory for packets.
    pub memory: Memory,
    /// Whether to search for devices on the PCI bus.
    pub pci: bool,
    /// Further arguments of DPDK's command line.
    pub extra: Vec<String>,
}

impl Default for EalConfig {
    /// Ordinary pages, 256 MiB, no PCI.
    fn default() -> Self {
        Self { memory: Memory::Ordinary { mib: 256 }, pci: false, extra: Vec::new() }
    }
}

impl EalConfig {
    /// The arguments for DPDK.
    ///
    /// One logical core on all processors: DPDK binds the thread that starts it to its core, which would bind the main
    /// thread to one processor. Nothing is shared with other processes, so no files remain.
    fn arguments(&self) -> Vec<String> {
        let last = available_parallelism().map_or(0, |n| n.get() - 1);
        let mut arguments = vec!["scalebricks".to_owned(), format!("--lcores=0@(0-{last})")];
        let mut add = |argument: &str| arguments.push(argument.to_owned());
        add("--no-telemetry");
        match self.memory {
            Memory::HugePages => {
                add("--in-memory");
                // A vhost port supports eight regions of memory; without this, each page is one.
                add("--single-file-segments");
            }
            Memory::Ordinary { mib } => {
                add("--no-shconf"); // instead of `--in-memory`, which requires huge pages
                add("--no-huge");
                add("--iova-mode=va");
                add("-m");
                add(&mib.to_string());
            }
        }
        if !self.pci {
            add("--no-pci");
        }
        arguments.extend(self.extra.iter().cloned());
        arguments
    }
}

/// Shows that DPDK runs in this process, which it does until the process ends.
#[derive(Debug, Clone, Copy)]
pub struct Eal(());

/// The version of DPDK, as in `DPDK 22.11.11`. It needs no environment.
pub fn version() -> String {
    // SAFETY: the function takes nothing and returns a string that is never freed.
    let version = unsafe { CStr::from_ptr(sys::rte_version()) };
    version.to_string_lossy().into_owned()
}

impl Eal {
    /// Starts DPDK, once per process.
    ///
    /// # Errors
    /// [`DpdkError::Started`] the second time; [`DpdkError::Call`] if DPDK fails, which writes the reason to standard error
    /// (no huge pages, no privileges).
    pub fn start(config: &EalConfig) -> Result<Self, DpdkError> {
        let texts: Result<Vec<CString>, _> = config.arguments().into_iter().map(text).collect();
        let texts = texts?;
        if STARTED.swap(true, Ordering::AcqRel) {
            return Err(DpdkError::Started);
        }
        // DPDK keeps pointers to them.
        let texts: &'static mut [CString] = texts.leak();
        let mut pointers: Vec<*mut c_char> = texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
        pointers.push(std::ptr::null_mut());
        let count = i32::try_from(pointers.len() - 1).unwrap_or(i32::MAX); // a few
        let pointers = pointers.leak();
        // SAFETY: called once, with arguments that are never freed, like those of `main`.
        let done = unsafe { sys::rte_eal_init(count, pointers.as_mut_ptr()) };
        if done < 0 {
            return Err(DpdkError::last("starting DPDK"));
        }
        mbuf::register_tag()?;
        Ok(Self(()))
    }

    /// Whether packets are in huge pages.
    pub fn has_huge_pages(self) -> bool {
        // SAFETY: reads the configuration; DPDK runs.
        unsafe { sys::rte_eal_has_hugepages() != 0 }
    }

    /// Registers the calling thread with DPDK until the guard is dropped, so that it has its own cache of each pool.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there are too many threads.
    pub fn register_thread(self) -> Result<RegisteredThread, DpdkError> {
        // SAFETY: DPDK runs; the guard unregisters this thread.
        check(|| "registering a thread".to_owned(), unsafe { sys::rte_thread_register() })?;
        Ok(RegisteredThread { on_this_thread: PhantomData })
    }

    /// Creates a virtual device (`net_null0,size=64`) or adds a PCI device (`0000:01:00.0`).
    #[expect(clippy::unused_self, reason = "shows that DPDK runs")]
    pub(crate) fn attach(self, device: &str) -> Result<Device, DpdkError> {
        let (name, arguments) = device.split_once(',').unwrap_or((device, ""));
        let bus = if name.contains(':') { "pci" } else { "vdev" };
        let (bus, name, arguments) =
            (text(bus.to_owned())?, text(name.to_owned())?, text(arguments.to_owned())?);
        // SAFETY: DPDK runs; the texts live until the call returns.
        let done = unsafe { sys::rte_eal_hotplug_add(bus.as_ptr(), name.as_ptr(), arguments.as_ptr()) };
        check(|| format!("creating device '{device}'"), done)?;
        Ok(Device { bus, name })
    }
}

/// The width of vectors that DPDK may use, until this is dropped; then it is what it was before.
///
/// Tables choose their lookup function by it when they are created or told to.
#[derive(Debug)]
pub struct SimdBits {
    before: u16,
}

impl SimdBits {
    /// Vectors of up to this many bits: a power of two from 64. Without effect if DPDK's command line has set the width.
    pub fn at_most(_: Eal, bits: u16) -> Self {
        // SAFETY: reads and writes a number; DPDK runs.
        unsafe {
            let before = sys::rte_vect_get_max_simd_bitwidth();
            sys::rte_vect_set_max_simd_bitwidth(bits);
            Self { before }
        }
    }

    /// Leaves the width as it is.
    pub const fn keep(self) {
        std::mem::forget(self);
    }

    /// Vectors of any width that the processor has.
    pub fn widest(eal: Eal) -> Self {
        Self::at_most(eal, 512)
    }
}

impl Drop for SimdBits {
    fn drop(&mut self) {
        // SAFETY: writes a number; DPDK runs.
        unsafe { sys::rte_vect_set_max_simd_bitwidth(self.before) };
    }
}

/// A device, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Device {
    bus: CString,
    name: CString,
}

impl Drop for Device {
    fn drop(&mut self) {
        // A device that cannot be removed stays until the process ends, closed.
        // SAFETY: DPDK runs, and the interfaces of the device are closed.
        unsafe { sys::rte_eal_hotplug_remove(self.bus.as_ptr(), self.name.as_ptr()) };
    }
}

/// A thread, which is registered with DPDK until this is dropped.
#[derive(Debug)]
pub struct RegisteredThread {
    /// Neither `Send` nor `Sync`.
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for RegisteredThread {
    fn drop(&mut self) {
        let _: PhantomData<_> = self.on_this_thread;
        // SAFETY: this thread was registered when the guard was created.
        unsafe { sys::rte_thread_unregister() }
    }
}

/// A C string.
pub(crate) fn text(text: String) -> Result<CString, DpdkError> {
    CString::new(text)
        .map_err(|error| DpdkError::Text(String::from_utf8_lossy(&error.into_vec()).into_owned()))
}
