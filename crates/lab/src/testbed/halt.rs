//! Holds the threads of a process still that have a name, while all its others go on.

use super::LabError;
use super::args::HaltArgs;
use nix::sys::ptrace::{self, Options};
use nix::unistd::Pid;
use scalebricks_console::{Console, Interrupt, status};
use std::fs;
use std::thread;
use std::time::Duration;

/// Holds threads still until it is told to stop, as a debugger would. Prints `ready` once they stand still. However this process ends,
/// they go on then: the kernel lets go of what a dead debugger held.
///
/// # Errors
/// [`LabError::Setup`] if there is no such thread, or one may not be held.
pub fn run(args: &HaltArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let failed = |what: String| LabError::Setup { what: format!("cannot hold {}: {what}", args.thread) };
    let threads = threads_of(args.process, &args.thread);
    if threads.is_empty() {
        return Err(failed(format!("process {} has no such thread", args.process)));
    }
    for thread in threads.into_iter().map(Pid::from_raw) {
        ptrace::seize(thread, Options::empty()).map_err(|error| failed(error.to_string()))?;
        ptrace::interrupt(thread).map_err(|error| failed(error.to_string()))?;
    }
    console.result("ready")?;
    while interrupt.check().is_ok() {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(status::SUCCESS)
}

/// The threads of a process with a name.
fn threads_of(process: i32, name: &str) -> Vec<i32> {
    let is_it = |id: &i32| {
        let named = fs::read_to_string(format!("/proc/{process}/task/{id}/comm"));
        named.is_ok_and(|named| named.trim_end() == name)
    };
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_it).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;
    use std::sync::mpsc;

    #[test]
    fn threads_are_found_by_their_name() {
        let (told, tells) = mpsc::channel();
        let held: Vec<_> = (0..2)
            .map(|_| {
                let (end, ended) = mpsc::channel::<()>();
                let told = told.clone();
                let wait = move || {
                    told.send(()).unwrap();
                    let _ = ended.recv();
                };
                (end, thread::Builder::new().name("held-still".to_owned()).spawn(wait).unwrap())
            })
            .collect();
        for _ in &held {
            tells.recv().unwrap();
        }
        let own = i32::try_from(process::id()).unwrap();
        let found = threads_of(own, "held-still");
        assert!(found.len() == 2 && !found.contains(&own), "{found:?}");
        assert!(threads_of(own, "not-there").is_empty() && threads_of(-1, "held-still").is_empty());
        for (end, thread) in held {
            drop(end);
            thread.join().unwrap();
        }
    }
}
