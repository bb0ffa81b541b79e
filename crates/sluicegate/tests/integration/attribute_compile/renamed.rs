//! The crate under another name, behind a module of the program, in a module that redefines names of the standard
//! library.

#![deny(warnings)]
#![allow(unreachable_pub, reason = "a test has no public API")]

mod shop {
    pub mod limits {
        pub use ::sluicegate::*;
    }
}

pub(crate) use shop::limits::limit as at_most;

#[allow(dead_code, non_camel_case_types)]
mod names_that_shadow {
    pub struct Option;
    pub struct Some;
    pub struct None;
    pub struct Result;
    pub struct Ok;
    pub struct Err;
    pub mod core {}
    pub mod std {}
    pub mod sluicegate {}
}

mod shadowed {
    #[allow(unused_imports)]
    use super::names_that_shadow::*;

    #[super::at_most("gcra 1/h", key = "{id}", cost = 1, crate = super::shop::limits)]
    pub fn find(id: u8) -> ::core::result::Result<u8, super::shop::limits::Denied> {
        ::core::result::Result::Ok(id)
    }
}

#[test]
fn the_crate_may_have_another_name_and_names_of_the_prelude_another_meaning() {
    assert_eq!(shadowed::find(7).unwrap(), 7);
    assert!(shadowed::find(7).is_err());
}
