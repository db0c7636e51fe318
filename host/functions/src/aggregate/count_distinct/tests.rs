//! Distinct texts are counted once, however rows, batches and states come.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::arrow::array::{LargeBinaryArray, StringViewArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::Int64Type;

use super::*;

/// Rows whose texts repeat as those of a dictionary, some of them NULL.
fn rows(number: usize, seed: usize) -> (ArrayRef, Vec<usize>, Vec<Option<String>>) {
    let dictionary: StringViewArray = (0..60)
        .map(|at| match at % 4 {
            0 => Some(format!("{at}")),
            1 => Some(format!("{at:08x}-0000-4000-8000-000000000000")),
            2 => Some(format!("a text that is longer than a view, number {}", at % 30)),
            _ => None,
        })
        .collect();
    let places: Vec<u32> = (0..number).map(|row| ((row * 7 + seed * 13) % 61 % 60) as u32).collect();
    let groups = (0..number).map(|row| row * 3 / (seed + 2) % 5).collect();
    let texts = take(&dictionary, &UInt32Array::from(places), None).unwrap();
    let plain = texts.as_string_view().iter().map(|text| text.map(str::to_owned)).collect();
    (texts, groups, plain)
}

fn counts(array: &ArrayRef) -> Vec<i64> {
    array.as_primitive::<Int64Type>().values().to_vec()
}

/// However rows come: with a filter, as states of rows, and in two halves.
#[test]
fn texts_of_groups_are_counted_once() {
    let mut expected: BTreeMap<usize, BTreeSet<String>> = (0..5).map(|group| (group, BTreeSet::new())).collect();
    let (mut one, mut other, mut whole) = (TextCounts::default(), TextCounts::default(), TextCounts::default());
    for seed in 0..6 {
        let (texts, groups, plain) = rows(500, seed);
        let filter: BooleanArray = (0..500).map(|row| (row % 11 != 0).then_some(row % 5 != seed % 5)).collect();
        for (row, text) in plain.into_iter().enumerate() {
            if let Some(text) = text.filter(|_| filter.is_valid(row) && filter.value(row)) {
                expected.get_mut(groups.get(row).unwrap()).unwrap().insert(text);
            }
        }
        whole.update_batch(&[Arc::clone(&texts)], &groups, Some(&filter), 5).unwrap();
        match seed % 3 {
            0 => one.update_batch(&[texts], &groups, Some(&filter), 5).unwrap(),
            1 => other.update_batch(&[texts], &groups, Some(&filter), 5).unwrap(),
            _ => {
                let states = other.convert_to_state(&[texts], Some(&filter)).unwrap();
                other.merge_batch(&states, &groups, 5).unwrap();
            }
        }
    }
    let expected: Vec<i64> = expected.values().map(|texts| texts.len() as i64).collect();
    let held = one.held;
    assert!(held > 0);
    let states = one.state(EmitTo::All).unwrap();
    assert_eq!(one.held, 0);
    other.merge_batch(&states, &[0, 1, 2, 3, 4], 5).unwrap();
    assert_eq!(counts(&other.evaluate(EmitTo::First(2)).unwrap()), expected[..2]);
    assert_eq!(counts(&other.evaluate(EmitTo::All).unwrap()), expected[2..]);
    assert_eq!(counts(&whole.evaluate(EmitTo::All).unwrap()), expected);
    assert_eq!((other.held, whole.held), (0, 0));
    let broken: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values([b"123"]));
    let [_, uuids, texts] = states.as_slice() else { unreachable!("three columns") };
    assert!(whole.merge_batch(&[broken, uuids.slice(0, 1), texts.slice(0, 1)], &[0], 1).is_err());
}

/// A view means a text in its own batch only.
#[test]
fn the_same_view_in_another_batch_is_another_text() {
    let mut all = OneGroup::default();
    for number in 0..50 {
        let texts: ArrayRef =
            Arc::new(StringViewArray::from_iter_values([format!("a text that is longer than a view: {number:4}")]));
        all.update_batch(&[texts]).unwrap();
    }
    assert_eq!(all.evaluate().unwrap(), ScalarValue::Int64(Some(50)));
    assert_eq!(all.evaluate().unwrap(), ScalarValue::Int64(Some(50)));
    let states: Vec<ArrayRef> = all.state().unwrap().iter().map(|state| state.to_array_of_size(1).unwrap()).collect();
    let mut other = OneGroup::default();
    assert_eq!(other.evaluate().unwrap(), ScalarValue::Int64(Some(0)));
    let none: Vec<ArrayRef> = other.state().unwrap().iter().map(|state| state.to_array_of_size(1).unwrap()).collect();
    other.merge_batch(&states).unwrap();
    other.merge_batch(&none).unwrap();
    assert_eq!(other.evaluate().unwrap(), ScalarValue::Int64(Some(50)));
}
