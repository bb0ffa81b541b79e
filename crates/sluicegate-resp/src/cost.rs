//! The units of a request.

use sluicegate_core::MAX_EXACT;

use crate::command_error::CommandError;
use crate::number::{integer, shown};

/// The units of a request: `5` of every policy, or `requests=1,tokens=1200` by the names of policies.
///
/// ```
/// use sluicegate_resp::Cost;
///
/// assert!(matches!(Cost::parse(b"5", 1)?, Cost::Units(5)));
/// let Cost::Each(each) = Cost::parse(b"requests=1,tokens=1200", 1)? else { panic!() };
/// assert_eq!(each.iter().collect::<Vec<_>>(), [("requests", 1), ("tokens", 1_200)]);
/// assert!(Cost::parse(b"0", 1).is_err());
/// # Ok::<(), sluicegate_resp::CommandError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Cost<'a> {
    /// The policies' own costs.
    #[default]
    Own,
    /// This many units of every policy.
    Units(u64),
    /// Units by the names of policies.
    Each(EachCost<'a>),
}

/// Units by the names of policies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EachCost<'a>(&'a str);

impl<'a> Cost<'a> {
    /// Maximum number of policies that a cost names.
    pub const MAX_POLICIES: usize = 64;

    /// Reads the units. A number for every policy is at least `least`.
    ///
    /// # Errors
    /// Returns an error with the forms that are valid.
    pub fn parse(text: &'a [u8], least: u64) -> Result<Self, CommandError> {
        if let Some(units) = units(text, least) {
            return Ok(Self::Units(units));
        }
        let each = str::from_utf8(text).ok().map(EachCost).filter(|each| {
            each.pairs().all(|pair| pair.is_some()) && each.pairs().count() <= Self::MAX_POLICIES
        });
        each.map(Self::Each).ok_or_else(|| {
            CommandError::err(format!(
                "the units are `{}`: send a whole number from {least} to {MAX_EXACT}, or units by policy such as \
                 requests=1,tokens=1200",
                shown(text)
            ))
        })
    }
}

impl<'a> EachCost<'a> {
    /// Returns the policies' names and their units.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, u64)> + use<'a> {
        self.pairs().flatten()
    }

    fn pairs(&self) -> impl Iterator<Item = Option<(&'a str, u64)>> + use<'a> {
        self.0.split(',').map(|pair| {
            let (policy, text) = pair.split_once('=')?;
            Some((policy, units(text.as_bytes(), 0)?))
        })
    }
}

fn units(text: &[u8], least: u64) -> Option<u64> {
    let units = u64::try_from(integer(text)?).ok()?;
    (least..=MAX_EXACT).contains(&units).then_some(units)
}
