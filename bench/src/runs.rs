//! Whole runs with their values, in a file with one line for each. The page reports from them how far
//! the ratios vary from run to run and from machine to machine.
//!
//! Only values of the current way to measure a goal may count. A change of a measurement must remove
//! the goal's values from the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::goals::GOALS;
use crate::machine;
use crate::measure::{Row, digits};

/// A whole run.
#[derive(Debug, Deserialize, Serialize)]
pub struct Run {
    /// The date, in UTC.
    date: String,
    machine: String,
    /// The value of each goal that could be measured.
    values: BTreeMap<String, f64>,
}

impl Run {
    /// Returns the run that has just ended.
    pub fn of(rows: &[Row]) -> Self {
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let value = |row: &Row| Some((row.goal.name.to_owned(), (row.value? * 1e4).round() / 1e4));
        Self {
            date,
            machine: machine::description(),
            values: rows.iter().filter_map(value).collect(),
        }
    }
}

/// Adds a run to those in a file, and returns all of them.
pub fn add(file: &Path, run: Run) -> Result<Vec<Run>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let runs = text.lines().map(serde_json::from_str).chain([Ok(run)]);
    let runs: Vec<Run> = runs.collect::<Result<_, _>>().context("can't read the earlier runs")?;
    let lines = runs.iter().map(|run| Ok(serde_json::to_string(run)? + "\n"));
    fs::write(file, lines.collect::<Result<String>>()?)
        .with_context(|| format!("can't write {}", file.display()))?;
    Ok(runs)
}

/// Formats a table of the lowest and highest value of each goal on each machine.
pub fn table(runs: &[Run]) -> String {
    let machines: BTreeSet<&str> = runs.iter().map(|run| &*run.machine).collect();
    let on =
        |machine: &str| -> Vec<&Run> { runs.iter().filter(|run| run.machine == machine).collect() };
    let heading = machines.iter().map(|machine| {
        let days: BTreeSet<&str> = on(machine).iter().map(|run| &*run.date).collect();
        let (first, last) = (days.first().unwrap_or(&""), days.last().unwrap_or(&""));
        let days = if first == last { (*first).to_owned() } else { format!("{first} to {last}") };
        format!(" {machine}, runs: {}, {days} |", on(machine).len())
    });
    let mut table = format!("| goal | target |{}\n", heading.collect::<String>());
    table.push_str(&format!("| --- | --- |{}\n", " --- |".repeat(machines.len())));
    for goal in GOALS {
        let cells = machines.iter().map(|machine| {
            let mut values: Vec<f64> =
                on(machine).iter().filter_map(|run| run.values.get(goal.name).copied()).collect();
            values.sort_by(f64::total_cmp);
            match values[..] {
                [] => " - |".to_owned(),
                [only] => format!(" {} |", digits(only)),
                [least, .., most] => format!(" {} to {} |", digits(least), digits(most)),
            }
        });
        let cells: String = cells.collect();
        table.push_str(&format!("| `{}` | {} |{cells}\n", goal.name, goal.bound()));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(machine: &str, date: &str, value: f64) -> Run {
        let values = BTreeMap::from([(GOALS[0].name.to_owned(), value)]);
        Run { date: date.to_owned(), machine: machine.to_owned(), values }
    }

    #[test]
    fn the_table_shows_how_far_a_ratio_moved_on_each_machine() {
        let runs = [
            run("a", "2026-01-01", 1.5),
            run("b", "2026-01-03", 2.0),
            run("a", "2026-01-02", 1.25),
        ];
        let table = table(&runs);
        let mut lines = table.lines();
        assert_eq!(
            lines.next(),
            Some(
                "| goal | target | a, runs: 2, 2026-01-01 to 2026-01-02 | b, runs: 1, 2026-01-03 |"
            )
        );
        let first = format!("| `{}` | {} | 1.25 to 1.50 | 2.00 |", GOALS[0].name, GOALS[0].bound());
        assert_eq!(lines.nth(1), Some(&*first));
        assert!(lines.next().unwrap().ends_with("| - | - |"));
    }

    #[test]
    fn the_earlier_runs_are_of_goals_that_there_are() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks/runs.jsonl");
        for line in fs::read_to_string(file).unwrap().lines() {
            let run: Run = serde_json::from_str(line).unwrap();
            for name in run.values.keys() {
                assert!(GOALS.iter().any(|goal| goal.name == name), "{name}");
            }
        }
    }
}
