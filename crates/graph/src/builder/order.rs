//! The order in which elements run.

use super::IndexedConnection;

/// The position of each element in the run order: after the elements whose packets reach it, except along connections
/// that close a cycle. Reverse post-order of a depth-first search from the elements without inputs.
pub(super) fn places(elements: usize, links: &[IndexedConnection]) -> Vec<usize> {
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); elements];
    let mut has_source = vec![false; elements];
    for link in links {
        next[link.from].push(link.to);
        has_source[link.to] = true;
    }
    let mut seen = vec![false; elements];
    let mut left = Vec::with_capacity(elements);
    let (sources, others): (Vec<usize>, Vec<usize>) = (0..elements).partition(|&at| !has_source[at]);
    // Nodes visited first come last.
    for next in &mut next {
        next.reverse();
    }
    for start in sources.into_iter().rev().chain(others) {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        // Each with the number of its successors already visited.
        let mut path = vec![(start, 0)];
        while let Some((at, visited)) = path.last_mut() {
            let at = *at;
            if let Some(&to) = next[at].get(*visited) {
                *visited += 1;
                if !std::mem::replace(&mut seen[to], true) {
                    path.push((to, 0));
                }
            } else {
                left.push(at);
                path.pop();
            }
        }
    }
    let mut places = vec![0; elements];
    left.iter().rev().enumerate().for_each(|(place, &at)| places[at] = place);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(pairs: &[(usize, usize)]) -> Vec<IndexedConnection> {
        let link = |&(from, to): &(usize, usize)| IndexedConnection {
            from,
            output: 0,
            to,
            input: 0,
            is_pull: false,
        };
        pairs.iter().map(link).collect()
    }

    #[test]
    fn elements_run_after_those_before_them() {
        let edges = [(3, 1), (1, 0), (3, 2), (2, 0), (0, 4), (5, 2)];
        let places = places(6, &links(&edges));
        assert!(edges.iter().all(|&(from, to)| places[from] < places[to]), "{places:?}");
        let mut sorted = places.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_cycle_is_closed_by_the_link_that_leads_back_to_where_it_is_entered() {
        let places = places(4, &links(&[(2, 1), (1, 3), (3, 1), (3, 0)]));
        assert!(places[2] < places[1] && places[1] < places[3] && places[3] < places[0], "{places:?}");
    }

    #[test]
    fn a_long_row_needs_no_stack() {
        let row: Vec<(usize, usize)> = (1..100_000).map(|at| (at - 1, at)).collect();
        assert_eq!(places(100_000, &links(&row)), (0..100_000).collect::<Vec<_>>());
    }
}
