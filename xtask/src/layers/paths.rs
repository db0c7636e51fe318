//! The paths in a file that may lead to other files of the crate.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{
    Attribute, Field, FieldValue, File, ImplItemFn, Item, ItemMod, ItemUse, Local, Macro, Meta, UseTree, VisRestricted,
    Visibility,
};

/// A part of a path. `self` is left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Crate,
    Super,
    Name(String),
}

impl Step {
    fn of(name: &str) -> Option<Self> {
        match name {
            "crate" => Some(Self::Crate),
            "super" => Some(Self::Super),
            "self" => None,
            name => Some(Self::Name(name.to_owned())),
        }
    }
}

/// The paths of one file, relative to its module. Those to other crates are among them, and lead nowhere.
#[derive(Debug, Default)]
pub(super) struct Paths {
    pub(super) all: BTreeSet<Vec<Step>>,
    /// What is re-exported: the name and the path behind it.
    pub(super) exports: BTreeMap<String, Vec<Step>>,
}

impl Paths {
    /// Reads a file.
    ///
    /// # Errors
    /// A text that is no Rust.
    pub(super) fn of(text: &str) -> Result<Self, syn::Error> {
        let file: File = syn::parse_file(text)?;
        let mut paths = Self::default();
        paths.visit_file(&file);
        Ok(paths)
    }

    fn take(&mut self, names: impl IntoIterator<Item = String>) {
        let steps: Vec<Step> = names.into_iter().filter_map(|name| Step::of(&name)).collect();
        if steps.len() > 1 {
            self.all.insert(steps);
        }
    }

    fn use_tree(&mut self, before: &[Step], tree: &UseTree, exported: bool) {
        let with = |name: String| before.iter().cloned().chain(Step::of(&name)).collect::<Vec<Step>>();
        let (steps, name) = match tree {
            UseTree::Path(path) => return self.use_tree(&with(path.ident.to_string()), &path.tree, exported),
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.use_tree(before, tree, exported)),
            UseTree::Name(name) => (with(name.ident.to_string()), name.ident.to_string()),
            UseTree::Rename(name) => (with(name.ident.to_string()), name.rename.to_string()),
            UseTree::Glob(_) => (before.to_vec(), String::new()),
        };
        if exported && !name.is_empty() {
            self.exports.insert(name, steps.clone());
        }
        self.all.insert(steps);
    }

    /// Paths in the arguments of a macro, which are no syntax tree yet.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.take(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Group(group) => {
                    self.take(std::mem::take(&mut path));
                    colons = 0;
                    self.tokens(group.stream());
                }
                _ => {
                    self.take(std::mem::take(&mut path));
                    colons = 0;
                }
            }
        }
        self.take(path);
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).iter().any(is_test) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if !local.attrs.iter().any(is_test) {
            syn::visit::visit_local(self, local);
        }
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if !field.attrs.iter().any(is_test) {
            syn::visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast FieldValue) {
        if !field.attrs.iter().any(is_test) {
            syn::visit::visit_field_value(self, field);
        }
    }

    fn visit_impl_item_fn(&mut self, method: &'ast ImplItemFn) {
        if !method.attrs.iter().any(is_test) {
            syn::visit::visit_impl_item_fn(self, method);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.use_tree(&[], &item.tree, !matches!(item.vis, Visibility::Inherited));
    }

    /// `pub(in crate::a)` says who may use an item, and imports nothing.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        // A module inside of the file is taken as if its lines stood in the file, but for `super`, which is the
        // file itself: such paths lead to the parent, which is left out anyway.
        syn::visit::visit_item_mod(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.take(path.segments.iter().map(|segment| segment.ident.to_string()));
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}

fn attributes(item: &Item) -> &[Attribute] {
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

/// Whether an attribute keeps its item for tests: `#[cfg(test)]`.
fn is_test(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    }
}
