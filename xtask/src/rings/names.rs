//! The names that a file defines, imports and uses.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

/// A path, segment by segment.
pub(super) type Names = Vec<String>;

/// A name that a `use` line imports; `*` for all names of a module.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) name: String,
    pub(super) path: Names,
    /// Whether other modules can name it by this module.
    pub(super) is_public: bool,
}

/// Returns whether an item exists in tests alone.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<TokenStream>().is_ok_and(needs_test)
    })
}

/// Returns whether a condition is `test`, or `all` of that and others.
fn needs_test(condition: TokenStream) -> bool {
    let mut tokens = condition.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(ident)), None) => ident == "test",
        (Some(TokenTree::Ident(ident)), Some(TokenTree::Group(group))) if ident == "all" => {
            group.stream().into_iter().next().is_some_and(|first| needs_test(first.into()))
        }
        _ => false,
    }
}

/// Returns the name that an item defines.
pub(super) fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Returns the attributes of an item.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns the imports of a `use` line.
pub(super) fn imports(item: &ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    let is_public = !matches!(item.vis, syn::Visibility::Inherited);
    collect(&item.tree, &mut Vec::new(), is_public, &mut found);
    found
}

fn collect(tree: &UseTree, before: &mut Names, is_public: bool, found: &mut Vec<Import>) {
    let mut add = |name: String, last: Option<String>| {
        let path = before.iter().cloned().chain(last).collect();
        found.push(Import { name, path, is_public });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            collect(&path.tree, before, is_public, found);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            add(before.last().cloned().unwrap_or_default(), None);
        }
        UseTree::Name(name) => add(name.ident.to_string(), Some(name.ident.to_string())),
        UseTree::Rename(rename) if rename.ident == "self" => add(rename.rename.to_string(), None),
        UseTree::Rename(rename) => {
            add(rename.rename.to_string(), Some(rename.ident.to_string()));
        }
        UseTree::Glob(_) => add("*".to_owned(), None),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| collect(tree, before, is_public, found));
        }
    }
}

/// Collects the paths of code, and the `use` lines within functions.
#[derive(Default)]
pub(super) struct Paths {
    pub(super) found: Vec<Names>,
    pub(super) imports: Vec<Import>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {
        // An inner module has names of its own.
    }

    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.imports.extend(imports(item));
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // The path in `pub(in path)` says who may use the item.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string());
        self.found.push(names.collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invoked: &'ast syn::Macro) {
        visit::visit_macro(self, invoked);
        self.visit_tokens(invoked.tokens.clone());
    }
}

impl Paths {
    /// Adds everything that looks like a path in the input of a macro.
    fn visit_tokens(&mut self, tokens: TokenStream) {
        let mut path: Names = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 || path.is_empty() => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                }
                other => {
                    self.found.extend((!path.is_empty()).then(|| std::mem::take(&mut path)));
                    colons = 0;
                    match other {
                        TokenTree::Group(group) => self.visit_tokens(group.stream()),
                        TokenTree::Ident(ident) => path.push(ident.to_string()),
                        _ => {}
                    }
                }
            }
        }
        self.found.extend((!path.is_empty()).then_some(path));
    }
}
