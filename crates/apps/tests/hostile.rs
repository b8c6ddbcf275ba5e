//! Random and damaged configurations: refused with positions, or run; never a panic.

use proptest::prelude::*;
use scalebricks_apps::click::Router;
use scalebricks_graph::{Ledger, Worker};
use scalebricks_io::{Packet, Pool};
use std::time::Duration;

const EXAMPLES: [&str; 3] = [
    include_str!("../../../examples/count.click"),
    include_str!("../../../examples/kinds.click"),
    include_str!("../../../examples/router.click"),
];

const PIECES: [&str; 24] = [
    "->",
    "::",
    "[1]",
    "[0]",
    "(",
    ")",
    ";",
    ",",
    "\"",
    "-1",
    "99999999999",
    "Queue",
    "Tee",
    "Null",
    "ICMPError",
    "Unqueue",
    "InfiniteSource -> ",
    "elementclass",
    "{",
    "}",
    "$x",
    "eth0:ip",
    "ToDump(x)",
    "\u{e4}",
];

/// Reads a text, and runs the graph for some turns without opening devices or files.
fn read(text: &[u8]) -> Result<(), TestCaseError> {
    let registry = scalebricks_elements::registry::<Packet>();
    let graph = Router::read("hostile", text, &[], &registry)
        .and_then(|router| router.graph(&registry, &mut Ledger::new()));
    match graph {
        Ok(graph) => {
            let Ok(pool) = Pool::new(100, 200) else { unreachable!() };
            let mut worker = Worker::new(graph, Box::new(pool), ());
            for turn in 1..=3 {
                worker.turn(Duration::from_millis(turn));
            }
        }
        Err(errors) => {
            prop_assert!(!errors.list().is_empty());
            let told = errors.to_string();
            prop_assert!(told.starts_with("hostile:"), "{told}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn examples_with_pieces_put_in_and_cut_out(
        example in 0usize..3,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..24, 0usize..30), 1..4),
    ) {
        let mut text: Vec<char> = EXAMPLES[example].chars().collect();
        for (at, piece, cut) in edits {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, PIECES[piece].chars());
        }
        read(text.into_iter().collect::<String>().as_bytes())?;
    }

    #[test]
    fn pieces_alone(pieces in proptest::collection::vec(0usize..24, 0..30)) {
        let text: Vec<&str> = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        read(text.join(" ").as_bytes())?;
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes)?;
    }
}
