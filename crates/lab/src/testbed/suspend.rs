//! Suspends the threads of a process that have a given name, while all its other threads run.

use super::LabError;
use super::args::SuspendArgs;
use super::context::until_interrupted;
use nix::sys::ptrace::{self, Options};
use nix::unistd::Pid;
use scalebricks_console::{Console, Interrupt, status};
use std::fs;

/// Suspends threads, as a debugger would, until it is interrupted. Prints `ready` once they are suspended. They resume
/// however this process ends: the kernel releases the threads of a debugger that has ended.
///
/// # Errors
/// [`LabError::Setup`] if there is no such thread, or the system does not permit it.
pub fn run(args: &SuspendArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let failed = |what: String| LabError::Setup(format!("cannot suspend {}: {what}", args.thread));
    let threads = threads_of(args.process, &args.thread);
    if threads.is_empty() {
        return Err(failed(format!("process {} has no such thread", args.process)));
    }
    for thread in threads.into_iter().map(Pid::from_raw) {
        let suspended = ptrace::seize(thread, Options::empty()).and_then(|()| ptrace::interrupt(thread));
        suspended.map_err(|error| failed(error.to_string()))?;
    }
    console.result("ready")?;
    until_interrupted(interrupt);
    Ok(status::SUCCESS)
}

/// The threads of a process that have this name.
fn threads_of(process: i32, name: &str) -> Vec<i32> {
    let is_named = |id: &i32| {
        let found = fs::read_to_string(format!("/proc/{process}/task/{id}/comm"));
        found.is_ok_and(|found| found.trim_end() == name)
    };
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;
    use std::sync::mpsc;
    use std::thread;

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
