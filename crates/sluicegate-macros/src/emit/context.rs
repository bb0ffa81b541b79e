//! What is known of the function when its code is written.

use proc_macro2::{Ident, TokenStream};
use quote::quote_spanned;

use crate::function::Arguments;
use crate::output::{Kind, Output};
use crate::stack::Stack;
use crate::syntax::here;

/// Where an attribute stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    Function,
    Impl,
}

/// What is known of the function.
pub(super) struct Context<'s> {
    pub(super) stack: &'s Stack,
    pub(super) arguments: Arguments,
    pub(super) output: Output,
    pub(super) place: Place,
    pub(super) private: TokenStream,
}

impl Context<'_> {
    pub(super) const fn is_async(&self) -> bool {
        matches!(self.output.kind, Kind::Async | Kind::Future)
    }

    /// `.await` in what can be awaited; otherwise the name of the method that blocks.
    pub(super) fn method(&self, name: &str) -> (Ident, TokenStream) {
        if self.is_async() {
            (Ident::new(name, here()), quote_spanned!(here()=> .await))
        } else {
            (Ident::new(&format!("{name}_blocking"), here()), TokenStream::new())
        }
    }
}
