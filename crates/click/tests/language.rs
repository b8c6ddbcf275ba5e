//! Click's language: the configuration that a text describes, and refused texts.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::format_push_string,
    reason = "a test's helpers fail the test, and write text"
)]

use scalebricks_click::{
    Argument, Configuration, Connection, Declaration, Errors, Limits, Options, Port, Problem, Span, parse,
};

fn read(text: &str) -> Configuration {
    let configuration = parse("t.click", text.as_bytes(), &Options::default())
        .unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    let printed = configuration.to_string();
    let again =
        parse("printed", printed.as_bytes(), &Options::default()).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(again, configuration, "{printed}");
    configuration
}

fn refuse(text: &str) -> Errors {
    match parse("t.click", text.as_bytes(), &Options::default()) {
        Ok(configuration) => panic!("accepted {text}:\n{configuration}"),
        Err(errors) => errors,
    }
}

fn refused(text: &str) -> String {
    refuse(text).to_string()
}

/// Elements as `name :: Class(args)`, sorted, then connections as `a[0]->[0]b`, sorted.
fn flat(text: &str) -> String {
    let configuration = read(text);
    let name = |element: usize| configuration.elements[element].name.clone();
    let elements = configuration.elements.iter().map(|element| {
        let args: Vec<&str> = element.args.iter().map(|argument| argument.text.as_str()).collect();
        if args.is_empty() {
            format!("{}::{}", element.name, element.class)
        } else {
            format!("{}::{}({})", element.name, element.class, args.join("|"))
        }
    });
    let mut connections: Vec<String> = configuration
        .connections
        .iter()
        .map(|link| {
            format!(
                "{}[{}]->[{}]{}",
                name(link.from.element),
                link.from.port,
                link.to.port,
                name(link.to.element)
            )
        })
        .collect();
    connections.sort();
    elements.chain(connections).collect::<Vec<_>>().join(" ")
}

#[test]
fn declarations_and_connections() {
    assert_eq!(flat("a :: A; b :: B(1, 2); a [1] -> [2] b;"), "a::A b::B(1|2) a[1]->[2]b");
    assert_eq!(flat("a, b, c :: A(x)"), "a::A(x) b::A(x) c::A(x)");
    assert_eq!(flat("a::A b::B a->b"), "a::A b::B a[0]->[0]b");
    assert_eq!(
        flat("a :: A; x :: X; b :: B; a [1] -> [2] x [3] -> [4] b;"),
        "a::A x::X b::B a[1]->[2]x x[3]->[4]b"
    );
    assert_eq!(flat("a :: A -> [0x10] b :: B [010] -> C"), "a::A b::B C@3::C a[0]->[16]b b[8]->[0]C@3");
    assert_eq!(flat("A(1, )-> B(/* none */);;"), "A@1::A(1) B@2::B A@1[0]->[0]B@2");
}

#[test]
fn anonymous_elements_have_the_names_that_click_gives() {
    assert_eq!(flat("A -> B; A;"), "A@1::A B@2::B A@3::A A@1[0]->[0]B@2");
    assert_eq!(flat("A@1 :: Z; A; A"), "A@1::Z A@2::A A@3::A");
    assert_eq!(flat("A; A@1 :: Z;"), "A@2::A A@1::Z");
    assert_eq!(flat("x :: { A; B }"), "x/A@1::A x/B@2::B");
    assert_eq!(flat("{ A }"), "@1/A@1::A");
}

#[test]
fn lists_connect_many_to_one_and_one_to_many() {
    assert_eq!(
        flat("n1, n2, n3, x :: A; n1, n2 [2], n3 -> [1] x"),
        "n1::A n2::A n3::A x::A n1[0]->[1]x n2[2]->[1]x n3[0]->[1]x"
    );
    assert_eq!(flat("x :: A -> b :: B, c :: C"), "x::A b::B c::C x[0]->[0]b x[0]->[0]c");
    assert_eq!(flat("n1 :: D; n1, n2 :: C -> n3 :: D"), "n1::D n2::C n3::D n1[0]->[0]n3 n2[0]->[0]n3");
    let three = "c::C next::N P@3::P(0) P@4::P(1) P@5::P(2) P@3[0]->[0]next P@4[0]->[0]next P@5[0]->[0]next \
                 c[0]->[0]P@3 c[1]->[0]P@4 c[2]->[0]P@5";
    for left in ["c[0], c[1], c[2]", "c[0,1,2]", "c", "c[]", "c[0,]"] {
        assert_eq!(flat(&format!("c :: C; next :: N; {left} => P(0), P(1), P(2) -> next")), three);
    }
    assert_eq!(flat("a :: A => [2,] b :: B; a[1] -> b").len(), "a::A b::B a[0]->[2]b a[1]->[0]b".len());
    assert!(refused("a,b,c,d :: A; a, b -> c, d").contains("many-to-many connections require `=>`"));
    assert!(
        refused("a,b,c,d :: A; a, b => c, d, a")
            .contains("connection mismatch: 2 outputs connected to 3 inputs")
    );
    assert!(refused("a, b :: A; a[] => []b").contains("at most one expandable port"));
}

#[test]
fn groups_stand_for_their_statements() {
    let plain = flat("x :: X; y :: Y; x -> y");
    for text in ["x -> (input -> output) -> y", "x -> ([0] -> [0]) -> y", "x -> (->) -> y"] {
        assert_eq!(flat(&format!("x :: X; y :: Y; {text}")), plain);
    }
    assert_eq!(
        flat("x::X; y::Y; x -> ([0]->[0]; [1]->[1]) => ([0]->[0]; [1]->[1]) -> y"),
        "x::X y::Y x[0]->[0]y",
        "connections may be repeated"
    );
    assert_eq!(
        flat("x::X; y::Y; x -> c :: C(00/01) => ( input[0] -> output; input[1] -> P(1) -> output ) -> y"),
        "x::X y::Y c::C(00/01) P@7::P(1) P@7[0]->[0]y c[0]->[0]y c[1]->[0]P@7 x[0]->[0]c"
    );
    assert_eq!(flat("x::X; y::Y; x => ([0]->[0]; [1]->[1]) -> y"), "x::X y::Y x[0]->[0]y x[1]->[0]y");
    assert!(
        refused("x::X; y::Y; x => ([0] -> [0]; [2] -> Idle) -> y")
            .contains("`<anonymous group>` input 1 missing")
    );
    assert!(refused("x::X; x -> (input -> output").contains("expected `)`"));
}

#[test]
fn compounds_are_flattened() {
    assert_eq!(
        flat("a::A; b::B; a -> { input -> X -> output } -> b"),
        "a::A b::B @3/X@1::X @3/X@1[0]->[0]b a[0]->[0]@3/X@1"
    );
    assert_eq!(
        flat(
            "a,b,c,d::A; k :: { input -> x::X -> output; input[1] -> y::Y -> [1]output }; a -> k -> b; c -> [1]k[1] -> d"
        ),
        "a::A b::A c::A d::A k/x::X k/y::Y a[0]->[0]k/x c[0]->[0]k/y k/x[0]->[0]b k/y[0]->[0]d"
    );
    assert_eq!(
        flat("elementclass E { [0] -> q :: Q -> [0] } A -> E -> B"),
        "A@1::A B@3::B E@2/q::Q A@1[0]->[0]E@2/q E@2/q[0]->[0]B@3"
    );
    assert_eq!(
        flat("elementclass Q { input -> Q -> S(1) -> output } A -> q :: Q -> B"),
        "A@1::A B@3::B q/Q@1::Q q/S@2::S(1) A@1[0]->[0]q/Q@1 q/Q@1[0]->[0]q/S@2 q/S@2[0]->[0]B@3"
    );
    assert_eq!(
        flat("elementclass A { B } elementclass B { C } x :: A"),
        "x/B@1::B",
        "classes are scoped lexically"
    );
    assert_eq!(flat("elementclass M Queue; m :: M(3)"), "m::Queue(3)");
    assert_eq!(flat("x :: { elementclass I { J } I } ; I"), "I@2::I x/I@1/J@1::J");
    assert_eq!(flat("a::A; b::B; a -> { -> { -> } -> } -> b"), "a::A b::B a[0]->[0]b");
    assert_eq!(flat("k :: { input -> output }; k -> k; a :: A"), "a::A", "circles lead nowhere");
}

#[test]
fn ports_of_compounds_are_checked() {
    assert!(refused("k :: { input -> X -> output }; A -> k").contains("`k` output 0 unused"));
    assert!(refused("k :: { X -> output }; A -> k -> B").contains("`k` has no input 0"));
    assert!(refused("k :: { input[1] -> X }; A -> [1]k").contains("input 0 missing"));
    assert!(refused("k :: { X -> input }").contains("pseudoelement `input` may only be used as output"));
    assert!(refused("k :: { output -> X }").contains("pseudoelement `output` may only be used as input"));
    assert!(refused("input -> X").contains("undeclared element `input`"));
}

#[test]
fn parameters_are_replaced() {
    assert_eq!(
        flat("A -> { $a | input -> X(1, $a, 3) -> output } (100) -> B"),
        "A@1::A B@3::B @2/X@1::X(1|100|3) @2/X@1[0]->[0]B@3 A@1[0]->[0]@2/X@1"
    );
    assert_eq!(
        flat("elementclass E { $a, COUNT $n, __REST__ $r | X($r, $n, '$a') } e :: E(1, 2, COUNT 3, FOO 4)"),
        "e/X@1::X(2|FOO 4|3|'$a')"
    );
    assert_eq!(flat("define($DEV eth0, $N 1); F($DEV, $N, ${M-7}, $M)"), "F@1::F(eth0|1|7|$M)");
    assert_eq!(
        flat("Message($a); define($a 2)"),
        "Message@1::Message(2)",
        "definitions of a scope take place at once"
    );
    assert_eq!(flat("define($a 1) x :: { define($a 2) X($a) } Y($a)"), "Y@2::Y(1) x/X@1::X(2)");
    assert_eq!(
        flat("define($a 1) elementclass E { X($a) } y :: { define($a 2) e :: E }"),
        "y/e/X@1::X(1)",
        "lexical scope"
    );
    assert_eq!(
        flat("elementclass E { $x | X($x) } elementclass F { $x | E(<$x>) } f :: F(7)"),
        "f/E@1/X@1::X(<7>)"
    );
    assert_eq!(flat("{ $a | X(\"$a\", $a) } ('q, \"r')"), "@1/X@1::X(\"'q, \\\"r'\"|'q, \"r')");
    let options = Options { parameters: vec![("a".into(), "9".into())], ..Options::default() };
    let set = parse("t", b"define($a 1) X($a)", &options).unwrap();
    assert_eq!(set.elements[0].args[0].text, "9", "a value from outside goes before the file's");
}

#[test]
fn parameters_that_do_not_fit_are_refused() {
    assert!(
        refused("e :: { $a, $b | X } (1)")
            .contains("no match for `<anonymous>[1 argument, 0 inputs, 0 outputs]`")
    );
    assert!(refused("e :: { COUNT $c | X } (1)").contains("candidates: <anonymous>(COUNT)"));
    assert!(refused("{ $a, $a | X }").contains("parameter `$a` multiply defined"));
    assert!(refused("{ C $a, $b | X }").contains("parameters out of order"));
    assert!(refused("{ C $a, C $b | X }").contains("repeated keyword parameter `C`"));
    assert!(refused("define($a 1, $a 2)").contains("multiply defined"));
    assert!(refused("define(a 1)").contains("needs a variable, not `a`"));
    assert!(refused("define($a $b, $b $a) X($a)").contains("refers to itself"));
    assert!(refused("{ $a | X($a) } ((b, c))").contains("no match"));
    assert!(
        refused("elementclass E { $a, $b | X($a) } E((b, c))").contains("`(b` cannot stand as arguments")
    );
}

#[test]
fn overloads_are_chosen_by_ports_and_arguments() {
    let class = "elementclass Q { input -> Queue -> output || $c | input -> Queue($c) -> output || [0] -> [0]; [1] -> Discard }";
    assert_eq!(flat(&format!("{class} A -> q :: Q -> B")).matches("q/Queue@1::Queue ").count(), 1);
    assert_eq!(flat(&format!("{class} A -> q :: Q(9) -> B")).matches("q/Queue@1::Queue(9)").count(), 1);
    assert_eq!(
        flat(&format!("{class} A -> q :: Q -> B; A -> [1]q")).matches("q/Discard@1::Discard").count(),
        1
    );
    assert!(
        refused(&format!("{class} A -> Q(1, 2) -> B"))
            .contains("no match for `Q[2 arguments, 1 input, 1 output]`")
    );
    let extended = "elementclass Queue { $c, $r | input -> Queue($c) -> S($r) -> output || ... }";
    assert_eq!(flat(&format!("{extended} A -> q :: Queue(1, 2) -> B")).matches("q/S@2::S(2)").count(), 1);
    assert_eq!(flat(&format!("{extended} A -> q :: Queue(1) -> B")).matches("q::Queue(1)").count(), 1);
    assert!(
        refused("elementclass T { $a | } t :: T(1, 2); elementclass T { $a, $b | || ... }")
            .contains("no match")
    );
    assert!(refused("elementclass T { ... }").contains("`...` must come last"));
}

#[test]
fn requirements_are_noted_or_refused() {
    let configuration = read("require(fastclassifier, package \"other\", package third);");
    let packages: Vec<&str> =
        configuration.requirements.iter().map(|requirement| requirement.package.as_str()).collect();
    assert_eq!(packages, ["fastclassifier", "other", "third"]);
    assert!(
        refused("A;\nrequire(library x.click)")
            .contains("t.click:2:9: `require(library …)` is not supported")
    );
    assert!(refused("require(compact_config)").contains("not supported"));
    assert!(refused("require(a b c)").contains("a requirement is `package NAME`"));
}

#[test]
fn what_is_not_supported_is_told_by_name_and_line() {
    assert!(refused("!<arch>\nconfig").contains("t.click:1:1: `!<arch>` is not supported"));
    assert!(
        refused("a::A;\n connectiontunnel p -> q;")
            .contains("t.click:2:2: `connectiontunnel` is not supported")
    );
    assert!(refused("import foo;").contains("`import` is not supported"));
    assert!(refused("include \"x\"").contains("`include` is not supported"));
    assert!(refused("provide(x)").contains("syntax error near `provide`"));
}

#[test]
fn errors_have_places_and_reading_goes_on() {
    let errors = refuse("a :: A;\na :: B;\n1/x :: C;\nb [z] -> c;\na (1);\n= ;");
    assert_eq!(
        errors.to_string(),
        "t.click:2:1: redeclaration of element `a`\n    a :: B;\n    ^~~~~~\n\
         t.click:1:1: note: previously declared here\n\
         t.click:3:1: element name `1/x` has an all-digit component\n    1/x :: C;\n    ^~~~~~~~\n\
         t.click:4:4: port number must be an integer from 0 to 4095, not `z`\n    b [z] -> c;\n       ^\n\
         t.click:5:3: configuration string ignored on reference to element `a`\n    a (1);\n      ^\n\
         t.click:6:1: syntax error near `=`\n    = ;\n    ^"
    );
    assert!(refused("#line 40 \"gen.click\"\na :: A; a :: A").contains("gen.click:40:9: redeclaration"));
    assert!(refused("a :: A(1").contains("t.click:1:7: configuration string is not closed"));
    assert!(refused("{ A").contains("expected `}`"));
    assert!(refused("a -> ").contains("expected an element, found end of file"));
    assert!(refused("[1] a :: A -> b :: B [2]").contains("input ports ignored at start of chain"));
    assert!(refused("[1] a :: A -> b :: B [2]").contains("output ports ignored at end of chain"));
    assert!(refused("a -> -> b").contains("expected an element, found `->`"));
    assert!(refused("a :: A -> 2/4").contains("`2/4@2` has an all-digit component"));
    assert!(refused("} A :: ").contains("expected a class"));
    assert!(refused("elementclass A { } A :: B").contains("class `A` used as element name"));
    assert!(refused("a/b :: A; a :: { b :: B }").contains("redeclaration of element `a/b`"));
    assert!(matches!(
        parse("t", b"a\xff", &Options::default()).unwrap_err().list()[0].problem,
        Problem::NotUtf8(0xff)
    ));
}

#[test]
fn places_of_arguments_are_those_of_the_text() {
    let text = "define($v value) x :: X(first, /* c */ second, a $v b)";
    let configuration = read(text);
    let args = &configuration.elements[0].args;
    let at = |start: u32, end: u32| &text[start as usize..end as usize];
    assert_eq!(at(args[0].span.start, args[0].span.end), "first");
    let place = args[1].place(2, 4);
    assert_eq!(at(place.start, place.end), "co");
    assert_eq!(args[2].text, "a value b");
    assert_eq!(at(args[2].place(3, 4).start, args[2].place(3, 4).end), "a $v b");
}

#[test]
fn a_configuration_made_by_a_program_is_printed() {
    let mut made = Configuration::default();
    made.elements.push(Declaration::new("a", "A", vec![Argument::new("1"), Argument::new("")]));
    made.elements.push(Declaration::new("b/c", "B", Vec::new()));
    let (from, to) = (Port { element: 0, port: 2 }, Port { element: 1, port: 0 });
    made.connections.push(Connection { from, to, span: Span::default() });
    assert_eq!(made.to_string(), "a :: A(1, ,);\nb/c :: B;\na [2] -> b/c;\n");
    assert_eq!(read(&made.to_string()), made);
}

#[test]
fn what_grows_without_bound_meets_a_limit_quickly() {
    let mut doubling = String::from("elementclass E0 { X }\n");
    for n in 1..45 {
        doubling.push_str(&format!("elementclass E{n} {{ E{}; E{} }}\n", n - 1, n - 1));
    }
    let mut empty = doubling.replace('X', "");
    doubling.push_str("E44");
    empty.push_str("E44");
    let mut parallel = String::from("elementclass P0 { [0] -> [0]; [1] -> [0]; [0] -> [1]; [1] -> [1] }\n");
    for n in 1..40 {
        let inner = n - 1;
        parallel.push_str(&format!(
            "elementclass P{n} {{ p :: P{inner}; q :: P{inner}; [0] -> p; [1] -> [1]p; p => [0,1]q; q -> [0]; q[1] -> [1] }}\n"
        ));
    }
    parallel.push_str("A => P39 => B");
    let limits = ["more than 65536 elements", "more than 8388608 steps"];
    for text in [doubling, empty, parallel] {
        let shown = refused(&text);
        assert!(limits.iter().any(|limit| shown.contains(limit)), "{shown}");
    }
    let deep = format!("{}X{}", "{".repeat(2000), "}".repeat(2000));
    assert!(refused(&deep).contains("more than 50 nested compounds"));
    let deep = format!("A -> {}X{} -> B", "( -> ".repeat(2000), " -> )".repeat(2000));
    assert!(refused(&deep).contains("more than 50 nested groups"));
    let mut chain = String::from("elementclass C0 { X }\n");
    for n in 1..80 {
        chain.push_str(&format!("elementclass C{n} {{ C{} }}\n", n - 1));
    }
    assert!(refused(&(chain + "C79")).contains("more than 50 compounds inside each other"));
    for text in [
        "A;".repeat(70_000),
        "{}".repeat(30_000),
        "A,".repeat(70_000),
        format!("{{{}}}", "||".repeat(40_000)),
        "A -> (->) -> B;".repeat(14_000),
    ] {
        assert!(refused(&text).contains("more than 65536 elements"), "{}", &text[..20]);
    }
    assert!(refused(&format!("{{ {} | }}", list_of("$a", 300))).contains("more than 256 parameters"));
    assert!(refused("a[5000] -> b").contains("from 0 to 4095"));
    let wide = format!("elementclass W {{ {} }} {}", "X;".repeat(300), "W;".repeat(300));
    assert!(refused(&wide).contains("more than 65536 elements"));
    let long = format!(
        "elementclass W {{ x{} :: X(y{}) }} {}",
        "n".repeat(5000),
        "z".repeat(5000),
        "W;".repeat(4000)
    );
    assert!(refused(&long).contains("bytes of names and arguments"));
    let cross = format!("k :: {{ [0]->[0] }}; {} -> k; k -> {}", list("a", 2000), list("b", 2000));
    assert!(refused(&cross).contains("more than 262144 connections"));
    let limits = Limits { text_bytes: 3, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    assert!(parse("t", b"a::A", &options).unwrap_err().to_string().contains("more than 3 bytes of text"));
}

fn list(prefix: &str, count: usize) -> String {
    (0..count).map(|n| format!("{prefix}{n} :: X")).collect::<Vec<_>>().join(", ")
}

fn list_of(prefix: &str, count: usize) -> String {
    (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>().join(", ")
}
