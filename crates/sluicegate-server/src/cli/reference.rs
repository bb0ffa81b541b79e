//! Writes `docs/command-line.md` from the definitions of the command line.
//!
//! `cargo xtask pages` writes the file. A test fails if the file is out of date.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::{env, fs};

use clap::{Arg, Command as Definition, CommandFactory as _};

use super::{Cli, with_any_values};

/// Variable that makes the test write the page instead of comparing it.
const WRITE: &str = "SLUICEGATE_WRITE_PAGES";

/// Path of the page, relative to this crate's folder.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-line.md");

/// Minimum number of commands that must describe an option in the same words for it to be described
/// once.
const SHARED: usize = 4;

const OPENING: &str = "\
# Command line

This page lists every command of the program `sluicegate`, with its arguments, options, defaults and environment
variables. `cargo xtask pages` writes it from the definitions in the program, and a test fails if the two differ. Don't
edit it.

`sluicegate --version` prints the version, and `sluicegate help COMMAND` or `sluicegate COMMAND --help` the text below.
";

const SPANS: &str = "\
A `SPAN` is a whole number and a unit: `us`, `ms`, `s`, `min`, `h`, `d` or `w`, such as `500ms` or `1min`. A value may begin
with a dash. Errors and notes go to standard error, and results to standard output.
";

#[test]
fn the_page_of_the_command_line_is_current() {
    let page = page();
    if env::var_os(WRITE).is_some() {
        fs::write(PAGE, &page).unwrap();
    }
    let written = fs::read_to_string(PAGE).unwrap_or_default();
    let same = written == page;
    assert!(same, "docs/command-line.md differs from the program: run `cargo xtask pages`");
}

#[test]
fn the_page_has_every_command_and_what_its_options_say() {
    let page = page();
    for command in ["serve", "check", "config check", "conformance", "envoy check", "replay"] {
        assert!(page.contains(&format!("\n## sluicegate {command}\n")), "{command}");
    }
    for line in [
        "Environment variable: `SLUICEGATE_ADMIN_TOKEN`.",
        "Default: `5s`.",
        "Values: `table`, `json`, `html`.",
        "Not together with `--config`, `--store`.",
        "\n- **`--limit <NAME>`**, required.",
    ] {
        assert!(page.contains(line), "{line}");
    }
    assert!(!page.contains("SLUICEGATE_SEED"));
}

fn page() -> String {
    let mut root = with_any_values(Cli::command());
    root.build();
    let commands = leaves(&root, "sluicegate");
    let shared = Shared::of(&commands);
    let mut page = format!("{OPENING}\n| command | purpose |\n| --- | --- |\n");
    for (name, command) in &commands {
        let anchor = name.replace(' ', "-");
        writeln!(page, "| [`{name}`](#{anchor}) | {} |", about(command)).unwrap();
    }
    writeln!(page, "\n{SPANS}").unwrap();
    page.push_str("## Options of several commands\n\nEach command lists those of these options that it has.\n\n");
    for text in shared.texts.values() {
        page.push_str(text);
    }
    for (name, command) in &commands {
        section(&mut page, name, command, &shared);
    }
    page
}

/// Returns the commands that can run without a subcommand, each with its full name.
fn leaves(command: &Definition, name: &str) -> Vec<(String, Definition)> {
    let inner: Vec<_> =
        command.get_subcommands().filter(|inner| inner.get_name() != "help").collect();
    let mut found = Vec::new();
    if inner.is_empty() || !command.is_subcommand_required_set() {
        found.push((name.to_owned(), command.clone()));
    }
    let named = |inner: &Definition| format!("{name} {}", inner.get_name());
    found.extend(inner.iter().flat_map(|inner| leaves(inner, &named(inner))));
    found
}

/// The options that several commands describe in the same words, by name.
struct Shared {
    texts: BTreeMap<String, String>,
}

impl Shared {
    fn of(commands: &[(String, Definition)]) -> Self {
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (_, command) in commands {
            for arg in options(command) {
                *counts.entry((arg.to_string(), item(command, arg))).or_default() += 1;
            }
        }
        let shared = counts.into_iter().filter(|(_, count)| *count >= SHARED);
        Self { texts: shared.map(|(described, _)| described).collect() }
    }

    fn has(&self, arg: &Arg, item: &str) -> bool {
        self.texts.get(&arg.to_string()).is_some_and(|text| text == item)
    }
}

fn section(page: &mut String, name: &str, command: &Definition, shared: &Shared) {
    writeln!(page, "\n## {name}\n\n{}.\n", about(command)).unwrap();
    let usage = command.clone().bin_name(name).render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let lines: Vec<&str> = usage.lines().map(str::trim).collect();
    writeln!(page, "```text\n{}\n```\n", lines.join("\n")).unwrap();
    let (mut own, mut others) = (String::new(), BTreeSet::new());
    let positionals = command.get_positionals();
    for arg in positionals.chain(options(command)) {
        let item = item(command, arg);
        if shared.has(arg, &item) {
            others.insert(arg.get_long().unwrap_or_default());
        } else {
            own.push_str(&item);
        }
    }
    page.push_str(&own);
    if !others.is_empty() {
        let list: Vec<_> = others.iter().map(|long| format!("`--{long}`")).collect();
        let list = list.join(", ");
        let gap = if own.is_empty() { "" } else { "\n" };
        writeln!(page, "{gap}[Options of several commands](#options-of-several-commands): {list}.")
            .unwrap();
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    page.push_str(&blocks(&after));
}

/// Returns the options of a command, without `--help` and `--version`.
fn options(command: &Definition) -> impl Iterator<Item = &Arg> {
    let is_listed = |arg: &&Arg| {
        !arg.is_positional()
            && !arg.is_hide_set()
            && !matches!(arg.get_id().as_str(), "help" | "version")
    };
    command.get_arguments().filter(is_listed)
}

/// Formats an argument as an item of a list.
fn item(command: &Definition, arg: &Arg) -> String {
    let help =
        arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut paragraphs = help.split("\n\n").map(joined);
    let (first, default) = without_default(&paragraphs.next().unwrap_or_default());
    let required = if arg.is_required_set() { ", required" } else { "" };
    let mut item = format!("- **`{arg}`**{required}. {}", sentence(&first));
    if let Some(default) = default {
        write!(item, " Default: {}", sentence(&default)).unwrap();
    }
    let takes_value = arg.get_action().takes_values();
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() {
        write!(item, " Default: `{}`.", defaults.join(" ")).unwrap();
    }
    if let Some(variable) = arg.get_env() {
        write!(item, " Environment variable: `{}`.", variable.to_string_lossy()).unwrap();
    }
    let values: Vec<_> = if takes_value { arg.get_possible_values() } else { Vec::new() };
    if !values.is_empty() {
        let names: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        write!(item, " Values: {}.", names.join(", ")).unwrap();
    }
    let mut excluded: Vec<_> = command
        .get_arg_conflicts_with(arg)
        .into_iter()
        .filter_map(|other| other.get_long().map(|long| format!("`--{long}`")))
        .collect();
    excluded.sort();
    excluded.dedup();
    if !excluded.is_empty() {
        write!(item, " Not together with {}.", excluded.join(", ")).unwrap();
    }
    item.push('\n');
    for paragraph in paragraphs {
        writeln!(item, "\n  {}", sentence(&paragraph)).unwrap();
    }
    item
}

/// Splits `text [default: value]`.
fn without_default(text: &str) -> (String, Option<String>) {
    match text
        .trim_end_matches('.')
        .strip_suffix(']')
        .and_then(|text| text.rsplit_once(" [default: "))
    {
        // Several defaults stay in the text, each after the text that it applies to.
        Some((text, default)) if !text.contains("[default: ") => {
            let is_value = !default.contains([' ', '`']);
            let default = if is_value { format!("`{default}`") } else { default.to_owned() };
            (text.to_owned(), Some(default))
        }
        _ => (text.to_owned(), None),
    }
}

fn about(command: &Definition) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    escaped(about.trim_end_matches('.'))
}

fn sentence(text: &str) -> String {
    let text = escaped(text);
    if text.is_empty() || text.ends_with(['.', ':']) { text } else { text + "." }
}

/// Formats the text below the options: commands, which are indented, and paragraphs.
fn blocks(text: &str) -> String {
    let mut page = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let is_code = line.starts_with("  ");
        let mut block = vec![line];
        while let Some(line) = lines.next_if(|next| {
            let is_end = next.is_empty() || next.starts_with("  ") != is_code;
            // A blank line between two commands belongs to the code.
            !is_end
        }) {
            block.push(line);
        }
        if is_code {
            let code: Vec<&str> =
                block.iter().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
            let code = code.join("\n");
            // Commands after a blank line continue the previous block.
            match page.strip_suffix("\n```\n") {
                Some(before) => page = format!("{before}\n\n{code}\n```\n"),
                None => write!(page, "\n```sh\n{code}\n```\n").unwrap(),
            }
        } else {
            writeln!(page, "\n{}", escaped(&joined(&block.join("\n")))).unwrap();
        }
    }
    page
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes text for Markdown: options become code, brackets become parentheses, and markup
/// characters get a backslash.
fn escaped(text: &str) -> String {
    let mut is_code = false;
    let mut escaped = String::new();
    for (index, part) in text.split('`').enumerate() {
        if index > 0 {
            escaped.push('`');
            is_code = !is_code;
        }
        if is_code {
            escaped.push_str(part);
            continue;
        }
        for (index, word) in part.split(' ').enumerate() {
            if index > 0 {
                escaped.push(' ');
            }
            let rest = word.trim_start_matches(|character: char| {
                character == '-' || character.is_ascii_lowercase() || character.is_ascii_digit()
            });
            match word.strip_suffix(rest) {
                Some(option) if option.starts_with("--") => {
                    write!(escaped, "`{option}`{rest}").unwrap();
                }
                _ => escaped.extend(word.chars().flat_map(|character| match character {
                    '[' => vec!['('],
                    ']' => vec![')'],
                    '<' | '>' | '*' | '|' => vec!['\\', character],
                    _ => vec![character],
                })),
            }
        }
    }
    escaped
}
