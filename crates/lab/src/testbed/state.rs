//! Where a lab keeps its files, who may touch it, and how all of it goes away.

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

/// How long processes may take to end in order.
const PATIENCE: Duration = Duration::from_secs(3);

/// The directory of a lab: configurations, logs, sockets. It is the system's, as namespaces are.
pub fn directory(name: &str) -> PathBuf {
    Path::new("/run/scalebricks-lab").join(name)
}

/// The right to change the lab of a name, until it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    /// Takes it, or says that somebody has it.
    ///
    /// # Errors
    /// [`LabError::Busy`], [`LabError::File`].
    pub fn take(name: &str) -> Result<Self, LabError> {
        let path = directory(name).with_extension("lock");
        let told = |error| LabError::File { path: path.clone(), error };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(told)?;
        }
        let file = File::create(&path).map_err(told)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(LabError::Busy { name: name.to_owned() }),
            Err(TryLockError::Error(error)) => Err(told(error)),
        }
    }
}

fn present(name: &str) -> Vec<String> {
    let exists = |name: &String| Path::new("/run/netns").join(name).exists();
    all_namespaces(name).into_iter().filter(exists).collect()
}

/// Whether anything of a lab is there.
pub fn stands(name: &str) -> bool {
    !present(name).is_empty()
}

/// Ends every process in the lab's namespaces, removes the namespaces and the directory. Returns how many namespaces
/// there were. Goes on where something fails, and says so at the end.
///
/// # Errors
/// The first thing that failed.
pub fn remove(name: &str) -> Result<usize, LabError> {
    // Whoever tidies up is not stopped by the Ctrl-C that made him do so.
    let interrupt = Interrupt::default();
    let present = present(name);
    let mut result = end_processes(&present, &interrupt);
    for namespace in &present {
        let removed = Cmd::new("ip netns del").arg(namespace).run(&interrupt).map(drop);
        result = result.and(removed);
    }
    let directory = directory(name);
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            result = result.and(Err(LabError::File { path: directory, error }));
        }
        _ => {}
    }
    result.map(|()| present.len())
}

fn end_processes(namespaces: &[String], interrupt: &Interrupt) -> Result<(), LabError> {
    let began = Instant::now();
    let mut asked = Vec::new();
    loop {
        let mut left = Vec::new();
        for namespace in namespaces {
            let told = Cmd::new("ip netns pids").arg(namespace).run(interrupt)?;
            left.extend(
                told.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw),
            );
        }
        if left.is_empty() {
            return Ok(());
        }
        let is_late = began.elapsed() > PATIENCE;
        if began.elapsed() > 2 * PATIENCE {
            let what = format!("{} processes do not end", left.len());
            return Err(LabError::Setup { what });
        }
        for pid in left {
            // A process that is gone by now is what is wanted.
            if is_late {
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
    file.and_then(|mut file| file.write_all(content))
        .map_err(|error| LabError::File { path: path.to_owned(), error })
}

/// Writes a file of the lab.
///
/// # Errors
/// [`LabError::File`].
pub fn write(path: &Path, content: &[u8]) -> Result<(), LabError> {
    fs::write(path, content).map_err(|error| LabError::File { path: path.to_owned(), error })
}
