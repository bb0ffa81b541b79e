//! The modules of a crate, their files, and the dependencies between the files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::Item;
use syn::visit::Visit as _;

use super::names::{self, Import, Names, Paths};

/// The modules of a crate. The first one is the root.
pub(super) struct Tree {
    modules: Vec<Module>,
    files: Vec<PathBuf>,
}

struct Module {
    parent: Option<usize>,
    file: usize,
    children: HashMap<String, usize>,
    defined: BTreeSet<String>,
    imports: Vec<Import>,
    paths: Vec<Names>,
}

/// The meaning of a path.
enum Named {
    Module(usize),
    /// An item of this module.
    Item(usize),
}

/// The maximum number of steps to resolve a path. `use` lines may lead in circles; real paths are
/// short.
const MOST_STEPS: usize = 32;

impl Tree {
    /// Reads the files of a crate from its root on.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self { modules: Vec::new(), files: Vec::new() };
        let folder = root.parent().map(Path::to_path_buf).unwrap_or_default();
        tree.read_file(root, None, &folder)?;
        Ok(tree)
    }

    fn read_file(&mut self, path: &Path, parent: Option<usize>, folder: &Path) -> Result<usize> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let parsed = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        self.files.push(path.to_path_buf());
        self.read_items(&parsed.items, parent, self.files.len() - 1, folder)
    }

    fn read_items(
        &mut self,
        items: &[Item],
        parent: Option<usize>,
        file: usize,
        folder: &Path,
    ) -> Result<usize> {
        let module = self.modules.len();
        self.modules.push(Module {
            parent,
            file,
            children: HashMap::new(),
            defined: BTreeSet::new(),
            imports: Vec::new(),
            paths: Vec::new(),
        });
        let mut paths = Paths::default();
        for item in items.iter().filter(|item| !names::is_test(names::attributes(item))) {
            self.modules[module].defined.extend(names::defined(item));
            match item {
                Item::Mod(item) => {
                    let name = item.ident.to_string();
                    let inside = folder.join(&name);
                    let child = match &item.content {
                        Some((_, items)) => self.read_items(items, Some(module), file, &inside)?,
                        None => self.read_child(item, module, folder, &inside)?,
                    };
                    self.modules[module].children.insert(name, child);
                }
                Item::Use(item) => self.modules[module].imports.extend(names::imports(item)),
                item => paths.visit_item(item),
            }
        }
        self.modules[module].imports.append(&mut paths.imports);
        self.modules[module].paths = paths.found;
        Ok(module)
    }

    fn read_child(
        &mut self,
        item: &syn::ItemMod,
        parent: usize,
        folder: &Path,
        inside: &Path,
    ) -> Result<usize> {
        let given = item.attrs.iter().find_map(|attribute| {
            let pair = attribute.meta.require_name_value().ok()?;
            let syn::Expr::Lit(value) = &pair.value else { return None };
            let syn::Lit::Str(path) = &value.lit else { return None };
            attribute.path().is_ident("path").then(|| path.value())
        });
        let path = match given {
            Some(path) => folder.join(path),
            None => inside.with_extension("rs"),
        };
        self.read_file(&path, Some(parent), inside)
    }

    /// Returns the files.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the path of a file.
    pub(super) fn path(&self, file: usize) -> &Path {
        &self.files[file]
    }

    /// Returns the files that each file depends on.
    pub(super) fn arrows(&self) -> Vec<BTreeSet<usize>> {
        let mut arrows = vec![BTreeSet::new(); self.files.len()];
        for (from, to, _) in self.arrows_with_names() {
            arrows[from].insert(to);
        }
        arrows
    }

    /// Returns each arrow, with the names that cause it.
    pub(super) fn arrows_with_names(&self) -> Vec<(usize, usize, BTreeSet<String>)> {
        let mut arrows: BTreeMap<(usize, usize), BTreeSet<String>> = BTreeMap::new();
        for (index, module) in self.modules.iter().enumerate() {
            let imported = module.imports.iter().map(|import| (&import.path, true));
            // A single word isn't a module here: it may be a variable of the same name.
            let used = module.paths.iter().map(|path| (path, path.len() > 1));
            for (path, may_be_module) in imported.chain(used) {
                let to = match self.resolve(index, path, true, MOST_STEPS) {
                    Some(Named::Module(to)) if may_be_module => self.modules[to].file,
                    Some(Named::Item(to)) => self.modules[to].file,
                    _ => continue,
                };
                let parent = module.parent.map(|parent| self.modules[parent].file);
                if to != module.file && Some(to) != parent {
                    arrows.entry((module.file, to)).or_default().insert(path.join("::"));
                }
            }
        }
        arrows.into_iter().map(|((from, to), names)| (from, to, names)).collect()
    }

    /// Resolves a path, up to where it leaves the crate.
    fn resolve(&self, from: usize, path: &[String], inside: bool, steps: usize) -> Option<Named> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Named::Module(0),
            "self" => Named::Module(from),
            "super" => Named::Module(self.modules[from].parent?),
            "Self" => return None,
            name => self.member(from, name, inside, steps)?,
        };
        let mut named = start;
        for name in rest {
            let Named::Module(module) = named else { break };
            named = match name.as_str() {
                "super" => Named::Module(self.modules[module].parent?),
                "self" => Named::Module(module),
                // A constant or a variant belongs to the type before it.
                name => self.member(module, name, module == from, steps)?,
            };
        }
        Some(named)
    }

    /// Resolves a name in a module. Private imports count only inside of the module.
    fn member(&self, module: usize, name: &str, inside: bool, steps: usize) -> Option<Named> {
        let of = &self.modules[module];
        if let Some(child) = of.children.get(name) {
            return Some(Named::Module(*child));
        }
        if of.defined.contains(name) {
            return Some(Named::Item(module));
        }
        let seen = || of.imports.iter().filter(|import| import.is_public || inside);
        let by_name = seen().filter(|import| import.name == name);
        let found = by_name.filter(|import| import.path.len() > 1 || import.path[0] != name);
        for import in found {
            if let Some(named) = self.resolve(module, &import.path, true, steps) {
                return Some(named);
            }
        }
        for glob in seen().filter(|import| import.name == "*") {
            let Some(Named::Module(all)) = self.resolve(module, &glob.path, true, steps) else {
                continue;
            };
            if all != module
                && let Some(named) = self.member(all, name, false, steps.checked_sub(1)?)
            {
                return Some(named);
            }
        }
        None
    }
}
