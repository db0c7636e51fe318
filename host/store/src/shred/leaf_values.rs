//! Appending scalars and lists of scalars to their columns.

use crate::{
    arrays::{
        leaf::{Leaf, LeafColumn},
        list::ListColumn,
    },
    ingest::tape::{Atom, Items},
    schema::kind::Scalar,
    shred::{batch_cost::BatchCost, record_column::Column, value_class::exact},
};

/// Whether a value is in its column now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// It is, with all its digits.
    Whole,
    /// The nearest float is; the value itself must be kept in the overflow.
    Rounded,
    /// It is not: the path has a column of another class in this batch.
    OtherColumn,
    /// It is not: it has another type than the column. The path becomes mixed.
    OtherType,
}

/// Appends a scalar of `row` to the column in `cell`. `ty` and `wide` are the type of the path and whether it held an
/// integer that no float holds exactly; `mixed` is whether the path has held other types.
pub(crate) fn append_scalar(
    cost: &mut BatchCost,
    (ty, wide, mixed): (&mut Scalar, &mut bool, bool),
    cell: &mut Option<Column>,
    row: usize,
    atom: Atom<'_>,
) -> Appended {
    // The type of a path changes from integer to float once, and only if no integer so far loses digits.
    let widens = matches!((*ty, atom), (Scalar::Int, Atom::Float(_))) && !*wide && !mixed;
    if widens {
        *ty = Scalar::Float;
        cost.changed = true;
    }
    let Column::Leaf(leaf) = cell.get_or_insert_with(|| Column::Leaf(LeafColumn::new(*ty))) else {
        return Appended::OtherColumn;
    };
    if *ty == Scalar::Float {
        leaf.values.widen();
    }
    let mut appended = Appended::Whole;
    match (&mut leaf.values, atom) {
        (Leaf::Bool(b), Atom::Bool(v)) => b.append_value(v),
        (Leaf::Text(b), Atom::Text(v)) => b.append_value(v),
        (Leaf::Time(b), Atom::Int(v)) => b.append_value(v),
        (Leaf::Int(b), Atom::Int(v)) => {
            b.append_value(v);
            if !exact(v) && !*wide {
                *wide = true;
                cost.changed = true;
            }
        }
        (Leaf::Float(b), Atom::Float(v)) => b.append_value(v),
        // The column has the nearest float, for arithmetic. If digits are lost, the overflow has the integer.
        (Leaf::Float(b), Atom::Int(v)) => {
            b.append_value(v as f64);
            if atom.wide() {
                appended = Appended::Rounded;
            }
        }
        (Leaf::Float(b), Atom::Huge(v)) => {
            b.append_value(v as f64);
            if atom.wide() {
                appended = Appended::Rounded;
            }
        }
        _ => return Appended::OtherType,
    }
    leaf.end_value(row);
    cost.values += 1;
    appended
}

/// Appends a list of scalars of `row` to the column in `cell`. `found` is the type of the elements, `found_wide`
/// whether one of them is an integer that no float holds exactly; the rest is as in [`append_scalar`].
pub(crate) fn append_list(
    cost: &mut BatchCost,
    (ty, wide, mixed): (&mut Scalar, &mut bool, bool),
    cell: &mut Option<Column>,
    row: usize,
    (items, found, found_wide): (Items<'_>, Scalar, bool),
) -> Appended {
    if (*ty, found) == (Scalar::Int, Scalar::Float) && !*wide && !mixed {
        *ty = Scalar::Float;
        cost.changed = true;
    }
    let fits = *ty == found || (*ty == Scalar::Float && found == Scalar::Int && !found_wide);
    if !fits {
        return Appended::OtherType;
    }
    cost.lists += usize::from(cell.is_none());
    let Column::List(list) = cell.get_or_insert_with(|| Column::List(ListColumn::new(*ty))) else {
        return Appended::OtherColumn;
    };
    if *ty == Scalar::Float {
        list.values.widen();
    }
    if found_wide && !*wide {
        *wide = true;
        cost.changed = true;
    }
    list.pad(row);
    cost.values += items.len();
    for item in items {
        match (&mut list.values, item.atom()) {
            (Leaf::Bool(b), Some(Atom::Bool(v))) => b.append_value(v),
            (Leaf::Text(b), Some(Atom::Text(v))) => b.append_value(v),
            (Leaf::Int(b), Some(Atom::Int(v))) => b.append_value(v),
            (Leaf::Float(b), Some(Atom::Float(v))) => b.append_value(v),
            (Leaf::Float(b), Some(Atom::Int(v))) => b.append_value(v as f64),
            // `fits` excludes all other pairs.
            _ => {}
        }
    }
    list.end_row();
    Appended::Whole
}
