//! What a JSON value is for a column: a scalar, a list of one type, a record, several records, or none of these.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    ingest::tape::{Atom, Entries, Item, Items, View},
    schema::kind::Scalar,
};

/// The least number of elements at which an array of records is examined for sparseness.
const LONG_LIST: usize = 64;

/// The class of a JSON value.
pub(crate) enum ValueClass<'v> {
    Scalar(Atom<'v>),
    List(Items<'v>, Scalar, bool),
    Record(Entries<'v>),
    Records(Items<'v>),
    /// Arrays of arrays, arrays of different types, empty arrays, NULL.
    Odd,
}

impl Atom<'_> {
    pub(crate) fn ty(self) -> Scalar {
        match self {
            Atom::Bool(_) => Scalar::Bool,
            Atom::Int(_) => Scalar::Int,
            Atom::Float(_) | Atom::Huge(_) => Scalar::Float,
            Atom::Text(_) => Scalar::Text,
        }
    }

    /// Whether it is an integer of which a float would lose digits.
    pub(crate) fn wide(self) -> bool {
        match self {
            Atom::Int(int) => !exact(int),
            Atom::Huge(int) => int as f64 as u128 != u128::from(int),
            _ => false,
        }
    }
}

/// Whether a float represents this integer exactly.
pub(crate) fn exact(int: i64) -> bool {
    int as f64 as i128 == i128::from(int)
}

pub(crate) fn classify(value: Item<'_>) -> ValueClass<'_> {
    match value.view() {
        View::Object(entries) => ValueClass::Record(entries),
        View::Array(items) => classify_array(items),
        _ => value.atom().map_or(ValueClass::Odd, ValueClass::Scalar),
    }
}

pub(crate) fn classify_array(items: Items<'_>) -> ValueClass<'_> {
    if items.len() > 0 && items.clone().all(Item::is_object) {
        return ValueClass::Records(items);
    }
    let mut ty = None;
    let mut wide = false;
    for item in items.clone() {
        let Some(atom) = item.atom() else { return ValueClass::Odd };
        if matches!(atom, Atom::Huge(_)) {
            return ValueClass::Odd;
        }
        wide |= atom.wide();
        ty = match (ty, atom.ty()) {
            (None, new) => Some(new),
            (Some(old), new) if old == new => Some(old),
            (Some(Scalar::Int), Scalar::Float) | (Some(Scalar::Float), Scalar::Int) => Some(Scalar::Float),
            _ => return ValueClass::Odd,
        };
    }
    match ty {
        // Digits would be lost, so the array is stored as JSON.
        Some(Scalar::Float) if wide => ValueClass::Odd,
        Some(ty) => ValueClass::List(items, ty, wide),
        None => ValueClass::Odd,
    }
}

/// Whether most cells of an array of records would be empty as columns, because each element has only few of the
/// fields. Such an array is stored as JSON.
pub(crate) fn is_sparse(items: &Items<'_>) -> bool {
    fn paths(value: Item<'_>, above: u64, seen: &mut HashSet<u64>) -> usize {
        let View::Object(entries) = value.view() else {
            seen.insert(above);
            return 1;
        };
        entries
            .map(|(key, value)| {
                let mut path = DefaultHasher::new();
                (above, key).hash(&mut path);
                paths(value, path.finish(), seen)
            })
            .sum()
    }
    if items.len() < LONG_LIST {
        return false;
    }
    let mut seen = HashSet::new();
    let held: usize = items.clone().map(|item| paths(item, 0, &mut seen)).sum();
    items.len().saturating_mul(seen.len()) > held.saturating_mul(16)
}
