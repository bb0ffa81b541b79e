//! Draws the live view of a terminal, and reads the key `q` that ends it.
//!
//! [`frame`] fits a text into a window, [`size`] returns that window, and [`QuitKey`] waits for the key.

use std::fmt::Write as _;
use std::io::{Read as _, stdin, stdout};

use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};
use tokio::sync::oneshot;

/// The columns and rows of a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Returns the size of the terminal's window, 80 by 24 if the terminal doesn't know it.
pub(super) fn size() -> Size {
    let known = tcgetwinsize(stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    known.map_or(Size { columns: 80, rows: 24 }, |size| Size {
        columns: size.ws_col.into(),
        rows: size.ws_row.into(),
    })
}

/// Returns what clears the window and draws a text there: its head with long lines continued, its table with long
/// lines cut.
pub(super) fn frame(head: &str, table: &str, size: Size) -> String {
    let mut lines: Vec<String> =
        head.lines().flat_map(|line| wrapped(line, size.columns)).collect();
    lines.extend(table.lines().map(|line| cut(line, size.columns)));
    // The cursor stays in the row below.
    let most = size.rows.saturating_sub(1).max(1);
    if lines.len() > most {
        let more = lines.len() - most + 1;
        lines.truncate(most - 1);
        lines.push(cut(&format!("… {more} more lines"), size.columns));
    }
    // Some characters are wider than one column. They must not wrap either.
    let mut text = "\u{1b}[?7l\u{1b}[H".to_owned();
    for line in lines {
        // Each line clears its own remainder, so the window never flickers.
        let _ = write!(text, "{line}\u{1b}[K\r\n");
    }
    text.push_str("\u{1b}[J\u{1b}[?7h");
    text
}

/// Splits a line at spaces, so that each part fits.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut length = 0;
    for word in line.split_inclusive(' ') {
        let chars = word.chars().count();
        if length > 0 && length + word.trim_end().chars().count() > columns {
            parts.push(String::new());
            length = 0;
        }
        length += chars;
        // There is always a last part.
        if let Some(part) = parts.last_mut() {
            part.push_str(word);
        }
    }
    parts.iter().map(|part| cut(part.trim_end(), columns)).collect()
}

/// Cuts a line that is too long, and marks the place.
fn cut(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// The key `q`, pressed in a terminal, and that terminal's former settings, which a drop restores.
pub(super) struct QuitKey {
    former: Option<Termios>,
    /// `None` once no key can come.
    pressed: Option<oneshot::Receiver<()>>,
}

impl QuitKey {
    /// Lets the terminal pass each key on immediately, without showing it. Signals of keys, such as Ctrl-C, stay.
    ///
    /// Without a terminal, or in the background, the key is never pressed.
    pub(super) fn new() -> Self {
        let (sender, pressed) = oneshot::channel();
        let former = quieted();
        if former.is_some() {
            // A read of standard input can't be interrupted; the thread ends with the process.
            std::thread::spawn(|| {
                let mut bytes = stdin().lock().bytes();
                if bytes.any(|byte| matches!(byte, Ok(b'q' | b'Q'))) {
                    // The receiver is gone if a signal came first.
                    let _ = sender.send(());
                }
            });
        }
        Self { former, pressed: Some(pressed) }
    }

    /// Waits for the key.
    pub(super) async fn pressed(&mut self) {
        if let Some(pressed) = &mut self.pressed {
            if pressed.await.is_ok() {
                return;
            }
            self.pressed = None;
        }
        std::future::pending::<()>().await;
    }
}

impl Drop for QuitKey {
    fn drop(&mut self) {
        if let Some(former) = &self.former {
            // Best effort: the terminal may be gone.
            let _ = tcsetattr(stdin(), OptionalActions::Now, former);
        }
    }
}

/// Sets the terminal to pass keys on, and returns its former settings.
fn quieted() -> Option<Termios> {
    let former = tcgetattr(stdin()).ok()?;
    // A change from the background would stop the process.
    if tcgetpgrp(stdin()).ok()? != getpgrp() {
        return None;
    }
    let mut quiet = former.clone();
    quiet.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    tcsetattr(stdin(), OptionalActions::Now, &quiet).ok()?;
    Some(former)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(head: &str, table: &str, columns: usize, rows: usize) -> Vec<String> {
        let frame = frame(head, table, Size { columns, rows });
        let inner = frame.strip_prefix("\u{1b}[?7l\u{1b}[H").unwrap();
        let inner = inner.strip_suffix("\u{1b}[J\u{1b}[?7h").unwrap();
        inner.split_terminator("\u{1b}[K\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn a_head_is_continued_and_a_table_is_cut() {
        let head = "error: The store is down. Start it.\n\nab";
        assert_eq!(
            drawn(head, "limit  allowed/s\nlogin  12", 12, 24),
            ["error: The", "store is", "down. Start", "it.", "", "ab", "limit  allo…", "login  12"]
        );
        assert_eq!(drawn("0123456789", "", 4, 24), ["012…"]);
    }

    #[test]
    fn the_last_row_says_how_many_lines_are_missing() {
        let table = "a\nb\nc\nd\n";
        assert_eq!(drawn("head", table, 80, 6), ["head", "a", "b", "c", "d"]);
        assert_eq!(drawn("head", table, 80, 5), ["head", "a", "b", "… 2 more lines"]);
        assert_eq!(drawn("head", table, 80, 1), ["… 5 more lines"]);
    }
}
