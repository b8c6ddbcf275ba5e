//! Holds one thread of a process still, while all its others go on.

use super::LabError;
use super::args::HaltArgs;
use nix::sys::ptrace::{self, Options};
use nix::unistd::Pid;
use scalebricks_console::{Console, Interrupt, status};
use std::fs;
use std::thread;
use std::time::Duration;

/// Holds a thread still until it is told to stop, as a debugger would. Prints `ready` once the thread stands still. However this
/// process ends, the thread goes on then: the kernel lets go of what a dead debugger held.
///
/// # Errors
/// [`LabError::Setup`] if there is no such thread, or it may not be held.
pub fn run(args: &HaltArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let failed = |what: String| LabError::Setup { what: format!("cannot hold {}: {what}", args.thread) };
    let thread = thread_of(args.process, &args.thread)
        .ok_or_else(|| failed(format!("process {} has no such thread", args.process)))?;
    let thread = Pid::from_raw(thread);
    ptrace::seize(thread, Options::empty()).map_err(|error| failed(error.to_string()))?;
    ptrace::interrupt(thread).map_err(|error| failed(error.to_string()))?;
    console.result("ready")?;
    while interrupt.check().is_ok() {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(status::SUCCESS)
}

/// The first thread of a process with a name.
fn thread_of(process: i32, name: &str) -> Option<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let is_it = |id: &i32| {
        let named = fs::read_to_string(format!("/proc/{process}/task/{id}/comm"));
        named.is_ok_and(|named| named.trim_end() == name)
    };
    threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;
    use std::sync::mpsc;

    #[test]
    fn a_thread_is_found_by_its_name() {
        let (end, ended) = mpsc::channel::<()>();
        let held = thread::Builder::new().name("held-still".to_owned());
        let (told, tells) = mpsc::channel();
        let held = held.spawn(move || {
            told.send(()).unwrap();
            let _ = ended.recv();
        });
        tells.recv().unwrap();
        let own = i32::try_from(process::id()).unwrap();
        assert!(thread_of(own, "held-still").is_some_and(|thread| thread != own));
        assert_eq!(thread_of(own, "not-there"), None);
        drop(end);
        held.unwrap().join().unwrap();
    }
}
