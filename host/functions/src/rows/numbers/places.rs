//! The table in which a pass over a column looks up the numbers of its keys.
//!
//! A key lies at its own place with its number, so that a row whose key is known costs one look at one place. Keys of earlier passes are
//! told by the number of their pass, and need not be cleared away. The table is small until many keys come.

/// Places of a table without keys, and at most.
const LEAST_BITS: u32 = 10;
const MOST_BITS: u32 = 12;

/// A small table grows when one place in so many is taken: then hardly any key has lost its place.
const FULL: usize = 8;

/// How many places a key may have, one after another. A key whose places are all taken by others is no error: it gets a new
/// number when it comes again.
const PROBES: usize = 4;

/// A key, and the number of its row by the columns before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Key {
    low: u64,
    high: u64,
    before: u32,
}

impl Key {
    pub(super) fn new(key: u128, before: u32) -> Self {
        Self { low: key as u64, high: (key >> 64) as u64, before }
    }

    /// Its first place in a table of so many bits.
    fn place(self, bits: u32) -> usize {
        // An odd number with bits all over it: the product moves every bit to the high ones. Views of one column differ in
        // the place of their bytes, which is in the high half, and short ones in their bytes, which are in both.
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed = self.low.rotate_left(25) ^ self.high ^ u64::from(self.before).rotate_left(40);
        (mixed.wrapping_mul(ODD) >> (u64::BITS - bits)) as usize
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    key: Key,
    /// The pass in which the key came; 0 is none.
    pass: u32,
    number: u32,
}

/// The numbers of the keys of a pass.
#[derive(Debug)]
pub(super) struct Places {
    places: Vec<Place>,
    bits: u32,
    pass: u32,
    taken: usize,
}

impl Places {
    pub(super) fn new() -> Self {
        Self { places: vec![Place::default(); 1 << LEAST_BITS], bits: LEAST_BITS, pass: 1, taken: 0 }
    }

    /// Begins a pass: no key is known.
    pub(super) fn begin(&mut self) {
        self.taken = 0;
        self.pass = self.pass.wrapping_add(1);
        if self.pass == 0 {
            self.places.fill(Place::default());
            self.pass = 1;
        }
    }

    /// Writes the numbers of keys up to the first that does not lie at its first place; how many that are.
    pub(super) fn known(&self, keys: impl Iterator<Item = Key>, numbers: &mut [u32]) -> usize {
        let (places, bits, pass) = (self.places.as_slice(), self.bits, self.pass);
        let mut found = 0;
        for (key, number) in keys.zip(numbers) {
            match places.get(key.place(bits)) {
                Some(place) if place.key == key && place.pass == pass => *number = place.number,
                _ => break,
            }
            found += 1;
        }
        found
    }

    /// The same for keys that mostly equal the one before; `last` is a key that came before, with its number.
    pub(super) fn known_in_runs(
        &self,
        keys: impl Iterator<Item = Key>,
        last: &mut Option<(Key, u32)>,
        numbers: &mut [u32],
    ) -> usize {
        let mut found = 0;
        for (key, number) in keys.zip(numbers) {
            let known = last.filter(|(last, _)| *last == key).or_else(|| Some((key, self.get(key)?)));
            let Some((_, known_number)) = known else { break };
            *number = known_number;
            *last = known;
            found += 1;
        }
        found
    }

    /// The number of a key that lies at its first place.
    fn get(&self, key: Key) -> Option<u32> {
        let place = self.places.get(key.place(self.bits))?;
        (place.key == key && place.pass == self.pass).then_some(place.number)
    }

    /// The number of a key that does not lie at its first place: that which it has at another one, or `new`.
    #[cold]
    #[inline(never)]
    pub(super) fn get_or_put(&mut self, key: Key, new: u32) -> u32 {
        if self.taken >= self.places.len() / FULL && self.bits < MOST_BITS {
            self.grow();
        }
        match self.probe(key) {
            Ok(number) => number,
            Err(free) => {
                self.put(free, Place { key, pass: self.pass, number: new });
                new
            }
        }
    }

    /// The number of a key, or a place for it: the first free one, or its own first one if none is free.
    fn probe(&self, key: Key) -> Result<u32, usize> {
        let first = key.place(self.bits);
        for probe in first..first + PROBES {
            let at = probe % self.places.len().max(1);
            match self.places.get(at) {
                Some(place) if place.pass == self.pass => {
                    if place.key == key {
                        return Ok(place.number);
                    }
                }
                _ => return Err(at),
            }
        }
        Err(first)
    }

    fn put(&mut self, at: usize, place: Place) {
        if let Some(there) = self.places.get_mut(at) {
            self.taken += usize::from(there.pass != self.pass);
            *there = place;
        }
    }

    fn grow(&mut self) {
        self.bits = MOST_BITS;
        let before = std::mem::replace(&mut self.places, vec![Place::default(); 1 << MOST_BITS]);
        self.taken = 0;
        let pass = self.pass;
        for place in before.into_iter().filter(|place| place.pass == pass) {
            if let Err(at) = self.probe(place.key) {
                self.put(at, place);
            }
        }
    }

    /// Bytes that it holds.
    pub(super) fn size(&self) -> usize {
        self.places.capacity() * size_of::<Place>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(places: &mut Places, key: Key, new: u32) -> u32 {
        places.get(key).unwrap_or_else(|| places.get_or_put(key, new))
    }

    fn key(number: u32) -> Key {
        Key::new(u128::from(number) << 64 | 40, number % 3)
    }

    /// Also while the table grows: the keys that came before have the numbers that they had.
    #[test]
    fn keys_have_the_numbers_that_they_were_given() {
        let mut places = Places::new();
        for pass in 0..3 {
            places.begin();
            for number in 0..600 {
                assert_eq!(put(&mut places, key(number + pass), number), number);
            }
            let kept = (0..600).filter(|number| put(&mut places, key(number + pass), 1_000) == *number).count();
            assert!(kept > 590, "{kept}");
        }
        assert!(places.size() <= 128 << 10);
    }

    /// No key of an earlier pass is known, also when the numbers of passes begin anew.
    #[test]
    fn passes_are_told_apart() {
        let mut places = Places::new();
        for pass in [1, u32::MAX] {
            places.pass = pass;
            assert_eq!(put(&mut places, key(7), 5), 5);
            places.begin();
            assert_eq!(places.get(key(7)), None);
            assert_eq!(put(&mut places, key(7), 6), 6);
        }
    }
}
