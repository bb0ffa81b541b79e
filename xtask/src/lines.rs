//! Counts the lines of code: those with a token, outside of comments and tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item};

use crate::members::Workspace;
use crate::rings::{attributes, is_test, sources};
use crate::run::say;

/// The folder of the scripts.
const SCRIPTS: &str = "crates/sluicegate-redis/src/lua";

/// Prints the number of lines of the scripts, and of the Rust code of each member of the workspace.
///
/// # Errors
/// Returns an error if a file can't be read or parsed.
pub(crate) fn count() -> Result<()> {
    let mut rust = Vec::new();
    for package in Workspace::members_only()?.members() {
        let mut lines = 0;
        for root in package.roots() {
            for file in sources(root)? {
                lines += rust_lines(&file)?;
            }
        }
        rust.push((package.name.clone(), lines));
    }
    rust.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    for (name, lines) in &rust {
        say(&format!("{lines:>7} {name}"));
    }
    say(&format!("{:>7} Rust", rust.iter().map(|(_, lines)| lines).sum::<usize>()));
    let scripts = crate::servers::workspace_root().join(SCRIPTS);
    let (mut all, mut fast) = (0, 0);
    for entry in fs::read_dir(&scripts).with_context(|| scripts.display().to_string())? {
        let path = entry?.path();
        let lines = lua_lines(&fs::read_to_string(&path)?);
        all += lines;
        fast += if is_fast(&path) { lines } else { 0 };
    }
    say(&format!("{all:>7} Lua, of which {fast} are the fast paths"));
    Ok(())
}

/// Returns whether a script repeats the work of the general part, to be faster.
fn is_fast(script: &Path) -> bool {
    let name = script.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with("_lane") || name.starts_with("inline")
}

fn lua_lines(text: &str) -> usize {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("--")).count()
}

fn rust_lines(path: &Path) -> Result<usize> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let parsed = syn::parse_file(&text).with_context(|| path.display().to_string())?;
    let mut lines = Lines::default();
    lines.visit_file(&parsed);
    Ok(lines.0.len())
}

/// Lines that have a token outside of tests.
#[derive(Default)]
struct Lines(BTreeSet<usize>);

impl<'ast> Visit<'ast> for Lines {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test(attributes(item)) {
            return;
        }
        match item {
            Item::Impl(_) | Item::Mod(_) | Item::Trait(_) => {
                let span = item.span();
                self.0.extend([span.start().line, span.end().line]);
                visit::visit_item(self, item);
            }
            item => self.add(item.to_token_stream()),
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        match item {
            syn::ImplItem::Fn(function) if is_test(&function.attrs) => {}
            item => self.add(item.to_token_stream()),
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        self.add(item.to_token_stream());
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

impl Lines {
    /// Adds the lines of tokens. A documentation comment appears here as `#[doc = "…"]`.
    fn add(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let is_hash = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
            if is_hash && tokens.peek().is_some_and(is_doc) {
                tokens.next();
                continue;
            }
            let span = token.span();
            match token {
                TokenTree::Group(group) => {
                    self.0.extend([span.start().line, span.end().line]);
                    self.add(group.stream());
                }
                _ => self.0.extend(span.start().line..=span.end().line),
            }
        }
    }
}

fn is_doc(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let first = group.stream().into_iter().next();
    matches!(first, Some(TokenTree::Ident(ident)) if ident == "doc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_code_count_and_those_of_comments_and_tests_do_not() {
        let text = "
            //! A module.

            use a::b; // 1

            /// A type.
            struct A { // 2
                /// A field.
                b: C, // 3

            } // 4

            impl A { // 5
                // Why.
                fn text() -> &'static str { // 6
                    \"one
                     two\" // 7 and 8
                } // 9
                #[cfg(test)]
                fn tested() {}
            } // 10

            #[cfg(test)]
            mod tests {
                fn none() {}
            }
        ";
        let mut lines = Lines::default();
        lines.visit_file(&syn::parse_file(text).unwrap());
        assert_eq!(lines.0.len(), 10);
        assert_eq!(lua_lines("-- why\n\nlocal a = 1 -- one\n"), 1);
    }
}
