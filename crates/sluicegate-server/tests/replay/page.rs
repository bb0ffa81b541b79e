//! Tests the page of `--format html` with a strict parser.

use std::collections::HashMap;
use std::path::Path;

use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;

use crate::support::{Folder, LOG, sluicegate};

const SVG: &str = "http://www.w3.org/2000/svg";

/// The output of one run as a page and as JSON.
struct Told {
    page: String,
    json: Value,
}

impl Told {
    fn of(arguments: &[&str]) -> Self {
        let run = |format: &str| {
            let output = sluicegate(&[arguments, &["--format", format]].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{said}");
            String::from_utf8(output.stdout).unwrap()
        };
        Self { page: run("html"), json: serde_json::from_str(&run("json")).unwrap() }
    }

    fn of_log(log: &Path, policies: &[&str]) -> Self {
        Self::of(&[&["--log", log.to_str().unwrap(), "--policy"], policies].concat())
    }

    /// Parses the page, after checking that it loads nothing and runs no scripts.
    fn read(&self) -> Document<'_> {
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        let document = Document::parse_with_options(&self.page, options).unwrap();
        assert!(self.page.starts_with("<!DOCTYPE html>"));
        assert!(!self.page.replace(SVG, "").contains("://"), "it names another place");
        for node in document.descendants() {
            let name = node.tag_name().name();
            assert!(
                !["base", "embed", "iframe", "img", "link", "object", "script"].contains(&name)
            );
            for attribute in node.attributes() {
                let (name, value) = (attribute.name(), attribute.value());
                assert!(name != "src" && !name.starts_with("on"), "{name}");
                assert!(name != "href" || value.starts_with("#policy-"), "{value}");
            }
            if name == "style" {
                let style = node.text().unwrap();
                assert!(!style.contains("url(") && !style.contains("@import"), "{style}");
            }
        }
        document
    }
}

fn with_id<'d>(document: &'d Document<'_>, id: &str) -> Option<Node<'d, 'd>> {
    document.descendants().find(|node| node.attribute("id") == Some(id))
}

fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect()
}

fn elements<'d>(within: Node<'d, 'd>, name: &str) -> Vec<Node<'d, 'd>> {
    within.descendants().filter(|node| node.tag_name().name() == name).collect()
}

/// Returns the cells of a table, row by row, without its head.
fn rows(within: Node<'_, '_>) -> Vec<Vec<String>> {
    let Some(body) = elements(within, "tbody").pop() else { return Vec::new() };
    let cells = |row| elements(row, "td").into_iter().map(text).collect();
    elements(body, "tr").into_iter().map(cells).collect()
}

fn number(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap()
}

/// Returns the counts in the tooltips of a section's plot: offered, allowed, denied.
fn buckets(section: Node<'_, '_>) -> Vec<[u64; 3]> {
    let hover =
        section.descendants().find(|node| node.attribute("class") == Some("hover")).unwrap();
    let read = |title: Node<'_, '_>| {
        let title = text(title);
        let counts: Vec<_> = title.rsplit(": ").next().unwrap().split(", ").collect();
        ["offered", "allowed", "denied"].map(|name| {
            let count = counts.iter().find_map(|count| count.strip_suffix(name)).unwrap();
            number(count.trim())
        })
    };
    elements(hover, "title").into_iter().map(read).collect()
}

fn counts(json: &Value, name: &str) -> Vec<u64> {
    json[name].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect()
}

/// Compares everything that the page reports about policies with the JSON.
fn same_numbers(told: &Told) {
    let document = told.read();
    let subjects = told.json["policies"].as_array().unwrap().iter().chain(told.json.get("limit"));
    let subjects: Vec<_> = subjects.collect();
    let summary = rows(with_id(&document, "summary").unwrap());
    assert_eq!(summary.len(), subjects.len());
    for (index, (row, subject)) in summary.iter().zip(subjects).enumerate() {
        let heading = subject["policy"]
            .as_str()
            .map_or_else(|| format!("limit {}", subject["name"].as_str().unwrap()), str::to_owned);
        let section = with_id(&document, &format!("policy-{}", index + 1)).unwrap();
        assert_eq!(
            (row[0].trim(), text(elements(section, "h2")[0]).trim()),
            (&*heading, &*heading)
        );
        for (cell, name) in
            [(1, "requests"), (2, "allowed"), (3, "denied"), (6, "keys"), (7, "keys_denied")]
        {
            assert_eq!(number(&row[cell]), subject[name].as_u64().unwrap(), "{heading}: {name}");
        }
        for (row, key) in rows(section).iter().zip(subject["denied_most"].as_array().unwrap()) {
            for (cell, name) in [(1, "requests"), (2, "allowed"), (3, "denied")] {
                assert_eq!(number(&row[cell]), key[name].as_u64().unwrap(), "{heading}: {name}");
            }
        }
        if told.json["requests"] != 0 {
            let line = &subject["timeline"];
            let (allowed, denied) = (counts(line, "allowed"), counts(line, "denied"));
            let offered = counts(&told.json["timeline"], "offered");
            let expected: Vec<_> = (0..offered.len())
                .map(|index| [offered[index], allowed[index], denied[index]])
                .filter(|counts| counts[0] > 0)
                .collect();
            assert_eq!(buckets(section), expected, "{heading}");
            assert_eq!(denied.iter().sum::<u64>(), subject["denied"].as_u64().unwrap());
            assert_eq!(allowed.iter().sum::<u64>(), subject["allowed"].as_u64().unwrap());
        }
    }
}

#[test]
fn the_page_has_the_numbers_of_the_json() {
    let told = Told::of_log(
        Path::new(LOG),
        &[
            "sliding_log 10/min",
            "token_bucket 10/min burst 20 shadow",
            "gcra 1000/s",
            "fixed_window 0/s",
        ],
    );
    same_numbers(&told);
    let document = told.read();
    let section = |number| with_id(&document, &format!("policy-{number}")).unwrap();
    assert_eq!(rows(section(1)).len(), 10);
    assert!(text(section(1)).contains("… 69 more keys"));
    assert!(text(section(2)).contains("it denies nothing"));
    assert!(text(section(3)).contains("None of 10,000 requests denied."));
    let header = text(elements(document.root(), "header")[0]);
    assert!(header.contains("10,000 lines, 10,000 requests, 1,753 keys (key: ip)"), "{header}");
    assert!(header.contains("from 2015-05-17T10:05:00Z to 2015-05-20T21:05:59Z"), "{header}");
    let comparison = text(with_id(&document, "comparison").unwrap());
    assert!(comparison.contains("17.3 % denied by sliding_log 10/min"), "{comparison}");
}

#[test]
fn policies_of_a_limit_come_with_their_limit() {
    let folder = Folder::new();
    let config = folder.file(
        "limits.yaml",
        "limits: {site: {policies: [sliding_log 10/min as burst, fixed_window 20/d aligned as day]}}\n",
    );
    let told = Told::of(&["--log", LOG, "--config", config.to_str().unwrap(), "--limit", "site"]);
    same_numbers(&told);
    assert!(text(with_id(&told.read(), "policy-3").unwrap()).contains("limit site"));
}

#[test]
fn a_bucket_has_the_requests_of_its_time() {
    let told = Told::of_log(Path::new(LOG), &["fixed_window 0/s"]);
    assert_eq!(told.json["timeline"]["bucket_us"], 3_600_000_000_u64);
    assert_eq!(told.json["timeline"]["from"], "2015-05-17T10:00:00Z");
    let log = String::from_utf8(std::fs::read(LOG).unwrap()).unwrap();
    let mut hours: HashMap<u64, u64> = HashMap::new();
    for line in log.lines() {
        let (day, time) = line.split_once('[').unwrap().1.split_once("/May/2015:").unwrap();
        let hour = time.split_once(':').unwrap().0;
        let hour = day.parse::<u64>().unwrap() * 24 + hour.parse::<u64>().unwrap();
        *hours.entry(hour - (17 * 24 + 10)).or_default() += 1;
    }
    let offered = counts(&told.json["timeline"], "offered");
    assert_eq!(offered.len() as u64, hours.keys().max().unwrap() + 1);
    for (hour, count) in (0..).zip(&offered) {
        assert_eq!(hours.get(&hour).copied().unwrap_or(0), *count, "hour {hour}");
    }
    assert_eq!(counts(&told.json["policies"][0]["timeline"], "denied"), offered);
}

#[test]
fn keys_of_attackers_are_text() {
    let long = "x".repeat(60_000);
    let keys: [(&[u8], &str); 6] = [
        (b"<script>alert(1)</script>", "<script>alert(1)</script>"),
        (b"\"'><img/src=x/onerror=alert(1)>", "\"'><img/src=x/onerror=alert(1)>"),
        (b"</td></tr></table>&lt;&#60;]]>-->", "</td></tr></table>&lt;&#60;]]>-->"),
        (b"{{7*7}}{%raw%}\xff\xfe\x00", "{{7*7}}{%raw%}\\xff\\xfe\\0"),
        (b"\x1b[2J\xe2\x80\xae\x0b\xef\xbf\xbe", "\\u{1b}[2J\\u{202e}\\u{b}\\u{fffe}"),
        (long.as_bytes(), &format!("{}…", &long[..80])),
    ];
    let mut log = Vec::new();
    for (index, (key, _)) in keys.iter().enumerate() {
        for _ in index..keys.len() {
            log.extend_from_slice(key);
            log.extend_from_slice(b" - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n");
        }
    }
    let folder = Folder::new();
    let log = folder.file("<b>&\u{202e}.log", log);
    let told = Told::of_log(&log, &["fixed_window 0/s"]);
    same_numbers(&told);
    let document = told.read();
    let shown: Vec<_> = rows(with_id(&document, "policy-1").unwrap())
        .into_iter()
        .map(|row| row[0].clone())
        .collect();
    assert_eq!(shown, keys.map(|(_, shown)| shown));
    let title = text(elements(document.root(), "title")[0]);
    assert!(title.ends_with("/<b>&\\u{202e}.log"), "{title}");
    assert!(told.page.len() < 40_000, "{}", told.page.len());
}

#[test]
fn a_page_counts_the_lines_that_are_no_requests() {
    let folder = Folder::new();
    for malformed in [0, 1, 7] {
        let content = format!("{{\"time\":1,\"key\":\"k\"}}\n{}", "<script>\n".repeat(malformed));
        let told = Told::of_log(&folder.file("log", content), &["gcra 1/s", "gcra 2/s"]);
        same_numbers(&told);
        let document = told.read();
        let said = with_id(&document, "malformed").map_or_else(String::new, text);
        assert_eq!(said.contains(&format!("{malformed} malformed line")), malformed > 0, "{said}");
    }
}

#[test]
fn a_log_of_any_length_is_plotted() {
    let folder = Folder::new();
    let line = |time: &str| format!("{{\"time\":{time},\"key\":\"k\"}}\n");
    let day = 86_400_u64;
    let ten_years: String =
        (0..3_653).map(|number| line(&(1_200_000_000 + number * day).to_string())).collect();
    let dense: String = (0..500).map(|number| line(&format!("1200000000.{number:06}"))).collect();
    for (name, log, requests, buckets_of) in [
        ("one line", line("0"), 1, 1_000_000_u64),
        ("one instant", line("1200000000.25").repeat(700), 700, 1_000),
        ("half a millisecond", dense, 500, 5),
        ("ten years", ten_years, 3_653, 91 * day * 1_000_000),
        ("all there is", line("0") + &line("9007199254740991"), 2, 1_820 * day * 1_000_000),
    ] {
        let told = Told::of_log(&folder.file("log", log), &["token_bucket 5/h", "sliding_log 5/d"]);
        same_numbers(&told);
        assert_eq!(told.json["requests"], requests, "{name}");
        assert_eq!(told.json["timeline"]["bucket_us"], buckets_of, "{name}");
        let buckets = counts(&told.json["timeline"], "offered").len();
        assert!((1..=120).contains(&buckets), "{name}: {buckets}");
        let document = told.read();
        let plots = elements(document.root(), "svg")
            .into_iter()
            .filter(|svg| svg.attribute("class") == Some("plot"));
        assert_eq!(plots.count(), 3, "{name}");
    }
}
