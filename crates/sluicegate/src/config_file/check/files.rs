//! Files of keys that a limit names, with one entry a line.

use std::path::Path;
use std::sync::Arc;

use super::Checker;
use crate::config_file::problem::Position;
use crate::config_file::text_of;
use crate::config_file::tree::{self, Node};

impl Checker<'_> {
    /// Calls `each` for every entry of a file, with a checker of its line. Entries are the lines that are neither empty
    /// nor begin with `#`. Returns `None` if the file can't be read.
    pub(super) fn each_line(
        &mut self,
        node: &Node,
        path: &str,
        mut each: impl FnMut(&mut Checker<'_>, Line<'_>),
    ) -> Option<()> {
        let name = self.text(node, path, "the path of a file such as /etc/sluicegate/block.txt")?;
        let bytes: Arc<[u8]> = self
            .files
            .get(Path::new(name))
            .map_err(|error| self.report(node.position, path, &format!("`{name}`: {error}")))
            .ok()?;
        let back = self.reporter.enter(name);
        self.warnings.enter(name);
        let done = self.each_line_of(&bytes, path, &mut each);
        self.reporter.go_to(back);
        self.warnings.go_to(back);
        done
    }

    fn each_line_of(
        &mut self,
        bytes: &[u8],
        path: &str,
        each: &mut impl FnMut(&mut Checker<'_>, Line<'_>),
    ) -> Option<()> {
        let text = text_of(bytes)
            .map_err(|(position, message)| self.report(position, path, &message))
            .ok()?;
        for (index, line) in (0..).zip(text.lines()) {
            let entry = line.trim();
            if entry.is_empty() || entry.starts_with('#') {
                continue;
            }
            self.reporter.skip_lines(index);
            self.warnings.skip_lines(index);
            let Some(left) = self.values_left.checked_sub(1) else {
                let message = "with this line the configuration has more values than it may have: \
                               raise the maximum with --config-max-values, or in code with `ConfigCaps`";
                self.report(Position { line: 1, column: 1 }, path, message);
                return None;
            };
            *self.values_left = left;
            let before = line.chars().take_while(|char| char.is_whitespace()).count();
            let position = Position { line: 1, column: 1 }.right(before);
            let mut checker = Checker {
                text: entry,
                reporter: &mut *self.reporter,
                warnings: &mut *self.warnings,
                files: &mut *self.files,
                values_left: &mut *self.values_left,
                origins: &mut *self.origins,
            };
            each(&mut checker, Line { text: entry, position });
        }
        Some(())
    }
}

/// An entry of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'t> {
    /// Without space around it.
    text: &'t str,
    /// In the line.
    position: Position,
}

impl Line<'_> {
    /// Returns the entry as it is written.
    pub(super) fn verbatim(self) -> Node {
        Node::line(self.text, self.position)
    }

    /// Returns the entry as a value of YAML. JSON is read as YAML too.
    pub(super) fn value(self, checker: &mut Checker<'_>, path: &str) -> Option<Node> {
        /// More characters than a sensible entry has.
        const MOST: usize = 1_000;
        match tree::read(self.text, MOST) {
            Ok((mut node, duplicate)) => {
                let shift = usize::try_from(self.position.column - 1).unwrap_or(0);
                node.shift(shift);
                if let Some((position, key)) = duplicate {
                    checker.report(
                        position.right(shift),
                        path,
                        &format!("`{key}` is set twice: keep one"),
                    );
                }
                Some(node)
            }
            Err(malformed) => {
                let position = malformed.position.unwrap_or(Position { line: 1, column: 1 });
                let position =
                    position.right(usize::try_from(self.position.column - 1).unwrap_or(0));
                checker.report(Position { line: 1, ..position }, path, &malformed.message);
                None
            }
        }
    }
}
