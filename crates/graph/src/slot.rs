//! Slots, and lists of slots, which are batches.

/// Number of slots of a frame.
pub const SLOTS: usize = 256;

/// A place of a [`Frame`](crate::Frame) that holds a packet.
///
/// It is neither `Copy` nor `Clone`: only its owner can pass the packet on, take it out or drop it. A `Slot` that goes
/// out of scope leaks its place until the end of the turn, when the runner frees it and counts `slot_lost`.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a slot holds a packet: pass it on, take the packet out, or drop it with a reason"]
pub struct Slot(pub(crate) u8);

impl Slot {
    /// Its number, below [`SLOTS`]: an index into a `[T; SLOTS]` that needs no bounds check.
    #[inline(always)]
    pub const fn index(&self) -> usize {
        self.0 as usize
    }
}

/// A list of slots in order of arrival: a batch. It holds a pointer and a length, so swapping two lists moves no slot.
#[derive(Debug)]
pub struct SlotList {
    len: u16,
    slots: Box<[Slot; SLOTS]>,
}

impl Default for SlotList {
    fn default() -> Self {
        Self { len: 0, slots: Box::new([const { Slot(0) }; SLOTS]) }
    }
}

impl SlotList {
    /// An empty list. Cost: an allocation of 256 bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of slots in the list.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the list is empty.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slots, in order.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Slot] {
        &self.slots[..self.len().min(SLOTS)]
    }

    /// The slots, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Slot> {
        self.as_slice().iter()
    }

    /// Appends a slot. There is always room: a frame has [`SLOTS`] slots, and each is in one list only.
    #[inline(always)]
    pub fn push(&mut self, slot: Slot) {
        debug_assert!(self.len() < SLOTS, "more slots in a list than a frame has");
        self.slots[self.len() % SLOTS] = slot;
        self.len += 1;
    }

    /// Appends slots by their numbers.
    #[inline(always)]
    pub(crate) fn extend_numbers(&mut self, numbers: &[u8]) {
        let start = self.len();
        debug_assert!(start + numbers.len() <= SLOTS, "more slots in a list than a frame has");
        for (to, number) in self.slots[start..].iter_mut().zip(numbers) {
            *to = Slot(*number);
        }
        self.len += numbers.len() as u16;
    }

    /// Empties the list, whose slots were freed.
    #[inline(always)]
    pub(crate) const fn forget(&mut self) {
        self.len = 0;
    }

    /// Appends all slots of `other` to this list. Cost: a swap of two words if this list is empty, else one byte per
    /// slot.
    #[inline(always)]
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
        } else {
            self.extend_from(other);
        }
    }

    fn extend_from(&mut self, other: &mut Self) {
        let start = self.len();
        for (to, from) in self.slots[start..].iter_mut().zip(other.iter()) {
            *to = Slot(from.0);
        }
        self.len += other.len;
        other.len = 0;
    }

    /// Removes all slots, in order. Those not taken when the iterator is dropped stay in the list.
    #[inline(always)]
    pub fn drain(&mut self) -> Drain<'_> {
        Drain { at: 0, list: self }
    }

    /// Passes each slot to `keep`, in order; the slots that it returns stay in the list, without gaps.
    ///
    /// Fast for elements that send most packets to one output: the remaining list is passed on as a whole.
    #[inline(always)]
    pub fn filter_map(&mut self, keep: impl FnMut(Slot) -> Option<Slot>) {
        self.filter_map_from(0, keep);
    }

    /// Like [`filter_map`](Self::filter_map), but skips the first `start` slots.
    #[inline(always)]
    pub fn filter_map_from(&mut self, start: usize, mut keep: impl FnMut(Slot) -> Option<Slot>) {
        let (start, slots) = (start.min(self.len()), &mut *self.slots);
        let mut kept = start;
        for at in start..usize::from(self.len) {
            if let Some(slot) = keep(Slot(slots[at % SLOTS].0)) {
                slots[kept % SLOTS] = slot;
                kept += 1;
            }
        }
        self.len = kept as u16;
    }
}

impl<'a> IntoIterator for &'a SlotList {
    type Item = &'a Slot;
    type IntoIter = std::slice::Iter<'a, Slot>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The iterator of [`SlotList::drain`].
#[derive(Debug)]
pub struct Drain<'a> {
    at: usize,
    list: &'a mut SlotList,
}

impl Iterator for Drain<'_> {
    type Item = Slot;

    #[inline(always)]
    fn next(&mut self) -> Option<Slot> {
        if self.at >= self.list.len() {
            return None;
        }
        let slot = Slot(self.list.slots[self.at % SLOTS].0);
        self.at += 1;
        Some(slot)
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.list.len() - self.at;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let left = self.list.len() - self.at;
        if left > 0 {
            for to in 0..left {
                self.list.slots[to] = Slot(self.list.slots[self.at + to].0);
            }
        }
        self.list.len = left as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(slots: impl IntoIterator<Item = u8>) -> SlotList {
        let mut list = SlotList::new();
        slots.into_iter().for_each(|slot| list.push(Slot(slot)));
        list
    }

    fn numbers(list: &SlotList) -> Vec<usize> {
        list.iter().map(Slot::index).collect()
    }

    #[test]
    fn appending_keeps_the_order_and_empties_the_other() {
        let (mut a, mut b) = (list([]), list([3, 1, 2]));
        a.append(&mut b);
        assert!(b.is_empty());
        let mut c = list(10..=255);
        a.append(&mut c);
        assert!(c.is_empty());
        let expected: Vec<usize> = [3, 1, 2].into_iter().chain(10..=255).collect();
        assert_eq!(numbers(&a), expected);
    }

    #[test]
    fn what_is_not_drained_stays() {
        let mut a = list(0..10);
        let taken: Vec<usize> = a.drain().take(4).map(|slot| slot.index()).collect();
        assert_eq!((taken, numbers(&a)), (vec![0, 1, 2, 3], vec![4, 5, 6, 7, 8, 9]));
        assert_eq!(a.drain().len(), 6);
        assert_eq!(a.drain().count(), 6);
        assert!(a.is_empty());
    }

    #[test]
    fn filter_map_keeps_the_order_of_both_parts() {
        let mut a = list(0..=255);
        let mut out = Vec::new();
        a.filter_map(|slot| {
            let goes = slot.index() % 3 == 0;
            if goes {
                out.push(slot.index());
            }
            (!goes).then_some(slot)
        });
        assert_eq!(out, (0..256).filter(|n| n % 3 == 0).collect::<Vec<_>>());
        assert_eq!(numbers(&a), (0..256).filter(|n| n % 3 != 0).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_list_holds_every_slot_of_a_frame() {
        let a = list(0..=255);
        assert_eq!(a.len(), SLOTS);
        assert_eq!(numbers(&a), (0..SLOTS).collect::<Vec<_>>());
    }
}
