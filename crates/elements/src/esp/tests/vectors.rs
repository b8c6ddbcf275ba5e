//! Packets of RFCs and test vectors of the algorithms.

use super::super::sa::{Keys, Secret};
use super::super::suite::Cipher;
use zeroize::Zeroizing;

fn octets(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn secret<const N: usize>(digits: &str) -> Secret<N> {
    Secret(Zeroizing::new(octets(digits).try_into().unwrap()))
}

/// draft-mcgrew-gcm-test-01, whose vectors show RFC 4106: an ESP packet as key and salt, SPI and sequence number (with
/// high bits if extended), IV, plaintext, and ciphertext with ICV.
fn gcm(key: &str, header: &str, sequence: u64, is_extended: bool, iv: &str, plain: &str, sealed: &str) {
    let cipher = Cipher::new(&Keys::AesGcm(secret(key))).unwrap();
    let mut packet = [octets(header), octets(iv), octets(plain), vec![0; 16]].concat();
    let clear = packet.clone();
    cipher.seal(&mut packet, sequence, is_extended).unwrap();
    assert_eq!(packet[16..], octets(sealed));
    for at in 0..packet.len() {
        let mut forged = packet.clone();
        forged[at] ^= 4;
        assert!(cipher.open(&mut forged, sequence, is_extended).is_err(), "octet {at}");
    }
    cipher.open(&mut packet, sequence, is_extended).unwrap();
    assert_eq!(packet[..clear.len() - 16], clear[..clear.len() - 16]);
}

#[test]
fn gcm_encrypts_as_in_its_draft() {
    gcm(
        "4c80cdefbb5d10da906ac73c3613a634 2e443b68",
        "00004321 00000000",
        0x8765_4321_0000_0000,
        true,
        "4956ed7e3b244cfe",
        "45000048 699a0000 80114db7 c0a80102 c0a80101 0a9bf156 38d30100 00010000 00000000 045f736970045f75 6470 0373 6970 \
         0963 7962 6572 6369 7479 02 64 6b 00 0021 0001 01020201",
        "fecf537e 729d5b07 dc30df52 8dd22b76 8d1b9873 6696a6fd 348509fa 13ceac34 cfa2436f 14a3f3cf 65925bf1 f4a13c5d \
         15b21e18 84f5ff62 47aeabb7 86b93bce 61bc17d7 68fd9732 459018148f6cbe72 2fd04796562dfdb4",
    );
}

/// RFC 3602 §4: a key, an IV, plaintext of whole blocks, and ciphertext.
#[test]
fn cbc_encrypts_as_in_rfc_3602() {
    for (key, iv, plain, expected) in [
        (
            "06a9214036b8a15b512e03d534120006",
            "3dafba429d9eb430b422da802c9fac41",
            b"Single block msg".to_vec(),
            "e353779c1079aeb82708942dbe77181a",
        ),
        (
            "c286696d887c9aa0611bbb3e2025a45a",
            "562e17996d093d28ddb3ba695a2e6f58",
            (0..32).collect(),
            "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
        ),
    ] {
        let cipher =
            Cipher::new(&Keys::AesCbcSha1 { key: secret(key), auth_key: secret(&"0c".repeat(20)) }).unwrap();
        let mut packet = [vec![7; 8], octets(iv), plain.clone(), vec![0; 12]].concat();
        cipher.seal(&mut packet, 0, false).unwrap();
        assert_eq!(packet[24..24 + plain.len()], octets(expected));
        for at in 0..packet.len() {
            let mut forged = packet.clone();
            forged[at] ^= 4;
            assert!(cipher.open(&mut forged, 0, false).is_err(), "octet {at}");
        }
        assert!(cipher.open(&mut packet.clone(), 1 << 32, true).is_err(), "with high bits");
        cipher.open(&mut packet, 0, false).unwrap();
        assert_eq!(packet[24..24 + plain.len()], plain);
    }
}

#[test]
fn packets_too_short_or_not_padded_are_refused() {
    let gcm = Cipher::new(&Keys::AesGcm(secret(&"00".repeat(20)))).unwrap();
    let cbc =
        Cipher::new(&Keys::AesCbcSha1 { key: secret(&"00".repeat(16)), auth_key: secret(&"00".repeat(20)) })
            .unwrap();
    for len in 0..200 {
        let (seals_gcm, seals_cbc) = (len >= 32, len >= 36 && (len - 36) % 16 == 0);
        assert_eq!(gcm.seal(&mut vec![0; len], 1, true).is_ok(), seals_gcm, "{len}");
        assert_eq!(cbc.seal(&mut vec![0; len], 1, true).is_ok(), seals_cbc, "{len}");
        assert!(
            gcm.open(&mut vec![0; len], 1, true).is_err() && cbc.open(&mut vec![0; len], 1, true).is_err()
        );
    }
}
