//! The parsed forms of URLs, and the errors of invalid ones.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> RedisUrl {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn every_kind_of_url_is_read_and_printed_in_one_way() {
    for (text, shown) in [
        ("redis://localhost", "redis://localhost:6379"),
        ("valkey://127.0.0.1:6380/0", "redis://127.0.0.1:6380"),
        ("redis://[::1]:1/7", "redis://[::1]:1/7"),
        ("redis://[::1]", "redis://[::1]:6379"),
        ("redis://u:p@db/", "redis://***@db:6379"),
        ("redis://@db", "redis://db:6379"),
        ("redis://a_b.c-d", "redis://a_b.c-d:6379"),
        ("unix:///run/a@b.sock", "unix:///run/a%40b.sock"),
        ("redis+unix://u:p@/run/s?db=3", "unix://***@/run/s?db=3"),
        ("valkeys://h?ca=/a%20b&cert=c&key=k", "rediss://h:6379?ca=/a%20b&cert=c&key=k"),
        ("rediss://h/2?server_name=n", "rediss://h:6379/2?server_name=n"),
        ("redis+cluster://a,b:1,[::2]:3", "redis+cluster://a:6379,b:1,[::2]:3"),
        ("valkeys+cluster://u@a/0?ca=x", "rediss+cluster://***@a:6379?ca=x"),
        ("redis+sentinel://a,b:1/main", "redis+sentinel://a:26379,b:1/main"),
        ("rediss+sentinel://:p@a/m%2Fn/5?ca=x", "rediss+sentinel://***@a:26379/m%2Fn/5?ca=x"),
    ] {
        let url = read(text);
        assert_eq!(url.to_string(), shown);
        assert_eq!(format!("{url:?}"), format!("RedisUrl({shown})"));
        if url.credentials.is_none() {
            assert_eq!(read(shown), url, "what is printed is the same URL");
        }
    }
}

#[test]
fn users_and_passwords_are_read_as_they_are_meant() {
    for (text, user, password) in [
        ("redis://:p%2Fq%3F%23@db/1", None, "p/q?#"),
        ("redis://u:se@cr:et@db", Some("u"), "se@cr:et"),
        ("redis://u@db", Some("u"), ""),
        ("unix://u:p@/run/a@b", Some("u"), "p"),
        ("redis+cluster://u:p,q@a,b", Some("u"), "p,q"),
    ] {
        let expected = match user {
            Some(user) => Credentials::new(user, password),
            None => Credentials::of_default_user(password),
        };
        assert_eq!(read(text).credentials, Some(expected), "{text}");
    }
}

#[test]
fn what_is_wrong_with_a_url_is_said_with_what_to_write() {
    for (text, why) in [
        ("", "not a store URL: write memory:, redis://HOST:PORT"),
        ("redis:", "not a store URL"),
        ("secret", "not a store URL"),
        ("http://db", "`http://` is not supported: write"),
        ("rediss+unix:///s", "`rediss+unix://` is not supported"),
        ("redis+other://a", "`redis+other://` is not supported"),
        ("redis://", "has no host"),
        ("redis://:1", "has no host"),
        ("redis+cluster://a,,b", "has no host"),
        ("redis://db:0", "invalid port: write a number from 1 to 65535"),
        ("redis://db:", "invalid port"),
        ("redis://db:99999", "invalid port"),
        ("redis://[::1", "invalid port|invalid host"),
        ("redis://[::1]x", "invalid port"),
        ("redis://[db]", "invalid host"),
        ("redis://a|b", "invalid host"),
        ("redis://a,b", "several hosts: write redis+cluster://"),
        ("redis://db#x", "has a `#`: remove it"),
        ("redis://db/65536", "invalid database: write a number from 0 to 65535"),
        ("redis://db/+1", "invalid database"),
        ("redis://db/x", "invalid database"),
        ("unix:///s?db=x", "invalid database"),
        ("unix://s", "no path of a socket: write unix:///PATH"),
        ("unix:///", "no path of a socket"),
        ("unix://u:s3cret/x@/run/s", "no path of a socket"),
        ("redis://a b", "white space or a control character"),
        ("redis://db/2?x@other:6379", "%2F, %3F, %23 and %40"),
        ("redis://:p/q@db", "%2F, %3F, %23 and %40"),
        ("redis://:p?q@db", "%2F, %3F, %23 and %40"),
        ("redis://:#@db", "%2F, %3F, %23 and %40"),
        ("redis://:%FF@db", "aren't UTF-8"),
        ("redis://:%00@db", "has a NUL"),
        ("redis://db?x", "the option `x`, and takes none: leave it out"),
        ("redis://db?s3cret=1", "an unknown option, and takes none"),
        ("redis://db?ca=/a", "the TLS option `ca`, but isn't encrypted: write rediss://"),
        ("rediss://db?db=1", "its options are ca, cert, key, server_name"),
        ("rediss://db?ca=a&ca=b", "has `ca` twice: keep one"),
        ("rediss://db?ca=", "has `ca` without a value"),
        ("rediss://db?cert=a", "`cert` needs `key`"),
        ("rediss://db?key=a", "`key` needs `cert`"),
        ("rediss://db?server_name=a:1", "`server_name` must be a host name or an IP address"),
        ("redis+cluster://a/1", "a cluster has only the first"),
        ("redis+sentinel://a", "lacks what the sentinels call the primary"),
        ("redis+sentinel://a//1", "lacks what the sentinels call the primary"),
        ("redis+sentinel://a/m/x", "invalid database"),
    ] {
        let error = text.parse::<RedisUrl>().expect_err(text).to_string();
        assert!(why.split('|').any(|why| error.contains(why)), "{text}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

proptest! {
    /// No part of a password is printed, regardless of the text between the separators.
    #[test]
    fn a_url_is_refused_or_read_and_shows_no_password(
        text in "(redis|rediss|redis\\+cluster|rediss\\+sentinel)://[a-z0-9:@/?#=&,%.\\[\\]]{0,20}ZQX[a-z:@/?#=&,%]{0,12}@h(/n)?(/1)?(\\?ca=c)?"
    ) {
        match text.parse::<RedisUrl>() {
            Ok(url) => prop_assert!(!format!("{url} {url:?}").contains("ZQX"), "{text}: {url}"),
            Err(error) => prop_assert!(!error.to_string().contains("ZQX"), "{text}: {error}"),
        }
    }
}
