//! Between a node and the process that keeps the log: a relay of its own for each node, so that one node can be cut off from it.

use super::LabError;
use super::args::RelayArgs;
use scalebricks_console::{Console, Interrupt, status};
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Passes what comes in at one socket on to another, and back, until it is told to stop. Prints `ready` once it listens.
///
/// # Errors
/// [`LabError::File`] if it cannot listen.
pub fn run(args: &RelayArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    // An older process may have left the name behind.
    drop(fs::remove_file(&args.listen));
    let listener = UnixListener::bind(&args.listen)
        .map_err(|error| LabError::File { path: args.listen.clone(), error })?;
    let to = args.to.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that cannot be passed on is closed: whoever opened it tries again.
            drop(pass(stream, &to));
        }
    });
    console.result("ready")?;
    while interrupt.check().is_ok() {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(status::SUCCESS)
}

fn pass(from: UnixStream, to: &Path) -> io::Result<()> {
    let to = UnixStream::connect(to)?;
    for (reader, writer) in [(from.try_clone()?, to.try_clone()?), (to, from)] {
        thread::spawn(move || {
            // Whichever end closes, the other learns it.
            drop(io::copy(&mut &reader, &mut &writer));
            drop(reader.shutdown(Shutdown::Read));
            drop(writer.shutdown(Shutdown::Write));
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn both_directions_are_passed_on_and_so_is_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("to");
        let server = UnixListener::bind(&path).unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        pass(far, &path).unwrap();
        let (mut served, _) = server.accept().unwrap();
        near.write_all(b"question").unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        served.read_to_string(&mut text).unwrap();
        assert_eq!(text, "question");
        served.write_all(b"answer").unwrap();
        drop(served);
        text.clear();
        near.read_to_string(&mut text).unwrap();
        assert_eq!(text, "answer");
    }
}
