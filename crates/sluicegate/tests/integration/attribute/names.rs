//! Checks that names in generated code don't conflict with a program's names.

#![allow(non_camel_case_types, non_upper_case_globals, dead_code)]

use sluicegate::error::StoreError;
use sluicegate::{Denied, Registry, limit};

use crate::attribute::support::{Setup, admitted, now};

/// Patterns of these names are the items, and no variables.
macro_rules! items {
    ($item:tt) => {
        items!($item: answer ask call cost denied error is_counted is_counted_0 is_skipped key);
        items!($item: key_0_0 key_0_0_cost_0 never open path peeked result settled site);
        items!($item: taken taken_0);
    };
    (unit: $($name:ident)*) => { $(struct $name;)* };
    (constant: $($name:ident)*) => { $(const $name: u8 = 0;)* };
    (statics: $($name:ident)*) => { $(static $name: u8 = 0;)* };
}

macro_rules! modules {
    ($($item:ident)*) => {$(
        mod $item {
            use super::*;

            items!($item);

            #[limit("gcra 1/h", key = "{id}:{id}", cost = u64::from(*id / *id), skip_if = *id == 0,
                    fallback(denied, args) = fall_back, on_error(args) = [handle, handle_later],
                    registry = limits)]
            #[limit("gcra 1/h", name = "trial", shadow)]
            pub(super) async fn asked(limits: &Registry, id: &u8) -> Result<u8, Denied> {
                Ok(*id)
            }

            #[limit("gcra 1/h", key = "{id}", charge_if = Result::is_ok,
                    denied = |reason| Err(reason), registry = limits)]
            #[limit("gcra 1/h", name = "trial", shadow)]
            pub(super) async fn charged_later(limits: &Registry, id: u8) -> Result<u8, Denied> {
                Ok(id)
            }

            #[limit("gcra 1/h", key = (id, method), charge_if = Result::is_ok, registry = limits)]
            #[limit("gcra 1/h", name = "trial", shadow)]
            pub(super) fn charged(limits: &Registry, id: u8) -> Result<u8, Denied> {
                Ok(id)
            }

            #[limit("gcra 1/h", key = (id, method), refund_if = Result::is_ok, registry = limits)]
            #[limit("gcra 1/h", name = "trial", shadow)]
            pub(super) fn refunded(limits: &Registry, id: u8) -> Result<u8, Denied> {
                Ok(id)
            }

            #[limit("gcra 1/h", key = "{id}", refund_if = Result::is_ok, registry = limits)]
            #[limit("gcra 1/h", name = "trial", shadow)]
            pub(super) async fn refunded_later(limits: &Registry, id: u8) -> Result<u8, Denied> {
                Ok(id)
            }

            async fn fall_back(reason: Denied, _: &Registry, _: &u8) -> Result<u8, Denied> {
                Err(reason)
            }

            fn handle(_: &StoreError, _: &&Registry, _: &&u8) -> Option<Result<u8, Denied>> {
                None
            }

            async fn handle_later(
                _: &StoreError,
                _: &&Registry,
                _: &&u8,
            ) -> Option<Result<u8, Denied>> {
                None
            }
        }
    )*};
}

modules!(unit constant statics);

#[test]
fn items_of_a_module_may_have_any_name() {
    macro_rules! check {
        ($($module:ident)*) => {$(
            let setup = Setup::empty();
            assert_eq!(admitted(3, || now($module::asked(&setup.limits, &7))), 1);
            assert_eq!(admitted(3, || now($module::charged_later(&setup.limits, 7))), 1);
            assert_eq!(admitted(3, || $module::charged(&setup.limits, 7)), 1);
        )*};
    }
    check!(unit constant statics);
}

#[test]
fn items_of_a_limited_body_may_have_any_name() {
    #[limit("gcra 1/h", name = "items", key = "{id}", skip_if = id == 0, registry = limits)]
    fn items(limits: &Registry, id: u8) -> Result<u8, Denied> {
        items!(constant);
        Ok(id + ask + denied + settled)
    }
    #[limit("gcra 1/h", name = "later", charge_if = Result::is_ok, registry = limits)]
    async fn later(limits: &Registry, id: u8) -> Result<u8, Denied> {
        items!(constant);
        Ok(id + never + result)
    }
    let setup = Setup::empty();
    assert_eq!(admitted(3, || items(&setup.limits, 7)), 1);
    assert_eq!(admitted(3, || now(later(&setup.limits, 7))), 1);
}
