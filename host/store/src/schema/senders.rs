//! Which tenants have sent values of another kind than the first that a path had.
//!
//! A path that has held several kinds of values is text for its readers (see [`crate::schema::kind`]), and integers become
//! floats where fractions came. A tenant reads its own rows only, so what others sent shall not change the types of its
//! answers: for a tenant that has sent no such value, the path is what it was at first.
//!
//! A tenant here is the value of the source's first tenant key. Where nothing is known of a path (it was mixed before, or
//! too many tenants have sent other values), it is text for all.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::schema::{
    json_pointer::unescaped,
    kind::{Fields, Kind, Scalar},
};

/// The most tenants that are remembered for a path, and the most paths.
const MOST_TENANTS: usize = 64;
const MOST_PATHS: usize = 256;
/// The longest tenant that is remembered, in bytes.
const LONGEST_TENANT: usize = 256;

/// The tenants by JSON pointer, without places in lists.
type ByPath = BTreeMap<String, BTreeSet<String>>;

/// Who has sent values of another kind than the first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Senders {
    /// The names of the path of the key whose values these are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    key: Vec<String>,
    /// Of paths that are mixed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    unlike: ByPath,
    /// Fractions, of paths that held integers at first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    fractions: ByPath,
}

/// What a value of another kind makes of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Mixed.
    Unlike,
    /// Floats in place of integers.
    Fraction,
}

/// Who sent an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The source does not say.
    Unknown,
    /// The event is nobody's, so that no tenant reads it.
    Nobody,
    Tenant(String),
}

impl Senders {
    /// Nobody so far, by a key.
    pub(crate) fn by(key: Option<&[String]>) -> Senders {
        Senders { key: key.unwrap_or_default().to_vec(), ..Senders::default() }
    }

    /// Whether tenants are known by this key.
    pub(crate) fn are_by(&self, key: Option<&[String]>) -> bool {
        self.key == key.unwrap_or_default()
    }

    /// Whether there is nothing to store.
    pub(crate) fn is_nothing(&self) -> bool {
        self.key.is_empty() && self.is_empty()
    }

    /// Forgets who has sent what.
    pub(crate) fn forget(&mut self) {
        (self.unlike, self.fractions) = (ByPath::new(), ByPath::new());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unlike.is_empty() && self.fractions.is_empty()
    }

    fn of(&self, change: Change) -> &ByPath {
        match change {
            Change::Unlike => &self.unlike,
            Change::Fraction => &self.fractions,
        }
    }

    fn of_mut(&mut self, change: Change) -> &mut ByPath {
        match change {
            Change::Unlike => &mut self.unlike,
            Change::Fraction => &mut self.fractions,
        }
    }

    /// Whether somebody remembers who has sent such values at a path.
    pub(crate) fn knows(&self, change: Change, pointer: &str) -> bool {
        self.of(change).contains_key(pointer)
    }

    /// Notes who sent such a value. `is_first` tells that it is the first at its path. Returns whether that is new.
    pub(crate) fn note(&mut self, change: Change, pointer: &str, is_first: bool, sender: &Sender) -> bool {
        let paths = self.unlike.len() + self.fractions.len();
        let all = self.of_mut(change);
        if is_first {
            all.remove(pointer);
            if *sender == Sender::Unknown || paths >= MOST_PATHS {
                return true;
            }
            all.insert(pointer.to_owned(), BTreeSet::new());
        }
        let Some(known) = all.get_mut(pointer) else { return is_first };
        match sender {
            Sender::Nobody => is_first,
            Sender::Tenant(tenant) if known.contains(tenant) => is_first,
            Sender::Tenant(tenant) if known.len() < MOST_TENANTS && tenant.len() <= LONGEST_TENANT => {
                known.insert(tenant.clone());
                true
            }
            // From here on nothing is known.
            Sender::Tenant(_) | Sender::Unknown => all.remove(pointer).is_some(),
        }
    }

    /// Forgets the paths that a schema does not have.
    pub(crate) fn retain_paths_of(&mut self, fields: &Fields) {
        for all in [&mut self.unlike, &mut self.fractions] {
            all.retain(|pointer, _| kind_at(fields, pointer).is_some());
        }
    }
}

fn kind_at<'f>(fields: &'f Fields, pointer: &str) -> Option<&'f Kind> {
    let (first, rest) = split(pointer)?;
    match (fields.get(&first)?, rest) {
        (kind, "") => Some(kind),
        (Kind::Record { fields, .. }, rest) => kind_at(fields, rest),
        _ => None,
    }
}

fn kind_at_mut<'f>(fields: &'f mut Fields, pointer: &str) -> Option<&'f mut Kind> {
    let (first, rest) = split(pointer)?;
    let place = fields.find(&first)?;
    match (fields.kind_mut(place)?, rest) {
        (kind, "") => Some(kind),
        (Kind::Record { fields, .. }, rest) => kind_at_mut(fields, rest),
        _ => None,
    }
}

/// Whether one of two pointers is the other one, or leads to it.
fn is_on_one_path(one: &str, other: &str) -> bool {
    let leads =
        |from: &str, to: &str| to.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    leads(one, other) || leads(other, one)
}

/// The first key of a pointer, and the pointer behind it.
fn split(pointer: &str) -> Option<(String, &str)> {
    let steps = pointer.strip_prefix('/')?;
    let (first, rest) = steps.split_at(steps.find('/').unwrap_or(steps.len()));
    Some((unescaped(first), rest))
}

impl Senders {
    /// Makes the fields of a source those that a tenant reads; `keys` are the pointers of the source's tenant keys. Returns
    /// whether that changes any.
    ///
    /// The fields at, above and below a key stay as they are. By them it is decided whose a row is, of all rows: a value
    /// of another kind that was left out of sight would make a row of several tenants one of this tenant's.
    pub(crate) fn hide_others(&self, tenant: &str, keys: &[String], fields: &mut Fields) -> bool {
        let others = |all: &ByPath| {
            let paths = all.iter().filter(|(pointer, senders)| {
                !senders.contains(tenant) && !keys.iter().any(|key| is_on_one_path(key, pointer))
            });
            paths.map(|(pointer, _)| pointer.clone()).collect::<Vec<_>>()
        };
        let (unlike, fractions) = (others(&self.unlike), others(&self.fractions));
        let changes = !unlike.is_empty() || !fractions.is_empty();
        for pointer in unlike {
            if let Some(Kind::Scalar { mixed, .. } | Kind::List { mixed, .. }) = kind_at_mut(fields, &pointer) {
                *mixed = false;
            }
        }
        for pointer in fractions {
            if let Some(Kind::Scalar { ty: ty @ Scalar::Float, mixed: false, .. }) = kind_at_mut(fields, &pointer) {
                *ty = Scalar::Int;
            }
        }
        changes
    }
}
