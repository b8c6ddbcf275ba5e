use super::*;
use proptest::prelude::*;
use scalebricks_control::engine::{
    AppendError, Batch, BatchId, EngineError, MAX_BATCH_BYTES, ReadError, Record, Revision, SwapError,
    WriterId,
};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;

fn bytes() -> impl Strategy<Value = Arc<[u8]>> {
    prop::collection::vec(any::<u8>(), 0..50).prop_map(Arc::from)
}

fn text() -> impl Strategy<Value = String> {
    ".{0,30}"
}

fn partition() -> impl Strategy<Value = PartitionId> {
    any::<u16>().prop_map(PartitionId)
}

fn position() -> impl Strategy<Value = Position> {
    any::<u64>().prop_map(Position)
}

fn revision() -> impl Strategy<Value = Revision> {
    any::<u64>().prop_map(Revision)
}

fn batch() -> impl Strategy<Value = Batch> {
    (any::<u64>(), any::<u64>(), bytes()).prop_map(|(writer, number, payload)| Batch {
        id: BatchId { writer: WriterId(writer), number },
        payload,
    })
}

fn record() -> impl Strategy<Value = Record> {
    (text(), revision(), prop::option::of(bytes())).prop_map(|(key, revision, value)| Record {
        key,
        revision,
        value,
    })
}

fn read_error() -> impl Strategy<Value = ReadError> {
    prop_oneof![
        (partition(), position()).prop_map(|(partition, first)| ReadError::Trimmed { partition, first }),
        (partition(), position(), text()).prop_map(|(partition, position, what)| ReadError::Damaged {
            partition,
            position,
            what
        }),
        text().prop_map(ReadError::Unavailable),
        (partition(), position()).prop_map(|(partition, last)| ReadError::Ahead { partition, last }),
    ]
}

fn engine_error() -> impl Strategy<Value = EngineError> {
    prop_oneof![
        text().prop_map(EngineError::Unavailable),
        text().prop_map(EngineError::Refused),
        text().prop_map(EngineError::Damaged),
    ]
}

fn append_error() -> impl Strategy<Value = AppendError> {
    prop_oneof![
        text().prop_map(AppendError::Refused),
        text().prop_map(AppendError::Unknown),
        any::<usize>().prop_map(AppendError::TooLarge),
    ]
}

fn swap_error() -> impl Strategy<Value = SwapError> {
    prop_oneof![
        prop::option::of(revision()).prop_map(SwapError::Conflict),
        text().prop_map(SwapError::Unknown),
        Just(SwapError::Invalid("the engine does not keep it")),
    ]
}

fn result<T: std::fmt::Debug, E: std::fmt::Debug>(
    value: impl Strategy<Value = T>,
    error: impl Strategy<Value = E>,
) -> impl Strategy<Value = Result<T, E>> {
    prop_oneof![value.prop_map(Ok), error.prop_map(Err)]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (partition(), batch()).prop_map(|(partition, batch)| Request::Append { partition, batch }),
        partition().prop_map(|partition| Request::Last { partition }),
        (partition(), position(), any::<u32>()).prop_map(|(partition, from, max_bytes)| Request::Read {
            partition,
            from,
            max_bytes
        }),
        (partition(), position()).prop_map(|(partition, below)| Request::Trim { partition, below }),
        (partition(), position(), any::<u64>()).prop_map(|(partition, position, len)| Request::PutSnapshot {
            partition,
            position,
            len
        }),
        partition().prop_map(|partition| Request::Snapshot { partition }),
        text().prop_map(|key| Request::Record { key }),
        (text(), prop::option::of(revision()), prop::option::of(bytes()))
            .prop_map(|(key, expected, value)| Request::Swap { key, expected, value }),
        (text(), bytes()).prop_map(|(topic, message)| Request::Publish { topic, message }),
        (partition(), position(), any::<u32>()).prop_map(|(partition, from, credit)| Request::Watch {
            partition,
            from,
            credit
        }),
        (text(), prop::option::of(revision()), any::<u32>())
            .prop_map(|(prefix, after, credit)| Request::WatchRecords { prefix, after, credit }),
        (text(), any::<u32>()).prop_map(|(topic, credit)| Request::Subscribe { topic, credit }),
        bytes().prop_map(|bytes| Request::Chunk { bytes }),
        any::<u32>().prop_map(|bytes| Request::Credit { bytes }),
        Just(Request::Cancel {}),
    ]
}

fn response() -> impl Strategy<Value = Response> {
    let end = prop_oneof![
        Just(End::Closed),
        read_error().prop_map(End::Read),
        engine_error().prop_map(End::Engine)
    ];
    prop_oneof![
        result(position(), append_error()).prop_map(|result| Response::Appended { result }),
        result(position(), read_error()).prop_map(|result| Response::Last { result }),
        (position(), batch()).prop_map(|(position, batch)| Response::Entry { position, batch }),
        result(Just(()), read_error()).prop_map(|result| Response::ReadDone { result }),
        result(Just(()), engine_error()).prop_map(|result| Response::Done { result }),
        result(prop::option::of((position(), any::<u64>())), engine_error())
            .prop_map(|result| Response::Snapshot { result }),
        bytes().prop_map(|bytes| Response::Chunk { bytes }),
        result(prop::option::of(record()), engine_error()).prop_map(|result| Response::Found { result }),
        result(revision(), swap_error()).prop_map(|result| Response::Swapped { result }),
        record().prop_map(|record| Response::Record { record }),
        prop::collection::vec((text(), revision()), 0..5).prop_map(|records| Response::Present { records }),
        revision().prop_map(|up_to| Response::Resumed { up_to }),
        bytes().prop_map(|bytes| Response::Message { bytes }),
        end.prop_map(|end| Response::End { end }),
    ]
}

fn check<T: Message + PartialEq + std::fmt::Debug>(id: u64, message: &T, flip: (usize, u8)) {
    let mut out = Vec::new();
    let len = encode(id, message, &mut out);
    assert_eq!(out.len(), len);
    for cut in 0..len {
        assert!(matches!(decode::<T>(&out[..cut]), Ok(None)), "a frame that is not all there");
    }
    out.extend_from_slice(b"next");
    let (found_id, found, found_len) = decode::<T>(&out).unwrap().unwrap();
    assert_eq!((found_id, &found, found_len), (id, message, len));
    // Any other bytes are another message, or none; never a panic.
    let at = flip.0 % len;
    out[at] ^= flip.1;
    if let Ok(Some((id, other, len))) = decode::<T>(&out) {
        let mut again = Vec::new();
        encode(id, &other, &mut again);
        assert_eq!(again, out[..len], "each message has one form");
    }
}

proptest! {
    #[test]
    fn requests_read_back(id: u64, message in request(), flip: (usize, u8)) {
        check(id, &message, flip);
    }

    #[test]
    fn responses_read_back(id: u64, message in response(), flip: (usize, u8)) {
        check(id, &message, flip);
    }

    #[test]
    fn anything_decodes_or_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<Request>(&bytes);
        let _ = decode::<Response>(&bytes);
    }
}

#[test]
fn the_largest_of_each_fits_a_frame() {
    let large = |len| Arc::<[u8]>::from(vec![1; len]);
    let id = BatchId { writer: WriterId(u64::MAX), number: u64::MAX };
    let batch = Batch { id, payload: large(MAX_BATCH_BYTES) };
    let position = Position(u64::MAX);
    let append = Request::Append { partition: PartitionId(1), batch: batch.clone() };
    let publish = Request::Publish { topic: "t".repeat(128), message: large(1 << 20) };
    for request in [append, publish] {
        let mut out = Vec::new();
        encode(u64::MAX, &request, &mut out);
        assert_eq!(decode::<Request>(&out).unwrap().unwrap().1, request);
    }
    let mut out = Vec::new();
    encode(1, &Response::Entry { position, batch }, &mut out);
    assert!(decode::<Response>(&out).unwrap().is_some());
}

#[test]
fn lengths_and_kinds_have_limits() {
    let frame = |length: u32, kind: u8| [&length.to_le_bytes()[..], &[kind], &[0; 8]].concat();
    assert_eq!(decode::<Request>(&frame(u32::MAX, 1)), Err(CodecError::Length(u32::MAX)));
    assert_eq!(decode::<Request>(&frame(8, 1)), Err(CodecError::Length(8)));
    assert_eq!(decode::<Request>(&frame(9, 99)), Err(CodecError::Kind(99)));
    assert_eq!(decode::<Request>(&frame(9, 1)), Err(CodecError::Fields(1)));
    let long = Response::Done { result: Err(EngineError::Refused("ä".repeat(2000))) };
    let mut out = Vec::new();
    encode(1, &long, &mut out);
    let Response::Done { result: Err(EngineError::Refused(why)) } = decode(&out).unwrap().unwrap().1 else {
        panic!("it is what was written");
    };
    assert_eq!(why.len(), 1024, "long reasons are cut");
}

#[test]
fn hellos_are_checked() {
    let mut said = hello();
    assert_eq!(check_hello(&said), Ok(Level::NEWEST));
    // Software that knows no levels sends zeros there, and does not look at them.
    said[10..].fill(0);
    assert_eq!(check_hello(&said), Ok(Level::FIRST));
    said[8] = 2;
    assert_eq!(check_hello(&said), Err(CodecError::Version(2)));
    said[0] = b'G';
    assert_eq!(check_hello(&said), Err(CodecError::Magic));
}
