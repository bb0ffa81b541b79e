//! Names that a program uses have to be in the configuration: at the start, and ever after.

use sluicegate::config::Uses;
use sluicegate::error::{MissingNames, ReloadError};
use sluicegate::http::{Peer, fixed};
use sluicegate::middleware::{Middleware, Verdict};
use sluicegate::{Ask, Config, Registry};

use crate::registry::support::{Setup, admitted, config, store};

const LLM: &str = "limits:
  login: {policies: [gcra 1/h burst 2]}
  llm: {policies: [gcra 9/h as requests, gcra 900/h as tokens]}
";

fn uses() -> [Uses; 2] {
    [Uses::limit("login"), Uses::limit("llm").policies(["requests", "tokens"])]
}

fn lost(registry: &Registry, next: &Config) -> MissingNames {
    let generation = registry.generation();
    let error = registry.replace(next).unwrap_err();
    let ReloadError::Missing(missing) = &error else { panic!("{error}") };
    assert!(error.to_string().contains("so the old one stays in force: "), "{error}");
    assert_eq!(registry.generation(), generation, "nothing changed");
    missing.clone()
}

#[test]
fn a_program_is_told_of_all_missing_names_when_it_starts() {
    assert!(Registry::open_for(&config(LLM), uses()).is_ok());
    let other =
        config("limits: {lgoin: {policies: [gcra 1/h]}, llm: {policies: [gcra 9/h as token]}}");
    let error = Registry::open_for(&other, uses()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "limit `login` (did you mean `lgoin`?), policy `requests` of limit `llm` (it has token), \
         policy `tokens` of limit `llm` (did you mean `token`?): the program uses what the \
         configuration doesn't have; add it, or change the program"
    );
    // `main` may return it, and shows it as it is printed.
    assert_eq!(format!("{error:?}"), error.to_string());
    let missing = error.missing().unwrap();
    assert!(missing.limits().eq(["login"]));
    assert!(missing.policies().eq([("llm", "requests"), ("llm", "tokens")]));
    // In code too, where limits of the program and of a configuration add up.
    let builder = || Registry::builder(store().0).config(&config(LLM));
    let missing = builder().build_for(["login", "search"]).unwrap_err();
    assert!(missing.limits().eq(["search"]));
    let search = sluicegate::Limit::new("search", ["gcra 5/s"]).unwrap();
    assert!(builder().limit(search).build_for(["login", "search"]).is_ok());
    // A limit that is off is there.
    let off = config("limits: {login: {policies: [gcra 1/h], enabled: false}}");
    assert!(Registry::open_for(&off, ["login"]).is_ok());
}

#[test]
fn a_configuration_that_lacks_what_the_program_uses_is_refused_as_a_whole() {
    let registry = Registry::open_for(&config(LLM), uses()).unwrap();
    let gate = registry.gate("login");
    for (next, limits, policies) in [
        (
            "limits: {llm: {policies: [gcra 9/h as requests, gcra 9/h as tokens]}}",
            &["login"][..],
            &[][..],
        ),
        ("limits: {other: {policies: [gcra 9/h]}}", &["login", "llm"], &[]),
        (
            "limits: {login: {policies: [gcra 9/h]}, llm: {policies: [gcra 9/h as requests]}}",
            &[],
            &[("llm", "tokens")],
        ),
        // `unknown_limits: pass` doesn't replace names that the program required at its start.
        (
            "unknown_limits: pass\nlimits: {llm: {policies: [gcra 9/h as tokens]}}",
            &["login"],
            &[("llm", "requests")],
        ),
    ] {
        let missing = lost(&registry, &config(next));
        assert!(missing.limits().eq(limits.iter().copied()), "{next}: {missing}");
        assert!(missing.policies().eq(policies.iter().copied()), "{next}: {missing}");
    }
    assert_eq!(admitted(&gate, "k", 9), 2, "the old numbers are in force");
    let more = registry.replace(&config(&LLM.replace("burst 2", "burst 3"))).unwrap();
    assert_eq!(more.to_string(), "changed: login");
    assert_eq!(admitted(&gate, "k", 9), 1);
}

/// Names of middleware aren't listed: they are known when it is made.
#[test]
fn what_a_middleware_asks_is_not_taken_away() {
    let setup = Setup::new(LLM);
    let middleware = Middleware::new(setup.registry.gate("login"))
        .and(setup.registry.gate("llm"), fixed("all"))
        .unwrap();
    let missing = lost(&setup.registry, &config("limits: {llm: {policies: [gcra 9/h]}}"));
    assert!(missing.limits().eq(["login"]));
    let missing = lost(&setup.registry, &config("limits: {a: {policies: [gcra 9/h]}}"));
    assert!(missing.limits().eq(["login", "llm"]));
    let request = http::Request::get("/").extension(Peer(([192, 0, 2, 1], 80).into())).body(());
    let verdict = middleware.decide(&request.unwrap());
    assert!(matches!(verdict, Verdict::Admit(_)), "{verdict:?}");
    // The configuration may allow requests for limits that it lacks.
    let changes = setup.replace("unknown_limits: pass\nlimits: {a: {policies: [gcra 9/h]}}");
    assert_eq!(changes.removed.len(), 2);
}

/// A call site may be ahead of the configuration: then it can't lose anything.
#[test]
fn a_name_that_was_never_there_keeps_no_configuration_out() {
    let setup = Setup::new(LLM);
    let _middleware = Middleware::new(setup.registry.gate("search"));
    let next = format!("{LLM}  search: {{policies: [gcra 1/h]}}\n");
    assert_eq!(setup.replace(&LLM.replace("burst 2", "burst 3")).to_string(), "changed: login");
    assert_eq!(setup.replace(&next).added.len(), 1);
    assert!(lost(&setup.registry, &config(LLM)).limits().eq(["search"]));
    // A gate alone doesn't require its name, because names may come from anywhere.
    let _ = setup.registry.gate("login").check(Ask::new("k")).now();
    let changes = setup.replace("limits: {search: {policies: [gcra 1/h]}}");
    assert_eq!(changes.removed.len(), 2);
}
