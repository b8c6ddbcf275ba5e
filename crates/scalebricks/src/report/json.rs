//! The report as JSON.

use super::result::Report;

/// The report as an indented JSON document that ends in a newline.
///
/// # Errors
/// What the serialiser says; a report has nothing that it refuses.
pub fn render(report: &Report) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use serde_json::Value;

    #[test]
    fn the_names_are_the_documented_ones() {
        let text = render(&sample::report()).unwrap();
        assert!(text.ends_with("}\n"));
        let value: Value = serde_json::from_str(&text).unwrap();
        for name in ["nodes", "flows", "seed", "threads"] {
            assert!(value[name].is_u64(), "{name}");
        }
        let result = &value["architectures"][0];
        assert_eq!(result["name"], "full-duplication");
        for name in ["mpps", "hops_mean"] {
            assert!(result[name].is_f64(), "{name}");
        }
        for name in [
            "hops_max",
            "fabric_bytes",
            "gpt_bytes_per_node",
            "fib_bytes_per_node",
            "capacity_flows",
            "packets_in",
            "packets_out",
            "lost",
            "misdelivered",
        ] {
            assert!(result[name].is_u64(), "{name}");
        }
        assert_eq!(result["dropped"]["no_buffer"], 5);
    }
}
