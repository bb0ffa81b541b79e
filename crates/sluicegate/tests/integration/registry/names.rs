use std::convert::Infallible;

use sluicegate::config::Switch;
use sluicegate::{Ask, Gate};

use crate::registry::support::Setup;

const LIMITS: &str = "limits:
  a:
    policies: [gcra 1/h burst 999, fixed_window 999/h as hour]
    allow: [free]
    overrides: [{key: vip, times: 2}]
  b:
    policies: [gcra 1/h burst 999]
    allow: [free]
  c:
    policies: [fixed_window 999/h as hour, fixed_window 999/d as day]
    allow: [free]
";
const NAMES: [(&str, &[&str]); 3] =
    [("a", &["a/gcra", "a/hour"]), ("b", &["b/gcra"]), ("c", &["c/hour", "day"])];

/// Returns the names of the policies that a client gets.
fn told(gate: &Gate, ask: Ask<'_>) -> Vec<String> {
    let decision = gate.check(ask).now().unwrap();
    let fields = gate.fields(&decision);
    let pairs = fields.map(|fields| fields.of(&decision).pairs()).unwrap_or_default();
    let policies = pairs.into_iter().find(|(name, _)| *name == "ratelimit-policy");
    let policies = policies.map(|(_, policies)| policies).unwrap_or_default();
    let names = policies.split(", ").filter_map(|item| item.split('"').nth(1));
    names.map(str::to_owned).collect()
}

/// Returns one gate of names, and one of limits given in code.
fn gates(setup: &Setup) -> [Gate; 2] {
    let limits = &setup.registry;
    let plan =
        async |_: String| Ok::<_, Infallible>(["gcra 1/h burst 99", "fixed_window 99/h as hour"]);
    let keyed = limits.keyed("a", plan).get("k").blocking().unwrap();
    let given = sluicegate::Limit::new("c", ["gcra 5/s"]).unwrap();
    let join =
        |a: Gate, c: Gate| a.and(limits.gate("b")).and_then(|gate| gate.and(c)).expect("one store");
    [join(limits.gate("a"), limits.gate("c")), join(keyed, limits.inline(given))]
}

/// Leaves out any of three limits from a decision, in every combination. That changes no policy name of the other
/// limits.
#[test]
fn a_policy_has_one_name_whichever_of_the_limits_answer() {
    for left_out in 0..7_u32 {
        let is_out = |index: usize| left_out & (1 << index) != 0;
        let limits = || NAMES.into_iter().enumerate();
        let wanted: Vec<&str> = limits()
            .filter(|(index, _)| !is_out(*index))
            .flat_map(|(_, (_, names))| names.iter().copied())
            .collect();
        let ask = |make: fn(bool) -> Ask<'static>| {
            make(is_out(0)).and(make(is_out(1))).and(make(is_out(2)))
        };
        let off = limits().filter(|(index, _)| is_out(*index)).map(|(_, (name, _))| name);
        let setup = Setup::new(LIMITS);
        for gate in gates(&setup) {
            let free = |is_out| Ask::new(if is_out { "free" } else { "k" });
            assert_eq!(told(&gate, ask(free)), wanted, "on allow lists");
            let nothing = |is_out| if is_out { Ask::nothing() } else { Ask::new("vip") };
            assert_eq!(told(&gate, ask(nothing)), wanted, "not asked");
            for then in [Switch::Off, Switch::On] {
                for name in off.clone() {
                    assert!(setup.registry.switch_limit(name, then).is_some());
                }
                if then == Switch::Off {
                    assert_eq!(told(&gate, ask(|_| Ask::new("k"))), wanted, "switched off");
                }
            }
        }
        let text = off.fold(LIMITS.to_owned(), |text, name| {
            text.replace(&format!("  {name}:\n"), &format!("  {name}:\n    enabled: false\n"))
        });
        for gate in gates(&Setup::new(&text)) {
            assert_eq!(told(&gate, ask(|_| Ask::new("k"))), wanted, "off in the file");
        }
    }
}
