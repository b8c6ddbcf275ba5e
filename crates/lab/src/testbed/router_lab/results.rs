//! The results of the lab of the router: a line per check, and all of them as JSON.

use crate::pages::Source;
use crate::testbed::LabError;
use crate::testbed::ends::Verdict;
use crate::testbed::report::line;
use scalebricks_console::machine;
use scalebricks_report::provenance;
use serde::{Deserialize, Serialize};

/// The results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct RouterResults {
    /// Program, commit and processor.
    #[serde(flatten)]
    pub source: Source,
    /// The date in UTC.
    pub date: String,
    /// The command that repeats the run, without paths of this machine.
    pub command: String,
    /// The processor and its cores.
    pub machine: String,
    /// Whether files are small and only one form of each router is checked.
    pub is_quick: bool,
    /// The scenarios, in the order in which they ran.
    pub scenarios: Vec<ScenarioResult>,
}

/// The results of a scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// Its name on the command line.
    pub scenario: String,
    /// Why it was not run; none if it was.
    pub skipped: Option<String>,
    /// What kept it from completing; none if all its checks were made.
    pub broken: Option<String>,
    /// How long it took, seconds.
    pub took_s: f64,
    /// Its checks.
    pub checks: Vec<Checked>,
}

/// A check.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checked {
    /// What was checked.
    pub check: String,
    /// Whether it passed.
    pub passed: bool,
    /// A short explanation.
    pub says: String,
}

impl RouterResults {
    /// Results without scenarios.
    pub fn new(is_quick: bool) -> Self {
        let source = Source::here();
        Self {
            date: machine::date(),
            command: provenance::command_line(std::env::args()),
            machine: format!("{}, {} cores", source.cpu, machine::cores()),
            source,
            is_quick,
            scenarios: Vec::new(),
        }
    }

    /// Whether every scenario that was run completed, and all checks passed.
    pub fn passed(&self) -> bool {
        self.scenarios.iter().all(ScenarioResult::passed)
    }

    /// As text, without a newline at the end.
    pub fn render(&self) -> String {
        let mut lines = Vec::new();
        for scenario in &self.scenarios {
            lines.push(format!("{} ({:.0} s)", scenario.scenario, scenario.took_s));
            lines.extend(scenario.checks.iter().map(|one| line(one.passed, &one.check, &one.says)));
            lines.extend(scenario.skipped.iter().map(|why| format!("skipped: {why}")));
            lines.extend(scenario.broken.iter().map(|why| line(false, "scenario", why)));
        }
        let checks = || self.scenarios.iter().flat_map(|scenario| &scenario.checks);
        let failed = checks().filter(|check| !check.passed).count();
        let broken = self.scenarios.iter().filter(|scenario| scenario.broken.is_some()).count();
        lines.push(match (failed, broken) {
            (0, 0) => format!("{} checks passed", checks().count()),
            (failed, 0) => format!("{failed} of {} checks FAILED", checks().count()),
            (failed, broken) => {
                format!(
                    "{failed} of {} checks FAILED, and {broken} scenarios did not complete",
                    checks().count()
                )
            }
        });
        lines.push(format!("{}, scalebricks {}", self.machine, self.source.version));
        lines.join("\n")
    }
}

impl ScenarioResult {
    /// A scenario without checks.
    pub fn new(scenario: &str) -> Self {
        Self { scenario: scenario.to_owned(), skipped: None, broken: None, took_s: 0.0, checks: Vec::new() }
    }

    /// Whether it was skipped, or made all its checks and all of them passed.
    pub fn passed(&self) -> bool {
        let was_made = self.skipped.is_some() || !self.checks.is_empty();
        was_made && self.broken.is_none() && self.checks.iter().all(|check| check.passed)
    }

    /// Adds a check. A program that did not end in time or failed is a check that failed.
    ///
    /// # Errors
    /// [`LabError::Interrupted`], and what keeps all checks from being made.
    pub fn add(
        &mut self,
        check: impl Into<String>,
        verdict: Result<Verdict, LabError>,
    ) -> Result<(), LabError> {
        let Verdict { passed, says } = match Verdict::or_too_slow(verdict) {
            Err(error @ (LabError::Failed { .. } | LabError::Died { .. })) => {
                Verdict::new(false, error.to_string())
            }
            verdict => verdict?,
        };
        self.checks.push(Checked { check: check.into(), passed, says });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_console::Interrupted;

    #[test]
    fn a_run_passes_only_if_every_scenario_was_checked_or_skipped() {
        let mut results = RouterResults::new(true);
        let mut one = ScenarioResult::new("routing");
        assert!(!one.passed(), "nothing was checked");
        one.add("ping", Ok(Verdict::new(true, "20 of 20"))).unwrap();
        results.scenarios.push(one.clone());
        results
            .scenarios
            .push(ScenarioResult { skipped: Some("no peer".to_owned()), ..ScenarioResult::new("x") });
        assert!(results.passed());
        let text = results.render();
        assert!(text.contains("ok     ping: 20 of 20") && text.contains("skipped: no peer"), "{text}");
        assert!(text.contains("1 checks passed"), "{text}");
        one.add(
            "curl",
            Err(LabError::TooSlow { command: "curl".to_owned(), limit: std::time::Duration::ZERO }),
        )
        .unwrap();
        results.scenarios.push(one);
        assert!(!results.passed() && results.render().contains("FAILED curl: no end after 0 s"));
        assert!(results.render().contains("1 of 3 checks FAILED"));
        results
            .scenarios
            .push(ScenarioResult { broken: Some("no rights".to_owned()), ..ScenarioResult::new("y") });
        assert!(results.render().contains("1 scenarios did not complete"), "{}", results.render());
    }

    #[test]
    fn an_interrupt_is_not_a_failed_check() {
        let mut one = ScenarioResult::new("routing");
        assert!(one.add("ping", Err(LabError::Interrupted(Interrupted))).is_err());
        assert!(one.checks.is_empty());
    }
}
