//! The incumbent's recorded answers, and malicious files.

#![expect(clippy::expect_used, reason = "helpers of tests fail like tests")]

mod files;
mod hostile;
mod requests;
mod rules;

use serde_json::Value;

/// Returns the cases of a file with recorded answers.
fn cases(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// Returns the names and texts of a case's files.
fn files(case: &Value) -> Vec<(&str, &str)> {
    let files = case["files"].as_object().expect("a case has files");
    files.iter().map(|(name, text)| (name.as_str(), text.as_str().expect("text"))).collect()
}
