//! Routes by prefix, and numbered next hops.

use super::route::{Family, Pattern, Route};
use scalebricks_graph::args::Param;
use scalebricks_tables::lpm::{Lpm, LpmError, LpmReader, NextHop, Params, Prefix};
use std::collections::HashMap;
use std::fmt;
use std::fmt::Write;
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The gateway, if any, and the output of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Target<A> {
    pub(crate) gateway: Option<A>,
    pub(crate) output: u16,
}

/// Why a route change failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RouteError<A: fmt::Debug + fmt::Display> {
    #[error("expected `ADDR/MASK [GATEWAY] OUTPUT`, not `{0}`")]
    Form(String),
    #[error("expected `ADDR/MASK [[GATEWAY] OUTPUT]`, not `{0}`")]
    RemoveForm(String),
    #[error("expected `add`, `set` or `remove`, not `{0}`")]
    Command(String),
    #[error("output {output} of {outputs}, in route `{route}`")]
    Output { output: u16, outputs: usize, route: Route<A> },
    #[error("conflict with existing route `{0}`")]
    Exists(Route<A>),
    #[error("route `{0}` not found")]
    Missing(String),
    #[error(transparent)]
    Full(#[from] LpmError),
    #[error("cannot read routes: {0}")]
    Read(String),
    #[error("line {line}: {error}")]
    Line { line: usize, error: Box<Self> },
}

/// Longest line of a text of routes.
const LINE_BYTES: u64 = 4_096;

/// Undoes a change: a prefix and its previous target.
type Undo<A> = (Prefix<A>, Option<Target<A>>);

/// The routes of an element.
#[derive(Debug)]
pub(crate) struct Routes<A: Family> {
    table: Arc<Lpm<A>>,
    reader: LpmReader<A>,
    /// Targets by number, each with its number of routes.
    targets: Vec<(Target<A>, usize)>,
    numbers: HashMap<Target<A>, u32>,
    free: Vec<u32>,
    outputs: usize,
    /// Increased by each change, for elements that keep a copy of the targets.
    changes: Arc<AtomicU64>,
}

impl<A: Family> Routes<A> {
    /// An empty table with this root size.
    pub(crate) fn new(params: Params) -> Self {
        let table = Arc::new(Lpm::new(params));
        let reader = LpmReader::new(Arc::clone(&table));
        let (targets, numbers, free) = (Vec::new(), HashMap::new(), Vec::new());
        Self { table, reader, targets, numbers, free, outputs: usize::MAX, changes: Arc::default() }
    }

    /// Limits outputs to numbers below this.
    pub(crate) fn limit(&mut self, outputs: usize) -> Result<(), RouteError<A>> {
        self.outputs = outputs;
        let mut wrong = None;
        self.for_each(|route| {
            wrong = wrong.or(Some(route).filter(|route| usize::from(route.output) >= outputs));
        });
        wrong.map_or(Ok(()), |route| self.check(route))
    }

    fn check(&self, route: Route<A>) -> Result<(), RouteError<A>> {
        let outputs = self.outputs;
        if usize::from(route.output) < outputs {
            return Ok(());
        }
        Err(RouteError::Output { output: route.output, outputs, route })
    }

    fn for_each(&self, mut visit: impl FnMut(Route<A>)) {
        self.table.for_each(|prefix, hop| {
            let Target { gateway, output } = self.target(hop);
            visit(Route { prefix, gateway, output });
        });
    }

    /// The target of a next hop from the table.
    #[inline(always)]
    pub(crate) fn target(&self, hop: NextHop) -> Target<A> {
        self.targets[hop.index() as usize].0
    }

    /// The route of exactly this prefix.
    fn route(&self, prefix: Prefix<A>) -> Option<Route<A>> {
        let Target { gateway, output } = self.target(self.table.get(prefix)?);
        Some(Route { prefix, gateway, output })
    }

    /// The next hops of a batch of addresses.
    #[inline]
    pub(crate) fn lookup(&mut self, addresses: &[A], hops: &mut [Option<NextHop>]) {
        self.reader.lookup_batch(addresses, hops);
    }

    /// The number of a target, counting one more route to it.
    fn hold(&mut self, target: Target<A>) -> Option<NextHop> {
        let number = *self.numbers.entry(target).or_insert_with(|| {
            if let Some(number) = self.free.pop() {
                self.targets[number as usize] = (target, 0);
                return number;
            }
            self.targets.push((target, 0));
            self.targets.len() as u32 - 1 // fewer than routes, of which a table holds 2^31
        });
        self.targets[number as usize].1 += 1;
        NextHop::new(number)
    }

    /// Counts one route less to a target.
    fn release(&mut self, hop: NextHop) {
        let (target, routes) = &mut self.targets[hop.index() as usize];
        *routes -= 1;
        if *routes == 0 {
            self.numbers.remove(target);
            self.free.push(hop.index());
        }
    }

    /// Sets or removes the target of a prefix; returns the previous one.
    fn put(
        &mut self,
        prefix: Prefix<A>,
        target: Option<Target<A>>,
    ) -> Result<Option<Target<A>>, RouteError<A>> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let hop = target.and_then(|target| self.hold(target));
        let changed = match hop {
            Some(hop) => self.table.insert(prefix, hop),
            None => Ok(self.table.remove(prefix)),
        };
        match changed {
            Ok(before) => {
                let target = before.map(|before| self.target(before));
                if let Some(before) = before {
                    self.release(before);
                }
                Ok(target)
            }
            Err(error) => {
                if let Some(hop) = hop {
                    self.release(hop);
                }
                Err(error.into())
            }
        }
    }

    /// Adds a route. A route of the same prefix is a conflict unless `may_replace` is set or the two are equal.
    pub(crate) fn add(&mut self, route: Route<A>, may_replace: bool) -> Result<Undo<A>, RouteError<A>> {
        self.check(route)?;
        match self.route(route.prefix) {
            Some(there) if !may_replace && there != route => Err(RouteError::Exists(there)),
            _ => {
                let target = Target { gateway: route.gateway, output: route.output };
                Ok((route.prefix, self.put(route.prefix, Some(target))?))
            }
        }
    }

    fn remove(&mut self, text: &str) -> Result<Undo<A>, RouteError<A>> {
        let pattern = Pattern::read(text).ok_or_else(|| RouteError::RemoveForm(text.to_owned()))?;
        let fits =
            |there: &Route<A>| pattern.target.is_none_or(|target| target == (there.gateway, there.output));
        match self.route(pattern.prefix).filter(fits) {
            Some(_) => Ok((pattern.prefix, self.put(pattern.prefix, None)?)),
            None => Err(RouteError::Missing(text.to_owned())),
        }
    }

    /// Executes `add`, `set` or `remove` of a route.
    pub(crate) fn execute(&mut self, command: &str, text: &str) -> Result<Undo<A>, RouteError<A>> {
        let text = text.trim();
        let route = || Route::read(text).ok_or_else(|| RouteError::Form(text.to_owned()));
        match command {
            "add" => self.add(route()?, false),
            "set" => self.add(route()?, true),
            "remove" => self.remove(text),
            _ => Err(RouteError::Command(command.to_owned())),
        }
    }

    /// Executes commands, one per line: all, or none.
    pub(crate) fn execute_all(&mut self, text: &str) -> Result<(), RouteError<A>> {
        let mut done = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            let (command, route) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            if command.is_empty() {
                continue;
            }
            match self.execute(command, route) {
                Ok(undo) => done.push(undo),
                Err(error) => {
                    self.undo(done);
                    return Err(RouteError::Line { line: at + 1, error: Box::new(error) });
                }
            }
        }
        Ok(())
    }

    /// Adds the routes of a text, one per line: `ADDR/MASK GATEWAY OUTPUT`, as handlers list them. Empty lines, and what
    /// follows `#`, do not count. A route replaces an earlier one of its prefix.
    pub(crate) fn load(&mut self, mut text: impl BufRead) -> Result<(), RouteError<A>> {
        let (mut number, mut line) = (0, String::new());
        loop {
            line.clear();
            number += 1;
            let at = |error| RouteError::Line { line: number, error: Box::new(error) };
            let read = text.by_ref().take(LINE_BYTES).read_line(&mut line);
            match read.map_err(|error| at(RouteError::Read(error.to_string())))? {
                0 => return Ok(()),
                bytes if bytes as u64 == LINE_BYTES => {
                    return Err(at(RouteError::Read(format!("the line is longer than {LINE_BYTES} bytes"))));
                }
                _ => {}
            }
            let route = line.split('#').next().unwrap_or_default().trim();
            if !route.is_empty() {
                self.execute("set", route).map_err(at)?;
            }
        }
    }

    /// Increased by each change.
    pub(crate) const fn changes(&self) -> &Arc<AtomicU64> {
        &self.changes
    }

    /// The table, for other readers. Next hops are positions in [`targets`](Self::targets).
    pub(crate) const fn table(&self) -> &Arc<Lpm<A>> {
        &self.table
    }

    /// The targets by next hop; those without a route are stale.
    pub(crate) fn targets(&self) -> impl Iterator<Item = Target<A>> {
        self.targets.iter().map(|(target, _)| *target)
    }

    /// Undoes changes in reverse order, additions before removals, so that no step needs more room than the table had.
    fn undo(&mut self, done: Vec<Undo<A>>) {
        let mut before: HashMap<Prefix<A>, Option<Target<A>>> = HashMap::new();
        for (prefix, target) in done.into_iter().rev() {
            before.insert(prefix, target);
        }
        for pass in [true, false] {
            for (&prefix, &target) in before.iter().filter(|(_, target)| target.is_none() == pass) {
                // Previous routes fit again once all new ones are gone.
                let _ = self.put(prefix, target);
            }
        }
    }

    /// The output and the gateway for an address, or -1.
    pub(crate) fn answer(&self, text: &str) -> Option<String> {
        let address = text.trim().parse().ok()?;
        let Some((_, hop)) = self.table.longest(address) else { return Some("-1".to_owned()) };
        let Target { gateway, output } = self.target(hop);
        Some(gateway.map_or_else(|| output.to_string(), |gateway| format!("{output} {gateway}")))
    }

    /// All routes, one per line, sorted by address, shorter prefixes first.
    pub(crate) fn list(&self) -> String {
        let mut text = String::new();
        self.for_each(|Route { prefix, gateway, output }| {
            let gateway = gateway.map_or_else(|| "-".to_owned(), |gateway| gateway.to_string());
            let _ = writeln!(text, "{prefix}\t{gateway}\t{output}"); // writing to a string cannot fail
        });
        text
    }

    /// Number of routes.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn small() -> Routes<Ipv4Addr> {
        let mut routes = Routes::new(Params::new(8, 1 << 14).unwrap());
        routes.limit(3).unwrap();
        routes
    }

    #[test]
    fn commands_are_executed_all_or_none() {
        let mut routes = small();
        routes.execute_all("add 10.0.0.0/8 1\n\n set 10.1.0.0/16 1.2.3.4 2\nadd 0/0 - 0\n").unwrap();
        let list = "0.0.0.0/0\t-\t0\n10.0.0.0/8\t-\t1\n10.1.0.0/16\t1.2.3.4\t2\n";
        assert_eq!((routes.list().as_str(), routes.len()), (list, 3));
        let text = "remove 10.0.0.0/8\nset 10.1.0.0/16 0\nadd 11.0.0.0/8 0\nremove 10.0.0.0/8";
        let error = routes.execute_all(text).unwrap_err().to_string();
        assert_eq!(error, "line 4: route `10.0.0.0/8` not found");
        assert_eq!(routes.list(), list);
        let answers = ["10.1.2.3", "10.2.0.0", "9.9.9.9", "x"].map(|text| routes.answer(text));
        assert_eq!(answers, [Some("2 1.2.3.4".into()), Some("1".into()), Some("0".into()), None]);
        routes.execute_all("remove 0/0 0").unwrap();
        assert_eq!(routes.answer("9.9.9.9").unwrap(), "-1");
    }

    #[test]
    fn wrong_commands_say_what_is_wrong() {
        let mut routes = small();
        routes.execute("add", "10.0.0.0/8 1.2.3.4 1").unwrap();
        for (command, text, message) in [
            ("add", "10.0.0.0/8 2", "conflict with existing route `10.0.0.0/8 1.2.3.4 1`"),
            ("add", "10.0.0.0/8", "expected `ADDR/MASK [GATEWAY] OUTPUT`, not `10.0.0.0/8`"),
            ("add", "11.0.0.0/8 3", "output 3 of 3, in route `11.0.0.0/8 - 3`"),
            ("remove", "10.0.0.0/8 1", "route `10.0.0.0/8 1` not found"),
            ("remove", "x", "expected `ADDR/MASK [[GATEWAY] OUTPUT]`, not `x`"),
            ("drop", "x", "expected `add`, `set` or `remove`, not `drop`"),
        ] {
            assert_eq!(routes.execute(command, text).unwrap_err().to_string(), message);
        }
        routes.execute("add", "10.0.0.0/8 1.2.3.4 1").unwrap();
        routes.execute("remove", "10.0.0.0/8 1.2.3.4 1").unwrap();
        assert_eq!(routes.len(), 0);
    }

    #[test]
    fn texts_are_loaded_and_errors_name_the_line() {
        let mut routes = Routes::<Ipv6Addr>::new(Params::SMALL);
        let text = "# a table\n2001:db8::/32 fe80::1 1 # a comment\n\n::/0\t-\t0\n2001:db8::7 0";
        routes.load(text.as_bytes()).unwrap();
        assert_eq!(routes.list(), "::/0\t-\t0\n2001:db8::/32\tfe80::1\t1\n2001:db8::7/128\t-\t0\n");
        let before = routes.changes().load(Ordering::Relaxed);
        routes.load(routes.list().as_bytes()).unwrap();
        assert!(routes.changes().load(Ordering::Relaxed) > before);
        let long = format!("{} 0", "0".repeat(5_000));
        for (text, message) in [
            ("::/0 0\n\nx\n", "line 3: expected `ADDR/MASK [GATEWAY] OUTPUT`, not `x`"),
            (&long, "line 1: cannot read routes: the line is longer than 4096 bytes"),
        ] {
            assert_eq!(routes.load(text.as_bytes()).unwrap_err().to_string(), message);
        }
        routes.load(&b"::/0 7"[..]).unwrap();
        assert_eq!(routes.answer("::1").unwrap(), "7", "routes of a file replace earlier ones");
        assert!(routes.load(&b"\xff\xfe 1\n"[..]).is_err());
    }

    #[derive(Debug, Clone)]
    struct Command(&'static str, u8, u8, u16);

    fn commands() -> impl Strategy<Value = Vec<Command>> {
        let command = (prop::sample::select(vec!["add", "set", "remove"]), 0..4u8, 4..32u8, 0..3u16);
        prop::collection::vec(
            command.prop_map(|(verb, octet, length, output)| Command(verb, octet, length, output)),
            0..12,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Arbitrary texts are executed or refused; refused ones change nothing.
        #[test]
        fn any_text_is_executed_or_refused(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "add", "set", "remove", "\n", "0/0", "10.0.0.0/8", "10.0.0.1", "10/33", "-", "1.2.3.4", "0", "2", "3", "é", "10/255.0.255.0", " \t",
                ]),
                0..30,
            )
        ) {
            let mut routes = small();
            routes.execute("add", "10.0.0.0/8 1").unwrap();
            let before = routes.list();
            match routes.execute_all(&words.join(" ")) {
                Ok(()) => prop_assert_eq!(routes.list().lines().count(), routes.len()),
                Err(error) => prop_assert_eq!(routes.list(), before, "{}", error),
            }
        }

        /// Groups of commands have the effect of a reference map that only error-free groups change, and unused targets
        /// are not kept.
        #[test]
        fn groups_of_commands_are_those_of_a_map(groups in prop::collection::vec(commands(), 0..8)) {
            let (mut routes, mut map) = (small(), std::collections::BTreeMap::new());
            for group in groups {
                let (mut then, mut fails, mut text) = (map.clone(), false, String::new());
                for Command(verb, octet, length, output) in group {
                    let prefix = Prefix::of(Ipv4Addr::new(10, octet, octet * 64, octet), length).unwrap();
                    let target = (Ipv4Addr::new(9, 9, 9, octet), output);
                    if verb == "remove" {
                        writeln!(text, "remove {prefix}").unwrap();
                        fails |= then.remove(&prefix).is_none();
                    } else {
                        writeln!(text, "{verb} {prefix} {} {output}", target.0).unwrap();
                        fails |= verb == "add" && then.get(&prefix).is_some_and(|there| *there != target);
                        then.insert(prefix, target);
                    }
                }
                prop_assert_eq!(routes.execute_all(&text).is_err(), fails);
                if !fails {
                    map = then;
                }
                let mut listed = String::new();
                for (prefix, (gateway, output)) in &map {
                    writeln!(listed, "{prefix}\t{gateway}\t{output}").unwrap();
                }
                prop_assert_eq!(routes.list(), listed);
                let held: std::collections::HashSet<_> = map.values().collect();
                prop_assert_eq!(routes.numbers.len(), held.len());
                prop_assert_eq!(routes.targets.len() - routes.free.len(), held.len());
            }
        }
    }
}
