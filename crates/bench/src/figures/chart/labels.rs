//! Labels at the ends of lines, in place of a legend.

/// Distance of lines of text, pixels.
pub(super) const LINE: i32 = 14;

/// A text of at most `width` pixels a line, broken at spaces.
pub(crate) fn wrap(text: &str, size: u32, width: i32) -> Vec<String> {
    let most = letters(size, width);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_inclusive(' ') {
        let letters: Vec<char> = word.chars().collect();
        // A word that is longer than a line is cut.
        for part in letters.chunks(most) {
            let part: String = part.iter().collect();
            match lines.last_mut() {
                Some(line) if line.chars().count() + part.trim_end().chars().count() <= most => {
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Letters that fit in `width` pixels at this size, for an ordinary mixture of letters.
fn letters(size: u32, width: i32) -> usize {
    usize::try_from(i64::from(width) * 100 / (i64::from(size) * 58)).unwrap_or(0).max(8)
}

/// Width of a text in pixels, estimated the same way.
pub(super) fn width(text: &str, size: u32) -> i32 {
    i32::try_from(text.chars().count() as u64 * u64::from(size) * 58 / 100).unwrap_or(i32::MAX / 4)
}

/// Moves blocks of text so that none overlaps another: their middles, given where they would be best and how high each
/// is, between `top` and `bottom`. They keep their order from top to bottom. If there is not enough room, the last ones
/// end below `bottom`.
pub(super) fn apart(best: &[i32], heights: &[i32], top: i32, bottom: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..best.len()).collect();
    order.sort_by_key(|&at| best[at]);
    let mut tops: Vec<i32> = Vec::with_capacity(best.len());
    let mut free = top;
    for &at in &order {
        let wanted = best[at] - heights[at] / 2;
        tops.push(wanted.max(free));
        free = wanted.max(free) + heights[at];
    }
    // Those that went too far down push the ones above them up.
    let mut limit = bottom.max(top + heights.iter().sum::<i32>());
    for (place, &at) in order.iter().enumerate().rev() {
        tops[place] = tops[place].min(limit - heights[at]);
        limit = tops[place];
    }
    let mut middles = vec![0; best.len()];
    for (place, &at) in order.iter().enumerate() {
        middles[at] = tops[place] + heights[at] / 2;
    }
    middles
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_broken_at_spaces() {
        let lines = wrap("encrypt and decrypt, AES-128-CBC and HMAC-SHA1, Click", 12, 180);
        assert!(lines.len() > 1 && lines.iter().all(|line| width(line, 12) <= 180), "{lines:?}");
        assert_eq!(lines.join(" "), "encrypt and decrypt, AES-128-CBC and HMAC-SHA1, Click");
        assert_eq!(wrap("short", 12, 180), ["short"]);
        assert!(wrap(&"x".repeat(100), 12, 180).iter().all(|line| width(line, 12) <= 180));
    }

    proptest! {
        #[test]
        fn labels_do_not_overlap_and_keep_their_order(
            blocks in prop::collection::vec((0..500, prop::sample::select(vec![14, 28, 42])), 0..12),
        ) {
            let (best, heights): (Vec<i32>, Vec<i32>) = blocks.iter().copied().unzip();
            let middles = apart(&best, &heights, 0, 500);
            let mut placed: Vec<(i32, i32, i32)> =
                (0..best.len()).map(|at| (middles[at] - heights[at] / 2, heights[at], best[at])).collect();
            placed.sort_unstable();
            for pair in placed.windows(2) {
                prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{placed:?}");
                prop_assert!(pair[0].2 <= pair[1].2, "{placed:?}");
            }
            if heights.iter().sum::<i32>() <= 500 {
                prop_assert!(placed.iter().all(|&(top, height, _)| top >= 0 && top + height <= 500), "{placed:?}");
            }
        }

        #[test]
        fn labels_with_room_stay_where_they_are_best(step in 14..60, count in 1_i32..8) {
            let best: Vec<i32> = (0..count).map(|at| 20 + at * step).collect();
            let heights = vec![14; best.len()];
            prop_assert_eq!(apart(&best, &heights, 0, 500), best);
        }
    }
}
