//! Requests in JSON.

use serde_json::{Value, json};

use crate::running::Running;

async fn start() -> Running {
    let file = "\
domain: shop
descriptors:
  - {key: plan, value: gold, rate_limit: {unit: minute, requests_per_unit: 2, name: basic}}
";
    Running::embedded(&json!({"files": {"shop.yaml": file}})).await
}

#[tokio::test]
async fn a_request_in_json_is_answered_in_json() {
    let service = start().await;
    let ask = async |request: &str| {
        let answer = service.limits.answer_json(request.as_bytes()).await;
        (answer.status, answer.body)
    };
    let gold = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"plan","value":"gold"}]}]}"#;
    let (status, body) = ask(gold).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    let reset = body["statuses"][0]["durationUntilReset"].clone();
    assert_eq!(
        (status, body),
        (
            200,
            json!({"overallCode": "OK", "statuses": [{
                "code": "OK",
                "currentLimit": {"name": "basic", "requestsPerUnit": 2, "unit": "MINUTE"},
                "limitRemaining": 1,
                "durationUntilReset": reset,
            }]})
        )
    );
    assert!(reset.as_str().is_some_and(|it| it.ends_with('s')));
    // Names in both forms, numbers in quotes, and null.
    let (status, body) = ask(r#"{"domain":"shop","hits_addend":null,"descriptors":[{"limit":null,
            "hitsAddend":"2","entries":[{"key":"plan","value":"gold"}]}]}"#)
    .await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["overallCode"]), (429, &"OVER_LIMIT".into()));
    assert_eq!(body["statuses"][0].get("limitRemaining"), None, "zeros are left out");
    let own = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"x"}],
        "limit":{"requests_per_unit":7,"unit":"HOUR"}}]}"#;
    let (status, body) = ask(own).await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains(r#""limitRemaining":6"#), "{body}");
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_a_mistake_of_its_client() {
    let service = start().await;
    for request in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"domain":"shop"}"#,
        r#"{"domain":"shop","descriptors":[],"more":1}"#,
        r#"{"domain":"","descriptors":[{}]}"#,
        r#"{"domain":"shop","descriptors":[{"hitsAddend":-1}]}"#,
        r#"{"domain":"shop","descriptors":[{"hitsAddend":"1x"}]}"#,
        r#"{"domain":"shop","descriptors":[{}],"hitsAddend":4294967296}"#,
        r#"{"domain":"shop","descriptors":[{"limit":{"unit":"FORTNIGHT"}}]}"#,
        r#"{"domain":"shop","descriptors":[{"limit":{"unit":99}}]}"#,
    ] {
        let answer = service.limits.answer_json(request.as_bytes()).await;
        assert_eq!(answer.status, 400, "{request}: {}", answer.body);
    }
}
