//! Splits a filter into words with positions.

/// A word of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// Its offset.
    pub(super) at: usize,
    pub(super) text: &'a str,
}

/// Characters of names, numbers and addresses.
fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '/' | '@' | '_' | ':')
}

/// The first word of a text that does not start with a blank.
fn first(text: &str) -> &str {
    let plain = text.len() - text.trim_start_matches(is_plain).len();
    if plain > 0 {
        return &text[..plain];
    }
    let twins = ["&&", "||", "<=", ">=", "!=", "=="];
    let one = || text.chars().next().map_or(0, char::len_utf8);
    let twin = twins.iter().find(|twin| text.starts_with(**twin));
    &text[..twin.map_or_else(one, |twin| twin.len())]
}

/// The words of a text.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let (mut words, mut at) = (Vec::new(), 0);
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        let word = first(&text[at..]);
        if word.is_empty() {
            return words;
        }
        words.push(Word { at, text: word });
        at += word.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_blanks_and_signs() {
        let cut = |text| words(text).iter().map(|word| word.text).collect::<Vec<_>>();
        assert_eq!(cut("src 10.0.0.0/24&&!syn"), ["src", "10.0.0.0/24", "&&", "!", "syn"]);
        assert_eq!(cut("ip[0:4]&0xF>=5"), ["ip", "[", "0:4", "]", "&", "0xF", ">=", "5"]);
        assert_eq!(cut("a ? (b) : c"), ["a", "?", "(", "b", ")", ":", "c"]);
        assert_eq!(cut(" <<= é, \t"), ["<", "<=", "é", ","]);
        assert_eq!(words(" x y")[1], Word { at: 3, text: "y" });
        assert!(cut("").is_empty() && cut(" \n").is_empty());
    }
}
