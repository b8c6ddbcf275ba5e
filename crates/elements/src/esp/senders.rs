//! The associations that an element sends by.

use super::inner::Inner;
use super::load::is_same;
use super::outbound::{Outbound, SealError, Sealing};
use super::sa::Sa;
use crate::IPsecEncap;
use arrayvec::ArrayVec;
use rand::SeedableRng;
use rand::rngs::StdRng;
use ring::rand::{SecureRandom, SystemRandom};
use scalebricks_graph::DropId;
use scalebricks_io::PacketBuf;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is encrypted, by the association of this number; its inner packet has this length.
    Sealed(usize, usize),
    /// It would become longer than the association's MTU. It is unchanged.
    TooBig,
    /// It must be dropped.
    Drop(DropId),
}

/// Associations in order of preference.
#[derive(Debug, Default)]
pub(crate) struct Senders(Vec<Sender>);

#[derive(Debug)]
struct Sender {
    end: Outbound,
    inner_mtu: usize,
    /// Its packets of a burst.
    sealings: Vec<Sealing>,
}

const fn reason(error: SealError) -> DropId {
    match error {
        SealError::Expired => IPsecEncap::EXPIRED,
        SealError::Exhausted => IPsecEncap::EXHAUSTED,
        SealError::TooLong => IPsecEncap::LONG,
        SealError::NoRoom => IPsecEncap::NO_ROOM,
    }
}

impl Senders {
    pub(crate) fn new(associations: Vec<Sa>) -> Result<Self, String> {
        let make = |sa| {
            let mut seed = [0; 32];
            SystemRandom::new().fill(&mut seed).map_err(|_| "the system has no random numbers")?;
            let end = Outbound::new(sa, StdRng::from_seed(seed)).ok_or("a key was refused")?;
            let inner_mtu = end.sa().inner_mtu();
            Ok(Sender { end, inner_mtu, sealings: Vec::new() })
        };
        associations.into_iter().map(make).collect::<Result<_, String>>().map(Self)
    }

    /// Their sending ends.
    pub(crate) fn ends(&self) -> impl Iterator<Item = &Outbound> {
        self.0.iter().map(|sender| &sender.end)
    }

    /// The association of this number.
    #[inline]
    pub(crate) fn sa(&self, at: usize) -> &Sa {
        self.0[at].end.sa()
    }

    /// Those whose soft lifetime is over.
    pub(crate) fn ageing(&self) -> u64 {
        self.ends().filter(|end| end.is_ageing()).count() as u64
    }

    /// Continues those of `before` that are the same.
    pub(crate) fn continue_from(&mut self, before: &mut Self) {
        for sender in &mut self.0 {
            if let Some(same) = before.0.iter_mut().find(|other| is_same(sender.end.sa(), other.end.sa())) {
                sender.end.continue_from(&mut same.end);
            }
        }
    }

    /// The first association for a packet, and whether the packet fits its MTU.
    #[inline]
    pub(crate) fn choose(&self, inner: &Inner) -> Option<(usize, bool)> {
        let at = self.0.iter().position(|sender| sender.end.sa().selects(inner.src, inner.dst))?;
        Some((at, inner.len <= self.0[at].inner_mtu))
    }

    /// Encrypts packets, and appends what becomes of each.
    ///
    /// # Panics
    /// If `fates` has too little room.
    #[inline]
    pub(crate) fn seal<P: PacketBuf, const N: usize>(
        &mut self,
        packets: &mut [P],
        fates: &mut ArrayVec<Fate, N>,
    ) {
        let first = fates.len();
        for (at, packet) in packets.iter().enumerate() {
            fates.push(match Inner::read(packet.data()) {
                Err(_) => Fate::Drop(IPsecEncap::MALFORMED),
                Ok(inner) => self.add(at, inner),
            });
        }
        self.seal_added(packets, &mut fates[first..]);
    }

    /// Notes that the packet at this place is to be encrypted; returns what becomes of it unless an error says otherwise.
    #[inline]
    pub(crate) fn add(&mut self, at: usize, inner: Inner) -> Fate {
        match self.choose(&inner) {
            None => Fate::Drop(IPsecEncap::NO_SA),
            Some((_, false)) => Fate::TooBig,
            Some((sender, true)) => {
                self.0[sender].sealings.push(Sealing { at, inner, result: Ok(()) });
                Fate::Sealed(sender, inner.len)
            }
        }
    }

    /// Encrypts the packets that were added, and changes the fates of those that have an error.
    #[inline]
    pub(crate) fn seal_added<P: PacketBuf>(&mut self, packets: &mut [P], fates: &mut [Fate]) {
        for sender in self.0.iter_mut().filter(|sender| !sender.sealings.is_empty()) {
            sender.end.seal_many(packets, &mut sender.sealings);
            for Sealing { at, result, .. } in sender.sealings.drain(..) {
                if let Err(error) = result {
                    fates[at] = Fate::Drop(reason(error));
                }
            }
        }
    }
}
