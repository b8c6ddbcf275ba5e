//! `$x`, `${x}` and `${x-default}` in configuration strings, by Click's rules.

use crate::config_strings::{self, words};
use crate::limits::Budget;
use crate::problem::Problem;
use crate::text::Text;
use std::collections::HashMap;

/// Values nested deeper than this count as self-referential.
const MAX_DEPTH: usize = 10;

/// Values of variables in a scope, and the enclosing scope.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    parent: Option<&'a Env<'a>>,
    /// The nesting depth of this scope.
    pub(crate) depth: usize,
    values: HashMap<String, String>,
}

impl<'a> Env<'a> {
    pub(crate) fn new(parent: Option<&'a Env<'a>>, depth: usize) -> Self {
        Self { parent, depth, values: HashMap::new() }
    }

    pub(crate) fn define(&mut self, name: &str, value: String) {
        self.values.insert(name.to_owned(), value);
    }

    /// The innermost scope nested less deep than `depth`.
    pub(crate) fn outside(&'a self, depth: usize) -> Option<&'a Env<'a>> {
        let mut env = Some(self);
        while let Some(inner) = env.filter(|env| env.depth >= depth) {
            env = inner.parent;
        }
        env
    }

    fn value(&self, name: &str) -> Option<&str> {
        match self.values.get(name) {
            Some(value) => Some(value),
            None => self.parent?.value(name),
        }
    }

    /// Replaces variables that have a value. Others stay unchanged, and so do all in single quotes.
    pub(crate) fn expand(&self, text: &Text, budget: &mut Budget) -> Result<Text, Problem> {
        let mut out = Text::default();
        let mut kept = 0;
        self.scan(text.as_str(), 0, budget, |range, replacement| {
            out.push_part(text, kept..range.start);
            out.push_other(replacement, text.place(range.clone()).0);
            kept = range.end;
        })?;
        if kept == 0 {
            return Ok(text.clone());
        }
        out.push_part(text, kept..text.as_str().len());
        Ok(out)
    }

    /// The same without positions.
    pub(crate) fn expand_plain(&self, text: &str, budget: &mut Budget) -> Result<String, Problem> {
        self.expand_at(text, 0, budget)
    }

    fn expand_at(&self, text: &str, depth: usize, budget: &mut Budget) -> Result<String, Problem> {
        let mut out = String::new();
        let mut kept = 0;
        self.scan(text, depth, budget, |range, replacement| {
            out.push_str(&text[kept..range.start]);
            out.push_str(replacement);
            kept = range.end;
        })?;
        out.push_str(&text[kept..]);
        Ok(out)
    }

    /// Finds the references to replace, in order.
    fn scan(
        &self,
        text: &str,
        depth: usize,
        budget: &mut Budget,
        mut replace: impl FnMut(std::ops::Range<usize>, &str),
    ) -> Result<(), Problem> {
        let bytes = text.as_bytes();
        budget.steps(1 + bytes.len() / 64)?;
        let mut quote = 0;
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'\\' if quote == b'"' => at += 2,
                byte @ (b'"' | b'\'') => {
                    if quote == 0 || quote == byte {
                        quote ^= byte;
                    }
                    at += 1;
                }
                b'/' if quote == 0 => at = config_strings::skip_comment(bytes, at).unwrap_or(at + 1),
                b'$' if quote != b'\'' => {
                    let Some(reference) = Reference::at(text, at) else {
                        if matches!(bytes.get(at + 1), Some(b'{' | b'(')) {
                            // Click leaves everything after an unclosed bracket unchanged.
                            return Ok(());
                        }
                        at += 1;
                        continue;
                    };
                    let end = reference.end;
                    if let Some(value) = self.resolve(&reference, depth, budget)? {
                        let value = if quote == b'"' { inner_quote(&value) } else { value };
                        budget.bytes(value.len())?;
                        replace(at..end, &value);
                    }
                    at = end;
                }
                _ => at += 1,
            }
        }
        Ok(())
    }

    /// The replacement of a reference, or `None` to leave it unchanged.
    fn resolve(
        &self,
        reference: &Reference<'_>,
        depth: usize,
        budget: &mut Budget,
    ) -> Result<Option<String>, Problem> {
        if depth > MAX_DEPTH {
            return Err(Problem::VariableLoop(reference.body.chars().take(32).collect()));
        }
        let body = if reference.form != Form::Bare && reference.body.contains('$') {
            self.expand_at(reference.body, depth + 1, budget)?
        } else {
            reference.body.to_owned()
        };
        if let Some(value) = self.value_of(&body, reference.form, depth, budget)? {
            return Ok(Some(value));
        }
        Ok((body != reference.body).then(|| match reference.form {
            Form::Braces => format!("${{{body}}}"),
            Form::Parens | Form::Bare => format!("$({body})"),
        }))
    }

    fn value_of(
        &self,
        body: &str,
        form: Form,
        depth: usize,
        budget: &mut Budget,
    ) -> Result<Option<String>, Problem> {
        let (name, word, default) = if form == Form::Braces { braces(body) } else { (body, None, None) };
        if let Some(value) = self.value(name) {
            let value = self.expand_at(value, depth + 1, budget)?;
            let Some(word) = word else { return Ok(Some(value)) };
            let range = words(&value).nth(word);
            return Ok(Some(range.map_or(String::new(), |range| value[range].to_owned())));
        }
        default.map(|default| self.expand_at(default, depth + 1, budget)).transpose()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `$name`, `$?`, `$#`, `$$`
    Bare,
    /// `${…}`
    Braces,
    /// `$(…)`
    Parens,
}

struct Reference<'a> {
    form: Form,
    body: &'a str,
    end: usize,
}

impl<'a> Reference<'a> {
    /// The reference whose `$` is at `at`.
    fn at(text: &'a str, at: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let start = at + 1;
        match bytes.get(start)? {
            b'{' => {
                let end = start + bytes[start..].iter().position(|&byte| byte == b'}')?;
                Some(Self { form: Form::Braces, body: &text[start + 1..end], end: end + 1 })
            }
            b'(' => {
                let end = closing(bytes, start)?;
                Some(Self { form: Form::Parens, body: &text[start + 1..end], end: end + 1 })
            }
            b'?' | b'#' | b'$' => Some(Self { form: Form::Bare, body: &text[start..=start], end: start + 1 }),
            _ => {
                let name =
                    bytes[start..].iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'_');
                let end = start + name.count();
                (end > start).then(|| Self { form: Form::Bare, body: &text[start..end], end })
            }
        }
    }
}

/// The `)` of the `(` at `open`.
fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut level = 0_usize;
    let mut quote = 0;
    let mut at = open;
    while at < bytes.len() {
        match bytes[at] {
            b'(' if quote == 0 => level += 1,
            b')' if quote == 0 => {
                level -= 1;
                if level == 0 {
                    return Some(at);
                }
            }
            byte @ (b'"' | b'\'') if quote == 0 || quote == byte => quote ^= byte,
            b'\\' if quote != b'\'' => at += 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// `name`, `name[2]` and `name-default`.
fn braces(body: &str) -> (&str, Option<usize>, Option<&str>) {
    let body = body.trim_start_matches(|c: char| c.is_ascii() && config_strings::is_space(c as u8));
    let length = body.bytes().take_while(|&byte| byte.is_ascii_alphanumeric() || byte == b'_').count();
    let (name, rest) = body.split_at(length);
    let rest = rest.trim_start();
    let mut word = None;
    let mut after = rest;
    if let Some((index, tail)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        word = index.trim_start().parse().ok();
        if word.is_some() {
            after = tail.trim_start();
        }
    }
    (name, word, after.strip_prefix('-'))
}

/// Escapes `value` for use inside double quotes.
fn inner_quote(value: &str) -> String {
    let quoted = config_strings::quote(value.as_bytes());
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn env<'a>(values: &[(&str, &str)], parent: Option<&'a Env<'a>>) -> Env<'a> {
        let mut env = Env::new(parent, parent.map_or(0, |parent| parent.depth + 1));
        for (name, value) in values {
            env.define(name, (*value).to_owned());
        }
        env
    }

    fn expand(env: &Env<'_>, text: &str) -> String {
        let mut budget = Budget::new(Limits::default());
        let plain = env.expand_plain(text, &mut budget).unwrap();
        let mut placed = Text::default();
        placed.push_source(text, 0);
        assert_eq!(env.expand(&placed, &mut budget).unwrap().as_str(), plain);
        plain
    }

    #[test]
    fn variables_are_replaced_where_click_replaces_them() {
        let env = env(&[("a", "100"), ("b", "x y  z"), ("q", "say \"$a\""), ("n", "a")], None);
        assert_eq!(expand(&env, "1, $a, 3"), "1, 100, 3");
        assert_eq!(expand(&env, "${a}b $ab ${ab}"), "100b $ab ${ab}");
        assert_eq!(expand(&env, "'$a' \"$a\" \"\\$a\""), "'$a' \"100\" \"\\$a\"");
        assert_eq!(expand(&env, "${c-7} ${a-7} ${c-$a}"), "7 100 100");
        assert_eq!(expand(&env, "${b[1]} ${ b [ 5] }-"), "y -");
        assert_eq!(expand(&env, "$q"), "say \"100\"");
        assert_eq!(expand(&env, "\"$q\""), "\"say \\\"100\\\"\"");
        assert_eq!(expand(&env, "/* $a */ // $a\n$a"), "/* $a */ // $a\n100");
        assert_eq!(expand(&env, "${$n} $(f $a) $(f \")\" g)"), "100 $(f 100) $(f \")\" g)");
        assert_eq!(expand(&env, "$ $$ $? $a ${a $a"), "$ $$ $? 100 ${a $a");
        assert_eq!(expand(&env, "${z$a}"), "${z100}");
    }

    #[test]
    fn inner_scopes_hide_outer_ones() {
        let outer = env(&[("a", "1"), ("b", "$a")], None);
        let inner = env(&[("a", "2")], Some(&outer));
        assert_eq!(expand(&inner, "$a $b"), "2 2");
        assert_eq!(expand(&outer, "$a $b"), "1 1");
        assert_eq!(inner.outside(1).unwrap().depth, 0);
        assert_eq!(inner.outside(2).unwrap().depth, 1);
        assert!(outer.outside(0).is_none());
    }

    #[test]
    fn a_value_that_contains_itself_is_refused() {
        let env = env(&[("a", "$b"), ("b", "x$a"), ("c", "$c $c $c $c")], None);
        let mut budget = Budget::new(Limits::default());
        assert!(matches!(env.expand_plain("$a", &mut budget), Err(Problem::VariableLoop(_))));
        assert!(env.expand_plain("$c", &mut budget).is_err());
    }

    #[test]
    fn values_that_double_meet_the_limit() {
        let names: Vec<String> = (0..10).map(|n| format!("v{n}")).collect();
        let mut env = Env::new(None, 0);
        for (n, name) in names.iter().enumerate() {
            let value = names.get(n + 1).map_or("x".to_owned(), |next| format!("${next} ").repeat(40));
            env.define(name, value);
        }
        let limits = Limits { expanded_bytes: 100_000, ..Limits::default() };
        let problem = env.expand_plain("$v0", &mut Budget::new(limits)).unwrap_err();
        assert!(matches!(problem, Problem::TooLarge { limit: 100_000, .. }), "{problem}");
    }
}
