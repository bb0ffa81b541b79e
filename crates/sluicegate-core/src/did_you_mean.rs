//! Suggestions for misspelled words.

/// Returns the `candidates` nearest to `word`, in their order, if it may be a misspelling or an
/// abbreviation of them.
///
/// Returns none if no candidate is near.
///
/// ```
/// use sluicegate_core::nearest;
///
/// assert_eq!(nearest("limts", ["limits", "listen"]), ["limits"]);
/// assert_eq!(nearest("token", ["token_bucket", "gcra"]), ["token_bucket"]);
/// assert_eq!(nearest("policy", ["policies", "ban"]), ["policies"]);
/// assert!(nearest("rate", ["limits", "listen"]).is_empty());
/// ```
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let mut near: Vec<&str> = Vec::new();
    // A longer word resembles no candidate, and computing the distance takes time.
    if !(2..=64).contains(&word.len()) {
        return near;
    }
    let mut best = usize::MAX;
    for candidate in candidates {
        let tolerated = if candidate.len() >= 5 { 2 } else { 1 };
        let distance = match strsim::osa_distance(&word, &candidate.to_lowercase()) {
            distance if distance <= tolerated => distance,
            _ if word.len() >= 3 && candidate.starts_with(&word) => tolerated + 1,
            // Another ending, such as `policy` for `policies`.
            3 if word.len() >= 6 && candidate.get(..5) == word.get(..5) => tolerated + 1,
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

/// Returns `did you mean …?` with the [`nearest`] of `candidates`, to append to a message.
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
    /// More candidates would make a list.
    const MOST: usize = 3;
    let near = nearest(word, candidates);
    let (last, others) = near.get(..near.len().min(MOST))?.split_last()?;
    let others: String = others.iter().map(|word| format!("`{word}` or ")).collect();
    Some(format!("did you mean {others}`{last}`?"))
}
