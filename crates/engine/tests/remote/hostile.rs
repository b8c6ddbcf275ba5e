//! Peers that speak another protocol, or none.

use super::{batch, connect, eventually, socket, start_with};
use pollster::block_on;
use scalebricks_control::engine::{Engine, ReadError};
use scalebricks_engine::embedded::memory::MemoryDisk;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_engine::remote::codec::{self, Request};
use scalebricks_engine::remote::{ClientOptions, Endpoint, RemoteEngine, Server, ServerOptions};
use scalebricks_types::{PartitionId, Position};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const P: PartitionId = PartitionId(1);

fn serve(options: ServerOptions) -> (TempDir, Server, Endpoint) {
    let log = EmbeddedLog::open_on(MemoryDisk::default().storage(), Options::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (server, endpoint) = start_with(Arc::new(log), &socket(directory.path()), options);
    (directory, server, endpoint)
}

fn peer(directory: &TempDir) -> UnixStream {
    let stream = UnixStream::connect(directory.path().join("engine.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Reads until the server closes; it closes in time.
fn is_closed(mut stream: UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it was not closed"),
    }
    all
}

fn greeted(directory: &TempDir) -> UnixStream {
    let mut stream = peer(directory);
    stream.write_all(&codec::hello()).unwrap();
    let mut said = [0; codec::HELLO_BYTES];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(codec::check_hello(&said), Ok(codec::Level::NEWEST));
    stream
}

#[test]
fn what_is_no_protocol_is_closed_and_the_rest_goes_on() {
    let (directory, server, endpoint) = serve(ServerOptions::default());
    let engine = connect(&endpoint);
    let mut number = 0;
    let mut works = || {
        number += 1;
        assert_eq!(block_on(engine.append(P, batch(1, number, b"x"))), Ok(Position(number)));
    };
    let mut garbage = peer(&directory);
    garbage.write_all(b"GET / HTTP/1.1\r\nHost: engine\r\n\r\n").unwrap();
    assert_eq!(is_closed(garbage), codec::hello(), "it is told what is spoken here");
    works();
    let mut version = peer(&directory);
    let mut hello = codec::hello();
    hello[8] = 9;
    version.write_all(&hello).unwrap();
    is_closed(version);
    for bytes in [
        &u32::MAX.to_le_bytes()[..],                                 // a length without end
        &[0; 16],                                                    // none at all
        &[9, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0, 0],                  // no kind
        &[9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],                    // no fields
        &[0x0d, 0, 0, 0, 8, 1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0], // a key longer than its frame
    ] {
        let mut stream = greeted(&directory);
        stream.write_all(bytes).unwrap();
        assert_eq!(is_closed(stream), b"");
        works();
    }
    let twice: Vec<u8> = (0..2)
        .flat_map(|_| {
            let mut frame = Vec::new();
            codec::encode(5, &Request::Watch { partition: P, from: Position(1), credit: 0 }, &mut frame);
            frame
        })
        .collect();
    let mut stream = greeted(&directory);
    stream.write_all(&twice).unwrap();
    is_closed(stream);
    works();
    eventually("all were counted", || {
        let counts = server.counts();
        (counts.hostile, counts.refused, counts.open) == (6, 2, 1)
    });
}

#[test]
fn half_frames_and_long_ones_hold_up_nobody() {
    let (directory, server, endpoint) = serve(ServerOptions::default());
    // A frame that is announced and never comes, and one that stops in the middle.
    let mut announced = greeted(&directory);
    announced.write_all(&(codec::MAX_FRAME_BYTES as u32).to_le_bytes()).unwrap();
    let mut cut = greeted(&directory);
    let mut frame = Vec::new();
    codec::encode(1, &Request::Append { partition: P, batch: batch(1, 1, &[7; 100]) }, &mut frame);
    cut.write_all(&frame[..60]).unwrap();
    // One that asks, and does not read what it is answered.
    let mut deaf = greeted(&directory);
    let engine = connect(&endpoint);
    for number in 1..=10 {
        block_on(engine.append(P, batch(2, number, &vec![1; 1 << 20]))).unwrap();
    }
    deaf.set_nonblocking(true).unwrap();
    let mut frame = Vec::new();
    codec::encode(1, &Request::Read { partition: P, from: Position(1), max_bytes: u32::MAX }, &mut frame);
    let mut asked = 0;
    while asked < 1_000_000 && deaf.write_all(&frame).is_ok() {
        asked += 1;
    }
    assert!(asked < 1_000_000, "the server stops to read what it cannot answer");
    // None of them has to wait for so long that it is given up.
    for number in 11..=30 {
        block_on(engine.append(P, batch(2, number, b"x"))).unwrap();
    }
    drop((cut, announced, deaf));
    eventually("the dead are let go", || server.counts().open == 1);
    assert_eq!(block_on(engine.last(P)), Ok(Position(30)), "half a batch is none");
}

#[test]
fn who_says_nothing_is_closed() {
    let hello = Duration::from_millis(200);
    let (directory, server, endpoint) =
        serve(ServerOptions { connections: 3, hello, ..ServerOptions::default() });
    let engine = connect(&endpoint);
    block_on(engine.append(P, batch(1, 1, b"x"))).unwrap();
    let mut slow = peer(&directory);
    slow.write_all(&codec::hello()[..5]).unwrap();
    let silent = peer(&directory);
    is_closed(slow);
    is_closed(silent);
    eventually("all were counted", || server.counts().refused == 2);
    // There is room again.
    let second = connect(&endpoint);
    assert_eq!(block_on(second.last(P)), Ok(Position(1)));
}

#[test]
fn who_is_too_many_is_closed_while_others_may_take_their_time() {
    // Longer than anybody reads here: what is closed is not closed for its hello.
    let hello = Duration::from_secs(3600);
    let (directory, server, endpoint) =
        serve(ServerOptions { connections: 3, hello, ..ServerOptions::default() });
    let engine = connect(&endpoint);
    block_on(engine.append(P, batch(1, 1, b"x"))).unwrap();
    let silent = [peer(&directory), peer(&directory)];
    is_closed(peer(&directory)); // there is no room
    eventually("it was counted", || server.counts().refused == 1);
    drop(silent);
    eventually("they were, too", || server.counts().refused == 3);
    let second = connect(&endpoint);
    assert_eq!(block_on(second.last(P)), Ok(Position(1)));
}

#[test]
fn a_client_survives_what_is_no_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut version = codec::hello();
    version[8] = 77;
    let endless = [&codec::hello()[..], &u32::MAX.to_le_bytes()].concat();
    let unasked = [&codec::hello()[..], &[10, 0, 0, 0, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    let answers: Vec<Vec<u8>> =
        vec![b"HTTP/1.1 400 Bad Request\r\n".to_vec(), version.to_vec(), endless, unasked];
    std::thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            drop(stream.write_all(&answers[at % answers.len()]));
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let options = ClientOptions { wait: Duration::from_millis(300), ..ClientOptions::default() };
    let engine = RemoteEngine::connect(Endpoint::Unix(path), options).unwrap();
    let began = Instant::now();
    let mut reasons = Vec::new();
    while began.elapsed() < Duration::from_secs(60) && reasons.len() < 8 {
        match block_on(engine.last(P)) {
            Err(ReadError::Unavailable(why)) => reasons.push(why),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        reasons.iter().any(|why| why.contains("lost") || why.contains("version") || why.contains("speak")),
        "{reasons:?}"
    );
}

/// Software that knows no levels would close the connection for an error that it does not know.
#[test]
fn a_client_of_an_older_level_is_told_what_it_understands() {
    let (directory, _server, _) = serve(ServerOptions::default());
    let answer = |level: u8| {
        let mut stream = peer(&directory);
        let mut hello = codec::hello();
        hello[10] = level;
        stream.write_all(&hello).unwrap();
        stream.read_exact(&mut [0; codec::HELLO_BYTES]).unwrap();
        let mut asked = Vec::new();
        let read = Request::Read { partition: P, from: Position(9), max_bytes: 1 };
        codec::encode(1, &read, &mut asked);
        let watch = Request::Watch { partition: P, from: Position(9), credit: 1 };
        codec::encode(2, &watch, &mut asked);
        stream.write_all(&asked).unwrap();
        let (mut bytes, mut errors) = (Vec::new(), Vec::new());
        while errors.len() < 2 {
            let mut some = [0; 512];
            let len = stream.read(&mut some).unwrap();
            assert_ne!(len, 0, "closed");
            bytes.extend_from_slice(&some[..len]);
            while let Some((_, response, len)) = codec::decode::<codec::Response>(&bytes).unwrap() {
                bytes.drain(..len);
                match response {
                    codec::Response::ReadDone { result: Err(error) }
                    | codec::Response::End { end: codec::End::Read(error) } => errors.push(error),
                    other => panic!("{other:?}"),
                }
            }
        }
        errors
    };
    let ahead = ReadError::Ahead { partition: P, last: Position(0) };
    assert_eq!(answer(1), [ahead.clone(), ahead.clone()]);
    let told = ReadError::Unavailable(ahead.to_string());
    assert_eq!(answer(0), [told.clone(), told]);
}
