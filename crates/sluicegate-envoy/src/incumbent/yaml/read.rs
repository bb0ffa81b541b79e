//! Reads a file's first YAML document.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{
    Event, Marker, Options, Parser, ScalarStyle, ScanError, Span as Place, StructureStyle, Tag,
};

use super::document::{Content, Document, Node, NodeId};
use crate::incumbent::position::{Position, Span};
use crate::incumbent::source::Flaw;

/// The maximum nesting of lists and maps, aliases included. A file with 5 levels of descriptors has 12.
pub(crate) const MAX_DEPTH: usize = 200;

/// Reads the first document of `text`, which may have `max_nodes` values. Later documents are ignored.
pub(crate) fn read(text: &str, max_nodes: usize) -> Result<Document, Flaw> {
    check_directives(text)?;
    let mut builder = Builder { text, ..Builder::default() };
    for event in Parser::new_from_str_with_options(text, options()) {
        let (event, place) = event.map_err(|error| malformed(&error))?;
        let span = span(&place, text);
        if builder.document.len() >= max_nodes {
            return Err(flaw(
                span,
                format!("the file has more than {max_nodes} values, the maximum: split it"),
            ));
        }
        if builder.add(event, span, &place)? {
            break;
        }
    }
    Ok(builder.document)
}

fn options() -> Options {
    let mut options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    options.set_emit_comments(false);
    options
}

/// Checks the lines with `%` before the document: other versions and directives are errors in the incumbent.
fn check_directives(text: &str) -> Result<(), Flaw> {
    for (index, line) in text.lines().enumerate() {
        let written = line.trim_end();
        if written.is_empty() || written.trim_start().starts_with('#') {
            continue;
        }
        let Some(directive) = written.strip_prefix('%') else { break };
        let mut words = directive.split([' ', '\t']).filter(|word| !word.is_empty());
        let is_known = match words.next() {
            Some("YAML") => words.next().is_some_and(is_version_1_1),
            Some("TAG") => true,
            _ => false,
        };
        if !is_known {
            let width = written.chars().count();
            let span = Span { width, ..Span::at(index as u64 + 1, 1) };
            return Err(flaw(span, "must be `%YAML 1.1` or a `%TAG`: remove the line".to_owned()));
        }
    }
    Ok(())
}

fn is_version_1_1(version: &str) -> bool {
    let Some((major, minor)) = version.split_once('.') else { return false };
    [major, minor].iter().all(|number| matches!(*number, "1" | "01"))
}

/// Makes a document of events.
#[derive(Default)]
struct Builder<'a> {
    text: &'a str,
    document: Document,
    /// The lists and maps that the next event is in.
    open: Vec<Open>,
    /// Nodes by the number of their anchor.
    anchors: HashMap<usize, NodeId>,
}

struct Open {
    node: NodeId,
    children: Vec<NodeId>,
    is_map: bool,
    is_flow: bool,
}

impl Builder<'_> {
    /// Adds an event. Returns whether it ends the document.
    fn add(&mut self, event: Event<'_>, span: Span, place: &Place) -> Result<bool, Flaw> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                let is_absent = is_plain && place.start.index() == place.end.index();
                if self.is_key() {
                    self.check_key(
                        is_plain,
                        is_absent && tag.is_none() && anchor == 0,
                        span,
                        place,
                    )?;
                }
                let tag = full(tag);
                let content = Content::Scalar {
                    text: if is_absent { Box::default() } else { text.into() },
                    is_implicit: is_plain && tag.is_empty() || &*tag == "!",
                };
                let bytes = place.byte_range().unwrap_or_default();
                let node = self.document.push(Node { content, span, bytes, tag });
                self.put(node, anchor);
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.begin(Content::List(Vec::new()), style, span, anchor, tag);
            }
            Event::MappingStart(style, anchor, tag) => {
                self.begin(Content::Map(Vec::new()), style, span, anchor, tag);
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some(&target) = self.anchors.get(&anchor) else {
                    return Err(flaw(span, unknown_anchor()));
                };
                let node =
                    self.document.push(without_bytes(Content::Alias(target), span, Box::default()));
                self.put(node, 0);
            }
            Event::DocumentEnd => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    fn begin(
        &mut self,
        content: Content,
        style: StructureStyle,
        span: Span,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
    ) {
        let is_map = matches!(content, Content::Map(_));
        let is_flow = style == StructureStyle::Flow;
        let node = self.document.push(without_bytes(content, span, full(tag)));
        self.put(node, anchor);
        self.open.push(Open { node, children: Vec::new(), is_map, is_flow });
    }

    fn end(&mut self) {
        let Some(Open { node, children, is_map, .. }) = self.open.pop() else { return };
        let content = if is_map {
            let (pairs, _) = children.as_chunks::<2>();
            Content::Map(pairs.iter().map(|&[key, value]| (key, value)).collect())
        } else {
            Content::List(children)
        };
        self.document.set_content(node, content);
    }

    fn put(&mut self, node: NodeId, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, node);
        }
        match self.open.last_mut() {
            Some(open) => open.children.push(node),
            None => self.document.root = Some(node),
        }
    }

    fn is_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_map && open.children.len().is_multiple_of(2))
    }

    /// Refuses keys that YAML 1.2 allows, but 1.1 doesn't.
    fn check_key(
        &self,
        is_plain: bool,
        is_absent: bool,
        span: Span,
        place: &Place,
    ) -> Result<(), Flaw> {
        let range = place.byte_range().unwrap_or_default();
        let is_asked = self.text.get(..range.start).is_some_and(follows_question_mark);
        if is_absent {
            let message = "has no key before the `:`: write one, or quote the text";
            return if is_asked { Ok(()) } else { Err(flaw(span, message.to_owned())) };
        }
        if is_asked {
            return Ok(());
        }
        if !self.open.last().is_some_and(|open| open.is_flow) {
            let before = self.text.get(..range.start).unwrap_or_default();
            let blanks = before.trim_end_matches([' ', '\t']).len();
            return match before.get(blanks..).is_some_and(|blanks| blanks.contains('\t')) {
                true => Err(flaw(span, "a tab is before this key: write spaces".to_owned())),
                false => Ok(()),
            };
        }
        let after = self.text.get(range.end..).unwrap_or_default();
        let colon = after.trim_start_matches([' ', '\t']);
        if colon.starts_with(['\n', '\r', '#']) && after_blanks(colon).starts_with(':') {
            return Err(flaw(span, "the key's `:` is on another line: put both on one".to_owned()));
        }
        let value = colon.strip_prefix(':');
        if is_plain && value.is_some_and(|value| !value.starts_with([' ', '\t', '\n', '\r'])) {
            return Err(flaw(span, "the key's `:` has no space after it: write one".to_owned()));
        }
        Ok(())
    }
}

/// Returns whether `text` ends with the `?` that begins a key.
fn follows_question_mark(text: &str) -> bool {
    text.trim_end().strip_suffix('?').is_some_and(|before| {
        before.is_empty() || before.ends_with([' ', '\t', '\n', '\r', '-', '{', '[', ','])
    })
}

/// Returns the text after blank lines and comments.
fn after_blanks(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let Some(comment) = text.strip_prefix('#') else { return text };
        let Some(end) = comment.find(['\n', '\r']) else { return "" };
        text = comment.get(end..).unwrap_or_default();
    }
}

/// Makes a node that isn't a scalar.
const fn without_bytes(content: Content, span: Span, tag: Box<str>) -> Node {
    Node { content, span, bytes: 0..0, tag }
}

fn full(tag: Option<Cow<'_, Tag>>) -> Box<str> {
    tag.map(|tag| [tag.handle(), tag.suffix()].concat().into()).unwrap_or_default()
}

fn span(place: &Place, text: &str) -> Span {
    let written = place.byte_range().and_then(|range| text.get(range)).unwrap_or_default();
    let line = written.split(['\n', '\r']).next().unwrap_or_default();
    Span { start: position(place.start), width: line.chars().count() }
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line().max(1) as u64, column: marker.col() as u64 + 1 }
}

fn malformed(error: &ScanError) -> Flaw {
    use granit_parser::ErrorKind;
    let message = match error.kind() {
        ErrorKind::UnknownAnchor => unknown_anchor(),
        ErrorKind::RecursionLimitExceeded => {
            format!(
                "lists and maps are more than {MAX_DEPTH} levels deep here: nest fewer descriptors"
            )
        }
        _ => format!("isn't valid YAML: {}", error.info()),
    };
    let Position { line, column } = position(*error.marker());
    flaw(Span::at(line, column), message)
}

fn unknown_anchor() -> String {
    "this alias has no anchor: write `&NAME` before the value that it stands for, or quote the text"
        .to_owned()
}

const fn flaw(span: Span, message: String) -> Flaw {
    Flaw { span: Some(span), message }
}
