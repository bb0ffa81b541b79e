//! The signature of the limited function.

use proc_macro2::Span;
use syn::{Error, Expr, FnArg, Ident, ImplItemFn, Pat, Signature};

/// The parameters of a function, by name.
pub(crate) struct Parameters {
    function: Ident,
    names: Vec<Ident>,
    receiver: Option<Ident>,
    /// The span of the first parameter that is a pattern instead of a name.
    unnamed: Option<Span>,
}

impl Parameters {
    pub(crate) fn of(signature: &Signature) -> Self {
        let mut parameters = Self {
            function: signature.ident.clone(),
            names: Vec::new(),
            receiver: None,
            unnamed: None,
        };
        for argument in &signature.inputs {
            match argument {
                FnArg::Receiver(receiver) => {
                    let this = receiver.self_token.span;
                    parameters.receiver = Some(Ident::new("self", this));
                }
                FnArg::Typed(typed) => parameters.add(&typed.pat),
            }
        }
        parameters
    }

    fn add(&mut self, pattern: &Pat) {
        if let Pat::Ident(pattern) = pattern
            && pattern.subpat.is_none()
            && pattern.by_ref.is_none()
        {
            self.names.push(pattern.ident.clone());
            return;
        }
        self.unnamed.get_or_insert(syn::spanned::Spanned::span(pattern));
        bindings(pattern, &mut self.names);
    }

    pub(crate) const fn function(&self) -> &Ident {
        &self.function
    }

    /// Returns whether a parameter has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Returns the names of all parameters in order, to pass on as arguments. `option` is the option
    /// that needs them.
    ///
    /// # Errors
    /// Returns an error if a parameter has no name.
    pub(crate) fn to_pass(&self, option: &Ident) -> Result<Vec<&Ident>, Error> {
        match self.unnamed {
            Some(span) => Err(Error::new(
                span,
                format!(
                    "`{option}(args)` passes this argument on: give it a name, and destructure it inside `{}`",
                    self.function
                ),
            )),
            None => Ok(self.names.iter().collect()),
        }
    }

    pub(crate) const fn receiver(&self) -> Option<&Ident> {
        self.receiver.as_ref()
    }

    /// Checks that the variable an expression begins with is a parameter or a constant.
    pub(crate) fn check_root(&self, expression: &Expr) -> Result<(), String> {
        let Some(root) = root_variable(expression) else {
            return Ok(());
        };
        if root == "self" {
            return match self.receiver {
                Some(_) => Ok(()),
                None => Err(format!("`{}` has no `self`", self.function)),
            };
        }
        let is_constant = root.to_string().starts_with(|first: char| first.is_uppercase());
        if is_constant || self.has(&root.to_string()) {
            return Ok(());
        }
        let names: Vec<_> =
            self.receiver.iter().chain(&self.names).map(|name| format!("`{name}`")).collect();
        Err(match names.as_slice() {
            [] => format!("`{}` has no arguments", self.function),
            names => {
                format!(
                    "`{}` has no argument `{root}`: write one of {}",
                    self.function,
                    names.join(", ")
                )
            }
        })
    }
}

/// Returns the variable that an expression begins with.
fn root_variable(expression: &Expr) -> Option<&Ident> {
    match expression {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Field(field) => root_variable(&field.base),
        Expr::MethodCall(call) => root_variable(&call.receiver),
        Expr::Index(index) => root_variable(&index.expr),
        Expr::Group(inner) => root_variable(&inner.expr),
        Expr::Paren(inner) => root_variable(&inner.expr),
        Expr::Reference(inner) => root_variable(&inner.expr),
        Expr::Unary(inner) => root_variable(&inner.expr),
        _ => None,
    }
}

/// Returns the names that a pattern binds.
fn bindings(pattern: &Pat, names: &mut Vec<Ident>) {
    let mut all = |patterns: &mut dyn Iterator<Item = &Pat>| {
        for pattern in patterns {
            bindings(pattern, names);
        }
    };
    match pattern {
        Pat::Ident(binding) => {
            if let Some((_, inner)) = &binding.subpat {
                all(&mut std::iter::once(inner.as_ref()));
            }
            names.push(binding.ident.clone());
        }
        Pat::Tuple(tuple) => all(&mut tuple.elems.iter()),
        Pat::TupleStruct(tuple) => all(&mut tuple.elems.iter()),
        Pat::Struct(structure) => all(&mut structure.fields.iter().map(|field| &*field.pat)),
        Pat::Slice(slice) => all(&mut slice.elems.iter()),
        Pat::Reference(reference) => all(&mut std::iter::once(&*reference.pat)),
        Pat::Paren(inner) => all(&mut std::iter::once(&*inner.pat)),
        Pat::Type(typed) => all(&mut std::iter::once(&*typed.pat)),
        _ => {}
    }
}

/// Rejects functions that the attribute can't limit.
pub(crate) fn check_function(function: &ImplItemFn) -> Result<(), Error> {
    if let Some(constness) = &function.sig.constness {
        return Err(Error::new(
            constness.span,
            format!(
                "`{}` is a `const fn`, which can't ask a limit at compile time: remove `const` or the attribute",
                function.sig.ident
            ),
        ));
    }
    if let Some(variadic) = &function.sig.variadic {
        return Err(Error::new_spanned(
            variadic,
            "a variadic function can't be limited: remove the attribute",
        ));
    }
    Ok(())
}
