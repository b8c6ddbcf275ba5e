//! Writes GTP-U messages: headers of G-PDUs, and whole messages of path and tunnel management.

use super::{CONTAINER_HEADER_LEN, HEADER_LEN, MessageType, OPTIONAL_LEN, element, extension, flag};
use crate::WriteError;
use scalebricks_types::{Qfi, Teid};
use std::net::IpAddr;

/// Length of an echo response, octets.
pub const ECHO_RESPONSE_LEN: usize = HEADER_LEN + OPTIONAL_LEN + 2;
/// Length of an echo request, octets.
pub const ECHO_REQUEST_LEN: usize = HEADER_LEN + OPTIONAL_LEN;
/// Length of the longest error indication (from an IPv6 peer), octets.
pub const MAX_ERROR_INDICATION_LEN: usize = HEADER_LEN + OPTIONAL_LEN + 5 + 3 + 16;

const BASE: u8 = flag::VERSION_1 | flag::PROTOCOL_TYPE;

/// The header of a G-PDU without optional fields, for `payload_len` octets of user data.
///
/// # Errors
/// [`WriteError::TooLong`] if the length does not fit its field.
#[inline]
pub fn gpdu_header(teid: Teid, payload_len: usize) -> Result<[u8; HEADER_LEN], WriteError> {
    let len = u16::try_from(payload_len).map_err(|_| WriteError::TooLong)?;
    Ok(header(BASE, MessageType::GPdu, len, teid))
}

/// The header of a G-PDU with a downlink PDU session container.
///
/// # Errors
/// [`WriteError::TooLong`] if the length does not fit its field.
#[inline]
pub fn gpdu_header_with_container(
    teid: Teid,
    qfi: Qfi,
    rqi: bool,
    payload_len: usize,
) -> Result<[u8; CONTAINER_HEADER_LEN], WriteError> {
    let len = (CONTAINER_HEADER_LEN - HEADER_LEN).saturating_add(payload_len);
    let len = u16::try_from(len).map_err(|_| WriteError::TooLong)?;
    let mut out = [0; CONTAINER_HEADER_LEN];
    out[..8].copy_from_slice(&header(BASE | flag::EXTENSION, MessageType::GPdu, len, teid));
    out[8..].copy_from_slice(&container_options(qfi, rqi));
    Ok(out)
}

/// The part of such a header after the mandatory part.
#[inline]
pub(crate) const fn container_options(qfi: Qfi, rqi: bool) -> [u8; CONTAINER_HEADER_LEN - HEADER_LEN] {
    let [a, b, c, d] = extension::downlink_container(qfi, rqi);
    [0, 0, 0, extension::kind::PDU_SESSION_CONTAINER, a, b, c, d]
}

/// The flags and the message type of a G-PDU; the flags are the low octet.
#[inline]
pub(crate) const fn gpdu_flags(has_container: bool) -> u16 {
    let flags = if has_container { BASE | flag::EXTENSION } else { BASE };
    u16::from_le_bytes([flags, MessageType::GPdu.number()])
}

/// An echo request (TS 29.281 §7.2.1). S is set and the TEID is 0, as in all path messages (§5.1).
pub fn echo_request(sequence: u16) -> [u8; ECHO_REQUEST_LEN] {
    path_header(MessageType::EchoRequest, sequence, 0)
}

/// The answer to an echo request with this sequence number (TS 29.281 §7.2.2), with the mandatory recovery element of
/// value 0.
pub fn echo_response(sequence: u16) -> [u8; ECHO_RESPONSE_LEN] {
    let mut out = [0; ECHO_RESPONSE_LEN];
    out[..12].copy_from_slice(&path_header(MessageType::EchoResponse, sequence, 2));
    out[12] = element::kind::RECOVERY;
    out
}

/// Writes an error indication (TS 29.281 §7.3.1): this node has no tunnel for a G-PDU with `teid` to its address `peer`.
/// Returns its length, 24 (IPv4) or 36 octets.
///
/// # Errors
/// [`WriteError::NoRoom`].
pub fn error_indication(out: &mut [u8], teid: Teid, peer: IpAddr) -> Result<usize, WriteError> {
    let mut message = [0; MAX_ERROR_INDICATION_LEN];
    let (address_len, address) = match peer {
        IpAddr::V4(v4) => (4u8, widened(v4.octets())),
        IpAddr::V6(v6) => (16, v6.octets()),
    };
    let len = MAX_ERROR_INDICATION_LEN - 16 + usize::from(address_len);
    let elements_len = 8 + u16::from(address_len);
    message[..12].copy_from_slice(&path_header(MessageType::ErrorIndication, 0, elements_len));
    message[12] = element::kind::TEID_DATA_I;
    message[13..17].copy_from_slice(&teid.get().to_be_bytes());
    message[17..20].copy_from_slice(&[element::kind::PEER_ADDRESS, 0, address_len]);
    message[20..].copy_from_slice(&address);
    put(out, &message[..len])
}

/// Writes a supported extension headers notification (TS 29.281 §7.2.3) that lists `kinds`. Returns its length.
///
/// # Errors
/// [`WriteError::NoRoom`]; [`WriteError::TooLong`] for more than 255 types.
pub fn supported_extension_headers(out: &mut [u8], sequence: u16, kinds: &[u8]) -> Result<usize, WriteError> {
    let count = u8::try_from(kinds.len()).map_err(|_| WriteError::TooLong)?;
    let fixed = path_header(MessageType::SupportedExtensionHeaders, sequence, 2 + u16::from(count));
    let (head, list) = out.split_first_chunk_mut::<14>().ok_or(WriteError::NoRoom)?;
    put(list, kinds)?;
    head[..12].copy_from_slice(&fixed);
    head[12..].copy_from_slice(&[element::kind::EXTENSION_HEADER_TYPES, count]);
    Ok(head.len() + kinds.len())
}

/// The mandatory part, and with S set the optional part, before `elements_len` octets; TEID 0 (TS 29.281 §5.1).
fn path_header(message: MessageType, sequence: u16, elements_len: u16) -> [u8; HEADER_LEN + OPTIONAL_LEN] {
    let mut out = [0; HEADER_LEN + OPTIONAL_LEN];
    let len = OPTIONAL_LEN as u16 + elements_len;
    out[..8].copy_from_slice(&header(BASE | flag::SEQUENCE, message, len, Teid::new(0)));
    out[8..10].copy_from_slice(&sequence.to_be_bytes());
    out
}

#[inline]
const fn header(flags: u8, message: MessageType, len: u16, teid: Teid) -> [u8; HEADER_LEN] {
    let ([l0, l1], [t0, t1, t2, t3]) = (len.to_be_bytes(), teid.get().to_be_bytes());
    [flags, message.number(), l0, l1, t0, t1, t2, t3]
}

fn widened([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

fn put(out: &mut [u8], bytes: &[u8]) -> Result<usize, WriteError> {
    out.get_mut(..bytes.len()).ok_or(WriteError::NoRoom)?.copy_from_slice(bytes);
    Ok(bytes.len())
}
