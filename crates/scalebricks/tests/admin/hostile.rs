//! Hostile peers.

use crate::admin::running::Running;
use scalebricks_admin::server::Limits;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Short limits, so that tests do not wait long.
fn limits() -> Limits {
    Limits {
        connections: 4,
        header_time: Duration::from_millis(300),
        request_time: Duration::from_millis(500),
        stall_time: Duration::from_millis(300),
        ..Limits::default()
    }
}

fn running() -> Running {
    Running::listening(|listen| listen.limits = limits())
}

fn connect(running: &Running) -> UnixStream {
    let stream = UnixStream::connect(running.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends bytes, and reads until the server closes.
fn exchange(running: &Running, bytes: &[u8]) -> String {
    let mut stream = connect(running);
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn garbage_is_answered_or_cut_off_and_the_server_lives() {
    let running = running();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS to a plain socket"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n\0\0\0\0",
        &vec![0xff; 100_000],
        b"GET /v1/status HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /v1/trace HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
        b"POST /v1/trace HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    ] {
        let answer = exchange(&running, bytes);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(running.client().status().is_ok());
}

#[test]
fn bodies_that_are_not_what_was_asked_for_are_told_why() {
    let running = running();
    for (body, code, what) in [
        (&b"{"[..], "400", "Failed to parse"),
        (b"{}", "422", "packet"),
        (br#"{"packet":{"kind":"frame","port":"internet","frame_hex":"00","more":1}}"#, "422", "more"),
        (br#"{"packet":{"kind":"letter"}}"#, "422", "letter"),
        (b"\xff\xfe", "400", "Failed to parse"),
    ] {
        let answer = exchange(&running, &post("/v1/trace", body));
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{answer}");
        assert!(answer.contains("{\"error\":\"") && answer.contains(what), "{answer}");
    }
    let nested = [&vec![b'['; 100_000][..], b"1"].concat();
    assert!(exchange(&running, &post("/v1/trace", &nested)).starts_with("HTTP/1.1 4"));
    let answer = exchange(
        &running,
        b"POST /v1/trace HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
    );
    assert!(answer.starts_with("HTTP/1.1 415"), "{answer}");
}

#[test]
fn a_body_over_the_limit_is_refused_however_it_comes() {
    let running = running();
    let body = vec![b' '; 10 << 20];
    let answer = exchange(&running, &post("/v1/trace", &body));
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    let mut chunked = b"POST /v1/trace HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..40 {
        chunked.extend(b"2000\r\n");
        chunked.extend([b' '; 0x2000]);
        chunked.extend(b"\r\n");
    }
    let answer = exchange(&running, &chunked);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    // The largest frame is within the limit.
    let digits = "00".repeat(65_597);
    let body = format!(r#"{{"packet":{{"kind":"frame","port":"internet","frame_hex":"{digits}"}}}}"#);
    let answer = exchange(&running, &post("/v1/trace", body.as_bytes()));
    assert!(answer.starts_with("HTTP/1.1 200"), "{}", &answer[..200.min(answer.len())]);
}

#[test]
fn headers_over_the_limit_are_refused() {
    let running = running();
    let long =
        [b"GET /v1/status HTTP/1.1\r\nHost: x\r\nX: ", &vec![b'a'; 64 * 1024][..], b"\r\n\r\n"].concat();
    let many = ["GET /v1/status HTTP/1.1\r\n", &"X: y\r\n".repeat(2_000), "\r\n"].concat();
    for bytes in [&long[..], many.as_bytes()] {
        let answer = exchange(&running, bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
}

#[test]
fn slow_peers_lose_their_place() {
    let running = running();
    // More connections than are allowed: one sends nothing, one stops in its headers, one in its body.
    let starts: [&[u8]; 3] = [
        b"",
        b"GET /v1/status HT",
        b"POST /v1/trace HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    ];
    let mut slow: Vec<UnixStream> = (0..8)
        .map(|n| {
            let mut stream = connect(&running);
            stream.write_all(starts[n % 3]).unwrap();
            stream
        })
        .collect();
    assert!(running.client().status().is_ok(), "answered once a place is free");
    for stream in &mut slow {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
}

#[test]
fn an_idle_connection_is_closed() {
    let running = running();
    let mut stream = connect(&running);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn a_peer_that_takes_nothing_is_cut_off_and_its_capture_ends() {
    let running = running();
    let mut stream = connect(&running);
    stream.write_all(&post("/v1/capture", b"{}")).unwrap();
    running.until("the capture", |window| window.captures() == 1);
    let start = Instant::now();
    while running.window.captures() == 1 {
        assert!(start.elapsed() < Duration::from_secs(60), "it goes on");
        let mut far = running.far.lock().unwrap();
        for n in 0..16 {
            far.downstream(2 * n, &[0; 1_400]);
        }
        (0..16).for_each(|_| drop(far.at_base_station()));
    }
    assert!(running.client().status().is_ok());
}

#[test]
fn a_peer_that_asks_and_never_reads_is_cut_off() {
    let running = running();
    let mut stream = connect(&running);
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let start = Instant::now();
    let broken = loop {
        assert!(start.elapsed() < Duration::from_secs(60), "it goes on");
        match stream.write(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n") {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(broken.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{broken}");
}
