//! Captures over the socket.

use crate::admin::running::Running;
use scalebricks_admin::client::ClientError;
use scalebricks_admin::model::{CaptureRequest, Direction, PortRole};
use scalebricks_graph::tap::MAX_CAPTURES;
use scalebricks_io::{CaptureReader, CapturedFrame};
use std::io::Cursor;
use std::process::Command;
use std::time::SystemTime;

fn frames(bytes: Vec<u8>) -> Vec<CapturedFrame> {
    CaptureReader::from_stream(Cursor::new(bytes), "capture").unwrap().map(Result::unwrap).collect()
}

/// Runs a capture, and calls `traffic` once it runs.
fn capture(running: &Running, request: &CaptureRequest, traffic: impl FnOnce() + Send) -> Vec<u8> {
    std::thread::scope(|scope| {
        let capturing = scope.spawn(|| {
            let mut bytes = Vec::new();
            let end = running.client().capture(request, |piece| {
                bytes.extend_from_slice(piece);
                Ok(true)
            });
            end.unwrap();
            bytes
        });
        running.until("the capture", |window| window.captures() == 1);
        let turns = running.window.turns();
        running.until("a turn that sees it", |window| window.turns() > turns);
        traffic();
        capturing.join().unwrap()
    })
}

#[test]
fn a_packet_is_captured_before_and_after() {
    let running = Running::start();
    let request = CaptureRequest { count: Some(2), ..CaptureRequest::default() };
    let before = SystemTime::now();
    let bytes = capture(&running, &request, || running.far.lock().unwrap().downstream(4, b"to be seen"));
    let after = SystemTime::now();
    let frames = frames(bytes);
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[0].data, crate::admin::running::downstream(4, b"to be seen"));
    assert_eq!(frames[1].data, running.far.lock().unwrap().at_base_station());
    let captured_at = SystemTime::UNIX_EPOCH + frames[0].timestamp;
    assert!(before <= captured_at && captured_at <= after, "{before:?} {captured_at:?} {after:?}");
    running.until("the end", |window| window.captures() == 0);
}

#[test]
fn a_packet_is_captured_between_two_elements() {
    let running = Running::start();
    let edges = vec!["from_internet.0".to_owned()];
    let request =
        CaptureRequest { edges, direction: Direction::None, count: Some(1), ..CaptureRequest::default() };
    let bytes = capture(&running, &request, || running.far.lock().unwrap().downstream(4, b"to be seen"));
    assert_eq!(frames(bytes.clone())[0].data, crate::admin::running::downstream(4, b"to be seen"));
    let comment = b"edge: from_internet.0";
    assert!(bytes.windows(comment.len()).any(|window| window == comment), "the edge is the comment");
    let request = CaptureRequest { edges: vec!["steer".to_owned()], ..request };
    let refused = running.client().capture(&request, |_| Ok(true)).unwrap_err().to_string();
    assert!(refused.contains("'steer' is not an edge: name an element and its output"), "{refused}");
}

#[test]
fn conditions_choose_frames() {
    let running = Running::start();
    let request = CaptureRequest {
        ports: vec![PortRole::BaseStation],
        direction: Direction::Tx,
        teid: Some(0x20006),
        count: Some(1),
        snap_bytes: Some(50),
        ..CaptureRequest::default()
    };
    let bytes = capture(&running, &request, || {
        let mut far = running.far.lock().unwrap();
        for n in [0, 2, 4, 6] {
            far.downstream(n, b"payload");
        }
    });
    let [frame] = &frames(bytes)[..] else { panic!("not one frame") };
    assert_eq!(frame.data.len(), 50);
    assert_eq!(frame.data[46..50], 0x20006u32.to_be_bytes());
}

#[test]
fn drops_come_with_their_reason() {
    let running = Running::start();
    let request = CaptureRequest {
        direction: Direction::None,
        drops: true,
        drop_reasons: vec!["other_mac".to_owned()],
        count: Some(1),
        ..CaptureRequest::default()
    };
    let bytes = capture(&running, &request, || {
        let mut far = running.far.lock().unwrap();
        far.downstream(4, b"forwarded");
        let mut frame = crate::admin::running::downstream(4, b"not ours");
        frame[5] = 0x77;
        let mut pool = scalebricks_io::Pool::new(1, 2_000).unwrap();
        far.internet.send(pool.packet(&frame).unwrap()).unwrap();
    });
    assert!(String::from_utf8_lossy(&bytes).contains("dropped: other_mac"));
    if Command::new("tshark").arg("--version").output().is_ok_and(|out| out.status.success()) {
        let path = running.folder.path().join("drops.pcapng");
        std::fs::write(&path, &bytes).unwrap();
        let fields = ["frame.comment", "frame.interface_name", "ip.dst", "frame.interface_description"];
        let fields = fields.iter().flat_map(|field| ["-e", field]);
        let out =
            Command::new("tshark").arg("-r").arg(&path).args(["-T", "fields"]).args(fields).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        let want = "dropped: other_mac\tdrops\t10.45.0.4\tdropped by the node, the reason in the comment\n";
        assert_eq!(text, want, "{}", String::from_utf8_lossy(&out.stderr));
    }
    assert_eq!(frames(bytes).len(), 1);
}

#[test]
fn a_capture_ends_with_its_time_or_its_reader() {
    let running = Running::start();
    let request = CaptureRequest { seconds: Some(1), ..CaptureRequest::default() };
    assert!(frames(capture(&running, &request, || {})).is_empty());
    // The node notices that a reader closed the connection while no packets pass.
    let mut pieces = 0;
    let end = running.client().capture(&CaptureRequest::default(), |_| {
        pieces += 1;
        Ok(pieces < 3)
    });
    end.unwrap();
    running.until("the end", |window| window.captures() == 0);
}

#[test]
fn captures_are_bounded_and_nonsense_is_refused() {
    let running = Running::start();
    let client = running.client();
    let refused = |request: &CaptureRequest| client.capture(request, |_| Ok(true)).unwrap_err().to_string();
    for (request, what) in [
        (CaptureRequest { direction: Direction::None, ..CaptureRequest::default() }, "selects nothing"),
        (
            CaptureRequest {
                drops: true,
                drop_reasons: vec!["bored".to_owned()],
                ..CaptureRequest::default()
            },
            "no drop reason is called 'bored'",
        ),
        (CaptureRequest { count: Some(0), ..CaptureRequest::default() }, "0 frames"),
        (CaptureRequest { snap_bytes: Some(70_000), ..CaptureRequest::default() }, "snap_bytes"),
    ] {
        assert!(refused(&request).contains(what), "{}", refused(&request));
    }
    std::thread::scope(|scope| {
        for _ in 0..MAX_CAPTURES {
            let request = CaptureRequest { seconds: Some(2), ..CaptureRequest::default() };
            let running = &running;
            scope.spawn(move || running.client().capture(&request, |_| Ok(true)).unwrap());
        }
        running.until("the captures", |window| window.captures() == MAX_CAPTURES);
        let error = client.capture(&CaptureRequest::default(), |_| Ok(true)).unwrap_err();
        assert!(
            matches!(&error, ClientError::Refusal(what) if what.contains("captures run already")),
            "{error}"
        );
        assert!(client.status().is_ok(), "other questions are answered meanwhile");
    });
}
