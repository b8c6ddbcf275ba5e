//! The file of associations.

use super::super::file::{FileError, parse};
use super::super::sa::{Keys, OuterDf, Suite};
use super::{AUTH_KEY, CBC_KEY, GCM_KEY, sa, section};
use proptest::prelude::*;

#[test]
fn sections_are_read_with_defaults() {
    let gcm = sa(true, false, "");
    assert_eq!((&*gcm.name, gcm.spi.get(), gcm.suite(), gcm.window), ("a", 0x1001, Suite::AesGcm, 1_024));
    assert_eq!((gcm.mtu, gcm.ttl, gcm.dscp, gcm.df, gcm.esn), (1_500, 64, None, OuterDf::Copy, false));
    let Keys::AesGcm(key) = &gcm.keys else { panic!("of GCM") };
    assert_eq!((key.0[0], key.0[19]), (0, 0x13));
    let cbc = sa(false, true, "udp = {}\nhard = { packets = 9 }\ndf = \"clear\"");
    assert_eq!(
        (cbc.suite(), cbc.udp.map(|udp| (udp.src, udp.dst))),
        (Suite::AesCbcSha1, Some((4_500, 4_500)))
    );
    assert_eq!((cbc.hard.packets, cbc.hard.bytes, cbc.soft.packets), (9, u64::MAX, u64::MAX));
}

#[test]
fn the_inner_mtu_is_the_longest_that_fits() {
    for is_gcm in [false, true] {
        for is_v6 in [false, true] {
            for lines in ["", "udp = {}", "mtu = 1503", "mtu = 576"] {
                let sa = sa(is_gcm, is_v6, lines);
                let longest = sa.inner_mtu();
                assert!(sa.packet_len(longest) <= usize::from(sa.mtu), "{sa:?}");
                assert!(sa.packet_len(longest + 1) > usize::from(sa.mtu), "{sa:?}");
            }
        }
    }
}

#[test]
fn wrong_sections_are_named_with_their_keys() {
    let with = |from: &str, to: &str| section("a", true, false, "").replace(from, to);
    for (text, expected) in [
        (section("a", true, false, "mtu = 100"), "[[sa]] \"a\": mtu: at least 576"),
        (section("a", true, false, "window = 8"), "window: 32 to"),
        (section("a", true, false, "ttl = 0"), "ttl: at least 1"),
        (section("a", true, false, "dscp = 64"), "dscp: below 64"),
        (section("a", true, false, "df = \"x\""), "df: copy, set or clear"),
        (section("a", true, false, "fd = 1"), "line 9: unknown field `fd`"),
        (section("a", true, false, "soft = { octets = 1 }"), "unknown field `octets`"),
        (section("a", true, false, &format!("auth_key = \"{AUTH_KEY}\"")), "auth_key: aes-128-gcm has none"),
        (section("a b", true, false, ""), "name: 1 to 64"),
        (section("a", true, false, "") + &section("a", false, true, ""), "name: given to another"),
        (
            section("a", true, false, "") + &section("b", false, false, ""),
            "spi: 0x1001 to 192.0.2.2 is that of",
        ),
        (with("0x1001", "255"), "spi: 255 is below 256"),
        (with("0x1001", "\"x\""), "line 3: invalid type"),
        (with("gcm", "ctr"), "suite: aes-128-gcm or"),
        (with("192.0.2.2", "2001:db8::1"), "dst: 2001:db8::1 is not of the IP version"),
        (with("192.0.2.2", "192.0.2.256"), "line 7: "),
        (with("dst = \"10.0.0.0/16\"", "dst = \"2001:db8::/32\""), "selectors: 10.0.0.0/16 and"),
        (with("10.0.0.0/16", "10.0.0.1/16"), "selectors: 10.0.0.1/16 has bits"),
        (with("spi = 0x1001\n", ""), "missing field `spi`"),
        (with(GCM_KEY, &GCM_KEY[2..]), "key: 20 octets expected (key and salt), 19 given"),
        (with(GCM_KEY, &GCM_KEY[1..]), "line 5: a key has two digits"),
        (
            section("a", false, false, "").replace(&format!("auth_key = \"{AUTH_KEY}\"\n"), ""),
            "auth_key: missing",
        ),
        (String::new(), "missing field `sa`"),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, not {expected}");
    }
}

/// The two directions of a tunnel, and others, with one key in common; whatever suite and salt.
#[test]
fn associations_that_share_a_key_are_refused_by_their_names() {
    let other = |name: &str, is_gcm| section(name, is_gcm, false, "").replace("0x1001", "0x1002");
    let shared = |key| Err(FileError::SharedKey { name: "b".to_owned(), key, other: "a".to_owned() });
    let gcm = section("a", true, false, "");
    assert_eq!(parse(&(gcm.clone() + &other("b", true))), shared("key"));
    let salt = |text: String| text.replace(GCM_KEY, &(GCM_KEY[..32].to_owned() + "ffffffff"));
    assert_eq!(parse(&(gcm.clone() + &salt(other("b", true)))), shared("key"));
    let cbc = section("a", false, false, "");
    assert_eq!(parse(&(cbc.clone() + &other("b", false))), shared("key"));
    assert_eq!(
        parse(&(cbc.clone() + &other("b", false).replace(CBC_KEY, &GCM_KEY[..32]))),
        shared("auth_key")
    );
    assert_eq!(parse(&(gcm.clone() + &other("b", false).replace(CBC_KEY, &GCM_KEY[..32]))), shared("key"));
    // Another association between them, and capital letters.
    let between = other("c", false).replace("0x1002", "0x1003");
    let error =
        parse(&(gcm.clone() + &between + &other("b", true).replace(GCM_KEY, &GCM_KEY.to_uppercase())));
    let error = error.unwrap_err();
    assert_eq!(Err::<Vec<_>, _>(error.clone()), shared("key"));
    assert!(
        error.to_string().starts_with("[[sa]] \"b\": key: is the same as that of [[sa]] \"a\""),
        "{error}"
    );
    let differ = gcm + &other("b", true).replace(&GCM_KEY[..2], "ff");
    assert_eq!(parse(&(differ + &between)).unwrap().len(), 3);
}

#[test]
fn neither_errors_nor_debug_output_have_keys() {
    let digits = GCM_KEY.replace(|c: char| !c.is_ascii_digit(), "");
    for value in ["hunter2", &format!("{GCM_KEY}hunter2"), "hunter2 = 7"] {
        let error = parse(&section("a", true, false, "").replace(GCM_KEY, value)).unwrap_err().to_string();
        assert!(!error.contains("hunter2") && !error.contains(&digits[..8]), "{error}");
    }
    for value in
        ["271828182", "2.71828182", "271828182271828182271828182", "[271828182]", "{ a = 271828182 }"]
    {
        let text = section("a", true, false, "").replace(&format!("\"{GCM_KEY}\""), value);
        let error = parse(&text).unwrap_err().to_string();
        assert!(!error.contains("71828182"), "{error}");
    }
    let shown = format!("{:?} {:?}", sa(true, false, ""), sa(false, false, ""));
    assert!(shown.contains("Secret") && !shown.contains("18, 19") && !shown.contains(CBC_KEY), "{shown}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(at: prop::sample::Index, edit in "[a-z0-9=\\[\\]\"{}., \n]{0,6}", cut in 0..9usize) {
        let mut text = section("a", false, true, "udp = { src = 1 }");
        let start = at.index(text.len());
        text.replace_range(start..text.len().min(start + cut), &edit);
        let _ = parse(&text);
        let _ = parse(&edit);
    }
}
