//! Shell completions and manual pages, made from the definition of the command line.

use crate::cli::Cli;
use clap::Args;
use clap_complete::Shell;
use scalebricks_console::{Console, OutputError};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The program's name in completions.
const NAME: &str = "scalebricks";

/// Examples of `scalebricks completions`.
pub const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  scalebricks completions bash > /usr/share/bash-completion/completions/scalebricks
  scalebricks completions zsh > /usr/local/share/zsh/site-functions/_scalebricks
  scalebricks completions fish > ~/.config/fish/completions/scalebricks.fish";

/// Examples of `scalebricks man`.
pub const MAN_EXAMPLES: &str = "\
Examples:
  scalebricks man /usr/local/share/man/man1
  man scalebricks-node-run";

/// What `scalebricks completions` is told.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// What `scalebricks man` is told.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The directory, which is created
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Why manual pages could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ManError {
    /// A file or the directory could not be written.
    #[error("cannot write manual pages to {}: {error}", directory.display())]
    Write {
        /// The directory.
        directory: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The result could not be printed.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Prints the completions.
///
/// # Errors
/// [`OutputError`].
pub fn completions(args: &CompletionsArgs, console: &Console) -> Result<(), OutputError> {
    console.result(script(args.shell).trim_end())
}

/// The completions for a shell.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::definition(), NAME, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes the manual pages.
///
/// # Errors
/// [`ManError`].
pub fn man(args: &ManArgs, console: &Console) -> Result<(), ManError> {
    let directory = &args.directory;
    let pages =
        write_pages(directory).map_err(|error| ManError::Write { directory: directory.clone(), error })?;
    Ok(console.result(&format!("{pages} manual pages in {}", directory.display()))?)
}

/// Writes a page for the program and for each subcommand; returns their number.
fn write_pages(directory: &Path) -> io::Result<usize> {
    fs::create_dir_all(directory)?;
    let mut command = Cli::definition().disable_help_subcommand(true);
    command.build();
    clap_mangen::generate_to(command.clone(), directory)?;
    Ok(count(&command))
}

/// A command and its subcommands, without hidden ones, which have no page.
fn count(command: &clap::Command) -> usize {
    1 + command.get_subcommands().filter(|command| !command.is_hide_set()).map(count).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn every_subcommand_has_a_page_with_its_options() {
        let directory = tempfile::tempdir().unwrap();
        let pages = write_pages(directory.path()).unwrap();
        let files: Vec<String> = fs::read_dir(directory.path())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(files.len(), pages, "{files:?}");
        let page = fs::read_to_string(directory.path().join("scalebricks-node-run.1")).unwrap();
        assert!(page.contains("\\-\\-quiet") && page.contains("FILE"), "{page}");
        let page = fs::read_to_string(directory.path().join("scalebricks.1")).unwrap();
        assert!(page.contains("scalebricks\\-plan"), "{page}");
    }

    /// The help of a command and of its subcommands, as on a terminal of 100 columns.
    fn help_of(command: &mut clap::Command, name: &str, page: &mut String) {
        let help = command.render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        let help = lines.join("\n");
        writeln!(page, "\n## {name}\n\n```text\n{}\n```", help.trim_end()).unwrap();
        for subcommand in command.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
            let name = format!("{name} {}", subcommand.get_name());
            help_of(subcommand, &name, page);
        }
    }

    /// The reference of the command line. `UPDATE_CLI=1` writes it.
    #[test]
    fn the_page_of_the_command_line_is_up_to_date() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
        let mut expected = "\
# The command line

What `--help` says of each command. A test writes this page from the definition of the command line.
"
        .to_owned();
        let mut command = Cli::definition().disable_help_subcommand(true).term_width(100);
        command.build();
        help_of(&mut command, NAME, &mut expected);
        if std::env::var_os("UPDATE_CLI").is_some() {
            fs::write(&page, &expected).unwrap();
        }
        let found = fs::read_to_string(&page).unwrap();
        assert!(
            found == expected,
            "docs/reference/cli.md is out of date: UPDATE_CLI=1 cargo test -p scalebricks --bin scalebricks manual::"
        );
    }

    #[test]
    fn every_shell_completes_subcommands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for word in ["completions", "import", "elsewhere"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
