//! Requests for the service's lists, and their answers.

use sluicegate_core::{BannedKey, Holder, Limit, ListedKey, Listing, Page, RequestError};
use url::form_urlencoded;

use crate::answer::Reply;
use crate::encode::{specs, unsupported};
use crate::json::{BanEntry, BanList, HolderEntry, HolderList, KeyEntry, KeyList};
use crate::reply::span;

/// Returns the path of a page of a key's holders, with the policies of the limit if the service takes
/// them from requests.
///
/// # Errors
/// Returns an error if the key isn't UTF-8.
pub(crate) fn holders_path(
    limit: &Limit,
    key: &[u8],
    page: &Page<'_>,
    sends_policies: bool,
) -> Result<String, RequestError> {
    let text = std::str::from_utf8(key)
        .map_err(|_| unsupported(limit, "takes keys that are text: this one is not UTF-8"))?;
    let mut path = path("/v1/holders", limit, Some(text), page);
    if sends_policies {
        let mut query = form_urlencoded::Serializer::new(path);
        query.append_pair("policies", &specs(limit, 0).join(","));
        path = query.finish();
    }
    Ok(path)
}

/// Parses a page of holders. Returns `None` if the reply isn't a list.
///
/// # Errors
/// Returns an error if an entry or the cursor is invalid.
pub(crate) fn holders(limit: &Limit, reply: &Reply) -> Option<Result<Listing<Holder>, String>> {
    let list: HolderList<'_> = serde_json::from_slice(&reply.body).ok()?;
    let holder = |entry: &HolderEntry<'_>| {
        let id = entry.hold.as_deref().ok_or(
            "its list has no ids of holds, because the token's client may only read: give it the right `admin`",
        )?;
        let id = id.parse().map_err(|error| format!("its list: {error}"))?;
        // Skip policies that the program doesn't have.
        let units = limit.members().iter().filter_map(|member| {
            Some((member.name().clone(), *entry.units.get(member.name().as_str())?))
        });
        Ok(Holder::new(id, span(entry.ends_in_us)?.into(), units))
    };
    let read = || {
        let holders: Result<Vec<Holder>, String> = list.holders.iter().map(holder).collect();
        let next = list.next.as_deref().map(str::parse).transpose();
        let next = next.map_err(|error| format!("its list: {error}"))?;
        Ok(Listing::new(holders?, next).with_waiting(list.waiting))
    };
    Some(read())
}

/// Returns the path of a page of banned keys.
pub(crate) fn bans_path(limit: &Limit, page: &Page<'_>) -> String {
    path("/v1/bans", limit, None, page)
}

/// Parses a page of banned keys. Returns `None` if the reply isn't a list.
///
/// # Errors
/// Returns an error if an entry or the cursor is invalid.
pub(crate) fn bans(reply: &Reply) -> Option<Result<Listing<BannedKey>, String>> {
    let list: BanList<'_> = serde_json::from_slice(&reply.body).ok()?;
    let banned = |entry: &BanEntry<'_>| {
        let (ends_in, age) = (span(entry.ends_in_us)?, span(entry.since_us)?);
        Ok(BannedKey::new(listed_key(&entry.key)?, ends_in.into(), age.into()))
    };
    Some(entries(&list.bans, banned, list.next.as_deref()))
}

/// Returns the path of a page of keys that begin with `prefix`.
///
/// # Errors
/// Returns an error if the prefix isn't UTF-8.
pub(crate) fn keys_path(
    limit: &Limit,
    prefix: &[u8],
    page: &Page<'_>,
) -> Result<String, RequestError> {
    let prefix = std::str::from_utf8(prefix)
        .map_err(|_| unsupported(limit, "takes a prefix that is text: this one is not UTF-8"))?;
    let mut query = form_urlencoded::Serializer::new(path("/v1/keys", limit, None, page));
    query.append_pair("prefix", prefix);
    Ok(query.finish())
}

/// Parses a page of keys. Returns `None` if the reply isn't a list.
///
/// # Errors
/// Returns an error if an entry or the cursor is invalid.
pub(crate) fn keys(reply: &Reply) -> Option<Result<Listing<ListedKey>, String>> {
    let list: KeyList<'_> = serde_json::from_slice(&reply.body).ok()?;
    Some(entries(&list.keys, listed_key, list.next.as_deref()))
}

/// Returns a page of entries that are read one by one.
fn entries<E, T>(
    list: &[E],
    read: impl Fn(&E) -> Result<T, String>,
    next: Option<&str>,
) -> Result<Listing<T>, String> {
    let entries: Result<Vec<T>, String> = list.iter().map(read).collect();
    let next = next.map(str::parse).transpose().map_err(|error| format!("its list: {error}"))?;
    Ok(Listing::new(entries?, next))
}

fn listed_key(entry: &KeyEntry<'_>) -> Result<ListedKey, String> {
    Ok(match entry {
        KeyEntry { key: Some(key), .. } => ListedKey::Whole(key.as_bytes().into()),
        KeyEntry { key_bytes: Some(bytes), .. } => ListedKey::Whole(read_hex(bytes)?.into()),
        KeyEntry { key_hash: Some(hash), .. } => ListedKey::Hashed(
            read_hex(hash)?.try_into().map_err(|_| "its list has a hash of another length")?,
        ),
        _ => return Err("its list has an entry without a key".to_owned()),
    })
}

fn read_hex(text: &str) -> Result<Vec<u8>, String> {
    let byte = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 2)?;
        let is_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_digits.then(|| u8::from_str_radix(digits, 16).ok())?
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| "its list has a key that isn't in hexadecimal digits".to_owned())
}

fn path(start: &str, limit: &Limit, key: Option<&str>, page: &Page<'_>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", limit.name().as_str());
    query.append_pair("count", &page.count().to_string());
    query.extend_pairs(page.cursor().map(|after| ("after", after.to_string())));
    query.extend_pairs(key.map(|key| ("key", key)));
    format!("{start}?{}", query.finish())
}
