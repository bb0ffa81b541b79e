//! What all generators of code know about the function.

use proc_macro2::{Ident, TokenStream};
use quote::quote_spanned;

use crate::function::Parameters;
use crate::output::{Asyncness, Output};
use crate::stack::Stack;
use crate::syntax::mixed_site;

/// What the attribute is on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    Function,
    ImplBlock,
}

/// The function to limit, and how.
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

    /// A method of `__private` by the name it has here: itself and `.await` in an async function,
    /// its `_blocking` variant and nothing otherwise.
    pub(super) fn method(&self, name: &str) -> (Ident, TokenStream) {
        if self.is_async() {
            (Ident::new(name, mixed_site()), quote_spanned!(mixed_site()=> .await))
        } else {
            (Ident::new(&format!("{name}_blocking"), mixed_site()), TokenStream::new())
        }
    }
}
