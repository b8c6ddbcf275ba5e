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

fn table<A: Address>(root_bits: u8, bytes: usize) -> Arc<Lpm<A>> {
    Arc::new(Lpm::new(Params::new(root_bits, bytes).unwrap()))
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
    let mut shape: Vec<_> = lpm.arena.blocks().into_iter().map(of).collect();
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
        6 => (address.clone(), length, 0..5u32).prop_map(|(address, length, hop)| Step::Insert(address, length, hop)),
        3 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (any::<prop::sample::Index>(), 0..5u32).prop_map(|(at, hop)| Step::Replace(at, hop)),
        2 => prop::collection::vec(address, 0..150).prop_map(Step::Lookup),
    ];
    prop::collection::vec(step, 1..60)
}

fn run<A: Address>(root_bits: u8, steps: Vec<Step<A>>) -> Result<(), TestCaseError> {
    let (lpm, mut twin) = (table::<A>(root_bits, 1 << 20), Reference::new());
    for step in steps {
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
            Step::Lookup(addresses) => check(&lpm, &twin, &addresses)?,
            Step::Remove(_) | Step::Replace(..) => {}
        }
    }
    // The ends of all prefixes, and the addresses next to them.
    let ends = twin.0.iter().flat_map(|(prefix, _)| {
        use super::address::AddressBits;
        let (first, last) = (prefix.address().bits(), prefix.address().bits().last(prefix.length()));
        let before = (first > first.network(0)).then(|| first.before());
        [Some(first), Some(last), before, last.after()].into_iter().flatten().map(A::of_bits)
    });
    check(&lpm, &twin, &ends.collect::<Vec<A>>())?;
    // Equal sets of prefixes give equal blocks.
    let fresh = table::<A>(root_bits, 1 << 20);
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
        root_bits in prop::sample::select(vec![1u8, 7, 8, 13, 16]), steps in steps(address_v4())
    ) {
        run(root_bits, steps)?;
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, which has a smaller test")]
    fn ipv6_answers_as_its_twin_while_prefixes_come_and_go(
        root_bits in prop::sample::select(vec![1u8, 8, 11, 16]), steps in steps(address_v6())
    ) {
        run(root_bits, steps)?;
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, which has a smaller test")]
    fn crowded_blocks_answer_as_their_twin(
        prefixes in prop::collection::vec((byte(), any::<u8>(), 14..=25u8, 0..9u32), 1..300)
    ) {
        let (lpm, mut twin) = (table::<Ipv4Addr>(8, 1 << 16), Reference::new());
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
        lines in 0..14usize, prefixes in prop::collection::vec((address_v6(), 9..=64u8), 1..40)
    ) {
        let (lpm, mut twin) = (table::<Ipv6Addr>(8, lines * 64), Reference::new());
        for (index, &(address, length)) in (0..).zip(&prefixes) {
            let prefix = Prefix::of(address, length).unwrap();
            if twin.0.len() % 3 == 2 {
                let gone = twin.0[index as usize % twin.0.len()].0;
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
            let fresh = table::<Ipv6Addr>(8, 1 << 20);
            twin.0.iter().for_each(|&(prefix, hop)| assert_eq!(fresh.insert(prefix, hop), Ok(None)));
            prop_assert_eq!(shape(&lpm), shape(&fresh));
            let blocks = lpm.arena.blocks();
            let linked: usize = blocks.iter().map(|(_, image)| block::SIZES[block::size_for(image.runs())]).sum();
            lpm.arena.reclaim(&mut lpm.writer().spares);
            prop_assert_eq!(lpm.stats().block_bytes, linked * 64, "no block is lost");
        }
        let addresses: Vec<_> = prefixes.iter().map(|&(address, _)| address).collect();
        check(&lpm, &twin, &addresses)?;
    }
}

/// The default route of a full root, one prefix for each length, and removal from both ends.
#[test]
fn every_length_has_its_place() {
    for root_bits in [8, if cfg!(miri) { 9 } else { 24 }] {
        let (lpm, mut twin) = (table::<Ipv4Addr>(root_bits, 1 << 14), Reference::new());
        let address = Ipv4Addr::new(10, 170, 170, 170);
        for length in [0, 32, 1, 31, 8, 24, 25, 9, 16, 30, 17, 23] {
            let prefix = Prefix::of(address, length).unwrap();
            assert_eq!(lpm.insert(prefix, hop(length.into())), Ok(None));
            twin.insert(prefix, hop(length.into()));
        }
        let others = (0..32).map(|bit| Ipv4Addr::from(u32::from(address) ^ 1 << bit));
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
    let none = table::<Ipv4Addr>(8, 0);
    assert_eq!(none.insert(v4("10.0.0.0/8"), hop(1)), Ok(None));
    assert_eq!(none.insert(v4("10.0.0.0/9"), hop(1)), Err(LpmError::Full { routes: 1, block_bytes: 0 }));
    assert_eq!(none.table_bytes(), 1024);
}
