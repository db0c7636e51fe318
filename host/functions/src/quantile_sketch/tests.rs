//! Sketches against the values that they are of.

use proptest::prelude::*;

use super::*;

fn of(precision: u32, keys: &[i64]) -> QuantileSketch {
    let (first, rest) = keys.split_first().unwrap();
    let mut sketch = QuantileSketch::new(QuantilesOf::Int64, precision, *first);
    rest.iter().for_each(|key| sketch.add(*key));
    sketch
}

/// Each quantile has a rank that is no further from the wanted one than the precision allows.
fn assert_near(sketch: &QuantileSketch, keys: &[i64], precision: u32) {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let made = sketch.sorted();
    let (count, most) = (keys.len() as u64, keys.len() as u64 / u64::from(precision));
    assert_eq!((made.count, made.at(0, 9), made.at(9, 9)), (count, sorted[0], *sorted.last().unwrap()));
    for part in 1..50 {
        let wanted = (part * count).div_ceil(50);
        for key in [made.at(part, 50), made.near(part as f64 / 50.0)] {
            let below = sorted.partition_point(|other| *other < key) as u64;
            let up_to = sorted.partition_point(|other| *other <= key) as u64;
            assert!(
                below < wanted + most.max(1) && up_to + most >= wanted,
                "{part}: {key} has {below}..{up_to} of {count}"
            );
        }
    }
}

/// Values in orders that compaction may not like.
fn shapes(count: i64) -> Vec<Vec<i64>> {
    let up: Vec<i64> = (0..count).collect();
    let zigzag = up.iter().map(|i| if i % 2 == 0 { *i } else { count - i });
    let scattered = up.iter().map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()));
    vec![
        up.iter().rev().copied().collect(),
        zigzag.collect(),
        scattered.collect(),
        up.iter().map(|i| i / 1_000).collect(),
        up.iter().map(|i| i % 3).collect(),
        up,
    ]
}

#[test]
fn quantiles_are_within_the_bound() {
    for precision in [1, 7, 100, 1_000] {
        for keys in shapes(60_000) {
            let sketch = of(precision, &keys);
            assert!(sketch.changed <= 60_000 / u64::from(precision));
            assert_near(&sketch, &keys, precision);
            let held: usize = sketch.levels.iter().map(Vec::len).sum();
            let most = precision as usize * (sketch.levels.len() + 2).pow(2);
            assert!(held <= most, "{held} of {most}");
        }
    }
    let few = of(1_000, &[5, 3, 9, 7]).sorted();
    assert_eq!([0, 1, 2, 3, 4].map(|part| few.at(part, 4)), [3, 3, 5, 7, 9], "few values are exact");
}

#[test]
fn what_is_written_is_read_and_what_is_damaged_is_not() {
    let mut sketch = of(20, &shapes(5_000).swap_remove(2));
    let bytes = sketch.written();
    assert_eq!(QuantileSketch::read(&bytes).unwrap().written(), bytes);
    for end in [0, 4, 5, 9, 25, 40, 41, 43, bytes.len() - 1] {
        assert!(QuantileSketch::read(&bytes[..end]).is_none(), "{end}");
    }
    // The type, the precision, the changes, the bounds, a length, and a key.
    for (at, byte) in [(0, b'X'), (4, 0), (4, 3), (8, 1), (24, 1), (32, 0x7f), (40, 0x80), (44, 1), (52, 0x7f)] {
        let mut damaged = bytes.clone();
        damaged[at] = byte;
        assert!(QuantileSketch::read(&damaged).is_none(), "{at}");
    }
    let mut of_floats = bytes;
    of_floats[4] = 2;
    assert!(QuantileSketch::read(&of_floats).is_none(), "not all numbers are keys of floats");
    assert!(of(20, &[1]).merge(QuantileSketch::new(QuantilesOf::Float64, 20, 1)).is_none());
}

#[test]
fn keys_of_floats_have_their_order() {
    let values = [f64::NAN, f64::NEG_INFINITY, -1.5, -f64::MIN_POSITIVE, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY];
    let keys = values.map(key_of_float);
    assert!(keys.is_sorted_by(|one, next| one < next));
    assert_eq!(keys.map(|key| float_of_key(key).to_bits()), values.map(f64::to_bits));
    assert_eq!(key_of_float(-0.0), key_of_float(0.0));
}

proptest! {
    /// Parts of the values in sketches of several precisions, merged in any order, each written and read.
    #[test]
    fn merged_parts_are_within_the_bound(
        shape in 0..6_usize,
        parts in prop::collection::vec((1..4_000_usize, 5..50_u32), 1..30),
        order in any::<u64>(),
    ) {
        let count: usize = parts.iter().map(|(length, _)| length).sum();
        let keys = shapes(count as i64).swap_remove(shape);
        let mut rest = keys.as_slice();
        let mut sketches: Vec<QuantileSketch> = Vec::new();
        for (length, precision) in &parts {
            let (part, behind) = rest.split_at(*length);
            rest = behind;
            sketches.push(of(*precision, part));
        }
        let lowest = parts.iter().map(|(_, precision)| *precision).min().unwrap();
        let mut order = order;
        while sketches.len() > 1 {
            order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut one = sketches.swap_remove((order >> 33) as usize % sketches.len());
            let at = (order >> 17) as usize % sketches.len();
            one.merge(QuantileSketch::read(&sketches[at].written()).unwrap()).unwrap();
            sketches[at] = one;
        }
        let merged = sketches.pop().unwrap();
        prop_assert!(merged.changed <= count as u64 / u64::from(lowest));
        assert_near(&merged, &keys, lowest);
    }

    #[test]
    fn hostile_bytes_are_refused_or_read(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = of(5, &shapes(300).swap_remove(2)).written();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(sketch) = QuantileSketch::read(&bytes) {
            let mut other = of(5, &[1, 2, 3]);
            other.merge(sketch.clone());
            other.add(4);
            let sorted = other.sorted();
            prop_assert!(sorted.at(1, 3) <= sorted.at(2, 3));
        }
    }
}
