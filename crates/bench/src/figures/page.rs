//! Writes measured tables into a page, each between two comments that name it.

use super::exhibit::Exhibits;

/// The page with every table and conclusion written anew.
///
/// A place is all between `<!-- begin NAME -->` and `<!-- end NAME -->`.
///
/// # Errors
/// The name of the first table or conclusion that the page has no place for.
pub fn fill(page: &str, exhibits: &Exhibits) -> Result<String, String> {
    let mut text = page.to_owned();
    let sheets = exhibits.sheets.iter().map(|sheet| (sheet.name, sheet.markdown()));
    let conclusions = exhibits.conclusions.iter().map(|said| (said.name, format!("{}\n", said.sentence)));
    for (name, content) in sheets.chain(conclusions) {
        let place = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
        let found = text.find(&place.0).and_then(|begin| {
            let from = begin + place.0.len();
            text[from..].find(&place.1).map(|length| from..from + length)
        });
        let Some(range) = found else { return Err(name.to_owned()) };
        text.replace_range(range, &format!("\n{content}\n"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::exhibit::{Conclusion, Sheet};
    use super::*;

    fn exhibits(sheets: Vec<Sheet>) -> Exhibits {
        Exhibits { sheets, ..Exhibits::default() }
    }

    #[test]
    fn conclusions_have_places_too() {
        let conclusions = vec![Conclusion { name: "c", sentence: "It is fast.".to_owned() }];
        let filled =
            fill("<!-- begin c -->\n<!-- end c -->\n", &Exhibits { conclusions, ..Exhibits::default() });
        assert_eq!(filled.unwrap(), "<!-- begin c -->\n\nIt is fast.\n\n<!-- end c -->\n");
    }

    #[test]
    fn only_what_lies_between_the_marks_changes() {
        let mut sheet = Sheet::new("t", &["a"]);
        sheet.rows.push(vec!["1".to_owned()]);
        let page = "head\n<!-- begin t -->\nold\n<!-- end t -->\ntail\n";
        let filled = fill(page, &exhibits(vec![sheet.clone()])).unwrap();
        assert_eq!(filled, "head\n<!-- begin t -->\n\n| a |\n|---|\n| 1 |\n\n<!-- end t -->\ntail\n");
        assert_eq!(fill(&filled, &exhibits(vec![sheet])).unwrap(), filled);
    }

    #[test]
    fn a_table_without_a_place_is_refused() {
        assert_eq!(fill("nothing", &exhibits(vec![Sheet::new("t", &["a"])])), Err("t".to_owned()));
    }
}
