//! The order in which a batch is applied: sorted by block or range, so that the memory of each is fetched
//! once, and prefetched.

/// An operation, with the block or range of the store that it changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderedOp {
    pub(crate) slot: u32,
    /// Its index in the batch.
    pub(crate) op: u32,
    pub(crate) hash: u64,
}

/// Sorts entries by block. Entries of the same block keep their order.
pub(crate) fn sort(order: &mut Vec<OrderedOp>, spare: &mut Vec<OrderedOp>) {
    const DIGITS: usize = 1 << 8;
    if order.len() < 2 * DIGITS {
        order.sort_unstable();
        return;
    }
    spare.resize(order.len(), OrderedOp::default());
    let all = order.iter().fold(0, |all, entry| all | entry.slot);
    for shift in (0..32).step_by(8).take_while(|shift| all >> shift != 0) {
        let digit = |entry: &OrderedOp| (entry.slot >> shift) as usize % DIGITS;
        let mut starts = [0u32; DIGITS + 1];
        for entry in &*order {
            starts[digit(entry) + 1] += 1;
        }
        (0..DIGITS).for_each(|digit| starts[digit + 1] += starts[digit]);
        for entry in &*order {
            let at = &mut starts[digit(entry)];
            spare[*at as usize] = *entry;
            *at += 1;
        }
        std::mem::swap(order, spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::mix64;

    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
    fn entries_are_in_the_order_of_their_blocks_and_then_of_the_batch() {
        for (count, slots) in
            [(0, 1), (1, 1), (500, 3), (600, 1), (600, 300), (5000, 1 << 17), (5000, 1 << 24)]
        {
            let entry = |op: u32| OrderedOp {
                slot: (mix64(op.into()) % slots) as u32,
                op,
                hash: mix64(!u64::from(op)),
            };
            let mut order: Vec<OrderedOp> = (0..count).map(entry).collect();
            let mut expected = order.clone();
            expected.sort_by_key(|entry| (entry.slot, entry.op));
            sort(&mut order, &mut Vec::new());
            assert_eq!(order, expected, "{count} in {slots}");
        }
    }
}
