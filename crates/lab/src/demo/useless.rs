//! Refuses options that would have no effect, which clap cannot express: they depend on the value of `--app`.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// Options that only the gateway's demonstration has a use for, by their identifiers.
const GATEWAY_ONLY: [&str; 12] = [
    "flows",
    "arch",
    "gpt",
    "key",
    "threads",
    "skew",
    "oversize",
    "base_station_mtu",
    "ignore_checksums",
    "out",
    "svg",
    "page",
];

/// Options that only the router's demonstration has a use for.
const ROUTER_ONLY: [&str; 1] = ["routes"];

/// Refuses options on the command line of a demonstration that would have no effect.
///
/// # Errors
/// The usage error to print.
pub fn refuse(demo: &ArgMatches, command: &mut Command) -> Result<(), clap::Error> {
    let given = |name: &&&str| demo.value_source(name) == Some(ValueSource::CommandLine);
    let is_router = demo.get_one::<super::args::AppChoice>("app") == Some(&super::args::AppChoice::Router);
    let (useless, app) =
        if is_router { (&GATEWAY_ONLY[..], "router") } else { (&ROUTER_ONLY[..], "gateway") };
    useless.iter().find(given).map_or(Ok(()), |name| {
        let option = name.replace('_', "-");
        Err(command.error(
            ErrorKind::ArgumentConflict,
            format!("the argument '--{option}' has no effect with '--app {app}'"),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::args::DemoArgs;
    use clap::Args;

    fn refusal(words: &[&str]) -> Option<String> {
        let mut command = DemoArgs::augment_args(Command::new("demo"));
        let matches = command.clone().get_matches_from([&["demo"], words].concat());
        refuse(&matches, &mut command).err().map(|error| error.to_string())
    }

    #[test]
    fn options_of_the_other_application_are_refused() {
        for words in [
            &[][..],
            &["--flows", "10", "--skew", "--svg", "x.svg"],
            &["--app", "router"],
            &["--app", "router", "--routes", "r", "--nodes", "3", "--seed", "2", "--packets", "7"],
            &["--app", "router", "--pcap", "in.pcap", "--json"],
        ] {
            assert_eq!(refusal(words), None, "{words:?}");
        }
        for (words, option) in [
            (&["--app", "router", "--flows", "10"][..], "--flows"),
            (&["--app", "router", "--base-station-mtu", "1500"], "--base-station-mtu"),
            (&["--routes", "r"], "--routes"),
        ] {
            let text = refusal(words).unwrap_or_default();
            assert!(text.contains(&format!("'{option}' has no effect")), "{words:?}: {text}");
        }
    }

    /// A misspelt identifier would panic in `value_source`, in the test above; a new option is to be sorted here.
    #[test]
    fn every_option_is_of_one_application_or_both() {
        const BOTH: [&str; 8] = ["app", "nodes", "packets", "seed", "pcap", "json", "json_file", "quiet"];
        let command = DemoArgs::augment_args(Command::new("demo"));
        for option in command.get_arguments().map(|arg| arg.get_id().as_str()) {
            let lists = [&BOTH[..], &GATEWAY_ONLY, &ROUTER_ONLY];
            let count = lists.iter().filter(|list| list.contains(&option)).count();
            assert_eq!(count, 1, "{option}");
        }
    }
}
