//! The path of a function, and the names of limits derived from it.

use sluicegate_core::LimitName;

/// Returns the path of the function around the item of this path: `shop::Cart::add` of
/// `shop::Cart::add::__sluicegate_path`.
pub(super) fn enclosing(path: &'static str) -> &'static str {
    let (function, _) = path.rsplit_once("::").unwrap_or((path, ""));
    function.strip_suffix("::{{closure}}").unwrap_or(function)
}

/// The length of the hash that makes a shortened name unique.
const HASH: usize = 16;

/// Returns the name of a function's own limit: its path if that is a valid name. Otherwise, the name is a part of the
/// path that fits, and a hash of the whole path. `ordinal` distinguishes several limits of one function.
pub(super) fn of_function(path: &str, ordinal: usize) -> String {
    let whole = match ordinal {
        0 => path.to_owned(),
        more => format!("{path}-{}", more + 1),
    };
    if whole.parse::<LimitName>().is_ok() {
        return whole;
    }
    let hash = blake3::hash(whole.as_bytes()).to_hex();
    let lawful = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | ':' | '-');
    // The path begins with the crate and ends with the function.
    let end: Vec<char> = whole.chars().rev().take(LimitName::MAX_LEN - HASH - 1).collect();
    let end: String =
        end.into_iter().rev().map(|char| if lawful(char) { char } else { '.' }).collect();
    format!("{end}@{}", &hash[..HASH])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_around_an_item_is_found() {
        assert_eq!(enclosing("shop::Cart::add::item"), "shop::Cart::add");
        assert_eq!(enclosing("shop::add::{{closure}}::item"), "shop::add");
        assert_eq!(
            enclosing("<shop::Cart as shop::Add>::add::item"),
            "<shop::Cart as shop::Add>::add"
        );
    }

    #[test]
    fn a_path_that_is_a_name_stays_as_it_is() {
        assert_eq!(of_function("shop::Cart::add", 0), "shop::Cart::add");
        assert_eq!(of_function("shop::Cart::add", 1), "shop::Cart::add-2");
    }

    #[test]
    fn any_path_becomes_a_lawful_name_of_its_own() {
        let long = format!("shop::{}add", "deep::".repeat(30));
        let paths = [
            "<shop::Cart as shop::Add>::add",
            "<shop.Cart as shop::Add>::add",
            "shop::Größe::add",
            long.as_str(),
            &long[1..],
            "",
        ];
        let names: Vec<_> = paths.iter().map(|path| of_function(path, 0)).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(name.parse::<LimitName>().is_ok(), "{name}");
            assert!(!names[..index].contains(name), "{name}");
        }
        assert!(names[0].starts_with(".shop::Cart.as.shop::Add.::add@"), "{}", names[0]);
        assert!(names[3].contains("::deep::add@"), "{}", names[3]);
        assert_ne!(of_function(&long, 0), of_function(&long, 1));
    }
}
