//! The timestamps that a value with the tag `!!timestamp` may have.

/// Returns whether `text` is a date such as `2001-12-15`, or a date and a time.
///
/// The time follows a `T` or `t` with a zone, `Z` or `+01:00`, or a space without one.
pub(crate) fn is_timestamp(text: &str) -> bool {
    let mut rest = text;
    let Some((year, month, day)) = date(&mut rest) else { return false };
    if !(1..=12).contains(&month) || day == 0 || day > days(year, month) {
        return false;
    }
    let Some(separator) = rest.chars().next() else { return true };
    rest = rest.get(1..).unwrap_or_default();
    match separator {
        'T' | 't' => time(&mut rest).is_some() && zone(&mut rest).is_some() && rest.is_empty(),
        ' ' => time(&mut rest).is_some() && rest.is_empty(),
        _ => false,
    }
}

fn date(rest: &mut &str) -> Option<(u32, u32, u32)> {
    let year = number(rest, 4, 4)?;
    *rest = rest.strip_prefix('-')?;
    let month = number(rest, 1, 2)?;
    *rest = rest.strip_prefix('-')?;
    Some((year, month, number(rest, 1, 2)?))
}

fn time(rest: &mut &str) -> Option<()> {
    let hour = number(rest, 1, 2)?;
    *rest = rest.strip_prefix(':')?;
    let minute = number(rest, 1, 2)?;
    *rest = rest.strip_prefix(':')?;
    let second = number(rest, 1, 2)?;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        *rest = fraction.get(digits..).filter(|_| digits > 0)?;
    }
    (hour < 24 && minute < 60 && second < 60).then_some(())
}

fn zone(rest: &mut &str) -> Option<()> {
    if let Some(after) = rest.strip_prefix('Z') {
        *rest = after;
        return Some(());
    }
    *rest = rest.strip_prefix(['+', '-'])?;
    let hour = number(rest, 2, 2)?;
    *rest = rest.strip_prefix(':')?;
    let minute = number(rest, 2, 2)?;
    (hour <= 24 && minute <= 60).then_some(())
}

/// Takes a number of at least `least` and at most `most` digits.
fn number(rest: &mut &str, least: usize, most: usize) -> Option<u32> {
    let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, after) = rest.split_at_checked(digits).filter(|_| digits >= least)?;
    *rest = after;
    number.parse().ok()
}

const fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        for text in ["2001-01-01", "2001-1-1", "2004-02-29", "2001-12-14 21:59:43.10"] {
            assert!(is_timestamp(text), "{text}");
        }
        for text in ["2001-12-14t21:59:43.10-05:00", "2001-12-14T1:2:3Z"] {
            assert!(is_timestamp(text), "{text}");
        }
        for text in ["", "2001", "201-1-1", "2001-13-01", "2001-02-29", "2001-01-01T00:00:00"] {
            assert!(!is_timestamp(text), "{text}");
        }
        for text in ["2001-12-14 21:59:43.10 -5", "2001-01-01x", "2001-01-01 25:00:00"] {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
