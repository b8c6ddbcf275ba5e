//! Replaces connections through tunnels by connections between elements.

use super::Failure;
use crate::limits::Budget;
use crate::program::ProgramConnection;
use std::collections::HashSet;

/// The connections between nodes that are not tunnel ends, each once. `through[n]` is the node at which packets that
/// reach node `n` continue, at the output of the same number. Cycles of tunnels lead nowhere. Each tunnel port passed
/// costs one step of the budget.
pub(super) fn remove(
    links: &mut [ProgramConnection],
    through: &[Option<usize>],
    budget: &mut Budget,
) -> Result<Vec<ProgramConnection>, Failure> {
    links.sort_by_key(|link| (link.from, link.to, link.span));
    let is_end = ends(through);
    let links = &*links;
    let from = |from: (usize, u32)| {
        let start = links.partition_point(|link| link.from < from);
        links[start..].iter().take_while(move |link| link.from == from)
    };
    let mut direct = Vec::new();
    let mut seen_here: HashSet<(usize, u32)> = HashSet::new();
    let mut current = None;
    for link in links.iter().filter(|link| !is_end[link.from.0]) {
        if current != Some(link.from) {
            current = Some(link.from);
            seen_here.clear();
        }
        // The targets of this output, each once, over all its connections.
        let mut open = vec![link.to];
        while let Some(to) = open.pop() {
            budget.steps(1).map_err(|problem| (link.span, problem))?;
            if !seen_here.insert(to) {
                continue;
            }
            match through[to.0] {
                Some(next) => open.extend(from((next, to.1)).map(|link| link.to)),
                None if is_end[to.0] => {}
                None => {
                    budget.connection().map_err(|problem| (link.span, problem))?;
                    direct.push(ProgramConnection { to, ..*link });
                }
            }
        }
    }
    Ok(direct)
}

/// Which nodes are tunnel ends, of either side.
fn ends(through: &[Option<usize>]) -> Vec<bool> {
    let mut ends: Vec<bool> = through.iter().map(Option::is_some).collect();
    for &next in through.iter().flatten() {
        ends[next] = true;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::source::Span;
    use proptest::prelude::*;

    type Edge = ((usize, u32), (usize, u32));

    /// Reference: removes one tunnel port after another by connecting its sources to its targets.
    fn slow(links: &[Edge], through: &[Option<usize>]) -> Vec<Edge> {
        let mut edges: HashSet<Edge> = links.iter().copied().collect();
        for (node, next) in through.iter().enumerate() {
            let Some(next) = *next else { continue };
            for port in 0..4 {
                let into: Vec<_> =
                    edges.iter().filter(|edge| edge.1 == (node, port)).map(|edge| edge.0).collect();
                let onward: Vec<_> =
                    edges.iter().filter(|edge| edge.0 == (next, port)).map(|edge| edge.1).collect();
                for &from in &into {
                    edges.extend(onward.iter().map(|&to| (from, to)));
                }
                edges.retain(|edge| edge.1 != (node, port) && edge.0 != (next, port));
            }
        }
        let is_end = ends(through);
        let mut edges: Vec<Edge> =
            edges.into_iter().filter(|edge| !is_end[edge.0.0] && !is_end[edge.1.0]).collect();
        edges.sort_unstable();
        edges
    }

    proptest! {
        /// Nodes 0 to 4 are elements; 5, 6, 7 and further ones are compounds with their `input` and `output`.
        #[test]
        fn tunnels_vanish_as_the_slow_twin_takes_them_out(
            compounds in 0_usize..4,
            edges in proptest::collection::vec(((0_usize..17, 0_u32..3), (0_usize..17, 0_u32..3)), 0..40),
        ) {
            let nodes = 5 + 3 * compounds;
            let mut through = vec![None; nodes];
            for compound in 0..compounds {
                let outer = 5 + 3 * compound;
                through[outer] = Some(outer + 1);
                through[outer + 2] = Some(outer);
            }
            let inside = |node: usize| node % nodes;
            // An `input` has outputs only, an `output` inputs only.
            let edges: Vec<Edge> = edges
                .into_iter()
                .map(|((a, p), (b, q))| ((inside(a), p), (inside(b), q)))
                .filter(|((a, _), (b, _))| (*a < 5 || (a - 5) % 3 != 2) && (*b < 5 || (b - 5) % 3 != 1))
                .collect();
            let mut links: Vec<ProgramConnection> = edges.iter().map(|&(from, to)| ProgramConnection { from, to, span: Span::default() }).collect();
            let fast = remove(&mut links, &through, &mut Budget::new(Limits::default())).unwrap();
            let mut fast: Vec<Edge> = fast.into_iter().map(|link| (link.from, link.to)).collect();
            fast.sort_unstable();
            prop_assert_eq!(fast, slow(&edges, &through));
        }
    }
}
