//! Methods of traits: implementations, whole blocks, default methods, async ones.

use async_trait::async_trait;
use sluicegate::{Denied, Registry, limit};

use crate::attribute::support::{Setup, admitted, now};

trait Mail {
    fn send(&self, to: &str) -> Result<(), Denied>;
    fn limits(&self) -> &Registry;

    #[limit("gcra 1/h burst 2", name = "default", key = "k", registry = self.limits())]
    fn by_default(&self) -> Result<(), Denied> {
        Ok(())
    }
}

struct Smtp(Registry);
struct Sms(Registry);

impl Mail for Smtp {
    #[limit("gcra 1/h", name = "send", key = "{to}", registry = self.0)]
    fn send(&self, to: &str) -> Result<(), Denied> {
        Ok(())
    }

    fn limits(&self) -> &Registry {
        &self.0
    }
}

#[limit("gcra 1/h burst 3", registry = self.0)]
impl Mail for Sms {
    fn send(&self, _: &str) -> Result<(), Denied> {
        Ok(())
    }

    #[limit(skip)]
    fn limits(&self) -> &Registry {
        &self.0
    }
}

#[test]
fn methods_of_trait_implementations_are_limited() {
    let setup = Setup::empty();
    let smtp = Smtp(setup.limits.clone());
    let mail: &dyn Mail = &smtp;
    assert_eq!(admitted(3, || mail.send("alice")), 1);
    assert_eq!(admitted(3, || mail.send("bob")), 1);
}

#[test]
fn a_block_of_a_trait_implementation_is_limited() {
    let setup = Setup::empty();
    let sms = Sms(setup.limits.clone());
    assert_eq!(admitted(5, || sms.send("alice")), 3);
    assert!(sms.limits().limits().len() == 1);
}

#[test]
fn a_default_method_is_limited_for_all_that_have_it() {
    let setup = Setup::empty();
    let (smtp, sms) = (Smtp(setup.limits.clone()), Sms(setup.limits.clone()));
    assert_eq!(admitted(1, || smtp.by_default()), 1);
    assert_eq!(admitted(3, || sms.by_default()), 1);
}

/// Traits whose methods are async by themselves.
trait Fetch {
    async fn fetch(&self, page: &str) -> Result<String, Denied>;
    fn fetch_boxed(&self, page: String) -> impl Future<Output = Result<String, Denied>> + Send;
}

struct Web(Registry);

impl Fetch for Web {
    #[limit("gcra 1/h", name = "native", key = "{page}", registry = self.0)]
    async fn fetch(&self, page: &str) -> Result<String, Denied> {
        tokio::task::yield_now().await;
        Ok(page.to_owned())
    }

    #[limit("gcra 1/h", name = "future", key = "{page}", registry = self.0)]
    async fn fetch_boxed(&self, page: String) -> Result<String, Denied> {
        tokio::task::yield_now().await;
        Ok(page)
    }
}

#[tokio::test]
async fn async_methods_of_traits_are_limited() {
    let setup = Setup::empty();
    let web = Web(setup.limits.clone());
    assert_eq!(web.fetch("a").await.unwrap(), "a");
    assert!(web.fetch("a").await.is_err());
    assert_eq!(web.fetch_boxed("a".to_owned()).await.unwrap(), "a");
    assert!(web.fetch_boxed("a".to_owned()).await.is_err());
}

#[async_trait]
trait Bank {
    async fn pay(&self, amount: u64, to: String) -> Result<u64, Denied>;
    async fn refund(&mut self, amount: u64) -> Result<u64, Denied>;
    async fn balance(&self) -> u64;
}

struct Account {
    id: u8,
    paid: u64,
    limits: Registry,
}

/// The attribute on methods gets the output of the other one.
#[async_trait]
impl Bank for Account {
    #[limit("gcra 1/h burst 10", name = "pay", key = "{self.id}:{to}", cost = amount, registry = self.limits)]
    async fn pay(&self, amount: u64, to: String) -> Result<u64, Denied> {
        tokio::task::yield_now().await;
        drop(to);
        Ok(self.paid + amount)
    }

    #[limit("gcra 1/h", name = "refund", key = "{self.id}", charge_if = |left| matches!(left, Ok(0)), registry = self.limits)]
    async fn refund(&mut self, amount: u64) -> Result<u64, Denied> {
        tokio::task::yield_now().await;
        self.paid -= amount;
        Ok(self.paid)
    }

    #[limit("gcra 1/h", fallback(args) = Self::unknown, registry = self.limits)]
    async fn balance(&self) -> u64 {
        self.paid
    }
}

impl Account {
    async fn unknown(&self) -> u64 {
        u64::MAX
    }
}

#[tokio::test]
async fn methods_of_async_trait_implementations_are_limited() {
    let setup = Setup::empty();
    let mut account = Account { id: 7, paid: 20, limits: setup.limits.clone() };
    assert_eq!(account.pay(6, "bob".to_owned()).await.unwrap(), 26);
    assert!(account.pay(6, "bob".to_owned()).await.is_err());
    assert_eq!(account.pay(4, "bob".to_owned()).await.unwrap(), 24);
    assert_eq!(setup.left("pay", "7:bob"), 0);
    assert_eq!(account.refund(15).await.unwrap(), 5);
    assert_eq!(account.refund(5).await.unwrap(), 0);
    assert!(account.refund(0).await.is_err());
    let bank: &dyn Bank = &account;
    assert_eq!([bank.balance().await, bank.balance().await], [0, u64::MAX]);
}

struct Ledger(Registry);

/// Here the other attribute gets the output of this one, and above the other way round.
#[limit("gcra 1/h", name = "before", registry = self.0)]
#[async_trait]
impl Bank for Ledger {
    async fn pay(&self, amount: u64, _: String) -> Result<u64, Denied> {
        tokio::task::yield_now().await;
        Ok(amount)
    }

    async fn refund(&mut self, amount: u64) -> Result<u64, Denied> {
        Ok(amount)
    }

    #[limit(skip)]
    async fn balance(&self) -> u64 {
        0
    }
}

struct Vault(Registry);

#[async_trait]
#[limit("gcra 1/h", name = "after", registry = self.0)]
impl Bank for Vault {
    async fn pay(&self, amount: u64, _: String) -> Result<u64, Denied> {
        tokio::task::yield_now().await;
        Ok(amount)
    }

    async fn refund(&mut self, amount: u64) -> Result<u64, Denied> {
        Ok(amount)
    }

    #[limit(skip)]
    async fn balance(&self) -> u64 {
        0
    }
}

#[test]
fn blocks_of_async_trait_implementations_are_limited_in_either_order() {
    let setup = Setup::empty();
    let banks: [&mut dyn Bank; 2] =
        [&mut Ledger(setup.limits.clone()), &mut Vault(setup.limits.clone())];
    for bank in banks {
        assert_eq!(now(bank.refund(3)).unwrap(), 3);
        assert!(now(bank.refund(3)).is_err());
        assert_eq!([now(bank.balance()), now(bank.balance())], [0, 0]);
    }
}
