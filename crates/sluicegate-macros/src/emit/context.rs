//! What is known of the function when its code is written.

use proc_macro2::{Ident, TokenStream};
use quote::quote_spanned;

use crate::function::Parameters;
use crate::output::{Asyncness, Output};
use crate::stack::Stack;
use crate::syntax::mixed_site;

/// Where an attribute stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    Function,
    ImplBlock,
}

/// What is known of the function.
pub(super) struct Context<'s> {
    pub(super) stack: &'s Stack,
    pub(super) parameters: Parameters,
    pub(super) output: Output,
    pub(super) target: Target,
    pub(super) private: TokenStream,
}

impl Context<'_> {
    pub(super) const fn is_async(&self) -> bool {
        matches!(self.output.asyncness, Asyncness::Async | Asyncness::Future)
    }

    /// `.await` in what can be awaited; otherwise the name of the method that blocks.
    pub(super) fn method(&self, name: &str) -> (Ident, TokenStream) {
        if self.is_async() {
            (Ident::new(name, mixed_site()), quote_spanned!(mixed_site()=> .await))
        } else {
            (Ident::new(&format!("{name}_blocking"), mixed_site()), TokenStream::new())
        }
    }
}
