//! Limits on the size of a configuration.

use crate::problem::Problem;

/// Limits on a text and its expansion. Exceeding one is [`Problem::TooLarge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text.
    pub text_bytes: usize,
    /// Nesting of compounds and groups, written or expanded.
    pub depth: usize,
    /// Elements written, and elements after expansion; a compound counts as one, and so do its `input` and `output`.
    pub elements: usize,
    /// Connections written, and connections after expansion.
    pub connections: usize,
    /// Ports of all elements after expansion.
    pub ports: usize,
    /// The largest port number.
    pub port: u32,
    /// Bytes of names and arguments after expansion.
    pub expanded_bytes: usize,
    /// Steps of expansion: elements, connections and overloads examined, and ports passed through.
    pub steps: usize,
    /// Errors listed; further ones are counted.
    pub errors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            text_bytes: 4 << 20,
            depth: 50,
            elements: 1 << 16,
            connections: 1 << 18,
            ports: 1 << 18,
            port: 4095,
            expanded_bytes: 32 << 20,
            steps: 1 << 23,
            errors: 100,
        }
    }
}

/// The remaining budget.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    elements: usize,
    connections: usize,
    bytes: usize,
    steps: usize,
}

fn spend(used: &mut usize, more: usize, limit: usize, what: &'static str) -> Result<(), Problem> {
    *used = used.saturating_add(more);
    if *used > limit { Err(Problem::TooLarge { what, limit }) } else { Ok(()) }
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, elements: 0, connections: 0, bytes: 0, steps: 0 }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn element(&mut self) -> Result<(), Problem> {
        spend(&mut self.elements, 1, self.limits.elements, "elements")
    }

    pub(crate) fn connection(&mut self) -> Result<(), Problem> {
        spend(&mut self.connections, 1, self.limits.connections, "connections")
    }

    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<(), Problem> {
        spend(
            &mut self.bytes,
            bytes,
            self.limits.expanded_bytes,
            "bytes of names and arguments after expansion",
        )
    }

    pub(crate) fn steps(&mut self, steps: usize) -> Result<(), Problem> {
        spend(&mut self.steps, steps, self.limits.steps, "steps of expansion")
    }
}
