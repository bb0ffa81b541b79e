//! Suggestions for misspelt words.

/// Those of `candidates` that `word` may be a misspelling or an abbreviation of: the nearest, in their
/// order. None if nothing is near.
///
/// ```
/// use sluicegate_core::nearest;
///
/// assert_eq!(nearest("limts", ["limits", "listen"]), ["limits"]);
/// assert_eq!(nearest("token", ["token_bucket", "gcra"]), ["token_bucket"]);
/// assert!(nearest("rate", ["limits", "listen"]).is_empty());
/// ```
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let mut near: Vec<&str> = Vec::new();
    // A longer word resembles none, and computing the distance takes time.
    if !(2..=64).contains(&word.len()) {
        return near;
    }
    let mut best = usize::MAX;
    for candidate in candidates {
        let tolerated = if candidate.len() >= 5 { 2 } else { 1 };
        let distance = match strsim::osa_distance(&word, &candidate.to_lowercase()) {
            distance if distance <= tolerated => distance,
            _ if word.len() >= 3 && candidate.starts_with(&word) => tolerated + 1,
            _ => continue,
        };
        if distance < best {
            near.clear();
            best = distance;
        }
        if distance == best {
            near.push(candidate);
        }
    }
    near
}

/// A question to append to a message, with the [`nearest`] of `candidates`.
///
/// ```
/// use sluicegate_core::did_you_mean;
///
/// assert_eq!(did_you_mean("polices", ["policies"]).unwrap(), "did you mean `policies`?");
/// assert_eq!(did_you_mean("x", ["policies"]), None);
/// ```
#[must_use]
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    /// More would be a list rather than a question.
    const MOST: usize = 3;
    let near = nearest(word, candidates);
    let (last, others) = near.get(..near.len().min(MOST))?.split_last()?;
    let others: String = others.iter().map(|word| format!("`{word}` or ")).collect();
    Some(format!("did you mean {others}`{last}`?"))
}
