//! Deficits counted in the ticks of another rate, while programs with different rates share a key.

use super::{Balance, Bucket, Charge, Kernel as _, Overflow, State, product};
use crate::number::{MAX_EXACT, greatest_common_divisor, mul_div_ceil};

impl Bucket {
    /// Returns the state to keep for a balance that was charged.
    #[inline]
    #[must_use]
    pub const fn kept(&self, balance: &Balance) -> State {
        let Balance { newest, deficit_at_newest: deficit, scale, .. } = *balance;
        if scale == 1 {
            State { newest, deficit, unit: self.unit }
        } else if deficit % scale == 0 {
            State { newest, deficit: deficit / scale, unit: self.unit }
        } else {
            State { newest, deficit, unit: self.unit * scale }
        }
    }

    /// Converts a state to the ticks of the rule, rounded up. For stores that can't keep it in
    /// others.
    #[must_use]
    pub fn rounded(&self, state: State) -> State {
        let deficit = mul_div_ceil(state.deficit, self.unit, state.unit).unwrap_or(MAX_EXACT);
        State { newest: state.newest, deficit, unit: self.unit }
    }

    /// Converts a deficit that is counted in `unit` ticks per unit.
    ///
    /// In ticks fine enough for both rates it is exact, so programs with different rates lose
    /// nothing when they take turns. If a state can't hold it in such ticks, it is rounded up,
    /// which loses less than a tick of the rule.
    #[cold]
    pub(super) fn convert(&self, balance: &mut Balance, unit: u64) -> Result<(), Overflow> {
        let deficit = balance.deficit_at_newest;
        let common = greatest_common_divisor(self.unit, unit);
        let (scale, times) = (unit / common, self.unit / common);
        let largest = self.capacity.saturating_add(self.unit).max(self.refill);
        match (product(largest, scale), product(deficit, times)) {
            (Ok(_), Ok(exact)) => (balance.deficit_at_newest, balance.scale) = (exact, scale),
            _ => {
                let rounded = mul_div_ceil(deficit, self.unit, unit).ok_or(Overflow)?;
                balance.deficit_at_newest = rounded;
            }
        }
        self.lower(balance, 0);
        Ok(())
    }

    /// Charges a balance by the rule, in the balance's own scale. If a state can't hold the result,
    /// charges it by the rule's own scale.
    #[cold]
    pub(super) fn in_scale(&self, balance: &mut Balance, charge: Charge) -> Result<(), Overflow> {
        let Balance { scale, at, newest, deficit_at_newest, .. } = *balance;
        let rule = Self {
            unit: self.unit * scale,
            refill: self.refill * scale,
            capacity: self.capacity * scale,
            ..*self
        };
        let deficit = rule.drain(deficit_at_newest, at - newest);
        let mut exact = Balance { deficit, scale: 1, ..*balance };
        if rule.charge(&mut exact, charge).is_ok() {
            *balance = Balance { deficit: exact.deficit.div_ceil(scale), scale, ..exact };
            return Ok(());
        }
        let deficit_at_newest = deficit_at_newest.div_ceil(scale);
        let mut rounded = Balance { deficit_at_newest, scale: 1, ..*balance };
        self.charge(&mut rounded, charge)?;
        *balance = rounded;
        Ok(())
    }
}
