//! Costs and their terms.

use super::*;

fn limit() -> Limit {
    Limit::new("l", ["gcra 1/s burst 9 as a", "gcra 1/s burst 9 cost 2 as b"]).unwrap()
}

fn costs(ask: &Ask<'_>) -> Result<Vec<u64>, String> {
    let limit = limit();
    let mut each = SmallVec::new();
    let costs = ask.costs(&limit, &mut each).map_err(|error| {
        assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
        error.to_string()
    })?;
    Ok((0..2).map(|index| costs.of(&limit, index)).collect())
}

#[test]
fn a_cost_is_the_policy_s_own_or_the_request_s_or_the_one_by_name() {
    assert_eq!(costs(&Ask::new("k")), Ok(vec![1, 2]));
    assert_eq!(costs(&Ask::new("k").cost(7)), Ok(vec![7, 7]));
    assert_eq!(costs(&Ask::new("k").cost(7).cost_of("b", 3)), Ok(vec![7, 3]));
    assert_eq!(costs(&Ask::new("k").cost_of("b", 3).cost(7)), Ok(vec![7, 3]));
}

#[test]
fn a_policy_that_is_not_named_beside_others_costs_nothing() {
    assert_eq!(costs(&Ask::new("k").cost_of("a", 4)), Ok(vec![4, 0]));
    assert_eq!(costs(&Ask::new("k").cost_of("b", 4)), Ok(vec![0, 4]));
    assert_eq!(costs(&Ask::new("k").cost_of("a", 0)), Ok(vec![0, 0]));
    assert_eq!(costs(&Ask::nothing().cost_of("b", 4)), Ok(vec![0, 4]));
    assert_eq!(costs(&Ask::new("k").own_otherwise().cost_of("a", 4)), Ok(vec![4, 2]));
    assert_eq!(costs(&Ask::new("k").nothing_otherwise()), Ok(vec![0, 0]));
    assert!(!Ask::new("k").nothing_otherwise().has_nothing(), "it is asked");
}

#[test]
fn a_cost_out_of_range_or_of_an_unknown_policy_is_refused_with_what_to_write() {
    for (ask, expected) in [
        (Ask::new("k").cost(0), "from 1 to 9007199254740991"),
        (Ask::new("k").cost(1 << 53), "from 1 to 9007199254740991"),
        (Ask::new("k").cost(0).cost_of("a", 1), "from 1 to"),
        (Ask::new("k").cost_of("a", 1 << 53), "policy `a`"),
        (Ask::new("k").cost_of("c", 1), "are a, b"),
        (Ask::new("k").cost_of("a", 1).cost_of("a", 2), "twice"),
    ] {
        let message = costs(&ask).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn each_of_several_limits_has_its_own_terms() {
    let limit = Limit::together([
        limit(),
        Limit::new("m", ["gcra 1/s burst 9 as a", "gcra 1/s burst 9 cost 5 as c"]).unwrap(),
    ])
    .unwrap();
    let costs = |ask: Ask<'_>| {
        let mut each = SmallVec::new();
        let costs = ask.costs(&limit, &mut each).map_err(|error| error.to_string())?;
        Ok::<_, String>([0, 1, 2, 3].map(|index| costs.of(&limit, index)))
    };
    assert_eq!(costs(Ask::new("k").and("j")), Ok([1, 2, 1, 5]));
    assert_eq!(costs(Ask::new("k").cost(3).and("j")), Ok([3, 3, 1, 5]));
    let named = Ask::new("j").cost(4).cost_of("a", 0);
    assert_eq!(costs(Ask::new("k").cost_of("a", 7).and(named)), Ok([7, 0, 0, 4]));
    let message = costs(Ask::new("k").and(Ask::new("j").cost_of("b", 1))).unwrap_err();
    assert!(message.contains("limit `m` has no policy `b`: its policies are a, c"), "{message}");
}

#[test]
fn nothing_costs_nothing_of_any_policy() {
    assert_eq!(costs(&Ask::nothing()), Ok(vec![0, 0]));
    let limit = Limit::together([limit(), Limit::new("m", ["gcra 1/s cost 5"]).unwrap()]).unwrap();
    let ask = Ask::nothing().and("k");
    let mut each = SmallVec::new();
    let costs = ask.costs(&limit, &mut each).unwrap();
    assert_eq!([0, 1, 2].map(|index| costs.of(&limit, index)), [0, 0, 5]);
}
