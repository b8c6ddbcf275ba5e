//! Parses a UDP payload as GTP-U, with every extension header and information element.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_wire::gtpu::Gtpu;
use scalebricks_wire::gtpu::element::{Elements, ErrorIndication};
use scalebricks_wire::gtpu::message;

fuzz_target!(|bytes: &[u8]| {
    let Ok(gtpu) = Gtpu::parse(bytes) else { return };
    assert_eq!(&bytes[gtpu.header_len()..][..gtpu.payload().len()], gtpu.payload());
    let extensions: usize = gtpu.extensions().map(|e| e.content.len() + 2).sum();
    assert_eq!(extensions, gtpu.extensions().len_bytes());
    let _ = gtpu.pdu_session_container();
    let elements: usize = Elements::new(gtpu.payload()).flatten().map(|e| 1 + e.value.len()).sum();
    assert!(elements <= gtpu.payload().len());
    if let Ok(error) = ErrorIndication::parse(gtpu.payload()) {
        let mut out = [0; message::MAX_ERROR_INDICATION_LEN];
        let len = message::error_indication(&mut out, error.teid, error.peer).unwrap();
        let again = Gtpu::parse(&out[..len]).unwrap();
        assert_eq!(ErrorIndication::parse(again.payload()), Ok(error));
    }
});
