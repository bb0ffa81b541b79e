//! Any text as a key expression, and any request under it.
//!
//! | line | input |
//! | --- | --- |
//! | 1 | the expression |
//! | 2 | the target of the request |
//! | 3 | the user |
//! | … | header fields, `name: value` |

use http::{HeaderName, HeaderValue, Request, Uri};
use sluicegate_http::{
    Key, KeyComponent, KeyExpression, KeyExtractor, MatchedRoute, MissingComponent, Peer, User,
    from_fn,
};

/// Panics if an expression doesn't parse as it prints, or its key isn't made of its components.
pub(crate) fn holds(input: &[u8]) {
    let mut lines = input.split(|&byte| byte == b'\n');
    let text = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let expression = match text.parse::<KeyExpression>() {
        Ok(expression) => expression,
        Err(error) => {
            assert!(!error.message().is_empty(), "{text:?}");
            assert!(error.column() <= text.chars().count() + 1, "{text:?}: {error}");
            assert_eq!(error.snippet().lines().count(), 2, "{text:?}: {error}");
            return;
        }
    };
    let printed = expression.to_string();
    assert_eq!(printed.parse().as_ref(), Ok(&expression), "{text:?} prints as {printed:?}");

    let request = request(lines);
    let whole = expression.key(&request);
    let of = |components: &[KeyComponent]| -> Result<Key, MissingComponent> {
        let alone = components.iter().map(|component| {
            let alone = component.to_string().parse::<KeyExpression>();
            alone.expect("a component is an expression").key(&request)
        });
        Ok(Key::join(&alone.collect::<Result<Vec<_>, _>>()?))
    };
    // Combine the alternatives with `or`, the last ones first.
    let mut alternatives = expression.alternatives().rev().map(of);
    let last = alternatives.next().expect("there is at least one");
    let combined = alternatives.fold(last, |later, earlier| {
        let known = |key: &Result<Key, MissingComponent>| {
            let key = key.clone();
            from_fn(move |_| key.clone().ok())
        };
        known(&earlier).or(known(&later)).key(&request).map_err(|_| later.unwrap_err())
    });
    assert_eq!(whole, combined, "{printed}");
    assert_ne!(whole, Ok(Key::shared()), "{printed}");
}

fn request<'l>(mut lines: impl Iterator<Item = &'l [u8]>) -> Request<()> {
    let mut request = Request::new(());
    if let Some(target) = lines.next().and_then(|target| Uri::try_from(target).ok()) {
        *request.uri_mut() = target;
    }
    let extensions = request.extensions_mut();
    extensions.insert(Peer(([192, 0, 2, 1], 4711).into()));
    if let Some(user) = lines.next() {
        extensions.insert(User::new(user));
        extensions.insert(MatchedRoute::new(String::from_utf8_lossy(user)));
    }
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            request.headers_mut().append(name, value);
        }
    }
    request
}
