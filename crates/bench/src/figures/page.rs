//! Writes measured tables into a page, each between two comments that name it.

use super::exhibit::Sheet;

/// The page with every table that it has a place for written anew.
///
/// A place is all between `<!-- begin NAME -->` and `<!-- end NAME -->`.
///
/// # Errors
/// The name of the first table that the page has no place for.
pub fn fill(page: &str, sheets: &[Sheet]) -> Result<String, String> {
    let mut text = page.to_owned();
    for sheet in sheets {
        let place = (format!("<!-- begin {} -->\n", sheet.name), format!("<!-- end {} -->", sheet.name));
        let found = text.find(&place.0).and_then(|begin| {
            let from = begin + place.0.len();
            text[from..].find(&place.1).map(|length| from..from + length)
        });
        let Some(range) = found else { return Err(sheet.name.to_owned()) };
        text.replace_range(range, &format!("\n{}\n", sheet.markdown()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_marks_changes() {
        let mut sheet = Sheet::new("t", &["a"]);
        sheet.rows.push(vec!["1".to_owned()]);
        let page = "head\n<!-- begin t -->\nold\n<!-- end t -->\ntail\n";
        let filled = fill(page, &[sheet.clone()]).unwrap();
        assert_eq!(filled, "head\n<!-- begin t -->\n\n| a |\n|---|\n| 1 |\n\n<!-- end t -->\ntail\n");
        assert_eq!(fill(&filled, &[sheet]).unwrap(), filled);
    }

    #[test]
    fn a_table_without_a_place_is_refused() {
        assert_eq!(fill("nothing", &[Sheet::new("t", &["a"])]), Err("t".to_owned()));
    }
}
