//! The union of two schemas of one source, for segments that come back after the catalog lost track of them.

use crate::schema::kind::{Fields, Kind, Scalar};

pub(crate) fn join_fields(mine: &mut Fields, theirs: &Fields, above: &str) -> Result<(), String> {
    for (name, kind) in theirs.iter() {
        let path = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
        match mine.find(name).and_then(|at| mine.kind_mut(at)) {
            Some(known) => join_kinds(known, kind, &path)?,
            None => {
                mine.push(name.to_owned(), kind.clone());
            }
        }
    }
    mine.rest |= theirs.rest;
    mine.crowded |= theirs.crowded;
    Ok(())
}

/// Integers and floats become floats if no digits are lost. All other differences make the path mixed.
fn join_scalars(mine: &mut Scalar, theirs: Scalar, wide: bool, mixed: &mut bool) {
    match (*mine, theirs) {
        (mine, theirs) if mine == theirs => {}
        (Scalar::Int, Scalar::Float) | (Scalar::Float, Scalar::Int) if !wide => *mine = Scalar::Float,
        _ => *mixed = true,
    }
}

fn join_kinds(mine: &mut Kind, theirs: &Kind, path: &str) -> Result<(), String> {
    match (mine, theirs) {
        (Kind::Scalar { ty, wide, mixed }, Kind::Scalar { ty: other, wide: other_wide, mixed: other_mixed })
            if (*ty == Scalar::Time) == (*other == Scalar::Time) =>
        {
            *mixed |= other_mixed;
            *wide |= other_wide;
            join_scalars(ty, *other, *wide, mixed);
            Ok(())
        }
        (Kind::List { ty, wide, mixed }, Kind::List { ty: other, wide: other_wide, mixed: other_mixed }) => {
            *mixed |= other_mixed;
            *wide |= other_wide;
            join_scalars(ty, *other, *wide, mixed);
            Ok(())
        }
        (
            Kind::Record { many, unlike, fields },
            Kind::Record { many: other_many, unlike: other_unlike, fields: other },
        ) => {
            *many |= other_many;
            *unlike |= other_unlike;
            join_fields(fields, other, path)
        }
        _ => Err(path.to_owned()),
    }
}
