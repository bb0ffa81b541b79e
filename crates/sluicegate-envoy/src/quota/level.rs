//! Max-min fair shares.

/// Returns the largest share with which a capacity suffices, if no holder gets more than it needs.
///
/// Each need comes with the number of its holders. If all needs fit, there is no bound: `u64::MAX`.
pub(super) fn level(needs: &mut [(u64, u64)], capacity: u64) -> u64 {
    needs.sort_unstable();
    let mut left = u128::from(capacity);
    let mut holders: u128 = needs.iter().map(|(_, count)| u128::from(*count)).sum();
    for (need, count) in needs {
        let (need, count) = (u128::from(*need), u128::from(*count));
        if need * holders > left {
            return u64::try_from(left / holders).unwrap_or(u64::MAX);
        }
        left -= need * count;
        holders -= count;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_needs_are_met_and_the_others_share_the_rest() {
        for (mut needs, expected) in [
            (vec![], u64::MAX),
            (vec![(50, 2)], u64::MAX),
            (vec![(60, 2)], 50),
            (vec![(200, 1), (10, 1), (60, 1)], 45),
            (vec![(90, 1), (10, 3)], 70),
            (vec![(1, 1_000_000)], 0),
            (vec![(u64::MAX, u64::MAX >> 1)], 0),
        ] {
            assert_eq!(level(&mut needs, 100), expected, "{needs:?}");
        }
    }

    /// The level is the largest one, checked against every other.
    #[test]
    fn no_higher_level_fits() {
        for seed in 0..200_u64 {
            let need = |index: u64| (seed * 7_919 + index * 104_729) % 97 + 1;
            let mut needs: Vec<_> =
                (0..seed % 9 + 1).map(|index| (need(index), index % 3 + 1)).collect();
            let level = level(&mut needs, 300);
            let taken = |level: u64| {
                needs.iter().map(|(need, count)| need.min(&level) * count).sum::<u64>()
            };
            assert!(taken(level) <= 300);
            assert!(level == u64::MAX || taken(level + 1) > 300, "{needs:?}: {level}");
        }
    }
}
