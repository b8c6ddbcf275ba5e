//! One system of equations on any processor.

use super::{Equations, Fields, ROWS, Single};

/// The vectors of the equations under a seed, or `None` on a contradiction.
pub(super) fn eliminate(single: &Single, equations: &Equations, seed: u32) -> Option<Fields> {
    let columns = single.shape.columns;
    let mut rows = [0; ROWS];
    let of = equations.keys.iter().zip(&equations.values).take(equations.count);
    for (row, (&key, &value)) in rows.iter_mut().zip(of) {
        *row = single.rows.row(key.into(), seed) as u32 | value << columns; // a row has fewer than 32 bits
    }
    let rows = &mut rows[..equations.count];
    for at in 0..rows.len() {
        let row = rows[at];
        let pivot = lowest(row);
        for other in rows.iter_mut() {
            // All ones if the row has the pivot, from there up: no bit of `row` lies below.
            *other ^= (*other & pivot).wrapping_neg() & row;
        }
        rows[at] = row; // it was added to itself
        if pivot >> columns != 0 {
            return None; // 0 = 1
        }
    }
    let mut vectors = [0; 8];
    for (bit, vector) in (columns..).zip(&mut vectors).take(single.value_bits) {
        *vector = rows.iter().fold(0, |all, &row| all | u64::from((row >> bit & 1) * lowest(row)));
    }
    Some(vectors)
}

/// The lowest set bit.
const fn lowest(row: u32) -> u32 {
    row & row.wrapping_neg()
}
