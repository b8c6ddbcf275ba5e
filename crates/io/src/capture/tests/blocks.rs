//! pcapng files that no writer at hand makes.

use super::*;

/// Blocks put together by hand, in the byte order asked for.
struct BlockFile {
    bytes: Vec<u8>,
    endianness: Endianness,
}

impl BlockFile {
    fn new(endianness: Endianness) -> Self {
        let mut file = Self { bytes: Vec::new(), endianness };
        let mut body = file.word(0x1a2b_3c4d).to_vec();
        body.extend(file.half(1));
        body.extend(file.half(0));
        body.extend([0xff; 8]);
        file.block(0x0a0d_0d0a, &body);
        file
    }

    fn word(&self, value: u32) -> [u8; 4] {
        if self.endianness == Endianness::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn half(&self, value: u16) -> [u8; 2] {
        if self.endianness == Endianness::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn words(&self, values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|&value| self.word(value)).collect()
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let length = self.word(padded as u32 + 12);
        self.bytes.extend(self.word(kind));
        self.bytes.extend(length);
        self.bytes.extend_from_slice(body);
        self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
        self.bytes.extend(length);
    }

    fn interface(&mut self, link: u16, snaplen: u32, options: &[(u16, &[u8])]) {
        let mut body = [self.half(link), self.half(0)].concat();
        body.extend(self.word(snaplen));
        for &(code, value) in options {
            body.extend(self.half(code));
            body.extend(self.half(value.len() as u16));
            body.extend_from_slice(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body);
    }

    fn enhanced(&mut self, interface: u32, ticks: u64, data: &[u8]) {
        let len = data.len() as u32;
        let mut body = self.words(&[interface, (ticks >> 32) as u32, ticks as u32, len, len]);
        body.extend_from_slice(data);
        self.block(6, &body);
    }
}

#[test]
fn interfaces_have_their_own_link_types_and_clocks() {
    for endianness in [Endianness::Little, Endianness::Big] {
        let mut file = BlockFile::new(endianness);
        file.interface(1, 0, &[]);
        // A time zone, a comment that is not UTF-8, no end marker: all legal.
        file.interface(101, 0, &[(10, &[0; 4]), (1, &[0xff]), (9, &[9])]);
        file.interface(105, 0, &[]);
        file.block(0x0bad, &[1, 2, 3]);
        file.enhanced(0, 0x1_0000_0001, &[1; 5]);
        file.enhanced(2, 0, &[2; 4]);
        file.enhanced(1, 7, &[0x45, 0, 0]);
        let outcomes: Vec<_> = read(&file.bytes).unwrap().collect();
        assert_eq!(outcomes.len(), 3);
        let first = outcomes[0].as_ref().unwrap();
        assert_eq!((first.timestamp, &first.data[..]), (Duration::from_micros(0x1_0000_0001), &[1; 5][..]));
        assert!(matches!(
            outcomes[1],
            Err(CaptureError::UnsupportedLinkType { record: 2, link: LinkType(105) })
        ));
        let third = outcomes[2].as_ref().unwrap();
        assert_eq!((third.timestamp, &third.data[14..]), (Duration::from_nanos(7), &[0x45, 0, 0][..]));
    }
}

#[test]
fn simple_and_obsolete_packet_blocks_are_read_without_their_padding() {
    for endianness in [Endianness::Little, Endianness::Big] {
        let mut file = BlockFile::new(endianness);
        file.interface(1, 6, &[]);
        file.block(3, &[file.words(&[5]), vec![9; 5]].concat());
        file.block(3, &[file.words(&[1500]), vec![8; 6]].concat());
        let obsolete = [file.half(0).to_vec(), file.half(0).to_vec(), file.words(&[1, 2, 3, 4]), vec![7; 3]];
        file.block(2, &obsolete.concat());
        let frames = read_all(&file.bytes).unwrap();
        assert_eq!(frames[0].data, [9; 5]);
        assert_eq!((frames[1].data.as_slice(), frames[1].original_len), ([8; 6].as_slice(), 1500));
        assert_eq!(frames[2].timestamp, Duration::from_micros((1 << 32) + 2));
        assert_eq!((frames[2].data.as_slice(), frames[2].original_len), ([7; 3].as_slice(), 4));
    }
}

#[test]
fn a_new_section_changes_the_byte_order_and_forgets_the_interfaces() {
    let mut little = BlockFile::new(Endianness::Little);
    little.interface(1, 0, &[]);
    little.enhanced(0, 1, &[1]);
    let mut big = BlockFile::new(Endianness::Big);
    big.interface(228, 0, &[]);
    big.enhanced(0, 2, &[2]);
    let frames = read_all(&[&little.bytes[..], &big.bytes].concat()).unwrap();
    assert_eq!(frames.iter().map(|frame| frame.link.0).collect::<Vec<_>>(), [1, 228]);

    let mut bare = BlockFile::new(Endianness::Big);
    bare.enhanced(0, 2, &[2]);
    let outcome = read_all(&[&little.bytes[..], &bare.bytes].concat());
    assert!(matches!(outcome, Err(CaptureError::Malformed { record: 2, .. })), "{outcome:?}");
}

#[test]
fn interfaces_without_end_are_refused() {
    let mut file = BlockFile::new(Endianness::Little);
    for _ in 0..5000 {
        file.interface(1, 0, &[]);
    }
    assert!(matches!(read_all(&file.bytes), Err(CaptureError::Malformed { .. })));
}
