//! Tables: a header names the columns of the lines after it.

use super::role::{Form, Role};
use super::values::{Value, Values};
use crate::malformed::Malformed;
use crate::record::Fields;

/// The used columns of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    used: Vec<(usize, Role, Form)>,
    /// Number of columns in the header.
    count: usize,
}

/// Splits lines of CSV. Quoted fields may contain the delimiter; a quote inside is doubled.
#[derive(Clone, Debug)]
pub(crate) struct Csv {
    reader: csv_core::Reader,
    /// Fields of a line without their quotes, one after the other.
    text: Vec<u8>,
    /// End of each field in `text`.
    ends: Vec<usize>,
    count: usize,
}

impl Columns {
    /// Finds the columns of a header. Each role gets the first of its names that the header has.
    pub(crate) fn new(names: &[(Role, Form, String)], header: &[&[u8]]) -> Self {
        let mut used: Vec<(usize, Role, Form)> = Vec::new();
        for (role, form, name) in names {
            let place =
                header.iter().position(|column| column.eq_ignore_ascii_case(name.as_bytes()));
            if let Some(place) = place
                && used.iter().all(|(_, other, _)| other != role)
            {
                used.push((place, *role, *form));
            }
        }
        used.sort_by_key(|(place, ..)| *place);
        Self { used, count: header.len() }
    }

    pub(crate) fn has(&self, role: Role) -> bool {
        self.used.iter().any(|(_, other, _)| *other == role)
    }

    pub(crate) fn fields(&self) -> Fields {
        self.used.iter().filter_map(|(_, role, _)| role.field()).collect()
    }

    /// Returns the parts of a line. A line with fewer fields than the header is malformed.
    pub(crate) fn read<'l>(
        &self,
        fields: impl Iterator<Item = &'l [u8]>,
    ) -> Result<Values<'l>, Malformed> {
        let mut values = Values::default();
        let mut used = self.used.iter().peekable();
        let mut count = 0;
        for (index, text) in fields.enumerate() {
            count = index + 1;
            while let Some((_, role, form)) = used.next_if(|(place, ..)| *place == index) {
                values.set(*role, Value::plain(text, *form));
            }
        }
        if count == self.count { Ok(values) } else { Err(Malformed::Columns) }
    }
}

/// Splits a line of a W3C log, whose fields are separated by tabs or spaces.
pub(crate) fn w3c(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let separator = if memchr::memchr(b'\t', line).is_some() { b'\t' } else { b' ' };
    line.trim_ascii_end().split(move |&byte| byte == separator)
}

impl Csv {
    /// Delimiters that a header is searched for.
    pub(crate) const DELIMITERS: [u8; 3] = *b",;\t";

    pub(crate) fn new(delimiter: u8) -> Self {
        let reader = csv_core::ReaderBuilder::new()
            .delimiter(delimiter)
            // A carriage return inside a line doesn't end the record.
            .terminator(csv_core::Terminator::Any(b'\n'))
            .build();
        Self { reader, text: Vec::new(), ends: Vec::new(), count: 0 }
    }

    /// Splits a line. Returns `false` if a quoted field continues in the next line.
    pub(crate) fn split(&mut self, line: &[u8]) -> bool {
        self.reader.reset();
        // Removing quotes never lengthens a line, and a line has at most one field more than bytes.
        self.text.resize(line.len() + 2, 0);
        self.ends.resize(line.len() + 2, 0);
        let (_, _, written, ends) = self.reader.read_record(line, &mut self.text, &mut self.ends);
        // A line break ends the record, unless a quoted field is open.
        let (result, _, _, more_ends) =
            self.reader.read_record(b"\n", &mut self.text[written..], &mut self.ends[ends..]);
        self.count = ends + more_ends;
        matches!(result, csv_core::ReadRecordResult::Record)
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ends = self.ends[..self.count].iter().copied();
        starts.zip(ends).map(|(start, end)| &self.text[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Option<Vec<String>> {
        let mut csv = Csv::new(b',');
        let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
        csv.split(line.as_bytes()).then(|| csv.fields().map(text).collect())
    }

    #[test]
    fn fields_are_unquoted() {
        for (line, fields) in [
            ("a,b", &["a", "b"][..]),
            ("a,", &["a", ""]),
            (",", &["", ""]),
            (r#""a,""b""",c"#, &[r#"a,"b""#, "c"]),
            (r#"a,"""#, &["a", ""]),
        ] {
            assert_eq!(split(line).unwrap(), fields, "{line}");
        }
        assert_eq!(split(r#"a,"b"#), None);
    }
}
