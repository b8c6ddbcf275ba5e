use super::arena::EntryPlace;
use super::block::{self, BlockBuilder};
use super::*;
use crate::isa::Isa;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The slow, simple reference model: all prefixes in a list.
struct Reference<A>(Vec<(Prefix<A>, NextHop)>);

impl<A: Address> Reference<A> {
    const fn new() -> Self {
        Self(Vec::new())
    }

    fn insert(&mut self, prefix: Prefix<A>, hop: NextHop) -> Option<NextHop> {
        let before = self.remove(prefix);
        self.0.push((prefix, hop));
        before
    }

    fn remove(&mut self, prefix: Prefix<A>) -> Option<NextHop> {
        let at = self.0.iter().position(|(held, _)| *held == prefix)?;
        Some(self.0.swap_remove(at).1)
    }

    fn longest(&self, address: A) -> Option<(Prefix<A>, NextHop)> {
        let covering = self.0.iter().filter(|(prefix, _)| prefix.contains(address));
        covering.max_by_key(|(prefix, _)| prefix.length()).copied()
    }
}

fn hop(index: u32) -> NextHop {
    NextHop::new(index).unwrap()
}

fn v4(text: &str) -> Prefix<Ipv4Addr> {
    text.parse().unwrap()
}

/// The layout of a table: bits of its root and bytes of its entries at first.
type Layout = (u8, EntryBytes);

const BOTH: [EntryBytes; 2] = [EntryBytes::Two, EntryBytes::Four];

fn table<A: Address>((root_bits, entries): Layout, bytes: usize) -> Arc<Lpm<A>> {
    Arc::new(Lpm::new(Params::new(root_bits, bytes).unwrap().with_entries(entries)))
}

fn layout(root_bits: &'static [u8]) -> impl Strategy<Value = Layout> {
    (prop::sample::select(root_bits), prop::sample::select(&BOTH[..]))
}

/// A next hop; one in some tables does not fit entries of two bytes.
fn hop_index() -> impl Strategy<Value = u32> {
    prop_oneof![
        60 => 0..5u32,
        1 => Just(EntryBytes::Two.max_next_hop()),
        1 => prop::sample::select(vec![EntryBytes::Two.max_next_hop() + 1, 40_000, NextHop::MAX]),
    ]
}

/// All forms return the same answers as the reference model.
fn check<A: Address>(lpm: &Arc<Lpm<A>>, twin: &Reference<A>, addresses: &[A]) -> Result<(), TestCaseError> {
    let expected: Vec<_> = addresses.iter().map(|&address| twin.longest(address)).collect();
    for isa in Isa::available() {
        let mut reader = LpmReader::with_isa(Arc::clone(lpm), isa).unwrap();
        let mut hops = vec![NextHop::new(77); addresses.len()];
        reader.lookup_batch(addresses, &mut hops);
        for ((&address, &hop), longest) in addresses.iter().zip(&hops).zip(&expected) {
            prop_assert_eq!(hop, longest.map(|(_, hop)| hop), "{} on {}", address, isa);
            prop_assert_eq!(reader.lookup(address), hop);
        }
    }
    for (&address, longest) in addresses.iter().zip(expected) {
        prop_assert_eq!(lpm.longest(address), longest);
    }
    Ok(())
}

/// The blocks, with the entries that lead to them but without their lines.
fn shape<A: Address>(lpm: &Lpm<A>) -> Vec<(Option<usize>, usize)> {
    let of = |(place, image): (EntryPlace, BlockBuilder)| match place {
        EntryPlace::Root(at) => (Some(at), image.runs()),
        EntryPlace::Block(_) => (None, image.runs()),
    };
    let mut shape: Vec<_> = lpm.control().arena.blocks().into_iter().map(of).collect();
    shape.sort_unstable();
    shape
}

/// Bytes for which prefixes touch, nest and share blocks.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![4 => prop::sample::select(vec![0, 1, 2, 127, 128, 129, 254, 255]), 1 => any::<u8>()]
}

#[derive(Debug, Clone)]
enum Step<A> {
    Insert(A, u8, u32),
    /// Removes an existing prefix, if any.
    Remove(prop::sample::Index),
    Replace(prop::sample::Index, u32),
    Lookup(Vec<A>),
}

fn steps<A: Address>(address: impl Strategy<Value = A> + Clone) -> impl Strategy<Value = Vec<Step<A>>> {
    let length = prop_oneof![2 => 0..=A::BITS, 1 => 0..=32u8];
    let step = prop_oneof![
        6 => (address.clone(), length, hop_index()).prop_map(|(address, length, hop)| Step::Insert(address, length, hop)),
        3 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (any::<prop::sample::Index>(), hop_index()).prop_map(|(at, hop)| Step::Replace(at, hop)),
        2 => prop::collection::vec(address, 0..150).prop_map(Step::Lookup),
    ];
    prop::collection::vec(step, 1..60)
}

fn run<A: Address>(layout: Layout, steps: Vec<Step<A>>) -> Result<(), TestCaseError> {
    let (lpm, mut twin) = (table::<A>(layout, 1 << 20), Reference::new());
    let (mut reader, mut most) = (LpmReader::new(Arc::clone(&lpm)), 0); // a reader that is there all the time
    for step in steps {
        if let Step::Insert(_, _, index) = step {
            most = index.max(most);
        }
        if let (Step::Replace(_, index), false) = (&step, twin.0.is_empty()) {
            most = most.max(*index);
        }
        match step {
            Step::Insert(address, length, index) => {
                let prefix = Prefix::of(address, length).unwrap();
                prop_assert_eq!(lpm.insert(prefix, hop(index)), Ok(twin.insert(prefix, hop(index))));
            }
            Step::Remove(at) if !twin.0.is_empty() => {
                let prefix = at.get(&twin.0).0;
                prop_assert_eq!(lpm.remove(prefix), twin.remove(prefix));
                prop_assert_eq!((lpm.remove(prefix), lpm.get(prefix)), (None, None));
            }
            Step::Replace(at, index) if !twin.0.is_empty() => {
                let prefix = at.get(&twin.0).0;
                prop_assert_eq!(lpm.insert(prefix, hop(index)), Ok(twin.insert(prefix, hop(index))));
                prop_assert_eq!(lpm.get(prefix), Some(hop(index)));
            }
            Step::Lookup(addresses) => {
                check(&lpm, &twin, &addresses)?;
                for address in addresses {
                    prop_assert_eq!(reader.lookup(address), twin.longest(address).map(|(_, hop)| hop));
                }
            }
            Step::Remove(_) | Step::Replace(..) => {}
        }
    }
    let wide = layout.1 == EntryBytes::Four || most > EntryBytes::Two.max_next_hop();
    prop_assert_eq!(lpm.stats().entry_bytes, BOTH[usize::from(wide)]);
    // The ends of all prefixes, and the addresses next to them.
    let ends = twin.0.iter().flat_map(|(prefix, _)| {
        use super::address::AddressBits;
        let (first, last) = (prefix.address().bits(), prefix.address().bits().last(prefix.length()));
        let before = (first > first.network(0)).then(|| first.before());
        [Some(first), Some(last), before, last.after()].into_iter().flatten().map(A::of_bits)
    });
    check(&lpm, &twin, &ends.collect::<Vec<A>>())?;
    // Equal sets of prefixes give equal blocks.
    let fresh = table::<A>(layout, 1 << 20);
    let mut held: Vec<_> = twin.0.clone();
    held.sort_unstable();
    held.iter().rev().for_each(|&(prefix, hop)| assert_eq!(fresh.insert(prefix, hop), Ok(None)));
    prop_assert_eq!(shape(&lpm), shape(&fresh));
    let mut listed = Vec::new();
    lpm.for_each(|prefix, hop| listed.push((prefix, hop)));
    prop_assert_eq!(&listed, &held);
    prop_assert_eq!((lpm.len(), lpm.is_empty()), (held.len(), held.is_empty()));
    for (prefix, _) in held {
        lpm.remove(prefix).unwrap();
    }
    prop_assert!(shape(&lpm).is_empty());
    Ok(())
}

fn address_v4() -> impl Strategy<Value = Ipv4Addr> + Clone {
    let few = prop::sample::select(vec![0u8, 1, 2, 127, 128, 129, 254, 255]);
    prop_oneof![3 => prop::array::uniform4(few), 1 => any::<[u8; 4]>()].prop_map(Ipv4Addr::from)
}

fn address_v6() -> impl Strategy<Value = Ipv6Addr> + Clone {
    let few = prop::sample::select(vec![0u8, 1, 127, 128, 255]);
    prop_oneof![3 => prop::array::uniform16(few), 1 => any::<[u8; 16]>()].prop_map(|mut octets| {
        octets[..3].fill(0x20); // so that they share blocks
        Ipv6Addr::from(octets)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, which has a smaller test")]
    fn ipv4_answers_as_its_twin_while_prefixes_come_and_go(
        layout in layout(&[1, 7, 8, 13, 16]), steps in steps(address_v4())
    ) {
        run(layout, steps)?;
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, which has a smaller test")]
    fn ipv6_answers_as_its_twin_while_prefixes_come_and_go(
        layout in layout(&[1, 8, 11, 16]), steps in steps(address_v6())
    ) {
        run(layout, steps)?;
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, which has a smaller test")]
    fn crowded_blocks_answer_as_their_twin(
        layout in layout(&[8]),
        prefixes in prop::collection::vec((byte(), any::<u8>(), 14..=25u8, 0..9u32), 1..300)
    ) {
        let (lpm, mut twin) = (table::<Ipv4Addr>(layout, 1 << 16), Reference::new());
        for &(second, third, length, index) in &prefixes {
            let prefix = Prefix::of(Ipv4Addr::new(10, second % 4, third, 128), length).unwrap();
            prop_assert_eq!(lpm.insert(prefix, hop(index)), Ok(twin.insert(prefix, hop(index))));
        }
        let addresses: Vec<_> = (0..1024u32).map(|n| Ipv4Addr::from(0x0A00_0000 | n << 8 | (n * 37 % 256))).collect();
        check(&lpm, &twin, &addresses)?;
        for &(prefix, _) in &twin.0 {
            lpm.remove(prefix).unwrap();
        }
        prop_assert!(shape(&lpm).is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn a_table_without_room_refuses_and_stays_as_it_was(
        layout in layout(&[8]), large in 0..100usize,
        lines in 0..14usize, prefixes in prop::collection::vec((address_v6(), 9..=64u8), 1..40)
    ) {
        let (lpm, mut twin) = (table::<Ipv6Addr>(layout, lines * 64), Reference::new());
        for (at, &(address, length)) in prefixes.iter().enumerate() {
            // A next hop that widens the table, if there is room.
            let index = if at == large { EntryBytes::Two.max_next_hop() + 1 } else { at as u32 };
            let prefix = Prefix::of(address, length).unwrap();
            if twin.0.len() % 3 == 2 {
                let gone = twin.0[at % twin.0.len()].0;
                prop_assert_eq!(lpm.remove(gone), twin.remove(gone));
            }
            let before = shape(&lpm);
            match lpm.insert(prefix, hop(index)) {
                Ok(old) => prop_assert_eq!(old, twin.insert(prefix, hop(index))),
                Err(LpmError::Full { routes, block_bytes }) => {
                    prop_assert_eq!((routes, block_bytes), (twin.0.len(), lines * 64));
                    prop_assert_eq!(shape(&lpm), before);
                }
            }
            prop_assert!(lpm.stats().touched_bytes <= lines * 64);
            let fresh = table::<Ipv6Addr>(layout, 1 << 20);
            twin.0.iter().for_each(|&(prefix, hop)| assert_eq!(fresh.insert(prefix, hop), Ok(None)));
            prop_assert_eq!(shape(&lpm), shape(&fresh));
            let linked: usize = {
                let control = &mut *lpm.control();
                control.arena.reclaim(&mut control.writer.spares);
                let size = |image: BlockBuilder| block::size_for(control.arena.bytes(), image.runs());
                control.arena.blocks().into_iter().map(|(_, image)| block::SIZES[size(image)]).sum()
            };
            prop_assert_eq!(lpm.stats().block_bytes, linked * 64, "no block is lost");
        }
        let addresses: Vec<_> = prefixes.iter().map(|&(address, _)| address).collect();
        check(&lpm, &twin, &addresses)?;
    }
}

/// The default route of a full root, one prefix for each length, and removal from both ends.
#[test]
fn every_length_has_its_place() {
    let roots: &[u8] = if cfg!(miri) { &[9] } else { &[8, 24] };
    let widths = if cfg!(miri) { &BOTH[..1] } else { &BOTH };
    for layout in roots.iter().flat_map(|&root_bits| widths.iter().map(move |&bytes| (root_bits, bytes))) {
        let (lpm, mut twin) = (table::<Ipv4Addr>(layout, 1 << 14), Reference::new());
        let address = Ipv4Addr::new(10, 170, 170, 170);
        for length in [0, 32, 1, 31, 8, 24, 25, 9, 16, 30, 17, 23] {
            let prefix = Prefix::of(address, length).unwrap();
            assert_eq!(lpm.insert(prefix, hop(length.into())), Ok(None));
            twin.insert(prefix, hop(length.into()));
        }
        let others = (0..32)
            .step_by(if cfg!(miri) { 5 } else { 1 })
            .map(|bit| Ipv4Addr::from(u32::from(address) ^ 1 << bit));
        let addresses: Vec<_> = others.chain([address]).collect();
        while let Some(&(prefix, _)) = twin.0.get(twin.0.len() / 2) {
            check(&lpm, &twin, &addresses).unwrap();
            assert_eq!(lpm.remove(prefix), twin.remove(prefix));
        }
        check(&lpm, &twin, &addresses).unwrap();
        assert_eq!(lpm.stats().routes, 0);
    }
}

#[test]
fn params_have_limits() {
    assert_eq!(Params::new(0, 0), Err(ParamsError::RootBits(0)));
    assert_eq!(Params::new(25, 0), Err(ParamsError::RootBits(25)));
    assert_eq!(Params::new(24, 1 << 37), Err(ParamsError::BlockBytes(1 << 37)));
    let params = Params::new(16, 1000).unwrap();
    assert_eq!((params.root_bits(), params.block_bytes()), (16, 960));
    assert_eq!(params.entry_bytes(), EntryBytes::Two);
    for (bytes, root) in BOTH.into_iter().zip([512, 1024]) {
        let none = table::<Ipv4Addr>((8, bytes), 0);
        assert_eq!(none.insert(v4("10.0.0.0/8"), hop(1)), Ok(None));
        let full = LpmError::Full { routes: 1, block_bytes: 0 };
        assert_eq!(none.insert(v4("10.0.0.0/9"), hop(1)), Err(full));
        assert_eq!(none.table_bytes(), root);
        assert_eq!(none.insert(v4("10.0.0.0/8"), hop(NextHop::MAX)), Ok(Some(hop(1))), "needs no block");
        assert_eq!((none.table_bytes(), none.stats().entry_bytes), (1024, EntryBytes::Four));
    }
}

/// /32 prefixes that each need a block of their own.
fn own_block(n: u32) -> Prefix<Ipv4Addr> {
    Prefix::of(Ipv4Addr::from_bits(n << 8 | 1), 32).unwrap()
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, which has a smaller test")]
fn a_table_widens_when_entries_of_two_bytes_cannot_name_its_blocks() {
    let lpm = table::<Ipv4Addr>((24, EntryBytes::Two), 64 << 20);
    let mut reader = LpmReader::new(Arc::clone(&lpm));
    lpm.insert(v4("0.0.0.0/0"), hop(7)).unwrap();
    let mut inserted = 0;
    while lpm.stats().entry_bytes == EntryBytes::Two {
        lpm.insert(own_block(inserted), hop(inserted % 5)).unwrap();
        inserted += 1;
        assert!(inserted < 1 << 15, "more blocks than fifteen bits name");
    }
    assert!(inserted > (1 << 15) - 20, "only {inserted} blocks");
    let addresses: Vec<_> = (0..inserted).map(|n| own_block(n).address()).collect();
    let mut hops = vec![None; addresses.len()];
    reader.lookup_batch(&addresses, &mut hops);
    assert!((0..inserted).zip(hops).all(|(n, found)| found == Some(hop(n % 5))));
    let beside = Ipv4Addr::from_bits(inserted << 8);
    assert_eq!(reader.lookup(beside), Some(hop(7)));
    // Room that two bytes can name is all that a small table has.
    let small = table::<Ipv4Addr>((24, EntryBytes::Two), 1 << 20);
    let refused = (0..1 << 15).find(|&n| small.insert(own_block(n), hop(1)).is_err()).unwrap();
    assert_eq!((refused, small.stats().entry_bytes), (1 << 14, EntryBytes::Two));
}

#[test]
fn the_memory_before_a_widening_is_freed_when_no_reader_has_it() {
    let lpm = table::<Ipv4Addr>((8, EntryBytes::Two), 1 << 12);
    let mut reader = LpmReader::new(Arc::clone(&lpm));
    lpm.insert(v4("10.0.0.0/8"), hop(1)).unwrap();
    let old = Arc::downgrade(&lpm.control().arena);
    lpm.insert(v4("10.0.0.0/8"), hop(1 << 20)).unwrap();
    lpm.insert(v4("11.0.0.0/8"), hop(2)).unwrap();
    assert!(old.upgrade().is_some(), "the reader has it");
    assert_eq!(reader.lookup(Ipv4Addr::new(10, 0, 0, 1)), Some(hop(1 << 20)));
    lpm.remove(v4("11.0.0.0/8")).unwrap();
    assert!(old.upgrade().is_none());
}
