//! Measures goals in pairs of short segments that take turns.

use anyhow::Result;

use crate::goals::{GOALS, Goal};

/// The duration of a measurement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effort {
    Quick,
    Full,
}

impl Effort {
    /// Returns the full count, or a quarter of it in a quick run.
    pub const fn count(self, full: usize) -> usize {
        match self {
            Self::Quick => full.div_ceil(4),
            Self::Full => full,
        }
    }
}

/// The result of a measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    pub value: f64,
    /// The underlying figures, for people.
    pub note: String,
    /// Parts that were measured alone in the same run, and explain the value.
    pub parts: Vec<String>,
}

impl Measured {
    pub fn new(value: f64, note: impl Into<String>) -> Self {
        Self { value, note: note.into(), parts: Vec::new() }
    }

    /// Adds an underlying figure.
    #[must_use]
    pub fn noting(mut self, figure: impl AsRef<str>) -> Self {
        self.note = format!("{}. {}", self.note, figure.as_ref());
        self
    }

    /// Adds a part that was measured alone.
    #[must_use]
    pub fn part(mut self, part: impl Into<String>) -> Self {
        self.parts.push(part.into());
        self
    }
}

/// A goal with its result.
#[derive(Debug)]
pub struct Row {
    pub goal: &'static Goal,
    /// `None` if it couldn't be measured.
    pub value: Option<f64>,
    pub met: bool,
    pub note: String,
    /// The reason why the goal is not met, as far as this run measured it; empty if it is met.
    pub why: String,
}

/// One run of this program.
#[derive(Debug)]
pub struct Session {
    pub effort: Effort,
    only: Option<String>,
    rows: Vec<Row>,
    /// The rows of an earlier run, which this one doesn't measure.
    earlier: Vec<Row>,
}

impl Session {
    pub fn new(effort: Effort, only: Option<String>) -> Self {
        Self { effort, only, rows: Vec::new(), earlier: Vec::new() }
    }

    /// Adopts the rows of an earlier run. Only the other goals are measured.
    pub fn complete(mut self, earlier: Vec<Row>) -> Self {
        self.earlier = earlier;
        self
    }

    /// Returns whether any of these goals was chosen for measurement.
    pub fn wants(&self, prefix: &str) -> bool {
        GOALS.iter().any(|goal| goal.name.starts_with(prefix) && self.is_chosen(goal.name))
    }

    fn is_chosen(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|part| name.contains(part.as_str()))
            && self.earlier.iter().all(|row| row.goal.name != name)
    }

    /// Measures a goal, if it was chosen.
    pub fn goal(&mut self, name: &str, how: impl FnOnce(Effort) -> Result<Measured>) {
        if !self.is_chosen(name) {
            return;
        }
        let Some(goal) = GOALS.iter().find(|goal| goal.name == name) else {
            return;
        };
        eprintln!("measuring {name}: {}", goal.what);
        let row = match how(self.effort) {
            Ok(measured) => {
                let met = goal.is_met(measured.value);
                let why = match &measured.parts[..] {
                    _ if met => String::new(),
                    [] => "No part of it was measured alone".to_owned(),
                    parts => format!("This run measured parts of it alone. {}", parts.join(". ")),
                };
                Row { goal, value: Some(measured.value), met, note: measured.note, why }
            }
            Err(error) => {
                let why = format!("It could not be measured: {error:#}");
                Row { goal, value: None, met: false, note: String::new(), why }
            }
        };
        match row.value {
            Some(value) => eprintln!("    {value:.3} {} ({})", goal.unit, row.note),
            None => eprintln!("    {}", row.why),
        }
        self.rows.push(row);
    }

    /// Reports all goals of a part as failed, if the part couldn't start.
    pub fn give_up(&mut self, prefix: &str, error: &anyhow::Error) {
        for goal in GOALS.iter().filter(|goal| goal.name.starts_with(prefix)) {
            self.goal(goal.name, |_| anyhow::bail!("{error:#}"));
        }
    }

    /// Returns all rows, in the order of the goals.
    pub fn rows(mut self) -> Vec<Row> {
        self.rows.append(&mut self.earlier);
        self.rows.sort_by_key(|row| GOALS.iter().position(|goal| goal.name == row.goal.name));
        self.rows
    }
}

/// The values of two sides that took turns.
#[derive(Debug, Default)]
pub struct Pairs {
    subject: Vec<f64>,
    floor: Vec<f64>,
}

impl Pairs {
    pub fn add(&mut self, subject: f64, floor: f64) {
        self.subject.push(subject);
        self.floor.push(floor);
    }

    /// Returns the median of the ratios of neighbours, with both medians in its note.
    pub fn ratio(&self, unit: &str) -> Measured {
        let mut ratios: Vec<f64> =
            self.subject.iter().zip(&self.floor).map(|(subject, floor)| subject / floor).collect();
        let value = median(&mut ratios);
        let (low, high) =
            (ratios[ratios.len() / 4], ratios[(3 * ratios.len() / 4).min(ratios.len() - 1)]);
        let note = format!(
            "{} {unit}. Half of {} pairs are between {low:.2} and {high:.2}",
            self.sides(),
            ratios.len()
        );
        Measured::new(value, note)
    }

    /// Returns the ratio to another side, whose name is in front of the medians.
    pub fn ratio_to(&self, other: &str, unit: &str) -> Measured {
        let measured = self.ratio(unit);
        Measured { note: format!("{other} {}", measured.note), ..measured }
    }

    /// Formats both medians.
    pub fn sides(&self) -> String {
        let [subject, floor] =
            [&self.subject, &self.floor].map(|side| digits(median(&mut side.clone())));
        format!("{subject} against {floor}")
    }
}

/// Runs two sides again and again, and calls `each` with both results. The first round is the warm-up.
///
/// The sides take turns in being first, because the second one may be slower or faster for its place.
pub fn take_turns<T>(
    rounds: usize,
    mut other: impl FnMut() -> Result<T>,
    mut ours: impl FnMut() -> Result<T>,
    mut each: impl FnMut(T, T) -> Result<()>,
) -> Result<()> {
    for round in 0..=rounds {
        let (other, ours) = if round % 2 == 0 {
            (other()?, ours()?)
        } else {
            let ours = ours()?;
            (other()?, ours)
        };
        if round > 0 {
            each(other, ours)?;
        }
    }
    Ok(())
}

/// Sorts the values and returns the median.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else if values.is_empty() {
        f64::NAN
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

/// Formats a value with three significant digits.
pub fn digits(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}
