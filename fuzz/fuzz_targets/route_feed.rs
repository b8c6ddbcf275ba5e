//! Any bytes are read as a feed of routes, text or MRT, and as static routes, up to the first wrong line or record.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::router::feed::{self, FeedPrefix, OutputRule};
use std::num::NonZeroU32;

fuzz_target!(|bytes: &[u8]| {
    // Gzip expands by up to a factor of 1,000.
    if bytes.starts_with(&[0x1f, 0x8b]) && bytes.len() > 4096 {
        return;
    }
    let outputs = NonZeroU32::new(7).expect("not zero");
    let (mut v4, mut v6) = (0, 0);
    let counts = feed::read(std::io::Cursor::new(bytes.to_vec()), |route| {
        match route.prefix {
            FeedPrefix::V4(prefix) => {
                assert!(prefix.length() <= 32);
                v4 += 1;
            }
            FeedPrefix::V6(prefix) => {
                assert!(prefix.length() <= 128);
                v6 += 1;
            }
        }
        assert!(OutputRule::NextHop.output(&route, outputs) < 7);
    });
    let _lines = feed::statics::read(std::io::Cursor::new(bytes.to_vec()), |route| {
        assert_eq!(route.next_hop.is_ipv4(), matches!(route.prefix, FeedPrefix::V4(_)));
    });
    if let Ok(counts) = counts {
        assert_eq!((counts.v4, counts.v6), (v4, v6));
    }
});
