//! The page at `/`, with its scripts and styles at `/page/…`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH,
    REFERRER_POLICY, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use super::error::ApiError;

/// The path of the files that the page loads.
pub(super) const FILES_PATH: &str = "/page/{file}";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The page loads only its own files, and calls only this service.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const INDEX: &str = include_str!("page/index.html");

/// Files by name, with their types.
const FILES: [(&str, &str, &str); 23] = [
    ("actions.js", JAVASCRIPT, include_str!("page/actions.js")),
    ("api.js", JAVASCRIPT, include_str!("page/api.js")),
    ("chart.js", JAVASCRIPT, include_str!("page/chart.js")),
    ("config.js", JAVASCRIPT, include_str!("page/config.js")),
    ("decisions.js", JAVASCRIPT, include_str!("page/decisions.js")),
    ("dialog.js", JAVASCRIPT, include_str!("page/dialog.js")),
    ("dom.js", JAVASCRIPT, include_str!("page/dom.js")),
    ("entry.js", JAVASCRIPT, include_str!("page/entry.js")),
    ("fleet.js", JAVASCRIPT, include_str!("page/fleet.js")),
    ("key.js", JAVASCRIPT, include_str!("page/key.js")),
    ("limit.js", JAVASCRIPT, include_str!("page/limit.js")),
    ("limits.js", JAVASCRIPT, include_str!("page/limits.js")),
    ("links.js", JAVASCRIPT, include_str!("page/links.js")),
    ("main.js", JAVASCRIPT, include_str!("page/main.js")),
    ("override.js", JAVASCRIPT, include_str!("page/override.js")),
    ("overview.js", JAVASCRIPT, include_str!("page/overview.js")),
    ("page.css", CSS, include_str!("page/page.css")),
    ("parts.css", CSS, include_str!("page/parts.css")),
    ("recent.js", JAVASCRIPT, include_str!("page/recent.js")),
    ("stream.js", JAVASCRIPT, include_str!("page/stream.js")),
    ("text.js", JAVASCRIPT, include_str!("page/text.js")),
    ("whatif.js", JAVASCRIPT, include_str!("page/whatif.js")),
    ("why.js", JAVASCRIPT, include_str!("page/why.js")),
];

/// `GET /`: the page. Its addresses are relative, so a proxy may serve it below any path.
pub(super) async fn page(head: HeaderMap) -> Response {
    answer(&head, HTML, INDEX)
}

/// `GET /page/{file}`: a script or a style.
pub(super) async fn file(Path(name): Path<String>, head: HeaderMap) -> Response {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    let Some((_, kind, text)) = found else {
        return ApiError::new(StatusCode::NOT_FOUND, "not_found", "the page has no such file")
            .into_response();
    };
    answer(&head, kind, text)
}

/// Returns a file, or 304 if the browser has it already.
fn answer(head: &HeaderMap, kind: &'static str, text: &'static str) -> Response {
    let tag = tag(text);
    let fields: [(HeaderName, &str); 6] = [
        (CONTENT_TYPE, kind),
        // A browser asks each time, so that all files are of the same version.
        (CACHE_CONTROL, "no-cache"),
        (ETAG, &tag),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    let known = head.get_all(IF_NONE_MATCH).iter().filter_map(|known| known.to_str().ok());
    // A proxy that compresses the answer makes the tag a weak one.
    let is_known = known
        .flat_map(|known| known.split(','))
        .any(|known| known.trim().trim_start_matches("W/") == tag);
    if is_known {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    (fields, text).into_response()
}

/// Returns a tag of the content.
fn tag(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served_and_the_page_is_small() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/page");
        let entries = std::fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "index.html").collect();
        names.sort_unstable();
        assert_eq!(FILES.map(|(name, ..)| name).as_slice(), names.as_slice());
        let size = FILES.iter().map(|(_, _, text)| text.len()).sum::<usize>() + INDEX.len();
        assert!(size <= 150_000, "{size} bytes");
    }

    #[tokio::test]
    async fn a_browser_that_has_a_file_gets_304() {
        let first = page(HeaderMap::new()).await;
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers()[ETAG].clone();
        for known in
            [tag.to_str().unwrap().to_owned(), format!("\"x\", W/{}", tag.to_str().unwrap())]
        {
            let mut head = HeaderMap::new();
            head.insert(IF_NONE_MATCH, known.parse().unwrap());
            assert_eq!(page(head).await.status(), StatusCode::NOT_MODIFIED, "{known}");
        }
        let mut head = HeaderMap::new();
        head.insert(IF_NONE_MATCH, "\"other\"".parse().unwrap());
        assert_eq!(page(head).await.status(), StatusCode::OK);
    }
}
