mod blocks;

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;
use std::borrow::Cow;
use std::fs;
use std::io::{Cursor, Read, Write};

const NAMES: [&str; 4] = ["a.pcap", "a.pcapng", "a.pcap.gz", "a.PCAPNG.GZ"];

fn read(bytes: &[u8]) -> Result<CaptureReader, CaptureError> {
    CaptureReader::from_stream(Cursor::new(bytes.to_vec()), "test")
}

fn read_all(bytes: &[u8]) -> Result<Vec<CapturedFrame>, CaptureError> {
    read(bytes)?.collect()
}

/// The frames before the first error, and the error.
fn read_until_error(bytes: &[u8]) -> (Vec<CapturedFrame>, Option<CaptureError>) {
    let mut reader = match read(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut frames = Vec::new();
    let error = loop {
        match reader.next() {
            Some(Ok(frame)) => frames.push(frame),
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    if !matches!(error, Some(CaptureError::UnsupportedLinkType { .. })) {
        assert!(reader.next().is_none(), "a reader that ended went on");
    }
    (frames, error)
}

fn frame(nanos: u64, data: Vec<u8>, cut: u32) -> CapturedFrame {
    let original_len = data.len() as u32 + cut;
    CapturedFrame { timestamp: Duration::from_nanos(nanos), data, original_len, link: LinkType::ETHERNET }
}

/// Writes the frames under the name and returns the bytes of the file.
fn written(name: &str, frames: &[CapturedFrame]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut writer = CaptureWriter::create(&path).unwrap();
    for frame in frames {
        writer.write_cut_frame(frame.timestamp, &frame.data, frame.original_len).unwrap();
    }
    writer.finish().unwrap();
    fs::read(path).unwrap()
}

fn sample() -> Vec<CapturedFrame> {
    vec![
        frame(1_700_000_000_123_456_789, (0..60).collect(), 0),
        frame(1_700_000_000_123_456_790, vec![7; 61], 1400),
        frame(1_700_000_001_000_000_001, Vec::new(), 3),
    ]
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn inflated(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

/// A pcap file in microseconds with one frame a given record, lengths as claimed.
fn pcap(link: u32, endianness: Endianness, snaplen: u32, frames: &[(u32, &[u8])]) -> Vec<u8> {
    let header = PcapHeader {
        datalink: DataLink::from(link),
        endianness,
        snaplen,
        ts_resolution: TsResolution::MicroSecond,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for &(orig_len, data) in frames {
        let incl_len = data.len() as u32;
        let data = Cow::Borrowed(data);
        writer
            .write_raw_packet(&RawPcapPacket { ts_sec: 5, ts_frac: 250_000, incl_len, orig_len, data })
            .unwrap();
    }
    writer.into_writer()
}

#[test]
fn what_was_written_is_read_back_in_every_format() {
    for name in NAMES {
        assert_eq!(read_all(&written(name, &sample())).unwrap(), sample(), "{name}");
    }
}

#[test]
fn the_file_is_judged_by_its_bytes_and_not_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("looks-plain.pcap");
    fs::write(&path, written("a.pcapng.gz", &sample())).unwrap();
    let mut reader = CaptureReader::open(&path).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).collect::<Vec<_>>(), sample());
    assert_eq!(reader.frames(), 3);
}

#[test]
fn a_dropped_writer_leaves_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dropped.pcap.gz");
    let mut writer = CaptureWriter::create(&path).unwrap();
    writer.write_frame(Duration::ZERO, &[1, 2, 3]).unwrap();
    drop(writer);
    assert_eq!(read_all(&fs::read(path).unwrap()).unwrap(), [frame(0, vec![1, 2, 3], 0)]);
}

/// Bytes by the pcap specification, not by the code under test.
#[test]
fn the_bytes_of_a_written_pcap_file_are_the_specified_ones() {
    let mut expected = Vec::new();
    expected.extend([0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    expected.extend([9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0xaa, 0xbb]);
    assert_eq!(written("a.pcap", &[frame(9_000_000_001, vec![0xaa, 0xbb], 1)]), expected);
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_frames_and_then_names_the_cut_record() {
    for name in ["a.pcap", "a.pcapng"] {
        let whole = written(name, &sample());
        // Where records end: there a cut goes unnoticed.
        let ends: Vec<usize> = (0..=3).map(|count| written(name, &sample()[..count]).len()).collect();
        for length in 0..whole.len() {
            let (frames, error) = read_until_error(&whole[..length]);
            let complete = ends.iter().filter(|&&end| end <= length).count().saturating_sub(1);
            assert_eq!(frames, sample()[..complete], "{name} cut to {length}");
            match error {
                None => {
                    assert!(
                        ends.contains(&length) || (name == "a.pcapng" && length == 28),
                        "{name} {length}"
                    );
                }
                Some(CaptureError::Truncated { record }) => {
                    assert_eq!(record, complete as u64 + 1, "{name} {length}");
                }
                Some(CaptureError::NotACapture { .. }) => assert!(length < 4, "{name} {length}"),
                Some(other) => panic!("{name} cut to {length}: {other}"),
            }
        }
    }
}

#[test]
fn a_gzip_stream_cut_anywhere_is_noticed() {
    let whole = written("a.pcap.gz", &sample());
    for length in 2..whole.len() {
        let (frames, error) = read_until_error(&whole[..length]);
        assert_eq!(frames, sample()[..frames.len()], "cut to {length}");
        match error {
            Some(CaptureError::Truncated { record }) => assert_eq!(record, frames.len() as u64 + 1),
            other => panic!("cut to {length}: {other:?}"),
        }
    }
}

#[test]
fn a_flipped_checksum_of_a_gzip_stream_is_an_error_after_the_frames() {
    let mut bytes = written("a.pcap.gz", &sample());
    let checksum_at = bytes.len() - 8;
    bytes[checksum_at] ^= 1;
    let (frames, error) = read_until_error(&bytes);
    assert_eq!(frames, sample());
    assert!(matches!(error, Some(CaptureError::Read { record: 4, .. })), "{error:?}");
}

#[test]
fn gzip_members_one_after_the_other_are_one_file() {
    let plain = inflated(&written("a.pcap.gz", &sample()));
    let (left, right) = plain.split_at(70);
    assert_eq!(read_all(&[gzipped(left), gzipped(right)].concat()).unwrap(), sample());
}

#[test]
fn a_claimed_length_of_gigabytes_is_refused_at_once() {
    for claimed in [MAX_FRAME_BYTES as u32 + 1, u32::MAX] {
        let mut bytes = pcap(1, Endianness::Little, 0, &[(1, &[1]), (1, &[2])]);
        let second = bytes.len() - 17;
        bytes[second + 8..second + 12].copy_from_slice(&claimed.to_le_bytes());
        let (frames, error) = read_until_error(&bytes);
        assert_eq!(frames.len(), 1);
        assert!(
            matches!(error, Some(CaptureError::TooLarge { record: 2, bytes }) if bytes == u64::from(claimed)),
            "{error:?}"
        );
    }
    let mut bytes = written("a.pcapng", &sample());
    let first_frame = written("a.pcapng", &[]).len();
    bytes[first_frame + 4..first_frame + 8].copy_from_slice(&0xffff_fffc_u32.to_le_bytes());
    let (_, error) = read_until_error(&bytes);
    assert!(matches!(error, Some(CaptureError::TooLarge { record: 1, bytes: 0xffff_fffc })), "{error:?}");
}

#[test]
fn the_largest_frame_goes_through_and_one_byte_more_does_not() {
    let largest = frame(0, vec![5; MAX_FRAME_BYTES], 0);
    for name in NAMES {
        assert_eq!(read_all(&written(name, &[largest.clone(), largest.clone()])).unwrap().len(), 2, "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut writer = CaptureWriter::create(folder.path().join("a.pcap")).unwrap();
    let refused = writer.write_frame(Duration::ZERO, &vec![0; MAX_FRAME_BYTES + 1]);
    assert!(matches!(refused, Err(CaptureError::Unwritable(_))));
    assert!(matches!(writer.write_cut_frame(Duration::ZERO, &[0; 9], 8), Err(CaptureError::Unwritable(_))));
    assert!(writer.write_frame(Duration::from_secs(1 << 32), &[0; 9]).is_err());
    assert_eq!(writer.frames(), 0);
}

/// What a decompressor makes of a few kilobytes is not held in memory.
#[test]
fn a_block_that_inflates_to_gigabytes_is_skipped_by_pieces() {
    let mut section = written("a.pcapng", &[]);
    let skipped_bytes = 64_u32 << 20;
    section.extend(0x0bad_u32.to_le_bytes());
    section.extend(skipped_bytes.to_le_bytes());
    section.resize(section.len() + skipped_bytes as usize - 8, 0);
    let plain_frame = written("a.pcapng", &sample()[..1]);
    section.extend_from_slice(&plain_frame[written("a.pcapng", &[]).len()..]);
    assert_eq!(read_all(&gzipped(&section)).unwrap(), sample()[..1]);
    section.truncate(section.len() / 2);
    assert!(matches!(read_all(&section), Err(CaptureError::Truncated { record: 1 })));
}

#[test]
fn a_frame_longer_on_the_wire_than_the_snapshot_length_is_read() {
    for endianness in [Endianness::Little, Endianness::Big] {
        let frames = read_all(&pcap(1, endianness, 4, &[(1514, &[1, 2, 3, 4]), (0, &[5, 6])])).unwrap();
        assert_eq!(frames[0].timestamp, Duration::from_millis(5250));
        assert_eq!((frames[0].data.as_slice(), frames[0].original_len), ([1, 2, 3, 4].as_slice(), 1514));
        assert_eq!((frames[1].data.as_slice(), frames[1].original_len), ([5, 6].as_slice(), 2));
    }
}

#[test]
fn what_is_not_a_capture_is_said_so() {
    for bytes in [b"".as_slice(), b"abc", b"\x1f\x8b", b"not a capture at all", &gzipped(&gzipped(b"x"))] {
        let outcome = read(bytes);
        assert!(
            matches!(outcome, Err(CaptureError::NotACapture { .. } | CaptureError::Truncated { record: 1 })),
            "{outcome:?}"
        );
    }
    assert!(matches!(CaptureReader::open("no/such/file"), Err(CaptureError::Open { .. })));
    let refused = CaptureWriter::create("a.txt.gz");
    assert!(matches!(refused, Err(CaptureError::UnknownExtension { .. })));
}

#[test]
fn raw_ip_is_given_an_ethernet_header() {
    let v4: &[u8] = &[0x45, 0, 0, 20];
    let v6: &[u8] = &[0x60, 0, 0, 0];
    let cases = [
        (101, v4, 0x0800_u16),
        (101, v6, 0x86dd),
        (12, v4, 0x0800),
        (228, v4, 0x0800),
        (229, v6, 0x86dd),
        (101, &[0xf0], 0),
    ];
    for (link, packet, ethertype) in cases {
        let frames = read_all(&pcap(link, Endianness::Big, 0, &[(1500, packet)])).unwrap();
        assert_eq!(frames[0].data[12..14], ethertype.to_be_bytes(), "link type {link}");
        assert_eq!(&frames[0].data[14..], packet);
        assert_eq!(frames[0].original_len, 1514);
        assert_eq!(frames[0].link, LinkType(link));
        assert_eq!(frames[0].data[0] & 1, 0, "the synthetic address is not a group");
    }
}

#[test]
fn cooked_frames_keep_protocol_and_sender() {
    let v1 = [0, 1, 0, 1, 0, 6, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 0, 0, 0x08, 0x06, 0x77];
    let frames = read_all(&pcap(113, Endianness::Little, 0, &[(17, &v1), (3, &v1[..3])])).unwrap();
    assert_eq!(frames[0].data, [255, 255, 255, 255, 255, 255, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 8, 6, 0x77]);
    assert_eq!(frames[0].original_len, 15);
    assert_eq!(frames[1].data[12..], [0, 0, 0, 1, 0], "too short for its header: kept whole, no protocol");

    let v2 = [0x86, 0xdd, 0, 0, 0, 0, 0, 1, 3, 4, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0x60];
    let frames = read_all(&pcap(276, Endianness::Little, 0, &[(21, &v2)])).unwrap();
    assert_eq!(frames[0].data[6..], [1, 2, 3, 4, 5, 6, 0x86, 0xdd, 0x60]);
}

#[test]
fn other_link_types_are_named() {
    let refused = read(&pcap(105, Endianness::Little, 0, &[])).unwrap_err();
    assert!(matches!(refused, CaptureError::UnsupportedLinkType { link: LinkType(105), .. }));
    assert!(refused.to_string().contains("105"), "{refused}");
}

fn any_frame(max_nanos: u64) -> impl Strategy<Value = CapturedFrame> {
    (0..max_nanos, proptest::collection::vec(any::<u8>(), 0..300), 0_u32..2000)
        .prop_map(|(nanos, data, cut)| frame(nanos, data, cut))
}

proptest! {
    #[test]
    fn any_frames_go_through_any_format(
        frames in proptest::collection::vec(any_frame(u64::from(u32::MAX) * 1_000_000_000), 0..20),
        name in 0..NAMES.len(),
    ) {
        prop_assert_eq!(read_all(&written(NAMES[name], &frames)).unwrap(), frames);
    }

    #[test]
    fn random_bytes_behind_a_magic_number_end_in_an_error_or_not_but_end(
        magic in 0_usize..4,
        is_gzipped in any::<bool>(),
        bytes in proptest::collection::vec(prop_oneof![4 => Just(0_u8), 1 => 1_u8..16, 1 => any::<u8>()], 0..600),
    ) {
        let magics: [&[u8]; 4] = [
            &[0xa1, 0xb2, 0xc3, 0xd4],
            &[0x4d, 0x3c, 0xb2, 0xa1],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a],
            &[],
        ];
        let file = [magics[magic], &bytes].concat();
        read_until_error(&if is_gzipped { gzipped(&file) } else { file });
    }

    #[test]
    fn a_file_with_bytes_overwritten_never_panics(
        name in 0..NAMES.len(),
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = written(NAMES[name], &sample());
        for (place, value) in places {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        let (frames, _) = read_until_error(&bytes);
        prop_assert!(frames.iter().all(|frame| frame.data.len() <= frame.original_len as usize));
    }
}
