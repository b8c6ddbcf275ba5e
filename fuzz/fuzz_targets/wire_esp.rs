//! Reads an outer packet as ESP, decrypts it, and reads decrypted payloads and inner packets.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_elements::esp::file;
use scalebricks_elements::esp::inbound::{Inbound, OpenError, Opening, Outer};
use scalebricks_elements::esp::inner::{Inner, set_dscp_ecn};
use scalebricks_io::{PacketBuf, Pool};
use scalebricks_wire::esp::{Esp, TRAILER_LEN, UdpPayload, parse_trailer};

const FILE: &str = r#"
[[sa]]
name = "a"
spi = 0x1001
suite = "aes-128-gcm"
key = "000102030405060708090a0b0c0d0e0f10111213"
src = "192.0.2.1"
dst = "192.0.2.2"
selectors = [{ src = "0.0.0.0/0", dst = "0.0.0.0/0" }]
"#;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((len, _)) = parse_trailer(bytes) {
        assert!(len + TRAILER_LEN <= bytes.len());
    }
    let _ = (Esp::parse(bytes), UdpPayload::classify(bytes));
    if let Ok(inner) = Inner::read(bytes) {
        assert!(inner.len <= bytes.len());
        let mut marked = bytes.to_vec();
        set_dscp_ecn(&mut marked, 0xb9);
        assert_eq!(Inner::read(&marked), Ok(Inner { dscp_ecn: 0xb9, ..inner }));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = file::parse(text);
    }
    let Outer::Esp(place) = Outer::read(bytes) else { return };
    assert!(place.start + 8 <= place.end && place.end <= bytes.len());
    let mut end = Inbound::new(file::parse(FILE).unwrap().remove(0)).unwrap();
    let Some(packet) = Pool::new(1, 9_000).unwrap().packet(bytes) else { return };
    let (mut packets, mut openings) = ([packet], [Opening { at: 0, place, result: Ok(()) }]);
    end.open_many(&mut packets, &mut openings);
    let opened = openings[0].result;
    assert!(matches!(opened, Err(OpenError::BadIcv | OpenError::Replay)), "{opened:?}");
    assert!(packets[0].data().len() == bytes.len() && end.sequence() == 0);
});
