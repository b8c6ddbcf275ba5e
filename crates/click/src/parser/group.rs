//! Groups: `( input -> X -> output )`, statements that act as one element and open no scope.

use super::{ANONYMOUS, ListContext, Parser};
use crate::lexer::Token;
use crate::program::Role;
use std::rc::Rc;

impl Parser<'_> {
    /// Parses a group after its `(`; returns its name, and its numbers of inputs and outputs.
    pub(super) fn group(&mut self, open: Token) -> (String, [u32; 2]) {
        self.depth += 1;
        if self.depth > self.limits.depth {
            self.too_large(open.span, "nested groups", self.limits.depth);
        }
        self.count(3, open.span);
        let scope = self.scope();
        let name = scope.anonymous("");
        let mut add = |name: String, role| scope.add(name, role, Rc::default(), false, open.span);
        add(name.clone(), Role::Group);
        let inner = [add(format!("{name}/input"), Role::Inner), add(format!("{name}/output"), Role::Inner)];
        let outer = ["input", "output"].map(|side| scope.names.get(side).copied());
        scope.names.insert("input".into(), inner[0]);
        scope.names.insert("output".into(), inner[1]);

        self.statements(ListContext::Group);
        self.depth -= 1;

        for (side, outer) in ["input", "output"].into_iter().zip(outer) {
            match outer {
                Some(element) => self.scope().names.insert(side.to_owned(), element),
                None => self.scope().names.remove(side),
            };
        }
        let owner = if name.starts_with(ANONYMOUS) { "<anonymous group>" } else { &name };
        let inputs = self.check_pseudo(inner[0], 0, owner, open.span);
        let outputs = self.check_pseudo(inner[1], 1, owner, open.span);
        (name, [inputs, outputs])
    }
}
