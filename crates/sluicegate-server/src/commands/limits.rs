//! The limits of a request, as given on the command line.

use std::ffi::OsString;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::cost::CostArg;
use crate::cost::AskedCost;

/// `--limit NAME --key KEY [--cost N]…`, once or several times; several limits are decided
/// together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct AskedLimits {
    /// At least one entry.
    pub(crate) entries: Vec<AskedLimit>,
}

/// A limit, with its key and cost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct AskedLimit {
    pub(crate) limit: String,
    pub(crate) key: OsString,
    pub(crate) cost: AskedCost,
}

impl AskedLimits {
    /// Returns `true` if the answer names the limit of each policy.
    pub(crate) const fn are_several(&self) -> bool {
        self.entries.len() > 1
    }

    /// Returns `true` if the cost takes units of a policy. Without a limit name, it is the policy
    /// of the only limit.
    pub(crate) fn touch(&self, limit: Option<&str>, policy: &str) -> bool {
        let entry = self.entries.iter().find(|entry| limit.is_none_or(|name| entry.limit == name));
        entry.is_some_and(|entry| entry.cost.touches(policy))
    }
}

impl Args for AskedLimits {
    fn augment_args(command: Command) -> Command {
        let arg = |name: &'static str, value: &'static str| {
            Arg::new(name).long(name).value_name(value).action(ArgAction::Append)
        };
        command
            .arg(arg("limit", "NAME").required(true).help(
                "The name of the limit; may be repeated, each with its own --key and --cost after it: \
                 then all limits are charged or none",
            ))
            .arg(
                arg("key", "KEY")
                    .required(true)
                    .value_parser(ValueParser::os_string())
                    .help("The key, which is limited: any text that fits the `key` of the limit"),
            )
            .arg(arg("cost", "N").value_parser(str::parse::<CostArg>).help(
                "The units that the request takes under every policy, or POLICY=N for one policy; \
                 then others cost nothing, or N; may be repeated",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AskedLimits {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let limits: Vec<(usize, String)> = placed(matches, "limit");
        let keys: Vec<(usize, OsString)> = placed(matches, "key");
        let mut costs: Vec<(usize, CostArg)> = placed(matches, "cost");
        if limits.len() != keys.len() {
            return Err(conflict(format!(
                "--limit is given {} times, and --key {}: give a --key after each --limit",
                limits.len(),
                keys.len()
            )));
        }
        if let [(_, limit)] = &*limits {
            let key = keys.into_iter().next().map(|(_, key)| key).unwrap_or_default();
            let costs: Vec<CostArg> = costs.into_iter().map(|(_, cost)| cost).collect();
            let cost = CostArg::together(&costs).map_err(conflict)?;
            return Ok(Self { entries: vec![AskedLimit { limit: limit.clone(), key, cost }] });
        }
        let mut entries: Vec<AskedLimit> = Vec::with_capacity(limits.len());
        for (index, ((place, limit), (of_key, key))) in limits.iter().zip(keys).enumerate() {
            let end = limits.get(index + 1).map_or(usize::MAX, |(next, _)| *next);
            let is_here = |at: usize| (*place..end).contains(&at);
            if !is_here(of_key) {
                return Err(conflict(format!(
                    "--limit {limit} has no --key of its own: give a --key after each --limit"
                )));
            }
            if entries.iter().any(|earlier| earlier.limit == *limit) {
                return Err(conflict(format!("--limit {limit} is given twice: leave one out")));
            }
            let own: Vec<CostArg> =
                costs.iter().filter(|(at, _)| is_here(*at)).map(|(_, cost)| cost.clone()).collect();
            costs.retain(|(at, _)| !is_here(*at));
            let cost = CostArg::together(&own).map_err(conflict)?;
            entries.push(AskedLimit { limit: limit.clone(), key, cost });
        }
        if !costs.is_empty() {
            return Err(conflict(
                "a --cost stands before every --limit: give each after the --limit that it is of"
                    .to_owned(),
            ));
        }
        Ok(Self { entries })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the values of an argument, each with its position on the command line.
fn placed<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<(usize, T)> {
    let places = matches.indices_of(name).into_iter().flatten();
    places.zip(matches.get_many(name).into_iter().flatten().cloned()).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "as it is called")]
fn conflict(message: String) -> Error {
    Error::raw(ErrorKind::ValueValidation, format!("{message}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &str) -> Result<Vec<(String, String, AskedCost)>, String> {
        let command = AskedLimits::augment_args(Command::new("check").no_binary_name(true));
        let matches = command.try_get_matches_from(args.split(' '));
        let read = matches.and_then(|matches| AskedLimits::from_arg_matches(&matches));
        let entries = read.map_err(|error| error.to_string())?.entries.into_iter();
        Ok(entries
            .map(|entry| (entry.limit, entry.key.into_string().unwrap(), entry.cost))
            .collect())
    }

    fn cost(units: u64) -> AskedCost {
        AskedCost { rest: Some(units), each: Vec::new() }
    }

    #[test]
    fn one_limit_is_named_in_any_order() {
        let one = Ok(vec![("a".to_owned(), "k".to_owned(), cost(3))]);
        for args in ["--limit a --key k --cost 3", "--cost 3 --key k --limit a"] {
            assert_eq!(read(args), one, "{args}");
        }
    }

    #[test]
    fn several_have_each_a_key_and_a_cost_of_their_own() {
        assert_eq!(
            read("--limit a --key k --limit b --cost p=2 --key j --cost q=1"),
            Ok(vec![
                ("a".to_owned(), "k".to_owned(), AskedCost::default()),
                (
                    "b".to_owned(),
                    "j".to_owned(),
                    AskedCost { rest: None, each: vec![("p".into(), 2), ("q".into(), 1)] }
                ),
            ])
        );
        for (args, words) in [
            ("--limit a --key k --limit b", "--limit is given 2 times, and --key 1"),
            ("--limit a --key k --key j --limit b", "--limit b has no --key of its own"),
            ("--key k --limit a --limit b --key j", "--limit a has no --key of its own"),
            ("--cost 3 --limit a --key k --limit b --key j", "stands before every --limit"),
            ("--limit a --key k --limit a --key j", "--limit a is given twice"),
            ("--limit a --key k --cost 1 --cost 2", "more than once"),
            ("--limit a --key k --cost x", "a cost must be a whole number"),
        ] {
            let message = read(args).unwrap_err();
            assert!(message.contains(words), "{args}: {message}");
        }
    }
}
