//! Provenance of figures: the commit that measured, whether it may measure for a page, and the command.

use crate::pages::PagesError;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Minimum runs of a measurement that a page shows.
pub const LEAST_RUNS: usize = 3;

/// Suffix of a commit with changed sources.
const DIRTY: &str = "-dirty";

/// Files generated from measurements, whose changes do not count as changed sources.
const WRITTEN: [&str; 2] = [":(top,exclude)docs", ":(top,exclude)README.md"];

/// The commit of the checkout that this binary was built from, with the suffix `-dirty` if sources were
/// changed, or `unknown` outside a checkout. Pages and their data are not sources.
pub fn commit() -> String {
    commit_of(Path::new(env!("CARGO_MANIFEST_DIR")))
}

/// The same for any checkout.
pub fn commit_of(directory: &Path) -> String {
    let Some(commit) = git(directory, ["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let status = ["status", "--porcelain", "--untracked-files=no", "--", ":(top)"];
    match git(directory, status.into_iter().chain(WRITTEN)) {
        Some(changes) if changes.is_empty() => commit,
        Some(_) => commit + DIRTY,
        None => "unknown".to_owned(),
    }
}

/// Whether this names a commit without changes.
pub fn is_clean(commit: &str) -> bool {
    (7..=40).contains(&commit.len()) && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a commit is an ancestor of the checked-out one; `None` without git, outside a checkout, or in a
/// shallow clone.
pub fn is_ancestor(directory: &Path, commit: &str) -> Option<bool> {
    if git(directory, ["rev-parse", "--is-shallow-repository"])? == "true" {
        return None;
    }
    Some(git(directory, ["merge-base", "--is-ancestor", commit, "HEAD"]).is_some())
}

/// Output of a git command, if it succeeds.
fn git(directory: &Path, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Option<String> {
    let asked = Command::new("git").arg("-C").arg(directory).args(words).output();
    let said = asked.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// Refuses to measure for a page if the measurement could not be repeated: with changed sources, with an
/// outdated program, or with too few runs.
///
/// # Errors
/// [`PagesError::Refused`] with the remedy.
pub fn ensure_reproducible(runs: usize, is_quick: bool) -> Result<(), PagesError> {
    refusal(&commit(), runs, is_quick).map_or(Ok(()), |problem| Err(PagesError::Refused(problem)))?;
    let program = std::env::current_exe().map_err(PagesError::Read)?;
    let changed = changed_since_built(&program).map_err(PagesError::Refused)?;
    changed.map_or(Ok(()), |source| {
        let source = source.display();
        Err(PagesError::Refused(format!("{source} is newer than this program: build it anew, as make does")))
    })
}

fn refusal(commit: &str, runs: usize, is_quick: bool) -> Option<String> {
    if is_quick {
        return Some("a page shows no quick runs: leave out --quick, or --page".to_owned());
    }
    if runs < LEAST_RUNS {
        return Some(format!(
            "a page shows {LEAST_RUNS} runs and more: use more --runs, or leave out --page"
        ));
    }
    (!is_clean(commit)).then(|| {
        format!("a page shows what a commit measured, and this is {commit}: commit or stash your changes first (git status)")
    })
}

/// The first source that is newer than the program built from it. Cargo lists the sources in a file beside
/// the program.
fn changed_since_built(program: &Path) -> Result<Option<PathBuf>, String> {
    let list = program.with_extension("d");
    let failed = |error| format!("{}: {error}; build the program by cargo, as make does", list.display());
    let sources = fs::read_to_string(&list).map_err(failed)?;
    let built = modified(program).map_err(failed)?;
    let (_, sources) = sources.split_once(": ").unwrap_or_default();
    let sources = sources.lines().next().unwrap_or_default().replace("\\ ", "\0");
    let mut sources = sources.split_whitespace().map(|source| PathBuf::from(source.replace('\0', " ")));
    Ok(sources.find(|source| modified(source).is_ok_and(|changed| changed > built)))
}

fn modified(file: &Path) -> std::io::Result<SystemTime> {
    fs::metadata(file)?.modified()
}

/// Options that name output files, which do not affect what is measured.
const UNTOLD: [&str; 3] = ["--json", "--json-file", "--svg"];

/// The command line of a process as a reader would type it: the program and its arguments, without output options and
/// without directories of this machine.
pub fn command_line(mut words: impl Iterator<Item = String>) -> String {
    let mut line = words.next().map_or_else(String::new, |program| shown(&program));
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        if UNTOLD.contains(&name) {
            // A file follows, except after an option that only says what is printed.
            if !word.contains('=') && words.peek().is_some_and(|next| !next.starts_with('-')) {
                words.next();
            }
        } else if !["--quiet", "-q", "--replace"].contains(&name) {
            line.push(' ');
            line.push_str(&shown(&word));
        }
    }
    line
}

/// One word of a command line without its directories.
fn shown(word: &str) -> String {
    let (option, value) = word.split_once('=').map_or(("", word), |(name, value)| (name, value));
    let is_path = value.contains('/') && !value.contains("://");
    let value = if is_path { value.trim_end_matches('/').rsplit('/').next().unwrap_or(value) } else { value };
    let value = if value.contains(' ') { format!("'{value}'") } else { value.to_owned() };
    if option.is_empty() { value } else { format!("{option}={value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_names_no_directories() {
        let line = |text: &str| command_line(text.split(' ').map(str::to_owned));
        let asked = "/usr/bin/scalebricks-bench choice --json --json-file /tmp/x.json --keys 1k --svg=out -q --capture /data/a.pcap --page choosing";
        assert_eq!(line(asked), "scalebricks-bench choice --keys 1k --capture a.pcap --page choosing");
        assert_eq!(
            line("target/release/scalebricks-bench control --nats nats://h:4222"),
            "scalebricks-bench control --nats nats://h:4222"
        );
    }

    #[test]
    fn haste_and_changed_sources_are_refused() {
        let clean = "0123456789ab";
        assert_eq!(refusal(clean, 3, false), None);
        for (commit, runs, is_quick) in
            [(clean, 2, false), (clean, 3, true), ("0123456789ab-dirty", 3, false), ("unknown", 3, false)]
        {
            assert!(refusal(commit, runs, is_quick).is_some(), "{commit} {runs} {is_quick}");
        }
    }

    #[test]
    fn a_program_older_than_its_sources_is_found_out() {
        let place = tempfile::tempdir().unwrap();
        let [program, source] = ["program", "a source.rs"].map(|name| place.path().join(name));
        assert!(changed_since_built(&program).is_err(), "the commit it was built from is unknown");
        let listed = source.display().to_string().replace(' ', "\\ ");
        fs::write(program.with_extension("d"), format!("{}: {listed}\n", program.display())).unwrap();
        for file in [&source, &program] {
            fs::write(file, "").unwrap();
        }
        let at = |file: &Path, seconds| {
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
        };
        at(&program, 2_000);
        at(&source, 1_000);
        assert_eq!(changed_since_built(&program), Ok(None));
        at(&source, 3_000);
        assert_eq!(changed_since_built(&program), Ok(Some(source)));
    }

    #[test]
    fn pages_are_no_sources() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        assert_eq!(commit_of(root), "unknown");
        assert_eq!(is_ancestor(root, "0123456789ab"), None);
        fs::write(root.join("README.md"), "").unwrap();
        fs::write(root.join("source.rs"), "").unwrap();
        for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "x"]] {
            let identity =
                ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"];
            assert!(git(root, identity.iter().chain(words)).is_some(), "{words:?}");
        }
        let commit = commit_of(root);
        assert_eq!(commit_of(root), commit);
        assert_eq!(is_ancestor(root, &commit), Some(true));
        assert_eq!(is_ancestor(root, "0123456789ab"), Some(false));
        fs::write(root.join("README.md"), "changed").unwrap();
        assert_eq!(commit_of(root), commit);
        fs::write(root.join("source.rs"), "changed").unwrap();
        assert_eq!(commit_of(root), format!("{commit}-dirty"));
    }
}
