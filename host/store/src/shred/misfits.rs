//! Fields whose values are often of another kind than their column: a number in one event and a text in the next.
//!
//! Such a value is stored and read like any other, but in the overflow of its row, where no statistics tell of it. Often
//! the sender does not know. So these fields are counted, and the source names those that have many. The number of counted
//! fields is bounded: a field that comes new takes the place of the rarest one, with its count, as in the algorithm
//! "space-saving". A field that has more values than its share is then always among them.

/// The most fields that are counted.
const MOST_FIELDS: usize = 16;

/// Fields with so many values of another kind are named.
const FREQUENT: u64 = 1_000;

/// The longest name that is kept of a field, in bytes.
const MOST_BYTES: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    /// The JSON pointer, cut to [`MOST_BYTES`].
    pointer: String,
    /// At most so many values.
    count: u64,
    /// So many of these may have been other fields'.
    others: u64,
    told: bool,
}

/// Counts values that do not fit the column of their field.
#[derive(Debug, Default)]
pub(crate) struct Misfits(Vec<Field>);

/// The beginning of a pointer that is kept.
fn beginning(pointer: &str) -> &str {
    pointer.get(..pointer.floor_char_boundary(MOST_BYTES)).unwrap_or_default()
}

impl Misfits {
    /// Counts a value of a field.
    pub(crate) fn count(&mut self, pointer: &str) {
        self.add(beginning(pointer), 1, 0);
    }

    fn add(&mut self, pointer: &str, count: u64, others: u64) {
        if let Some(known) = self.0.iter_mut().find(|known| known.pointer == pointer) {
            known.count += count;
            known.others += others;
            return;
        }
        let field = |count, others| Field { pointer: pointer.to_owned(), count, others, told: false };
        if self.0.len() < MOST_FIELDS {
            return self.0.push(field(count, others));
        }
        // One that was named stays, so that it is not named again.
        if let Some(rarest) = self.0.iter_mut().filter(|known| !known.told).min_by_key(|known| known.count) {
            *rarest = field(rarest.count + count, rarest.count + others);
        }
    }

    /// Adds the counts of others.
    pub(crate) fn add_all(&mut self, others: &Misfits) {
        for Field { pointer, count, others, .. } in &others.0 {
            self.add(pointer, *count, *others);
        }
    }

    /// Whether a field is or was frequent.
    pub(crate) fn has_frequent(&self) -> bool {
        self.0.iter().any(|field| field.told)
    }

    /// The fields that are frequent from now on, and how many values they have had at least.
    pub(crate) fn new_frequent(&mut self) -> Vec<(String, u64)> {
        let mut frequent = Vec::new();
        for field in &mut self.0 {
            let sure = field.count.saturating_sub(field.others);
            if !field.told && sure >= FREQUENT {
                field.told = true;
                frequent.push((field.pointer.clone(), sure));
            }
        }
        frequent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequent_field_is_named_once() {
        let mut all = Misfits::default();
        let part = |count: u64| {
            let mut part = Misfits::default();
            (0..count).for_each(|_| part.count("/a/b"));
            part
        };
        let mut named = |count| {
            all.add_all(&part(count));
            all.new_frequent()
        };
        assert_eq!(named(FREQUENT - 1), []);
        assert_eq!(named(1), [("/a/b".to_owned(), FREQUENT)]);
        assert_eq!(named(FREQUENT), []);
        assert!(all.has_frequent());
    }

    #[test]
    fn many_rare_fields_are_not_named_and_hide_no_frequent_one() {
        let mut all = Misfits::default();
        let mut named = Vec::new();
        for call in 0..500 {
            let mut part = Misfits::default();
            for number in 0..40 {
                part.count(&format!("/{call}-{number}"));
                (0..10).for_each(|_| part.count("/often"));
            }
            all.add_all(&part);
            named.extend(all.new_frequent());
        }
        assert!(matches!(named.as_slice(), [(name, count)] if name == "/often" && *count >= FREQUENT), "{named:?}");
        assert_eq!(all.0.len(), MOST_FIELDS);
    }

    #[test]
    fn long_names_are_cut() {
        let mut misfits = Misfits::default();
        misfits.count(&"ä".repeat(10_000));
        assert!(misfits.0.iter().all(|field| field.pointer.len() <= MOST_BYTES && !field.pointer.is_empty()));
    }
}
