//! Rows of one number have equal keys, whatever the types, and few values give few numbers.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, Date32Array, Float64Array, Int64Array, StringViewArray, UInt32Array};
use datafusion::arrow::compute::take;

use super::*;

fn texts(rows: impl Iterator<Item = Option<usize>>) -> ArrayRef {
    let distinct: StringViewArray = (0..40).map(|i| Some(format!("a text of more than a view, {i}"))).collect();
    let rows: UInt32Array = rows.map(|row| row.map(|row| row as u32)).collect();
    take(&distinct, &rows, None).unwrap()
}

fn integers(rows: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(rows.collect::<Int64Array>())
}

fn shown(keys: &[ArrayRef], row: usize) -> String {
    keys.iter().map(|key| format!("{:?}", key.slice(row, 1))).collect()
}

/// Rows of one number are equal; with few values there are few numbers.
fn check(numbers: &mut RowNumbers, keys: &[ArrayRef], most: usize) {
    let rows = keys[0].len();
    let (firsts, numbers) = numbers.of(keys).unwrap();
    assert!(numbers.len() == rows && firsts.len() <= most, "{} of {most}", firsts.len());
    let mut seen = HashMap::new();
    for (row, number) in numbers.iter().enumerate() {
        let text = seen.entry(*number).or_insert_with(|| shown(keys, firsts[*number as usize] as usize));
        assert_eq!(*text, shown(keys, row));
    }
}

#[test]
fn rows_with_the_same_number_are_equal() {
    let mut numbers = RowNumbers::new();
    for seed in 0..3 {
        let agents = texts((0..3_000).map(|row| Some((row * 7 + seed) % 40).filter(|text| text % 13 != 0)));
        let status = integers((0..3_000).map(|row| (row % 11 != 3).then_some(row % 5)));
        let far = integers((0..3_000).map(|row| (row % 11 != 3).then_some((row % 5) << 40)));
        let flags: ArrayRef = Arc::new((0..3_000).map(|row| Some(row % 3 == 0)).collect::<BooleanArray>());
        let runs = integers((0..3_000).map(|row| (row / 700 != 2).then_some((row / 100) << 40)));
        let floats: ArrayRef = Arc::new((0..3_000).map(|row| Some(f64::from(row % 3))).collect::<Float64Array>());
        let days: ArrayRef = Arc::new((0..3_000).map(|row| (row % 7 > 0).then_some(row % 9)).collect::<Date32Array>());
        for (column, most) in [(&agents, 40), (&status, 6), (&flags, 2), (&runs, 31), (&days, 10)] {
            check(&mut numbers, std::slice::from_ref(column), most);
        }
        // What is looked up as fast as it is numbered.
        for column in [&far, &floats] {
            assert!(numbers.of(std::slice::from_ref(column)).is_none());
        }
        check(&mut numbers, &[status.clone(), flags.clone()], 12);
        check(&mut numbers, &[far.clone(), days.clone(), floats.clone()], 180);
        check(&mut numbers, &[status.slice(100, 2_000), agents.slice(100, 2_000)], 240);
        check(&mut numbers, &[agents.clone(), far.clone()], 240);
        check(&mut numbers, &[agents.clone(), runs.clone(), status.clone()], 3_000);
        check(&mut numbers, &[flags, status, agents], 480);
    }
    assert!(numbers.size() < 1 << 20);
}

/// NULL is not the value that lies below it.
#[test]
fn null_is_a_key_of_its_own() {
    let values = integers((0..100).map(|row| (row % 2 == 0).then_some(0)));
    check(&mut RowNumbers::new(), std::slice::from_ref(&values), 2);
    check(&mut RowNumbers::new(), &[values.clone(), values], 2);
    // In runs, beyond the range of the table.
    let values = integers((0..1_000).map(|row| (row / 100 % 2 == 0).then_some((row / 500) << 40)));
    check(&mut RowNumbers::new(), &[values], 3);
}

/// The least and the greatest integers lie farther from each other than any integer is large.
#[test]
fn the_widest_range_is_no_small_one() {
    let ends = [i64::MIN, i64::MAX, -1, 0, i64::MAX - 1];
    let values = integers((0..1_000).map(|row| Some(ends[row % 5])));
    assert!(RowNumbers::new().of(std::slice::from_ref(&values)).is_none());
    check(&mut RowNumbers::new(), &[values.clone(), values], 5);
    for least in [i64::MIN, i64::MAX - 4, -2] {
        let values = integers((0..1_000).map(|row| Some(least + row % 5)));
        check(&mut RowNumbers::new(), &[values], 5);
    }
}

/// More keys than places: what loses its place gets another number, and no other key's.
#[test]
fn keys_without_a_place_get_more_numbers() {
    let many: StringViewArray = (0..6_000).map(|i| Some(format!("a text of more than a view, {i}"))).collect();
    let rows: UInt32Array =
        (0..60_000_u32).map(|row| Some(if row % 2 == 0 { row % 3 } else { row * 7 % 6_000 })).collect();
    let many = take(&many, &rows, None).unwrap();
    check(&mut RowNumbers::new(), &[many], 45_000);
}

#[test]
fn rows_that_differ_get_no_numbers() {
    let mut numbers = RowNumbers::new();
    let many = integers((0..10_000).map(Some));
    assert!(numbers.of(&[many.clone(), many]).is_none());
    let many: ArrayRef = Arc::new((0..10_000).map(|row| Some(row.to_string())).collect::<StringViewArray>());
    assert!(numbers.of(&[many]).is_none());
    assert!(numbers.of(&[]).is_none());
    let list: ArrayRef = datafusion::arrow::array::new_null_array(&DataType::new_list(DataType::Int64, true), 1_000);
    assert!(numbers.of(&[list]).is_none());
}
