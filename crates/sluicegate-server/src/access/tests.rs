//! Tests the table of the module: which caller may make which call.

use std::fs;

use sluicegate::Config;
use tempfile::TempDir;

use super::*;
use crate::serving::ClientCertificate;

const CALLS: [Call; 6] =
    [Call::Take, Call::Hold, Call::Peek, Call::ListLimits, Call::Inspect, Call::Administer];

const CLIENTS: &str = "
clients:
  - {name: checks, token_file: FOLDER/checks, may: [check], limits: [shop-*, other]}
  - {name: holds, token_file: FOLDER/holds, may: [hold]}
  - {name: reads, token_file: FOLDER/reads, may: [read], limits: [shop-?]}
  - {name: both, token_file: FOLDER/both, may: [check, read]}
  - {name: boss, certificate: boss.internal, may: [admin], limits: [shop-*]}
";

struct Setup {
    folder: TempDir,
    registry: Registry,
    access: Access,
}

impl Setup {
    /// Starts with these clients, whose tokens are their names with `-token`.
    fn new(clients: &str, admin: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["checks", "holds", "reads", "both"] {
            fs::write(folder.path().join(name), format!("{name}-token\n")).unwrap();
        }
        let registry = Registry::open(&Config::default()).unwrap();
        let access = Access::new(Tokens::new(admin).unwrap(), registry.clone());
        let setup = Self { folder, registry, access };
        setup.configure(clients);
        setup
    }

    fn configure(&self, clients: &str) {
        let clients = clients.replace("FOLDER", &self.folder.path().display().to_string());
        let text = format!("{}\n{clients}", Config::DEMO);
        self.registry.replace(&Config::parse(&text, "limits.yaml").unwrap()).unwrap();
    }

    fn with(
        &self,
        token: Option<&str>,
        certificate: &[&str],
        call: Call,
    ) -> Result<Caller, Refusal> {
        let names = certificate.iter().map(ToString::to_string).collect::<Vec<_>>().into();
        let certificate = ClientCertificate { names };
        let presented = Presented {
            token: token.map_or(PresentedToken::None, |it| PresentedToken::One(it.as_bytes())),
            certificate: Some(&certificate).filter(|it| !it.names.is_empty()),
            is_local: &|| Ok(()),
        };
        self.access.admit(&presented, call)
    }

    /// Returns the calls that a token may make.
    fn calls(&self, token: Option<&str>) -> Vec<Call> {
        CALLS.into_iter().filter(|call| self.with(token, &[], *call).is_ok()).collect()
    }

    fn kind(&self, token: Option<&str>, certificate: &[&str]) -> Option<RefusalKind> {
        self.with(token, certificate, Call::Take).err().map(|refusal| refusal.kind)
    }
}

#[test]
fn without_clients_all_programs_check_and_administrators_are_local_or_have_the_token() {
    let local = Setup::new("", None);
    assert_eq!(local.calls(None), CALLS, "from this machine");
    assert_eq!(local.calls(Some("any")), CALLS, "a token that nothing asks for");
    assert!(local.access.is_open());
    let elsewhere = Presented {
        token: PresentedToken::None,
        certificate: None,
        is_local: &|| Err("it is far away".to_owned()),
    };
    for call in CALLS {
        let admitted = local.access.admit(&elsewhere, call);
        assert_eq!(admitted.is_ok(), !call.is_administrative(), "{call:?}");
        let refusal = admitted.err();
        assert!(refusal.is_none_or(|it| it.kind == RefusalKind::Forbidden), "{call:?}");
    }
    let open = [Call::Take, Call::Hold, Call::Peek, Call::ListLimits];
    let guarded = Setup::new("", Some("s3cret"));
    assert_eq!(guarded.calls(Some("s3cret")), CALLS);
    for wrong in [None, Some(""), Some("s3cre"), Some("s3cret2"), Some("S3CRET")] {
        assert_eq!(guarded.calls(wrong), open, "{wrong:?}");
    }
    assert!(!guarded.access.is_open());
    let refusal = guarded.with(None, &[], Call::Administer).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Missing);
    let refusal = guarded.with(Some("x"), &[], Call::Administer).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Wrong);
}

#[test]
fn a_client_makes_the_calls_of_its_rights() {
    let setup = Setup::new(CLIENTS, Some("s3cret"));
    let take_and_peek = vec![Call::Take, Call::Peek];
    let reading = vec![Call::Peek, Call::ListLimits, Call::Inspect];
    assert_eq!(setup.calls(Some("checks-token")), take_and_peek);
    assert_eq!(setup.calls(Some("holds-token")), [Call::Take, Call::Hold, Call::Peek]);
    assert_eq!(setup.calls(Some("reads-token")), reading);
    let both = [Call::Take, Call::Peek, Call::ListLimits, Call::Inspect];
    assert_eq!(setup.calls(Some("both-token")), both);
    assert_eq!(setup.calls(Some("s3cret")), CALLS);
    assert_eq!(setup.calls(None), []);
    for wrong in ["", "checks-token2", "checks", "checks-token\n", "\0", "boss.internal"] {
        assert_eq!(setup.calls(Some(wrong)), [], "{wrong:?}");
    }
    assert!(!setup.access.is_open());
}

#[test]
fn a_token_wins_over_a_certificate() {
    let setup = Setup::new(CLIENTS, None);
    let boss = setup.with(None, &["other", "boss.internal"], Call::Administer).unwrap();
    assert_eq!(boss.name().as_deref(), Some("boss"));
    assert_eq!(setup.kind(None, &["other"]), Some(RefusalKind::Wrong));
    assert_eq!(setup.kind(None, &[]), Some(RefusalKind::Missing));
    assert_eq!(setup.kind(Some("wrong"), &["boss.internal"]), Some(RefusalKind::Wrong));
    let checks = setup.with(Some("checks-token"), &["boss.internal"], Call::Take).unwrap();
    assert_eq!(checks.name().as_deref(), Some("checks"));
    let presented = Presented {
        token: PresentedToken::Malformed("twice"),
        certificate: Some(&ClientCertificate { names: ["boss.internal".to_owned()].into() }),
        is_local: &|| Ok(()),
    };
    assert_eq!(setup.access.admit(&presented, Call::Take).unwrap_err().kind, RefusalKind::Wrong);
}

#[test]
fn a_client_uses_the_limits_that_its_patterns_match() {
    let setup = Setup::new(CLIENTS, Some("s3cret"));
    let caller = |token| setup.with(Some(token), &[], Call::Peek).unwrap();
    let checks = caller("checks-token");
    for (limit, is_own) in
        [("shop-a", true), ("other", true), ("shop", false), ("others", false), ("", false)]
    {
        assert_eq!(checks.may(Call::Take, limit).is_ok(), is_own, "{limit}");
        assert_eq!(checks.covers(limit), is_own, "{limit}");
    }
    assert!(checks.may(Call::Hold, "shop-a").is_err(), "a right that it lacks");
    let refusal = checks.may(Call::Take, "\u{1b}[2J").unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Forbidden);
    assert!(!refusal.message.contains('\u{1b}'), "{}", refusal.message);
    assert!(caller("holds-token").may(Call::Hold, "anything").is_ok());
    let boss = setup.with(None, &["boss.internal"], Call::Administer).unwrap();
    assert!(boss.may(Call::Administer, "shop-a").is_ok());
    assert!(boss.may(Call::Administer, "other").is_err());
    let admin = caller("s3cret");
    assert_eq!(admin.name().as_deref(), Some("admin"));
    assert!(admin.may(Call::Administer, "other").is_ok());
    assert!(Caller::Anyone.may(Call::Administer, "other").is_err(), "it was admitted for less");
}

#[test]
fn clients_follow_the_configuration_and_continue_their_counts() {
    let setup = Setup::new(CLIENTS, None);
    assert_eq!(setup.calls(Some("checks-token")).len(), 2);
    let requests = || {
        let clients = setup.access.clients();
        let checks = clients.iter().find(|client| client.name() == "checks").unwrap();
        (checks.counts().requests(), checks.counts().refusals(RefusalKind::Forbidden))
    };
    assert_eq!(requests(), (6, 4));
    fs::write(setup.folder.path().join("checks"), "new-token checks-token").unwrap();
    setup.configure(CLIENTS);
    assert_eq!(setup.kind(Some("new-token"), &[]), None);
    assert_eq!(setup.kind(Some("checks-token"), &[]), None, "both are valid");
    fs::write(setup.folder.path().join("checks"), "new-token").unwrap();
    setup.configure(CLIENTS);
    assert_eq!(setup.kind(Some("checks-token"), &[]), Some(RefusalKind::Wrong));
    assert_eq!(requests(), (8, 4));
    setup.configure("");
    assert_eq!(setup.kind(None, &[]), None, "there are no clients any more");
}

#[test]
fn no_text_has_a_token() {
    let setup = Setup::new(CLIENTS, Some("s3cret"));
    let caller = setup.with(Some("checks-token"), &[], Call::Take).unwrap();
    let refusal = setup.with(Some("checks-tokenx"), &[], Call::Take).unwrap_err();
    let presented = PresentedToken::One(b"checks-token");
    let texts = [
        format!("{:?}", setup.access),
        format!("{:?}", setup.access.tokens),
        format!("{caller:?}"),
        format!("{refusal:?}"),
        format!("{presented:?}"),
        format!("{:?}", setup.registry.clients()),
    ];
    for text in texts {
        assert!(!text.contains("-token") && !text.contains("s3cret"), "{text}");
    }
}

#[tokio::test]
async fn a_decision_knows_its_caller() {
    let setup = Setup::new(CLIENTS, None);
    let caller = setup.with(Some("checks-token"), &[], Call::Take).unwrap();
    let seen = caller.deciding(async { Caller::name_in_decision() }).await;
    assert_eq!(seen.as_deref(), Some("checks"));
    assert_eq!(Caller::name_in_decision(), None);
    assert_eq!(Caller::Anyone.deciding(async { Caller::name_in_decision() }).await, None);
}
