//! Assigns arguments to a compound's parameters.

use crate::config_strings;
use crate::parser::owner;
use crate::program::{Compound, Formal, REST};

/// The parameters' values, or `None` if the arguments do not match. Keywords may be anywhere; the last of several
/// counts.
pub(crate) fn assign(formals: &[Formal], args: &[&str]) -> Option<Vec<String>> {
    let positional = formals.iter().take_while(|formal| formal.keyword.is_none()).count();
    if positional == formals.len() {
        return (args.len() == formals.len()).then(|| args.iter().map(|&arg| arg.to_owned()).collect());
    }
    let mut values: Vec<Option<String>> = vec![None; formals.len()];
    let mut rest = Vec::new();
    let mut next = 0;
    for &arg in args {
        if let Some((at, value)) = keyword(formals, arg) {
            values[at] = Some(value.to_owned());
        } else if next < positional {
            values[next] = Some(arg.to_owned());
            next += 1;
        } else {
            rest.push(arg);
        }
    }
    match formals.last().and_then(|formal| formal.keyword.as_deref()) {
        Some(REST) => values[formals.len() - 1] = Some(config_strings::join(rest)),
        _ if !rest.is_empty() => return None,
        _ => {}
    }
    values.into_iter().collect()
}

/// The keyword that an argument starts with, and its value.
fn keyword<'a>(formals: &[Formal], arg: &'a str) -> Option<(usize, &'a str)> {
    let (word, value) = config_strings::shift_word(arg);
    let at = formals.iter().position(|formal| formal.keyword.as_deref() == Some(word) && word != REST)?;
    Some((at, value))
}

/// `2 arguments, 1 input, 0 outputs`.
pub(crate) fn counts(args: usize, inputs: u32, outputs: u32) -> String {
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let ports = format!("{}, {}", plural(inputs as usize, "input"), plural(outputs as usize, "output"));
    if args == 0 { ports } else { format!("{}, {ports}", plural(args, "argument")) }
}

/// A compound's parameters and ports, for display.
pub(crate) fn signature(compound: &Compound) -> String {
    let formals: Vec<&str> = compound
        .formals
        .iter()
        .map(|formal| match formal.keyword.as_deref() {
            None => "<arg>",
            Some(REST) => "...",
            Some(keyword) => keyword,
        })
        .collect();
    let formals = if formals.is_empty() { String::new() } else { format!("({})", formals.join(", ")) };
    format!("{}{formals}[{}]", owner(&compound.name), counts(0, compound.inputs, compound.outputs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formals(list: &[(&str, Option<&str>)]) -> Vec<Formal> {
        list.iter()
            .map(|(name, keyword)| Formal { name: (*name).into(), keyword: keyword.map(str::to_owned) })
            .collect()
    }

    #[test]
    fn arguments_fit_as_click_documents() {
        let two = formals(&[("a", None), ("b", None)]);
        assert_eq!(assign(&two, &["1", "2"]), Some(vec!["1".into(), "2".into()]));
        assert_eq!(assign(&two, &["1"]), None);
        assert_eq!(assign(&two, &["1", "2", "3"]), None);
        let count = formals(&[("count", Some("COUNT"))]);
        assert_eq!(assign(&count, &["1"]), None);
        assert_eq!(assign(&count, &["COUNT 1"]), Some(vec!["1".into()]));
        assert_eq!(assign(&count, &[]), None);
        let rest = formals(&[("a", None), ("count", Some("COUNT")), ("rest", Some(REST))]);
        let values = assign(&rest, &["1", "2", "COUNT 3", "FOO 4"]).unwrap();
        assert_eq!(values, ["1", "3", "2, FOO 4"]);
        assert_eq!(assign(&rest, &["COUNT 3", "1"]).unwrap(), ["1", "3", ""]);
    }
}
