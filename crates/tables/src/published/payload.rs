//! The common header of delta payloads, and which generations a delta changes.
//!
//! | field | bits |
//! |---|---|
//! | [fingerprint](super::TableParams::fingerprint) of the shape that it starts from | 32 |
//! | does it reshape the partition, or hold all of it? | 1 |
//! | *if so:* the new parameters | 8 x their bytes |
//! | *and, unless partitions are reshaped whole:* units of the old shape that are then in the new | 32 |
//!
//! If all of a partition is in one shape, both the fingerprint and the parameters are those of that shape.
//! Sections follow: the changes to units of the old shape, then those to units of the new shape. Each
//! structure has its own section format; numbers are in strictly ascending order, and the rest of the last
//! byte is 0.

use super::generation::Generations;
use super::{TableParams, Units, check_shapes};
use crate::bits::{BitReader, BitWriter};
use scalebricks_types::{ApplyError, PartitionId};

/// A partition that is being reshaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reshaping<P> {
    /// The new shape.
    pub(crate) to: P,
    /// Number of units of the old shape that are looked up in the new shape: the first ones of the partition.
    pub(crate) done: u32,
}

/// Which generations a payload changes.
#[derive(Debug)]
pub(super) struct PayloadPlan<P> {
    /// The shape to which reshaping must begin first.
    pub(super) begin: Option<P>,
    /// Whether it has a section for the old shape; `new` says the same of the new shape.
    pub(super) old: bool,
    pub(super) new: bool,
    /// Number of units of the old shape that are looked up in the new shape afterwards.
    pub(super) done: u32,
}

pub(crate) const fn malformed<T>(what: &'static str) -> Result<T, ApplyError> {
    Err(ApplyError::Malformed(what))
}

/// The next `count` bits of a payload.
#[inline]
pub(crate) fn take(bits: &mut BitReader<'_>, count: u32) -> Result<u64, ApplyError> {
    bits.take(count).ok_or(ApplyError::Malformed("truncated"))
}

/// Writes the header of a payload.
#[inline]
pub(crate) fn put_header<S: Units>(
    bits: &mut BitWriter,
    fingerprint: u32,
    reshaping: Option<Reshaping<S::Params>>,
) {
    bits.put(u64::from(fingerprint) | u64::from(reshaping.is_some()) << 32, 33);
    if let Some(reshaping) = reshaping {
        put_reshaping::<S>(bits, reshaping);
    }
}

#[inline(never)]
fn put_reshaping<S: Units>(bits: &mut BitWriter, Reshaping { to, done }: Reshaping<S::Params>) {
    to.encode().as_ref().iter().for_each(|&byte| bits.put(byte.into(), 8));
    if !S::WHOLE_PARTITIONS {
        bits.put(done.into(), 32);
    }
}

/// The header of a payload.
pub(super) struct PayloadHeader<'a, P> {
    pub(super) fingerprint: u32,
    /// The target of the reshaping, if the payload has parameters.
    pub(super) reshaping: Option<Reshaping<P>>,
    /// The bits after the header.
    pub(super) bits: BitReader<'a>,
}

impl<'a, P: TableParams> PayloadHeader<'a, P> {
    #[inline]
    pub(super) fn read<S: Units<Params = P>>(payload: &'a [u8]) -> Result<Self, ApplyError> {
        let Some((fingerprint, rest)) = payload.split_first_chunk::<4>() else {
            return malformed("shorter than its fingerprint");
        };
        let (fingerprint, mut bits) = (u32::from_le_bytes(*fingerprint), BitReader::new(rest));
        let mut reshaping = None;
        if take(&mut bits, 1)? == 1 {
            reshaping = Some(take_reshaping::<S>(&mut bits, fingerprint)?);
        }
        Ok(Self { fingerprint, reshaping, bits })
    }
}

#[inline(never)]
fn take_reshaping<S: Units>(
    bits: &mut BitReader<'_>,
    fingerprint: u32,
) -> Result<Reshaping<S::Params>, ApplyError> {
    let mut encoded = <S::Params as TableParams>::Bytes::default();
    for byte in encoded.as_mut() {
        *byte = take(bits, 8)? as u8;
    }
    let Some(Ok(to)) = S::Params::decode(&encoded) else {
        return malformed("impossible parameters");
    };
    let done = if !S::WHOLE_PARTITIONS {
        take(bits, 32)? as u32
    } else if to.fingerprint() == fingerprint {
        to.units_per_partition()
    } else {
        return malformed("parameters of another fingerprint");
    };
    Ok(Reshaping { to, done })
}

impl<S: Units> Generations<S> {
    /// Computes which generations a payload with this header changes.
    #[inline]
    pub(super) fn plan(
        &self,
        fingerprint: u32,
        reshaping: Option<Reshaping<S::Params>>,
        partition: PartitionId,
    ) -> Result<PayloadPlan<S::Params>, ApplyError> {
        let (now, done) = (&self.now.params, self.done(partition));
        let each = now.units_per_partition();
        let plan = |begin, old, new, done| Ok(PayloadPlan { begin, old, new, done });
        // The whole partition in one shape, as in an export.
        let one = reshaping.is_none_or(|reshaping| reshaping.to.fingerprint() == fingerprint);
        if one && fingerprint == self.now.fingerprint {
            return if done == 0 { plan(None, true, false, 0) } else { malformed("back to the old shape") };
        }
        if self.next.as_ref().is_some_and(|next| one && fingerprint == next.generation.fingerprint) {
            let known = done == each || reshaping.is_some();
            return if known { plan(None, false, true, each) } else { malformed("ahead of its reshaping") };
        }
        let Some(Reshaping { to, done: upto }) = reshaping else {
            return malformed("made with other parameters");
        };
        let upto = if one { each } else { upto };
        if !one && fingerprint != self.now.fingerprint || check_shapes::<S>(now, &to).is_err() {
            return malformed("made with other parameters");
        }
        if upto < done || upto > each {
            return malformed("reshaped backwards, or beyond its end");
        }
        match &self.next {
            Some(next) if next.generation.params != to => malformed("the last reshaping is not finished"),
            Some(_) => plan(None, !one, true, upto),
            None => plan(Some(to), !one, true, upto),
        }
    }
}
