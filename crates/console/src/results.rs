//! Where a command's result goes: as text or JSON on standard output, and as JSON into a file.

use crate::output::{self, Console, OutputError};
use clap::Args;
use serde::Serialize;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

/// The options `--json` and `--json-file`, which mean the same for every command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ResultArgs {
    /// Print the result as JSON in place of text. With a FILE: the old spelling of --json-file, for one more release
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_parser = Json::parse)]
    json: Option<Json>,

    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
}

/// What `--json` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Json {
    /// To print the result as JSON: `--json`, `--json -`.
    Printed,
    /// The old spelling of `--json-file FILE`.
    File(PathBuf),
}

impl Json {
    #[expect(clippy::unnecessary_wraps, reason = "the form of a parser of values")]
    fn parse(value: &str) -> Result<Self, Infallible> {
        Ok(if value == "-" { Self::Printed } else { Self::File(value.into()) })
    }
}

impl ResultArgs {
    /// Whether the result is printed as JSON.
    pub fn is_json(&self) -> bool {
        self.json == Some(Json::Printed)
    }

    /// The file for the result, if one is named.
    pub fn file(&self) -> Option<&Path> {
        match (&self.json_file, &self.json) {
            (Some(file), _) | (None, Some(Json::File(file))) => Some(file),
            _ => None,
        }
    }

    /// Writes the file: the one that is named, or else `otherwise`.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn write(
        &self,
        results: &impl Serialize,
        otherwise: Option<&Path>,
        console: &Console,
    ) -> Result<(), OutputError> {
        if let Some(Json::File(file)) = &self.json {
            let file = file.display();
            console.note(&format!("--json {file} is the old spelling of --json-file {file}: use that"));
        }
        match self.file().or(otherwise) {
            Some(file) => console.keep(file, &output::json(results)?),
            None => Ok(()),
        }
    }

    /// Prints the result: as JSON if that is asked for, and as `text` otherwise.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn print<R: Serialize>(
        &self,
        results: &R,
        text: impl FnOnce(&R) -> String,
        console: &Console,
    ) -> Result<(), OutputError> {
        if self.is_json() {
            return console.result(output::json(results)?.trim_end());
        }
        console.result(&text(results))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches, Parser};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        result: ResultArgs,
        #[arg(long)]
        quiet: bool,
    }

    fn parsed(words: &[&str]) -> ResultArgs {
        let matches = Line::command().get_matches_from([&["x"], words].concat());
        Line::from_arg_matches(&matches).unwrap().result
    }

    #[test]
    fn an_option_alone_prints_and_a_file_is_named_by_either_spelling() {
        for (words, is_json, file) in [
            (&[][..], false, None),
            (&["--json"], true, None),
            (&["--json", "--quiet"], true, None),
            (&["--json-file", "a"], false, Some("a")),
            (&["--json", "-"], true, None),
            (&["--json", "--json-file", "a"], true, Some("a")),
            (&["--json", "a"], false, Some("a")),
            (&["--json=a"], false, Some("a")),
        ] {
            let result = parsed(words);
            assert_eq!((result.is_json(), result.file()), (is_json, file.map(Path::new)), "{words:?}");
        }
    }

    #[test]
    fn a_file_is_written_where_it_is_named_or_else_where_it_goes_by_default() {
        let place = tempfile::tempdir().unwrap();
        let [named, default] = ["named", "default"].map(|name| place.path().join(name));
        let console = Console::new(true);
        ResultArgs::default().write(&[1, 2], Some(&default), &console).unwrap();
        let result = parsed(&["--json-file", named.to_str().unwrap()]);
        result.write(&[3], Some(&default), &console).unwrap();
        assert_eq!(std::fs::read_to_string(default).unwrap(), "[\n  1,\n  2\n]\n");
        assert_eq!(std::fs::read_to_string(named).unwrap(), "[\n  3\n]\n");
    }
}
