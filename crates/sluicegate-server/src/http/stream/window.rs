//! The part of all limits that a stream shows.

use super::super::error::ApiError;
use super::super::query::Query;
use super::super::recent::one_of;

/// The part of all limits that a stream shows.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) sort: Sort,
    /// A part of the name, in lower case.
    pub(super) search: String,
    pub(super) show: Show,
    pub(super) count: usize,
    pub(super) offset: usize,
}

/// The order of limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sort {
    Denied,
    Rate,
    Name,
    Shadow,
    Capacity,
}

/// The limits that are shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Show {
    All,
    Busy,
    Denied,
    Shadow,
    Overridden,
    Off,
}

impl Window {
    const COUNT: usize = 50;
    const MOST: usize = 200;

    pub(super) fn read(query: &Query) -> Result<Self, ApiError> {
        let sorts = [
            ("denied", Sort::Denied),
            ("rate", Sort::Rate),
            ("name", Sort::Name),
            ("shadow", Sort::Shadow),
            ("capacity", Sort::Capacity),
        ];
        let shows = [
            ("all", Show::All),
            ("busy", Show::Busy),
            ("denied", Show::Denied),
            ("shadow", Show::Shadow),
            ("overridden", Show::Overridden),
            ("off", Show::Off),
        ];
        let number = |name| -> Result<Option<usize>, ApiError> {
            let number = query.number(name)?;
            Ok(number.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
        };
        let count = number("count")?.unwrap_or(Self::COUNT);
        if count > Self::MOST {
            let most = Self::MOST;
            let message =
                format!("`count` is {count}, but must be a whole number from 0 to {most}");
            return Err(ApiError::malformed(message));
        }
        Ok(Self {
            sort: one_of(query, "sort", &sorts)?.unwrap_or(Sort::Denied),
            search: query.get("search").unwrap_or_default().to_lowercase(),
            show: one_of(query, "show", &shows)?.unwrap_or(Show::All),
            count,
            offset: number("offset")?.unwrap_or(0),
        })
    }
}
