//! The associations that an element receives by.

use super::inbound::{EspPacket, Inbound, OpenError, Opening, Outer};
use super::load::is_same;
use super::sa::Sa;
use crate::IPsecDecap;
use arrayvec::ArrayVec;
use scalebricks_graph::DropId;
use scalebricks_io::PacketBuf;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is decrypted; what is left is the inner packet.
    Opened,
    /// It has no ESP. It is unchanged.
    Other,
    /// It must be dropped.
    Drop(DropId),
}

/// Associations by SPI.
#[derive(Debug, Default)]
pub(crate) struct Receivers(Vec<Receiver>);

#[derive(Debug)]
struct Receiver {
    end: Inbound,
    /// Its packets of a burst.
    openings: Vec<Opening>,
}

const fn reason(error: OpenError) -> DropId {
    match error {
        OpenError::Expired => IPsecDecap::EXPIRED,
        OpenError::Replay => IPsecDecap::REPLAY,
        OpenError::BadIcv => IPsecDecap::BAD_ICV,
        OpenError::Malformed => IPsecDecap::MALFORMED,
        OpenError::Policy => IPsecDecap::POLICY,
        OpenError::Ecn => IPsecDecap::ECN,
        OpenError::Dummy => IPsecDecap::DUMMY,
    }
}

impl Receivers {
    pub(crate) fn new(associations: Vec<Sa>) -> Result<Self, String> {
        let make = |sa| {
            let end = Inbound::new(sa).ok_or_else(|| "a key was refused".to_owned())?;
            Ok(Receiver { end, openings: Vec::new() })
        };
        let mut all: Vec<Receiver> = associations.into_iter().map(make).collect::<Result<_, String>>()?;
        all.sort_by_key(|receiver| receiver.end.sa().spi);
        Ok(Self(all))
    }

    /// Their receiving ends.
    pub(crate) fn ends(&self) -> impl Iterator<Item = &Inbound> {
        self.0.iter().map(|receiver| &receiver.end)
    }

    /// Those whose soft lifetime is over.
    pub(crate) fn ageing(&self) -> u64 {
        self.ends().filter(|end| end.is_ageing()).count() as u64
    }

    /// Continues those of `before` that are the same.
    pub(crate) fn continue_from(&mut self, before: &mut Self) {
        for receiver in &mut self.0 {
            if let Some(same) = before.0.iter_mut().find(|other| is_same(receiver.end.sa(), other.end.sa())) {
                receiver.end.continue_from(&mut same.end);
            }
        }
    }

    /// Decrypts packets, and appends what becomes of each.
    ///
    /// # Panics
    /// If `fates` has too little room.
    #[inline]
    pub(crate) fn open<P: PacketBuf, const N: usize>(
        &mut self,
        packets: &mut [P],
        fates: &mut ArrayVec<Fate, N>,
    ) {
        let first = fates.len();
        for (at, packet) in packets.iter().enumerate() {
            fates.push(match Outer::read(packet.data()) {
                Outer::Esp(place) => self.add(at, place),
                Outer::Keepalive => Fate::Drop(IPsecDecap::KEEPALIVE),
                Outer::Fragment => Fate::Drop(IPsecDecap::FRAGMENT),
                Outer::Malformed => Fate::Drop(IPsecDecap::MALFORMED),
                Outer::Other => Fate::Other,
            });
        }
        self.open_added(packets, &mut fates[first..]);
    }

    #[inline]
    fn of(&mut self, place: &EspPacket) -> Option<&mut Receiver> {
        // Few associations share an SPI.
        let first = self.0.partition_point(|receiver| receiver.end.sa().spi.get() < place.spi);
        let mut same =
            self.0.iter_mut().skip(first).take_while(|receiver| receiver.end.sa().spi.get() == place.spi);
        same.find(|receiver| receiver.end.takes(place))
    }

    /// Whether a packet is for one of them.
    #[inline]
    pub(crate) fn takes(&mut self, place: &EspPacket) -> bool {
        self.of(place).is_some()
    }

    /// Notes that the packet at this place is to be decrypted; returns what becomes of it unless an error says otherwise.
    #[inline]
    pub(crate) fn add(&mut self, at: usize, place: EspPacket) -> Fate {
        match self.of(&place) {
            None => Fate::Drop(IPsecDecap::NO_SA),
            Some(receiver) => {
                receiver.openings.push(Opening { at, place, result: Ok(()) });
                Fate::Opened
            }
        }
    }

    /// Decrypts the packets that were added, and changes the fates of those that have an error.
    #[inline]
    pub(crate) fn open_added<P: PacketBuf>(&mut self, packets: &mut [P], fates: &mut [Fate]) {
        for receiver in self.0.iter_mut().filter(|receiver| !receiver.openings.is_empty()) {
            receiver.end.open_many(packets, &mut receiver.openings);
            for Opening { at, result, .. } in receiver.openings.drain(..) {
                if let Err(error) = result {
                    fates[at] = Fate::Drop(reason(error));
                }
            }
        }
    }
}
