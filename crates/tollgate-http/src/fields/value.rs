//! Values of response fields.

use std::fmt::Write as _;

use http::header::{HeaderName, HeaderValue};

use super::written::written;

/// A value, as cheap as it can be until it is known where it goes.
#[derive(Debug)]
pub(super) enum Value<'v> {
    Ready(&'v HeaderValue),
    Number(u64),
    Made(HeaderValue),
    /// No field, and none of another limit instead.
    Nothing,
}

/// What happens to a field that is there already.
#[derive(Clone, Copy, Debug)]
pub(super) enum Merge {
    Append,
    Replace,
    /// It stays if fewer units are left by it.
    LeastLeft(Left),
}

/// How many units are left, and the field that says it of others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) name: &'static HeaderName,
    pub(super) units: u64,
}

impl Value<'_> {
    pub(super) fn into_header(self) -> HeaderValue {
        match self {
            Self::Ready(value) => value.clone(),
            Self::Number(number) => written(|text| write!(text, "{number}")),
            Self::Made(value) => value,
            Self::Nothing => HeaderValue::from_static(""),
        }
    }

    pub(super) fn into_text(self) -> String {
        match self {
            Self::Ready(value) => value.to_str().unwrap_or_default().to_owned(),
            Self::Number(number) => number.to_string(),
            Self::Made(value) => value.to_str().unwrap_or_default().to_owned(),
            Self::Nothing => String::new(),
        }
    }
}

/// Names of policies, digits and what stands between them always are a lawful value.
pub(super) fn of_lawful_text(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

pub(super) fn separate(text: &mut String) {
    if !text.is_empty() {
        text.push_str(", ");
    }
}
