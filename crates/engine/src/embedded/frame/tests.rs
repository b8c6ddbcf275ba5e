//! The format, byte by byte.

use super::*;
use proptest::prelude::*;

const HEADER: SegmentHeader = SegmentHeader { sequence: 3, first_group: 10, salt: 0x0123_4567_89ab_cdef };

fn id(writer: u64, number: u64) -> BatchId {
    BatchId { writer: WriterId(writer), number }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

/// Made by a few lines of Python with `struct` and `zlib.crc32`, from the table at the top.
#[test]
fn the_format_is_as_it_is_written_down() {
    assert_eq!(
        hex(&HEADER.encode()),
        "5342524b534c4f4701000000030000000a00000000000000efcdab896745230117838275"
    );
    let offset = SEGMENT_HEADER_BYTES as u64;
    let mut group = GroupBuilder::new(Vec::new(), HEADER.seal(), offset);
    let (partition, position) = (PartitionId(7), Position(2));
    group.push(&Frame::Entry { partition, position, id: id(9, 4), payload: b"hello" });
    group.push(&Frame::Record { key: "a.b", revision: Revision(5), value: Some(b"v") });
    group.push(&Frame::Close);
    assert_eq!(
        hex(&group.finish(10)),
        "53475250480000000a0000000000000003000000b9b079e91eca64fa1f0000000107000200000000\
         0000000900000000000000040000000000000068656c6c6f08cfcac90e0000000205000000000000\
         000103612e627641efa5fb0000000006"
    );
}

fn frame<'a>(kind: u8, numbers: [u64; 3], payload: &'a [u8], key: &'a str) -> Frame<'a> {
    let partition = PartitionId(numbers[0] as u16);
    match kind {
        0 => {
            let (position, id) = (Position(numbers[0]), id(numbers[1], numbers[2]));
            Frame::Entry { partition, position, id, payload }
        }
        1 => Frame::Record { key, revision: Revision(numbers[0]), value: Some(payload) },
        2 => Frame::Record { key, revision: Revision(numbers[0]), value: None },
        3 => Frame::Trim { partition, below: Position(numbers[1]) },
        4 => Frame::Revisions { newest: Revision(numbers[0]) },
        5 => Frame::Begin { segment: numbers[0] as u32 },
        _ => Frame::Close,
    }
}

proptest! {
    #[test]
    fn a_group_reads_as_it_was_written_and_nowhere_else(
        wanted in prop::collection::vec((0..7u8, any::<[u64; 3]>(), any::<Vec<u8>>(), "[a-z.]{0,20}"), 1..8),
        offset in 0..1u64 << 32,
        elsewhere in 1..1u64 << 32,
    ) {
        let wanted: Vec<_> =
            wanted.iter().map(|(kind, numbers, payload, key)| frame(*kind, *numbers, payload, key)).collect();
        let mut group = GroupBuilder::new(Vec::new(), HEADER.seal(), offset);
        for frame in &wanted {
            group.push(frame);
        }
        let bytes = group.finish(4);
        let header = GroupHeader::decode(&bytes, HEADER.seal(), offset).unwrap();
        prop_assert_eq!((header.number, header.len as usize), (4, bytes.len() - GROUP_HEADER_BYTES));
        let body = &bytes[GROUP_HEADER_BYTES..];
        let found = frames(header, body, HEADER.seal(), offset + GROUP_HEADER_BYTES as u64).unwrap();
        prop_assert_eq!(found.iter().map(|placed| placed.0).collect::<Vec<_>>(), wanted);
        prop_assert_eq!(GroupHeader::decode(&bytes, HEADER.seal(), offset + elsewhere), None);
        let other = SegmentHeader { sequence: 4, ..HEADER };
        prop_assert_eq!(GroupHeader::decode(&bytes, other.seal(), offset), None);
        prop_assert!(frames(header, body, other.seal(), offset + GROUP_HEADER_BYTES as u64).is_err());
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes: Vec<u8>, kind in 0..8u8) {
        let _ = Frame::decode(&bytes, HEADER.seal(), 0);
        let _ = Frame::decode_body(kind, &bytes);
        let _ = SegmentHeader::decode(&bytes);
    }
}
