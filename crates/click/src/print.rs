//! Prints a flat configuration as Click text.

use crate::config_strings;
use crate::configuration::{Configuration, Port};
use std::fmt;

impl fmt::Display for Configuration {
    /// Requirements, declarations and connections, one per line, in order. [`parse`](crate::parse()) restores an equal
    /// configuration from the output for a configuration that it parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for requirement in &self.requirements {
            writeln!(f, "require(package {});", requirement.package)?;
        }
        for element in &self.elements {
            write!(f, "{} :: {}", element.name, element.class)?;
            if !element.args.is_empty() {
                write!(
                    f,
                    "({})",
                    config_strings::join(element.args.iter().map(|argument| argument.text.as_str()))
                )?;
            }
            writeln!(f, ";")?;
        }
        let name = |port: Port| self.elements.get(port.element).map_or("?", |element| element.name.as_str());
        for connection in &self.connections {
            write!(f, "{}", name(connection.from))?;
            if connection.from.port > 0 {
                write!(f, " [{}]", connection.from.port)?;
            }
            f.write_str(" -> ")?;
            if connection.to.port > 0 {
                write!(f, "[{}] ", connection.to.port)?;
            }
            writeln!(f, "{};", name(connection.to))?;
        }
        Ok(())
    }
}
