//! A file server that needs no file: every octet of its files is known by its place, so both ends can check.

use super::LabError;
use super::plan::HTTP_PORT;
use scalebricks_console::{Console, Interrupt, status};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Octets at once.
const CHUNK: usize = 1 << 16;

/// How long a peer may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest request line or header, octets.
const LINE: u64 = 4096;

/// Writes what a file has from `offset` on, which is a multiple of 8.
pub fn fill(offset: u64, out: &mut [u8]) {
    for (word, chunk) in (offset / 8..).zip(out.chunks_mut(8)) {
        // SplitMix64, its state a function of the place.
        let mut mixed = word.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
    }
}

/// Where bytes that should be a file's from its start on first differ from it.
pub fn first_difference(bytes: &[u8]) -> Option<u64> {
    let mut expected = vec![0; CHUNK];
    let mut offset = 0;
    for chunk in bytes.chunks(CHUNK) {
        fill(offset, &mut expected);
        if chunk != &expected[..chunk.len()] {
            let place = chunk.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(0);
            return Some(offset + place as u64);
        }
        offset += CHUNK as u64;
    }
    None
}

/// Serves until it is told to stop: `GET /SIZE` is a file of so many octets, `PUT /SIZE` is compared with it.
///
/// # Errors
/// [`LabError::Setup`] if it cannot listen.
pub fn run(console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    // Both families: the kernel's default for such a socket.
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, HTTP_PORT))
        .map_err(|error| LabError::Setup { what: format!("the file server cannot listen: {error}") })?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A peer that goes away ends its thread, and nobody else is concerned.
            thread::spawn(move || drop(serve(&stream)));
        }
    });
    console.result("ready")?;
    while interrupt.check().is_ok() {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(status::SUCCESS)
}

fn serve(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::with_capacity(CHUNK, stream);
    let request = line(&mut reader)?;
    while !line(&mut reader)?.is_empty() {}
    let mut words = request.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let mut out = stream;
    match (method, path.strip_prefix('/').and_then(|size| size.parse::<u64>().ok())) {
        ("GET", Some(size)) => {
            write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n")?;
            let mut chunk = vec![0; CHUNK];
            for offset in (0..size).step_by(CHUNK) {
                let len = (size - offset).min(CHUNK as u64) as usize;
                fill(offset, &mut chunk[..len]);
                out.write_all(&chunk[..len])?;
            }
            Ok(())
        }
        ("PUT", Some(size)) => {
            let said = match compare(&mut reader.take(size), size)? {
                None => "200 OK",
                Some(_) => "409 Conflict",
            };
            write!(out, "HTTP/1.1 {said}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        _ => write!(out, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.take(LINE).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Where a stream first differs from a file of this size.
fn compare(stream: &mut impl Read, size: u64) -> io::Result<Option<u64>> {
    let (mut got, mut expected) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut difference = None;
    for offset in (0..size).step_by(CHUNK) {
        let len = (size - offset).min(CHUNK as u64) as usize;
        stream.read_exact(&mut got[..len])?;
        fill(offset, &mut expected[..len]);
        if got[..len] != expected[..len] && difference.is_none() {
            difference = Some(offset);
        }
    }
    Ok(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        fill(0, &mut bytes);
        bytes
    }

    #[test]
    fn a_file_is_the_same_however_it_is_cut_and_a_changed_octet_is_found() {
        let whole = file(200_001);
        let mut piece = vec![0; 1001];
        fill(4096, &mut piece);
        assert_eq!(piece, whole[4096..5097]);
        assert_eq!(first_difference(&whole), None);
        assert_eq!(compare(&mut &whole[..], 200_001).unwrap(), None);
        let mut changed = whole;
        changed[150_000] ^= 1;
        assert_eq!(first_difference(&changed), Some(150_000));
        assert!(compare(&mut &changed[..], 200_001).unwrap().is_some());
    }

    #[test]
    fn requests_over_a_real_connection_are_served() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            for stream in listener.incoming().take(3) {
                serve(&stream.unwrap()).unwrap();
            }
        });
        let ask = |request: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            answer
        };
        let got = ask(b"GET /100000 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(got.starts_with(b"HTTP/1.1 200") && got.ends_with(&file(100_000)));
        let put = [&b"PUT /1000 HTTP/1.1\r\n\r\n"[..], &file(1000)].concat();
        assert!(ask(&put).starts_with(b"HTTP/1.1 200"));
        assert!(ask(b"PUT /3 HTTP/1.1\r\n\r\nabc").starts_with(b"HTTP/1.1 409"));
        server.join().unwrap();
    }
}
