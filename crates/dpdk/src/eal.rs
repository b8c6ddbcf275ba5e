//! DPDK's environment: memory, devices, threads.

use crate::error::{DpdkError, check};
use crate::mbuf;
use scalebricks_dpdk_sys as sys;
use std::ffi::{CString, c_char};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

/// Whether somebody has tried.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Where packets' memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Huge pages, as many as the system has and pools ask for. What physical devices need.
    HugePages,
    /// Ordinary pages, so many MiB, all taken at once. Enough for virtual devices; needs no rights and no set-up.
    Ordinary {
        /// MiB.
        mib: u32,
    },
}

/// How the environment is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EalConfig {
    /// Where packets' memory comes from.
    pub memory: Memory,
    /// Whether devices on the PCI bus are looked for.
    pub pci: bool,
    /// Further arguments, as DPDK's own programs take them.
    pub extra: Vec<String>,
}

impl Default for EalConfig {
    /// Ordinary pages, 256 MiB, no PCI.
    fn default() -> Self {
        Self { memory: Memory::Ordinary { mib: 256 }, pci: false, extra: Vec::new() }
    }
}

impl EalConfig {
    /// The arguments that say so.
    ///
    /// One logical core, on all processors: DPDK ties the thread that starts it to its core, and would tie the
    /// program's main thread to one processor. Nothing is shared with other processes, so no file outlives the process.
    fn arguments(&self) -> Vec<String> {
        let last = available_parallelism().map_or(0, |n| n.get() - 1);
        let mut arguments = vec!["scalebricks".to_owned(), format!("--lcores=0@(0-{last})")];
        let mut add = |argument: &str| arguments.push(argument.to_owned());
        add("--no-telemetry");
        match self.memory {
            Memory::HugePages => {
                add("--in-memory");
                // A port of vhost takes eight regions of memory at most; without this each page is one.
                add("--single-file-segments");
            }
            Memory::Ordinary { mib } => {
                add("--no-shconf"); // `--in-memory` does not go with it
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

/// Proof that DPDK runs in this process. It does so until the process ends.
#[derive(Debug, Clone, Copy)]
pub struct Eal(());

impl Eal {
    /// Starts DPDK. Once in a process.
    ///
    /// # Errors
    /// [`DpdkError::Started`] the second time; [`DpdkError::Call`] if DPDK refuses: what it writes to standard error
    /// says why (no huge pages, no rights).
    pub fn start(config: &EalConfig) -> Result<Self, DpdkError> {
        let texts: Result<Vec<CString>, _> = config.arguments().into_iter().map(text).collect();
        let texts = texts?;
        if STARTED.swap(true, Ordering::AcqRel) {
            return Err(DpdkError::Started);
        }
        // DPDK keeps the pointers.
        let texts: &'static mut [CString] = texts.leak();
        let mut pointers: Vec<*mut c_char> = texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
        pointers.push(std::ptr::null_mut());
        let count = i32::try_from(pointers.len() - 1).unwrap_or(i32::MAX); // a few
        let pointers = pointers.leak();
        // SAFETY: called once; as `main`'s arguments, which live for ever.
        let done = unsafe { sys::rte_eal_init(count, pointers.as_mut_ptr()) };
        if done < 0 {
            return Err(DpdkError::last("starting DPDK"));
        }
        mbuf::register_tag()?;
        Ok(Self(()))
    }

    /// Whether packets lie on huge pages.
    pub fn has_huge_pages(self) -> bool {
        // SAFETY: reads the configuration; DPDK runs.
        unsafe { sys::rte_eal_has_hugepages() != 0 }
    }

    /// Makes the calling thread one that DPDK knows: it then has its own cache of each pool. Until the guard is dropped.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if DPDK knows as many threads as it can.
    pub fn register_thread(self) -> Result<RegisteredThread, DpdkError> {
        // SAFETY: DPDK runs; the guard undoes it on this very thread.
        check(|| "registering a thread".to_owned(), unsafe { sys::rte_thread_register() })?;
        Ok(RegisteredThread { on_this_thread: PhantomData })
    }

    /// Makes a virtual device (`net_null0,size=64`) or takes a PCI device (`0000:01:00.0`).
    #[expect(clippy::unused_self, reason = "the proof that DPDK runs")]
    pub(crate) fn attach(self, device: &str) -> Result<Device, DpdkError> {
        let (name, arguments) = device.split_once(',').unwrap_or((device, ""));
        let bus = if name.contains(':') { "pci" } else { "vdev" };
        let (bus, name, arguments) =
            (text(bus.to_owned())?, text(name.to_owned())?, text(arguments.to_owned())?);
        // SAFETY: DPDK runs; texts live through the call.
        let done = unsafe { sys::rte_eal_hotplug_add(bus.as_ptr(), name.as_ptr(), arguments.as_ptr()) };
        check(|| format!("making device '{device}'"), done)?;
        Ok(Device { bus, name })
    }
}

/// A device that was made here, until this is dropped.
#[derive(Debug)]
pub(crate) struct Device {
    bus: CString,
    name: CString,
}

impl Drop for Device {
    fn drop(&mut self) {
        // What cannot be unmade stays, closed, until the process ends.
        // SAFETY: DPDK runs; its interfaces were closed before.
        unsafe { sys::rte_eal_hotplug_remove(self.bus.as_ptr(), self.name.as_ptr()) };
    }
}

/// The calling thread, known to DPDK until this is dropped.
#[derive(Debug)]
pub struct RegisteredThread {
    /// Neither `Send` nor `Sync`.
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for RegisteredThread {
    fn drop(&mut self) {
        let _: PhantomData<_> = self.on_this_thread;
        // SAFETY: this thread registered itself when the guard was made.
        unsafe { sys::rte_thread_unregister() }
    }
}

/// A C text.
pub(crate) fn text(text: String) -> Result<CString, DpdkError> {
    CString::new(text)
        .map_err(|error| DpdkError::Text(String::from_utf8_lossy(&error.into_vec()).into_owned()))
}
