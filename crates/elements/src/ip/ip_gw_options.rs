//! `IPGWOptions`.

use crate::columns::IpHeader;
use crate::shared_names::drops;
use crate::side_output::SideOutput;
use crate::values::{Ip, Ips};
use crate::{annotations, header};
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ipv4::MIN_HEADER_LEN;
use std::net::Ipv4Addr;
use std::time::Duration;

element! {
    /// Processes the IPv4 options that every router must process: Record Route and Timestamp (RFC 791 §3.1, RFC 1812
    /// §4.2.2.2). It does no source routing. Timestamps count milliseconds from the worker's start and are marked as
    /// non-standard time, as RFC 791 allows. A packet with a malformed option goes to output 1, and the offset of the
    /// wrong octet is recorded for `ICMPError`.
    pub struct IPGWOptions as "IPGWOptions" { own: RouterAddresses, side: SideOutput, }
    inputs { agnostic "in": "IPv4 packets.", }
    outputs {
        agnostic "out": "Packets with their options processed.",
        push "malformed" [Optional]: "Packets with malformed options; dropped if unconnected.",
    }
    params IPGWOptionsParams {
        /// The address of the outgoing interface.
        myaddr: Ip,
        /// The router's other addresses.
        otheraddrs: Option<Ips> = None,
    }
    example { "10.0.0.1", }
    reads { IpHeader, }
    drops {
        MALFORMED = "bad_option": "An option is malformed, or has no room for the record.",
        NO_HEADER = drops::NO_HEADER,
    }
    counters {
        DROPS = "drops": "Packets with malformed options.",
        RECORDED = "recorded": "Packets in which something was recorded.",
    }
    binds { side, }
    makes |params| {
        let own = RouterAddresses::new(params.myaddr.0, params.otheraddrs.unwrap_or_default().0);
        Self { own, side: SideOutput::default() }
    },
}

/// The addresses that a router writes into options.
#[derive(Debug)]
pub(crate) struct RouterAddresses {
    preferred: Ipv4Addr,
    others: Vec<Ipv4Addr>,
}

/// The index of the wrong octet of an option or a header.
type BadOctet = usize;

const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;

impl RouterAddresses {
    pub(crate) const fn new(preferred: Ipv4Addr, others: Vec<Ipv4Addr>) -> Self {
        Self { preferred, others }
    }

    /// Processes the options of a packet. `Ok(false)` if there was nothing to do.
    #[inline]
    pub(crate) fn apply<P: PacketBuf>(
        &self,
        packet: &mut P,
        meta: &mut Meta,
        now: Duration,
    ) -> Result<bool, OptionsError> {
        match header::bytes(packet.data(), meta).first_chunk::<MIN_HEADER_LEN>() {
            Some([first, ..]) if first & 0xf == 5 => Ok(false),
            _ => self.apply_all(packet, meta, now),
        }
    }

    /// The same for a packet that may have options.
    #[inline(never)]
    fn apply_all<P: PacketBuf>(
        &self,
        packet: &mut P,
        meta: &mut Meta,
        now: Duration,
    ) -> Result<bool, OptionsError> {
        let header = header::whole_mut(packet.data_mut(), meta).ok_or(OptionsError::NoHeader)?;
        if header.len() == MIN_HEADER_LEN {
            return Ok(false);
        }
        match self.options(header, now) {
            Ok(is_changed) => {
                if is_changed {
                    header::sum(header);
                }
                Ok(is_changed)
            }
            Err(wrong) => {
                annotations::note_problem(meta, wrong as u8); // below 60
                Err(OptionsError::Malformed)
            }
        }
    }

    fn options(&self, header: &mut [u8], now: Duration) -> Result<bool, BadOctet> {
        let (mut at, mut is_changed) = (MIN_HEADER_LEN, false);
        while let Some(&kind) = header.get(at) {
            match kind {
                0 => break,
                1 => at += 1,
                _ => {
                    let len = usize::from(*header.get(at + 1).ok_or(at)?);
                    let option = header.get_mut(at..at + len).filter(|_| len >= 2).ok_or(at + 1)?;
                    let done = match kind {
                        RECORD_ROUTE => self.record_route(option),
                        TIMESTAMP => self.timestamp(option, now),
                        _ => Ok(false),
                    };
                    is_changed |= done.map_err(|wrong| at + wrong)?;
                    at += len;
                }
            }
        }
        Ok(is_changed)
    }

    /// Kind, length, pointer (1 being the kind), addresses.
    fn record_route(&self, option: &mut [u8]) -> Result<bool, BadOctet> {
        let pointer = usize::from(*option.get(2).ok_or(1usize)?);
        if pointer < 4 {
            return Err(2);
        }
        let own = self.preferred.octets();
        record(option, pointer, &own)
    }

    /// Kind, length, pointer, overflow and flag, entries.
    fn timestamp(&self, option: &mut [u8], now: Duration) -> Result<bool, BadOctet> {
        const OVERFLOW_AND_FLAG: usize = 3;
        let &[_, _, pointer, overflow_and_flag, ..] = &*option else { return Err(1) };
        let pointer = usize::from(pointer);
        if pointer < 5 {
            return Err(2);
        }
        // The high bit marks non-standard time.
        let time = (now.as_millis() as u32 | 1 << 31).to_be_bytes();
        let own = self.preferred.octets();
        let is_recorded = match overflow_and_flag & 0xf {
            0 => record(option, pointer, &time)?,
            1 => record(option, pointer, &[own, time].concat())?,
            3 => {
                let place = option.get(pointer - 1..).and_then(<[u8]>::first_chunk);
                let is_own = place.is_some_and(|place: &[u8; 4]| {
                    *place == own || self.others.contains(&Ipv4Addr::from(*place))
                });
                let entry = [place.copied().unwrap_or_default(), time].concat();
                return if is_own || pointer + 7 > option.len() {
                    record(option, pointer, &entry)
                } else {
                    Ok(false)
                };
            }
            _ => return Err(OVERFLOW_AND_FLAG),
        };
        if !is_recorded {
            let more = overflow_and_flag.checked_add(0x10).ok_or(OVERFLOW_AND_FLAG)?;
            option[OVERFLOW_AND_FLAG] = more;
        }
        Ok(true)
    }
}

/// Writes an entry at the pointer and advances the pointer. `Ok(false)` if the option is full; an error if there is
/// some room, but not enough.
fn record(option: &mut [u8], pointer: usize, entry: &[u8]) -> Result<bool, BadOctet> {
    let at = pointer - 1;
    if at >= option.len() {
        return Ok(false);
    }
    option.get_mut(at..at + entry.len()).ok_or(2usize)?.copy_from_slice(entry);
    option[2] = (pointer + entry.len()) as u8; // at most 41
    Ok(true)
}

/// Why options were not processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionsError {
    Malformed,
    NoHeader,
}

impl Control for IPGWOptions {}

impl<P: PacketBuf> PerPacket<P> for IPGWOptions {
    #[inline]
    fn each(&mut self, packet: &mut P, meta: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        match self.own.apply(packet, meta, tally.turn().now) {
            Ok(is_recorded) => tally.count(Self::RECORDED, u64::from(is_recorded)),
            Err(OptionsError::Malformed) => {
                tally.count(Self::DROPS, 1);
                return self.side.verdict(Self::MALFORMED);
            }
            Err(OptionsError::NoHeader) => return Verdict::Drop(Self::NO_HEADER),
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, ipv4, ipv4_with_options};
    use proptest::prelude::*;

    fn router() -> RouterAddresses {
        RouterAddresses::new([10, 0, 0, 9].into(), vec![[10, 0, 1, 9].into()])
    }

    /// The options after a router at 1 ms.
    fn after(options: &[u8]) -> Result<Vec<u8>, BadOctet> {
        let mut header = ipv4_with_options(options, b"");
        let is_changed = router().options(&mut header, Duration::from_millis(1))?;
        assert_eq!(is_changed, header[20..] != *options);
        Ok(header[20..].to_vec())
    }

    const TIME: [u8; 4] = [0x80, 0, 0, 1];

    #[test]
    fn routes_are_recorded_until_the_option_is_full() {
        assert_eq!(after(&[1, 7, 7, 4, 0, 0, 0, 0]), Ok(vec![1, 7, 7, 8, 10, 0, 0, 9]));
        assert_eq!(after(&[7, 7, 8, 1, 2, 3, 4, 0]), Ok(vec![7, 7, 8, 1, 2, 3, 4, 0]));
        assert_eq!(after(&[7, 7, 5, 1, 2, 3, 4, 0]), Err(22), "room for three octets");
        assert_eq!(after(&[7, 7, 3, 1, 2, 3, 4, 0]), Err(22));
        assert_eq!(after(&[1, 7, 2, 0]), Err(22), "no pointer");
        // Nothing after the end of options is read, and other options are not changed.
        assert_eq!(after(&[0, 7, 0, 0]), Ok(vec![0, 7, 0, 0]));
        assert_eq!(after(&[0x83, 3, 4, 1]), Ok(vec![0x83, 3, 4, 1]));
    }

    #[test]
    fn lengths_must_fit() {
        assert_eq!(after(&[1, 1, 1, 7]), Err(23), "the length is missing");
        assert_eq!(after(&[7, 1, 4, 0]), Err(21));
        assert_eq!(after(&[9, 5, 4, 0]), Err(21));
        assert_eq!(after(&[68, 3, 5, 0]), Err(21), "no flags");
    }

    #[test]
    fn timestamps_are_recorded_as_the_flag_says() {
        let stamps = |head: [u8; 4], rest: &[u8]| after(&[&head, rest].concat());
        let expected = |head: [u8; 4], rest: &[&[u8]]| Ok([&head[..], &rest.concat()].concat());
        assert_eq!(stamps([68, 8, 5, 0], &[0; 4]), expected([68, 8, 9, 0], &[&TIME]));
        assert_eq!(stamps([68, 12, 5, 1], &[0; 8]), expected([68, 12, 13, 1], &[&[10, 0, 0, 9], &TIME]));
        let mine = [10, 0, 1, 9, 0, 0, 0, 0];
        assert_eq!(stamps([68, 12, 5, 3], &mine), expected([68, 12, 13, 3], &[&mine[..4], &TIME]));
        let other = [10, 0, 2, 9, 0, 0, 0, 0];
        assert_eq!(stamps([68, 12, 5, 3], &other), expected([68, 12, 5, 3], &[&other]));
        // Full: others are counted, but not where addresses are given.
        assert_eq!(stamps([68, 8, 9, 0xe0], &[7; 4]), expected([68, 8, 9, 0xf0], &[&[7; 4]]));
        assert_eq!(stamps([68, 8, 9, 0xf0], &[7; 4]), Err(23));
        assert_eq!(stamps([68, 12, 13, 3], &mine), expected([68, 12, 13, 3], &[&mine]));
        assert_eq!((stamps([68, 8, 4, 0], &[0; 4]), stamps([68, 8, 6, 0], &[0; 4])), (Err(22), Err(22)));
        assert_eq!((stamps([68, 8, 5, 1], &[0; 4]), stamps([68, 8, 5, 3], &[0; 4])), (Err(22), Err(22)));
        assert_eq!(stamps([68, 8, 5, 2], &[0; 4]), Err(23));
    }

    #[test]
    fn malformed_options_are_told_or_dropped() {
        for ends in [1, 2] {
            let mut rig = Rig::new(ends, |builder| {
                builder.declare("m", "MarkIPHeader", &[]).declare(
                    "g",
                    "IPGWOptions",
                    &["10.0.0.9", "10.0.1.9 10.0.2.9"],
                );
                builder.chain(&["in", "m", "g", "out0"]);
                if ends == 2 {
                    builder.connect("g", 1, "out1", 0);
                }
            });
            rig.send([
                ipv4(9, b""),
                ipv4_with_options(&[7, 7, 4, 0, 0, 0, 0, 0], b"x"),
                ipv4_with_options(&[1, 7, 9, 9], b""),
            ]);
            rig.turn();
            let recorded = ipv4_with_options(&[7, 7, 8, 10, 0, 0, 9, 0], b"x");
            assert_eq!(rig.got(0), [ipv4(9, b""), recorded]);
            assert_eq!(
                ["drops", "bad_option", "recorded"].map(|name| rig.number("g", name)),
                [1, [1, 0][ends - 1], 1]
            );
            if ends == 2 {
                assert_eq!(annotations::problem(&rig.noted(1)[0].1), 22);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn any_options_are_processed_or_their_wrong_octet_is_told(
            options in prop::collection::vec(prop_oneof![Just(7u8), Just(68), 0..12u8, any::<u8>()], 4..=40),
        ) {
            let options = &options[..options.len() / 4 * 4];
            match after(options) {
                Ok(done) => prop_assert_eq!(done.len(), options.len()),
                Err(wrong) => prop_assert!((20..20 + options.len()).contains(&wrong)),
            }
        }
    }
}
