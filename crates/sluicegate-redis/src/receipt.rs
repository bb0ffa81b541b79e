//! What it takes to give a reservation back.

/// The packed states of its subjects as a reservation found and as it left them: those that still
/// are as it left them, are put back as it found them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Receipt {
    /// One key per changed part, in the order of `changes`.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) changes: Vec<Change>,
}

/// The packed states of one part before and after.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Change {
    pub(crate) part: usize,
    pub(crate) before: Option<Vec<u8>>,
    pub(crate) after: Vec<u8>,
}
