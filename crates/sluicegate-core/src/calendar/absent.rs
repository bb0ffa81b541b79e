//! The type of calendar windows in a program without the feature `calendar`: it has no values.

use std::convert::Infallible;
use std::fmt;

use super::unit::CalendarUnit;
use super::{Boundaries, Boundary};
use crate::error::PolicyError;
use crate::time::Timestamp;

/// A calendar window, which a program without the feature `calendar` can't make.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct CalendarWindow(Infallible);

impl CalendarWindow {
    /// Refuses every time zone.
    ///
    /// # Errors
    /// Returns an error that names the missing feature.
    pub fn new(_unit: CalendarUnit, _zone: &str) -> Result<Self, PolicyError> {
        let message = "calendar windows need the feature `calendar` of the crate `sluicegate`";
        Err(PolicyError::new("calendar", message.to_owned()))
    }

    /// Sets the first day of weeks.
    ///
    /// # Errors
    /// Never returns an error.
    pub fn start(self, _weekday: &str) -> Result<Self, PolicyError> {
        match self.0 {}
    }

    /// Sets the first day of months and years.
    ///
    /// # Errors
    /// Never returns an error.
    pub fn from(self, _day: &str) -> Result<Self, PolicyError> {
        match self.0 {}
    }

    /// Sets the time of day at which windows begin.
    ///
    /// # Errors
    /// Never returns an error.
    pub fn at(self, _time: &str) -> Result<Self, PolicyError> {
        match self.0 {}
    }

    /// Changes the zone.
    ///
    /// # Errors
    /// Never returns an error.
    pub fn in_zone(self, _zone: &str) -> Result<Self, PolicyError> {
        match self.0 {}
    }

    /// Makes each date of the calendar one budget, so that a change of the zone keeps the used
    /// units.
    #[must_use]
    pub fn across_zones(self) -> Self {
        match self.0 {}
    }

    /// Returns `true` if a change of the zone keeps the used units.
    #[must_use]
    pub const fn is_across_zones(&self) -> bool {
        match self.0 {}
    }

    /// Returns `true` if states of `other` are also states of these windows.
    #[must_use]
    pub const fn shares_states_with(&self, _other: &Self) -> bool {
        match self.0 {}
    }

    /// Returns the length of a window.
    #[must_use]
    pub const fn unit(&self) -> CalendarUnit {
        match self.0 {}
    }

    /// Returns the name of the zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        match self.0 {}
    }

    /// Returns the first instant of the window that holds `at`, and the first instant after it.
    #[must_use]
    pub fn window_at(&self, _at: Timestamp) -> (Timestamp, Timestamp) {
        match self.0 {}
    }

    pub(crate) const fn around(&self, _at: Timestamp) -> [Boundary; 2] {
        match self.0 {}
    }

    pub(crate) const fn end_of(&self, _date: u64) -> Timestamp {
        match self.0 {}
    }

    pub(crate) const fn state_text(&self) -> String {
        match self.0 {}
    }

    /// Returns the boundaries of the windows around `at`.
    #[must_use]
    pub fn boundaries(&self, _at: Timestamp) -> Boundaries {
        match self.0 {}
    }
}

impl fmt::Display for CalendarWindow {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}
