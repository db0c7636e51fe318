//! Putting sorted parts into groups in which they follow each other, newest row first, so that each group can be read one
//! part after the other and a merge of the groups is in order.

/// A part: its newest and its oldest time, and its number of rows, about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) newest: i64,
    pub(crate) oldest: i64,
    pub(crate) rows: usize,
}

/// The parts, which are sorted by their newest row, in groups in which they follow each other. At least `parallel` groups
/// if there are as many parts. `None` if more than `most` would have to be merged.
pub(crate) fn chains<T>(
    parts: impl IntoIterator<Item = (T, Extent)>,
    parallel: usize,
    most: usize,
) -> Option<Vec<Vec<T>>> {
    // Of each group: its parts, their rows, and the oldest time of the last one.
    let mut groups: Vec<(Vec<T>, usize, i64)> = Vec::new();
    for (part, Extent { newest, oldest, rows: own }) in parts {
        let is_full = groups.len() >= most.max(parallel);
        // The smallest group that this part can follow, unless there are fewer groups than cores.
        let place = if groups.len() < parallel {
            None
        } else {
            groups.iter_mut().filter(|(_, _, end)| *end >= newest).min_by_key(|(_, rows, _)| *rows)
        };
        match place {
            Some((group, rows, end)) => {
                *rows += own;
                *end = oldest;
                group.push(part);
            }
            None if is_full => return None,
            None => groups.push((vec![part], own, oldest)),
        }
    }
    Some(groups.into_iter().map(|(group, ..)| group).collect())
}
