//! The files of a lab, its lock, and its removal.

use super::LabError;
use super::exec::Cmd;
use super::plan::all_namespaces;
use rustix::process::{Pid, Signal, kill_process};
use scalebricks_console::Interrupt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Where the system lists network namespaces by name.
const NAMESPACES: &str = "/run/netns";

/// Time that processes may take to end after SIGTERM, and again after SIGKILL.
const PATIENCE: Duration = Duration::from_secs(3);

/// The directory of a lab: configurations, logs, sockets. It is global to the machine, as the names of namespaces are.
pub fn directory(name: &str) -> PathBuf {
    Path::new("/run/scalebricks-lab").join(name)
}

/// The exclusive right to change the lab of a name, until it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    /// Takes the lock without waiting.
    ///
    /// # Errors
    /// [`LabError::Busy`], [`LabError::File`].
    pub fn take(name: &str) -> Result<Self, LabError> {
        let path = directory(name).with_extension("lock");
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(LabError::file(&path))?;
        }
        let file = File::create(&path).map_err(LabError::file(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(LabError::Busy(name.to_owned())),
            Err(TryLockError::Error(error)) => Err(LabError::file(&path)(error)),
        }
    }
}

fn present(name: &str) -> Vec<String> {
    let all = Path::new(NAMESPACES);
    let gateways = all_namespaces(name).into_iter().filter(|namespace| all.join(namespace).exists());
    // Of the lab of the router, each scenario has others.
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let router = names.filter(|namespace| namespace.starts_with(&router_namespace(name, "")));
    gateways.chain(router).collect()
}

/// The namespace of a machine in the lab of the router.
pub fn router_namespace(name: &str, machine: &str) -> String {
    format!("{name}-router-{machine}")
}

/// Whether a lab has namespaces.
pub fn is_up(name: &str) -> bool {
    !present(name).is_empty()
}

/// Ends every process in the lab's namespaces, and removes the namespaces and the directory. Returns the number of
/// namespaces. Continues after errors.
///
/// # Errors
/// The first error.
pub fn remove(name: &str) -> Result<usize, LabError> {
    let mut result = remove_namespaces(name);
    let directory = directory(name);
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            result = result.and(Err(LabError::file(&directory)(error)));
        }
        _ => {}
    }
    result
}

/// The same without the directory.
///
/// # Errors
/// The first error.
pub fn remove_namespaces(name: &str) -> Result<usize, LabError> {
    // The Ctrl-C that caused the removal must not stop it.
    let interrupt = Interrupt::default();
    let present = present(name);
    let mut result = end_processes(&present, &interrupt);
    for namespace in &present {
        let removed = Cmd::new("ip netns del").arg(namespace).run(&interrupt).map(drop);
        result = result.and(removed);
    }
    result.map(|()| present.len())
}

fn end_processes(namespaces: &[String], interrupt: &Interrupt) -> Result<(), LabError> {
    let began = Instant::now();
    let mut asked = Vec::new();
    loop {
        let mut left = Vec::new();
        for namespace in namespaces {
            let pids = Cmd::new("ip netns pids").arg(namespace).run(interrupt)?;
            let pids = pids.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
            left.extend(pids.filter_map(Pid::from_raw));
        }
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > 2 * PATIENCE {
            return Err(LabError::Setup(format!("{} processes do not end", left.len())));
        }
        for pid in left {
            // An error means that the process has ended.
            if began.elapsed() > PATIENCE {
                let _ = kill_process(pid, Signal::KILL);
            } else if !asked.contains(&pid) {
                asked.push(pid);
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Writes a file of the lab that only its owner may read.
///
/// # Errors
/// [`LabError::File`].
pub fn write_secret(path: &Path, content: &[u8]) -> Result<(), LabError> {
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(content)).map_err(LabError::file(path))
}

/// Writes a file of the lab.
///
/// # Errors
/// [`LabError::File`].
pub fn write(path: &Path, content: &[u8]) -> Result<(), LabError> {
    fs::write(path, content).map_err(LabError::file(path))
}
