//! Formats numbers for people.

/// Formats a number with a comma after every three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number with its noun, in the singular or the plural: `1 key`, `2 keys`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Formats a share in percent with one decimal. Only an empty share is 0.0, and only the whole is
/// 100.0.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    match (part * 2_000 + whole) / (whole * 2) {
        0 if part > 0 => "<0.1".to_owned(),
        1_000 if part < whole => ">99.9".to_owned(),
        tenths => format!("{}.{}", tenths / 10, tenths % 10),
    }
}

/// Formats a share as a length in percent, with two decimals; 0 if the whole is 0.
pub(crate) fn length(part: u64, whole: u64) -> String {
    let hundredths = u128::from(part) * 10_000 / u128::from(whole.max(1));
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

/// Shortens a round number: `900`, `25k`, `1.5M`.
pub(crate) fn short(number: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match UNITS.into_iter().find(|(unit, _)| number / unit > 0) {
        Some((unit, sign)) => {
            let (whole, tenths) = (number / unit, number % unit / (unit / 10));
            let tenths = if tenths == 0 { String::new() } else { format!(".{tenths}") };
            format!("{whole}{tenths}{sign}")
        }
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_groups_of_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(
            (counted(1, "key"), counted(1_000, "key")),
            ("1 key".into(), "1,000 keys".into())
        );
    }

    #[test]
    fn a_share_rounds_but_never_to_none_or_all() {
        for (part, whole, text) in [
            (0, 0, "-"),
            (0, 3, "0.0"),
            (1, 3, "33.3"),
            (2, 3, "66.7"),
            (3, 3, "100.0"),
            (1, 1_000_000, "<0.1"),
            (999_999, 1_000_000, ">99.9"),
            (u64::MAX, u64::MAX, "100.0"),
        ] {
            assert_eq!(percent(part, whole), text, "{part} of {whole}");
        }
    }

    #[test]
    fn a_length_never_exceeds_the_whole() {
        for (part, whole, text) in
            [(0, 0, "0.00%"), (1, 3, "33.33%"), (3, 3, "100.00%"), (u64::MAX, u64::MAX, "100.00%")]
        {
            assert_eq!(length(part, whole), text, "{part} of {whole}");
        }
    }

    #[test]
    fn a_large_number_takes_few_characters() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1k"),
            (25_000, "25k"),
            (1_500_000, "1.5M"),
            (20_000_000_000, "20G"),
            (u64::MAX, "18446744T"),
        ] {
            assert_eq!(short(number), text);
        }
    }
}
