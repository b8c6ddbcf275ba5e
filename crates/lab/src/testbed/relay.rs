//! A relay between one node and the engine process, so that this node alone can be disconnected from the log.

use super::LabError;
use super::args::RelayArgs;
use super::context::until_interrupted;
use scalebricks_console::{Console, Interrupt, status};
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

/// Forwards connections from one socket to another until it is interrupted. Prints `ready` once it listens.
///
/// # Errors
/// [`LabError::File`] if it cannot listen.
pub fn run(args: &RelayArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    // An earlier process may have left the file.
    drop(fs::remove_file(&args.listen));
    let listener = UnixListener::bind(&args.listen).map_err(LabError::file(&args.listen))?;
    let to = args.to.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // If the other side does not answer, the connection is closed, and the node reconnects.
            drop(forward(stream, &to));
        }
    });
    console.result("ready")?;
    until_interrupted(interrupt);
    Ok(status::SUCCESS)
}

fn forward(from: UnixStream, to: &Path) -> io::Result<()> {
    let to = UnixStream::connect(to)?;
    for (reader, writer) in [(from.try_clone()?, to.try_clone()?), (to, from)] {
        thread::spawn(move || {
            // When one end closes, the other end is closed too.
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
    fn both_directions_and_the_end_are_forwarded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("to");
        let server = UnixListener::bind(&path).unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        forward(far, &path).unwrap();
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
