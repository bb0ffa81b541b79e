//! The pages that crates have on a registry.

use std::fs;

use crate::servers::workspace_root;

/// Code of the project's README is compiled and run by a test, so pages show no other.
#[test]
fn pages_of_crates_show_code_of_the_readme_alone() {
    let root = workspace_root();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let mut blocks = 0;
    for folder in fs::read_dir(root.join("crates")).unwrap() {
        let path = folder.unwrap().path().join("README.md");
        let page = fs::read_to_string(&path).unwrap_or_default();
        for rest in page.split("```rust\n").skip(1) {
            let block = rest.split("```").next().unwrap();
            assert!(readme.contains(block), "{}: {block}", path.display());
            blocks += 1;
        }
    }
    assert!(blocks > 0);
}
