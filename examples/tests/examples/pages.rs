//! The pages about the examples.

use std::fs;
use std::path::Path;

use sluicegate::{Config, Registry};

fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let fence = format!("```{language}\n");
    page.split(&*fence).skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

#[test]
fn pages_show_the_limits_and_the_code_of_their_programs() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let index = fs::read_to_string(here.join("../docs/recipes.md")).unwrap();
    let mut names = Vec::new();
    for page in fs::read_dir(here.join("../docs/recipes")).unwrap() {
        let path = page.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(index.contains(&format!("](recipes/{name}.md)")), "{name}");
        // A recipe without a program has code that is compiled as documentation.
        let Ok(program) = fs::read_to_string(here.join(format!("src/bin/{name}.rs"))) else {
            continue;
        };
        let page = fs::read_to_string(&path).unwrap();
        let limits = fs::read_to_string(here.join(format!("limits/{name}.yaml"))).unwrap();
        assert_eq!(blocks(&page, "yaml"), [limits], "{name}");
        let shown = blocks(&page, "rust");
        assert!(!shown.is_empty(), "{name}");
        for block in shown {
            assert!(program.contains(block), "{name}: {block}");
        }
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["gateway", "jobs", "login", "partners", "reports", "uploads"]);
}

#[test]
fn the_limits_of_the_first_page_admit_what_its_program_asserts() {
    let page = include_str!("../../../docs/start.md");
    let config = Config::parse(blocks(page, "yaml")[0], "limits.yaml").unwrap();
    let search = Registry::open_for(&config, ["api", "search"]).unwrap().gate("search");
    for (key, remaining) in [("alice", 4), ("acme", 49)] {
        assert_eq!(search.check(key).now().unwrap().remaining(), Some(remaining));
        assert!(page.contains(&format!("check(\"{key}\").await?.remaining(), Some({remaining})")));
    }
}
