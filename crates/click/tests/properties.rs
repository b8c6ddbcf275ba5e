//! Random configurations: printing and parsing gives the same configuration, compounds expand to their definition, and no
//! text causes a panic or exceeds a limit.

#![allow(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "a test's helpers fail the test, and write text"
)]

use proptest::prelude::*;
use scalebricks_click::{Configuration, Limits, Options, parse};
use std::collections::BTreeSet;

/// Depth of nested compounds in the random texts.
const DEPTH: u32 = 3;

/// A random scope: its elements and connections, among them those to its `input` and `output`.
#[derive(Clone, Debug)]
struct Scope {
    elements: Vec<Element>,
    /// From an element or the input, to an element or the output, by index; `elements.len()` is outside.
    links: Vec<(usize, u32, usize, u32)>,
}

#[derive(Clone, Debug)]
enum Element {
    Plain(String, Vec<String>),
    Compound(Scope),
    /// Written as a class before the scope, with its arguments as parameters.
    Class(Scope),
}

fn argument() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9_./:-]{1,6}",
        "[0-9]{1,3} [a-z]{1,3}",
        "\"([ -!#-\\[\\]-~]|\\\\[\\\\\"nt]){0,6}\"",
        "'[ -&(-~]{0,6}'",
        "\\\\<[0-9a-f ]{0,6}>",
        "\\([a-z ]{0,4}\\)",
    ]
    .prop_filter("comments and variables stand in quotes only", |text| {
        !text.contains("//") && !text.contains("/*") && !text.contains('$')
    })
}

fn scope() -> impl Strategy<Value = Scope> {
    let plain = ("[A-Z][a-z]{0,3}", proptest::collection::vec(argument(), 0..4));
    let leaf = plain.prop_map(|(class, args)| Element::Plain(class, args)).boxed();
    let element = leaf.prop_recursive(DEPTH, 24, 4, |inner| {
        prop_oneof![
            2 => ("[A-Z][a-z]{0,3}", proptest::collection::vec(argument(), 0..4)).prop_map(|(class, args)| Element::Plain(class, args)),
            1 => scope_of(inner.clone()).prop_map(Element::Compound),
            1 => scope_of(inner).prop_map(Element::Class),
        ]
    });
    scope_of(element.boxed())
}

fn scope_of(element: BoxedStrategy<Element>) -> impl Strategy<Value = Scope> {
    let links = proptest::collection::vec((0_usize..6, 0_u32..3, 0_usize..6, 0_u32..3), 0..8);
    (proptest::collection::vec(element, 1..5), links).prop_map(|(elements, links)| {
        let outside = elements.len();
        let links =
            links.into_iter().map(|(a, p, b, q)| (a % (outside + 1), p, b % (outside + 1), q)).collect();
        Scope { elements, links }
    })
}

/// The flat form of a scope, computed independently: elements, connections as text, and the ports of the scope.
#[derive(Default)]
struct Flat {
    elements: BTreeSet<String>,
    /// Between `name` and port, where `name/` and `/name` are the sides of compounds.
    links: BTreeSet<((String, u32), (String, u32))>,
    /// Names of compounds.
    compounds: Vec<String>,
}

/// Writes a scope as Click text, and records its flat form.
struct Writer {
    text: String,
    flat: Flat,
    classes: usize,
}

impl Writer {
    /// `ports` are those of the scope that are connected from outside.
    fn scope(&mut self, scope: &Scope, prefix: &str, ports: Option<&[BTreeSet<u32>; 2]>) {
        let outside = scope.elements.len();
        let mut links: BTreeSet<(usize, u32, usize, u32)> = scope.links.iter().copied().collect();
        if let Some([inputs, outputs]) = ports {
            links.retain(|&(a, p, b, q)| {
                (a != outside || inputs.contains(&p)) && (b != outside || outputs.contains(&q))
            });
            links.extend(inputs.iter().map(|&port| (outside, port, 0, 0)));
            links.extend(outputs.iter().map(|&port| (0, 0, outside, port)));
        } else {
            links.retain(|&(a, _, b, _)| a != outside && b != outside);
        }
        fill_gaps(scope, &mut links);
        self.elements(scope, prefix, &links);
        for &(a, p, b, q) in &links {
            let name = |element: usize, side: &str| {
                if element == outside { side.to_owned() } else { format!("e{element}") }
            };
            self.text.push_str(&format!("{} [{p}] -> [{q}] {};\n", name(a, "input"), name(b, "output")));
            let compound = prefix.trim_end_matches('/');
            let from = if a == outside { format!("{compound}/<") } else { format!("{prefix}e{a}") };
            let to = if b == outside { format!("{compound}/>") } else { format!("{prefix}e{b}") };
            self.flat.links.insert(((from, p), (to, q)));
        }
    }

    fn elements(&mut self, scope: &Scope, prefix: &str, links: &BTreeSet<(usize, u32, usize, u32)>) {
        for (index, element) in scope.elements.iter().enumerate() {
            let name = format!("{prefix}e{index}");
            match element {
                Element::Plain(class, args) => {
                    self.text
                        .push_str(&format!("e{index} :: {class}({}); // plain\n", args.join(" /* , */ , ")));
                    self.flat.elements.insert(format!("{name} :: {class}({})", args.join(", ")));
                }
                Element::Compound(inner) => {
                    self.text.push_str(&format!("e{index} :: {{\n"));
                    self.scope(inner, &format!("{name}/"), Some(&used(links, index)));
                    self.text.push_str("};\n");
                    self.flat.compounds.push(name);
                }
                Element::Class(inner) => {
                    self.classes += 1;
                    let class = format!("C{}", self.classes);
                    self.text.push_str(&format!(
                        "elementclass {class} {{ $p, KEY $q, __REST__ $r | unused :: U($p, $q, $r)\n"
                    ));
                    self.scope(inner, &format!("{name}/"), Some(&used(links, index)));
                    self.text.push_str(&format!("}}\ne{index} :: {class}(1, KEY 'two', 3, 4);\n"));
                    self.flat.elements.insert(format!("{name}/unused :: U(1, 'two', 3, 4)"));
                    self.flat.compounds.push(name);
                }
            }
        }
    }
}

/// Connects unconnected ports of compounds below connected ones, until there are none: a compound has no gaps.
fn fill_gaps(scope: &Scope, links: &mut BTreeSet<(usize, u32, usize, u32)>) {
    let mut before = 0;
    while before != links.len() {
        before = links.len();
        for (index, element) in scope.elements.iter().enumerate() {
            if matches!(element, Element::Plain(..)) {
                continue;
            }
            let [inputs, outputs] = used(links, index).map(|ports| ports.last().map_or(0, |last| last + 1));
            let missing =
                |ports: &BTreeSet<u32>, count: u32| (0..count).filter(|port| !ports.contains(port)).collect();
            let [has_in, has_out] = used(links, index);
            let (missing_in, missing_out): (Vec<u32>, Vec<u32>) =
                (missing(&has_in, inputs), missing(&has_out, outputs));
            links.extend(missing_in.into_iter().map(|port| (0, 0, index, port)));
            links.extend(missing_out.into_iter().map(|port| (index, port, 0, 1)));
        }
    }
}

/// The inputs and outputs of an element that have connections.
fn used(links: &BTreeSet<(usize, u32, usize, u32)>, element: usize) -> [BTreeSet<u32>; 2] {
    let inputs = links.iter().filter(|link| link.2 == element).map(|link| link.3).collect();
    let outputs = links.iter().filter(|link| link.0 == element).map(|link| link.1).collect();
    [inputs, outputs]
}

type Links = BTreeSet<((String, u32), (String, u32))>;

/// Removes one compound after the other: a connection to its input `p` continues from the other side of that input.
fn without_compounds(mut links: Links, compounds: &[String]) -> Links {
    for compound in compounds {
        for (outer, inner) in
            [(compound.clone(), format!("{compound}/<")), (format!("{compound}/>"), compound.clone())]
        {
            for port in 0..4 {
                let into: Vec<_> = links
                    .iter()
                    .filter(|link| link.1 == (outer.clone(), port))
                    .map(|link| link.0.clone())
                    .collect();
                let onward: Vec<_> = links
                    .iter()
                    .filter(|link| link.0 == (inner.clone(), port))
                    .map(|link| link.1.clone())
                    .collect();
                for from in &into {
                    links.extend(onward.iter().map(|to| (from.clone(), to.clone())));
                }
                links.retain(|link| link.1 != (outer.clone(), port) && link.0 != (inner.clone(), port));
            }
        }
    }
    links
}

fn named(configuration: &Configuration) -> (BTreeSet<String>, Links) {
    let name = |element: usize| configuration.elements[element].name.clone();
    let elements = configuration.elements.iter().map(|element| {
        let args: Vec<&str> = element.args.iter().map(|argument| argument.text.as_str()).collect();
        format!("{} :: {}({})", element.name, element.class, args.join(", "))
    });
    let links = configuration.connections.iter();
    let links = links.map(|c| ((name(c.from.element), c.from.port), (name(c.to.element), c.to.port)));
    (elements.collect(), links.collect())
}

/// Tokens of Click, so that random texts pass the lexer.
fn pieces() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a",
        "b",
        "A",
        "B",
        "input",
        "output",
        " -> ",
        " => ",
        " :: ",
        "[0]",
        "[1,]",
        "[]",
        "(",
        ")",
        "{",
        "}",
        "||",
        "...",
        "|",
        ";",
        ",",
        "$x",
        "${x-1}",
        "elementclass ",
        "define(",
        "require(",
        "\"",
        "'",
        "\\<",
        ">",
        "/*",
        "*/",
        "//",
        "\n",
        "#line 3 \"f\"\n",
        "a/b",
        "é",
        "4095",
        "AddressInfo(",
        "KEY ",
        "__REST__ ",
        "Queue",
        "Idle",
    ]);
    proptest::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// The reference has the scopes as a tree and removes compounds one by one; the crate parses the text.
    #[test]
    fn compounds_expand_to_what_they_stand_for(scope in scope()) {
        let mut writer = Writer { text: String::new(), flat: Flat::default(), classes: 0 };
        writer.scope(&scope, "", None);
        let configuration = parse("t", writer.text.as_bytes(), &Options::default());
        let configuration = configuration.map_err(|errors| TestCaseError::fail(format!("{errors}\n{}", writer.text)))?;
        let (elements, links) = named(&configuration);
        prop_assert_eq!(&elements, &writer.flat.elements, "{}", writer.text);
        prop_assert_eq!(links, without_compounds(writer.flat.links, &writer.flat.compounds), "{}", writer.text);
        let again = parse("printed", configuration.to_string().as_bytes(), &Options::default()).unwrap();
        prop_assert_eq!(again, configuration);
    }

    #[test]
    fn any_text_is_read_or_refused(text in pieces()) {
        let limits = Limits { elements: 200, connections: 200, depth: 8, errors: 5, ..Limits::default() };
        let options = Options { limits, parameters: Vec::new() };
        match parse("t", text.as_bytes(), &options) {
            Ok(configuration) => {
                prop_assert!(configuration.elements.len() <= 200 && configuration.connections.len() <= 200);
                let printed = configuration.to_string();
                let again = parse("printed", printed.as_bytes(), &Options::default());
                let again = again.map_err(|errors| TestCaseError::fail(format!("{errors}")))?;
                prop_assert_eq!(&again, &configuration);
            }
            Err(errors) => {
                prop_assert!((1..=5).contains(&errors.list().len()));
                for diagnostic in errors.list() {
                    prop_assert!(diagnostic.span.end as usize <= text.len());
                }
                prop_assert!(!errors.to_string().is_empty());
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        if let Err(errors) = parse("t", &bytes, &Options::default()) {
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}
