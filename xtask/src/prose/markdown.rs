//! Paragraphs, headings, list items and table cells of Markdown, without code.

use super::passage::NumberedLine;

/// A piece of Markdown that can be read alone.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) is_heading: bool,
    pub(super) lines: Vec<NumberedLine>,
}

/// Splits lines into blocks.
pub(super) fn blocks(lines: impl IntoIterator<Item = NumberedLine>) -> Vec<Block> {
    let mut blocks = Blocks::default();
    let (mut fence, mut in_comment) = (None, false);
    for (number, line) in lines {
        let text = line.trim().trim_start_matches("> ");
        if let Some(marks) = fence {
            fence = (!text.starts_with(marks)).then_some(marks);
        } else if in_comment || text.starts_with("<!--") {
            in_comment = !text.contains("-->");
        } else if let Some(marks) = ["```", "~~~"].into_iter().find(|marks| text.starts_with(marks))
        {
            fence = Some(marks);
            blocks.end();
        } else if text.is_empty() || text.starts_with('<') || is_link(text) {
            blocks.end();
        } else if text.starts_with('#') && text.trim_start_matches('#').starts_with(' ') {
            blocks.end();
            blocks.open.is_heading = true;
            blocks.add(number, text.trim_start_matches('#'));
            blocks.end();
        } else if text.starts_with('|') {
            for cell in cells(text) {
                blocks.end();
                blocks.add(number, &cell);
            }
            blocks.end();
        } else if let Some(item) = after_bullet(text) {
            blocks.end();
            blocks.add(number, item);
        } else {
            blocks.add(number, text);
        }
    }
    blocks.end();
    blocks.done
}

/// The finished blocks and the one that the next line may continue.
#[derive(Default)]
struct Blocks {
    done: Vec<Block>,
    open: Block,
}

impl Blocks {
    fn add(&mut self, number: usize, text: &str) {
        self.open.lines.push((number, text.trim().to_owned()));
    }

    fn end(&mut self) {
        let block = std::mem::take(&mut self.open);
        if !block.lines.is_empty() {
            self.done.push(block);
        }
    }
}

/// Returns `true` if a line only defines the target of links.
fn is_link(text: &str) -> bool {
    text.starts_with('[') && text.contains("]: ")
}

/// Returns the text of a list item's first line.
fn after_bullet(text: &str) -> Option<&str> {
    let number = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let numbered = if number.len() < text.len() { number.strip_prefix(". ") } else { None };
    numbered.or_else(|| ["- ", "* ", "+ "].iter().find_map(|bullet| text.strip_prefix(bullet)))
}

/// Splits a row of a table at the bars outside of code; the row below the header has no cells.
fn cells(row: &str) -> Vec<String> {
    if row.chars().all(|letter| "|-: ".contains(letter)) {
        return Vec::new();
    }
    let (mut cells, mut in_code, mut last) = (vec![String::new()], false, ' ');
    for letter in row.trim_matches('|').chars() {
        in_code ^= letter == '`';
        if letter == '|' && !in_code && last != '\\' {
            cells.push(String::new());
        } else if let Some(cell) = cells.last_mut() {
            cell.push(letter);
        }
        last = letter;
    }
    cells.retain(|cell| !cell.trim().is_empty());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_paragraphs_items_and_cells_without_code() {
        let text = "# One\n\nA line\nand more.\n```rust\nlet a = 1;\n```\n- item\n  of two lines\n2. second\n\
            <!-- not\n\nthis -->\n| a `|` b | c |\n| --- | --- |\n\n[x]: https://example.com\n> quote\n";
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned()));
        let shown: Vec<(usize, String)> = blocks(lines)
            .iter()
            .map(|block| {
                let texts: Vec<&str> = block.lines.iter().map(|(_, text)| &**text).collect();
                (block.lines[0].0, texts.join(" "))
            })
            .collect();
        let expected = [
            (1, "One"),
            (3, "A line and more."),
            (8, "item of two lines"),
            (10, "second"),
            (14, "a `|` b"),
            (14, "c"),
            (18, "quote"),
        ];
        assert_eq!(shown, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
