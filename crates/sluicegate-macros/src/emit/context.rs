//! The function to limit, as all code generators see it.

use proc_macro2::{Ident, TokenStream};
use quote::quote_spanned;

use crate::function::Parameters;
use crate::output::{Asyncness, Output};
use crate::stack::Stack;
use crate::syntax::mixed_site;

/// The item that an attribute is on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    Function,
    ImplBlock,
}

/// The function to limit, and its limits.
pub(super) struct Context<'s> {
    pub(super) stack: &'s Stack,
    pub(super) parameters: Parameters,
    pub(super) output: Output,
    pub(super) target: Target,
    /// The path of `sluicegate::__private`.
    pub(super) private: TokenStream,
}

impl Context<'_> {
    pub(super) const fn is_async(&self) -> bool {
        matches!(self.output.asyncness, Asyncness::Async | Asyncness::Future)
    }

    /// Returns the name of a method of `__private` in this function, and the tokens after its call.
    /// That is the method itself and `.await` in an async function, and otherwise its `_blocking`
    /// variant and nothing.
    pub(super) fn method(&self, name: &str) -> (Ident, TokenStream) {
        if self.is_async() {
            (Ident::new(name, mixed_site()), quote_spanned!(mixed_site()=> .await))
        } else {
            (Ident::new(&format!("{name}_blocking"), mixed_site()), TokenStream::new())
        }
    }
}
