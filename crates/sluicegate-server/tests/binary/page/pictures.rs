//! Takes pictures of the page's states, for people who look at them, and for the guides.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::json;

use super::{HOSTILE, LIMITS, Site, key_view};

/// The variable that names a folder for the pictures. The test then also writes the pictures of the guides, to `docs/page/`.
const FOLDER: &str = "SLUICEGATE_PICTURES";

/// The sizes of windows: a phone, a tablet and a screen.
const SIZES: [(u32, u32); 3] = [(430, 900), (1024, 800), (1600, 1000)];

/// The size of the guides' pictures.
const GUIDE: (u32, u32) = (1200, 760);

/// A state, and what its view has once it is complete: a selector and a part of its text.
struct State<'s> {
    name: &'s str,
    view: String,
    has: [&'s str; 2],
}

/// Every state has a picture with more than one color, in each size, and the page complains about none.
#[test]
fn eight_states_have_pictures() {
    let given = env::var_os(FOLDER).map(PathBuf::from);
    let mut site = Site::start();
    site.browser.prefer("prefers-reduced-motion", "reduce");
    let view = |name, view: &str, has| State { name, view: view.to_owned(), has };
    let quiet = view("quiet", "", ["tbody", "login"]);
    take(&mut site, &quiet, given.as_deref());
    for (limit, key, times) in
        [("login", "mallory", 60), ("login", "alice", 4), ("search", "bob", 8), ("api", HOSTILE, 9)]
    {
        site.check(limit, key, times);
    }
    let joint =
        json!({"limits": [{"limit": "llm", "key": "acme"}, {"limit": "api", "key": "acme"}]});
    for _ in 0..9 {
        site.service.post("/v1/check", joint.to_string());
    }
    let mallory = key_view("login", "mallory");
    let states = [
        view("storm", "", [".denied-now", "mallory"]),
        view("limit", "#/?limit=login", [".limit-details", "mallory"]),
        view("key", &mallory, [".drawer", "Last decisions"]),
        view("decisions", "#/decisions", ["main", "mallory"]),
        view("what-if", "#/what-if?limit=login", [".what-if", "Simulate"]),
        view("configuration", "#/config", ["main", "one configuration"]),
    ];
    for state in &states {
        take(&mut site, state, given.as_deref());
    }
    if given.is_some() {
        // The guides show a service with traffic.
        for round in 0..1_500 {
            site.check("login", ["mallory", "mallory", "dave"][round % 3], 2);
            site.check("search", ["alice", "bob", "carol"][round % 3], 4);
            site.check("api", "shop", 8);
            site.check("llm", "acme", usize::from(round % 20 == 0));
        }
        for (state, file) in [(&states[0], "now.png"), (&states[2], "key.png")] {
            let picture = picture(&mut site, state, GUIDE);
            let guides = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/page");
            fs::write(guides.join(file), picture).unwrap();
        }
    }
    site.file.replace(&LIMITS.replace("gcra 5/h", "gcra 5/fortnight"));
    take(&mut site, &view("refused", "", [".problems", "refused"]), given.as_deref());
    site.browser.finish();
}

/// Takes the pictures of a state, and writes them to the folder.
fn take(site: &mut Site, state: &State<'_>, folder: Option<&Path>) {
    // A run without a folder only looks whether there is a picture.
    let sizes = if folder.is_some() { &SIZES[..] } else { &SIZES[..1] };
    for size in sizes {
        let picture = picture(site, state, *size);
        // A window of one color takes some hundred bytes.
        assert!(picture.len() > 10_000, "{} has {} bytes", state.name, picture.len());
        if let Some(folder) = folder {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(format!("{}-{}.png", state.name, size.0)), picture).unwrap();
        }
    }
}

fn picture(
    site: &mut Site,
    State { view, has: [selector, part], .. }: &State<'_>,
    size: (u32, u32),
) -> Vec<u8> {
    site.browser.resize(size.0, size.1);
    site.open(view);
    site.browser.wait_for(selector, part);
    if view.contains("what-if") {
        site.browser.wait("the policies", "document.querySelector('.what-if textarea').value");
        site.browser.click(".what-if", "Simulate");
        site.browser.wait_for("main", "newly denied");
    }
    site.browser.picture()
}
