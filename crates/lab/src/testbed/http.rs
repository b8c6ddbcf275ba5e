//! A file server without files: every octet is a function of its offset, so both ends can check it.

use super::LabError;
use super::context::until_interrupted;
use super::plan::HTTP_PORT;
use scalebricks_console::{Console, Interrupt, status};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Octets processed at once.
const CHUNK: usize = 1 << 16;

/// Time that a peer may take to send or receive.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest request line or header, octets.
const LINE: u64 = 4096;

/// Writes the file's content from `offset` on, which is a multiple of 8.
pub fn fill(offset: u64, out: &mut [u8]) {
    for (word, chunk) in (offset / 8..).zip(out.chunks_mut(8)) {
        // SplitMix64, with the offset as its state.
        let mut mixed = word.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
    }
}

/// The first offset at which bytes differ from the start of the file.
pub fn first_difference(bytes: &[u8]) -> Option<u64> {
    // Reading from a slice of this length cannot fail.
    compare(&mut &bytes[..], bytes.len() as u64).unwrap_or(Some(0))
}

/// Serves until it is interrupted: `GET /SIZE` returns SIZE octets of the file, `PUT /SIZE` is compared with them.
///
/// # Errors
/// [`LabError::Setup`] if it cannot listen.
pub fn run(console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    // The kernel's default for such a socket is to accept both families.
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, HTTP_PORT))
        .map_err(|error| LabError::Setup(format!("the file server cannot listen: {error}")))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A failed connection ends its own thread only.
            thread::spawn(move || drop(serve(&stream)));
        }
    });
    console.result("ready")?;
    until_interrupted(interrupt);
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
    let size = path.strip_prefix('/').and_then(|size| size.parse::<u64>().ok());
    let (status, len) = match (method, size) {
        ("GET", Some(size)) => ("200 OK", size),
        ("PUT", Some(size)) if compare(&mut reader.by_ref().take(size), size)?.is_none() => ("200 OK", 0),
        ("PUT", Some(_)) => ("409 Conflict", 0),
        _ => ("404 Not Found", 0),
    };
    let mut out = stream;
    write!(out, "HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n")?;
    let mut chunk = vec![0; CHUNK];
    for offset in (0..len).step_by(CHUNK) {
        let chunk = &mut chunk[..(len - offset).min(CHUNK as u64) as usize];
        fill(offset, chunk);
        out.write_all(chunk)?;
    }
    Ok(())
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.take(LINE).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// The first offset at which a stream differs from a file of this size. Reads the stream to its end.
fn compare(stream: &mut impl Read, size: u64) -> io::Result<Option<u64>> {
    let (mut received, mut expected) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut difference = None;
    for offset in (0..size).step_by(CHUNK) {
        let len = (size - offset).min(CHUNK as u64) as usize;
        stream.read_exact(&mut received[..len])?;
        fill(offset, &mut expected[..len]);
        let place = received[..len].iter().zip(&expected).position(|(a, b)| a != b);
        difference = difference.or(place.map(|place| offset + place as u64));
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
    fn pieces_of_a_file_equal_the_whole_and_a_changed_octet_is_found() {
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
