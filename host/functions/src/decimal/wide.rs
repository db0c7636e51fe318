//! Whole numbers of up to 1024 bits, in which decimals are multiplied, divided and raised to powers: the products of two
//! BIGNUMERIC have 512 bits, and logarithms more digits than their results.

#![expect(clippy::indexing_slicing, reason = "limbs are indexed below their number, which is fixed")]

use std::cmp::Ordering;

const LIMBS: usize = 16;
/// The digits of a limb, and their power of ten.
const CHUNK: usize = 19;
const CHUNK_POWER: u64 = 10_u64.pow(19);

/// A whole number that is not negative. What is beyond 1024 bits is lost: callers bound their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wide([u64; LIMBS]);

#[expect(clippy::cast_possible_truncation, reason = "limbs are the halves of what is cast")]
impl Wide {
    pub(crate) const ZERO: Self = Self([0; LIMBS]);

    /// How many bytes it is held in.
    pub(crate) const BYTES: usize = LIMBS * 8;

    pub(crate) fn bytes(&self) -> impl Iterator<Item = u8> + use<> {
        self.0.into_iter().flat_map(u64::to_le_bytes)
    }

    /// The number of so many bytes; of more, the first ones count.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let mut limbs = [0; LIMBS];
        for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        Self(limbs)
    }

    /// The sign and the size of a number in two's complement.
    pub(crate) fn signed(&self) -> (bool, Self) {
        match self.0[LIMBS - 1] >> 63 == 1 {
            true => (true, Self::ZERO.minus(self)),
            false => (false, *self),
        }
    }

    pub(crate) const fn of(value: u128) -> Self {
        let mut limbs = [0; LIMBS];
        limbs[0] = value as u64;
        limbs[1] = (value >> 64) as u64;
        Self(limbs)
    }

    /// A number of 256 bits.
    pub(crate) fn of_halves(low: u128, high: u128) -> Self {
        Self::of(high).shifted_left(128).plus(&Self::of(low))
    }

    /// Its 256 bits, if it has no more.
    pub(crate) fn halves(&self) -> Option<(u128, u128)> {
        let half = |at: usize| u128::from(self.0[at]) | u128::from(self.0[at + 1]) << 64;
        (self.len() <= 4).then(|| (half(0), half(2)))
    }

    pub(crate) fn power_of_ten(power: u32) -> Self {
        if let Some(power) = 10_u128.checked_pow(power) {
            return Self::of(power);
        }
        (0..power / 19)
            .map(|_| CHUNK_POWER)
            .chain(std::iter::once(10_u64.pow(power % 19)))
            .fold(Self::of(1), |product, factor| product.times_small(factor))
    }

    /// How many limbs it has, without zeros in front.
    fn len(&self) -> usize {
        self.0.iter().rposition(|limb| *limb != 0).map_or(0, |last| last + 1)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn is_odd(&self) -> bool {
        self.0[0] & 1 == 1
    }

    /// How many bits it has, without zeros in front.
    pub(crate) fn bits(&self) -> u32 {
        match self.len() {
            0 => 0,
            len => len as u32 * 64 - self.0[len - 1].leading_zeros(),
        }
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let (mut sum, mut carry) = ([0; LIMBS], false);
        for (i, limb) in sum.iter_mut().enumerate() {
            let (one, over) = self.0[i].overflowing_add(other.0[i]);
            let (two, again) = one.overflowing_add(u64::from(carry));
            (*limb, carry) = (two, over || again);
        }
        Self(sum)
    }

    /// The difference to a number that is not greater.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let (mut rest, mut borrow) = ([0; LIMBS], false);
        for (i, limb) in rest.iter_mut().enumerate() {
            let (one, under) = self.0[i].overflowing_sub(other.0[i]);
            let (two, again) = one.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (two, under || again);
        }
        Self(rest)
    }

    pub(crate) fn times_small(&self, factor: u64) -> Self {
        let (mut product, mut carry) = ([0; LIMBS], 0_u128);
        for (limb, own) in product.iter_mut().zip(self.0) {
            carry += u128::from(own) * u128::from(factor);
            *limb = carry as u64;
            carry >>= 64;
        }
        Self(product)
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        let mut product = [0_u64; LIMBS];
        for i in 0..self.len() {
            let mut carry = 0_u128;
            for j in 0..(other.len() + 1).min(LIMBS - i) {
                carry += u128::from(product[i + j]) + u128::from(self.0[i]) * u128::from(other.0[j.min(LIMBS - 1)]);
                product[i + j] = carry as u64;
                carry >>= 64;
            }
        }
        Self(product)
    }

    pub(crate) fn shifted_left(&self, bits: u32) -> Self {
        let (whole, rest) = ((bits / 64) as usize, bits % 64);
        let mut shifted = [0; LIMBS];
        for (i, limb) in shifted.iter_mut().enumerate().skip(whole) {
            *limb = self.0[i - whole] << rest;
            if rest > 0 && i > whole {
                *limb |= self.0[i - whole - 1] >> (64 - rest);
            }
        }
        Self(shifted)
    }

    pub(crate) fn shifted_right(&self, bits: u32) -> Self {
        let (whole, rest) = ((bits / 64) as usize, bits % 64);
        let mut shifted = [0; LIMBS];
        for i in whole..LIMBS {
            shifted[i - whole] = self.0[i] >> rest;
            if rest > 0 && i + 1 < LIMBS {
                shifted[i - whole] |= self.0[i + 1] << (64 - rest);
            }
        }
        Self(shifted)
    }

    /// The quotient and the rest of a division by a number of one limb, which is not 0.
    pub(crate) fn over_small(&self, divisor: u64) -> (Self, u64) {
        let (mut quotient, mut rest) = ([0; LIMBS], 0_u128);
        for i in (0..LIMBS).rev() {
            rest = rest << 64 | u128::from(self.0[i]);
            quotient[i] = (rest / u128::from(divisor.max(1))) as u64;
            rest %= u128::from(divisor.max(1));
        }
        (Self(quotient), rest as u64)
    }

    /// The quotient and the rest of a division; of one by 0 both are 0. Knuth's algorithm D.
    pub(crate) fn over(&self, divisor: &Self) -> (Self, Self) {
        let n = divisor.len();
        if n <= 1 {
            let (quotient, rest) = self.over_small(divisor.0[0]);
            return if n == 0 { (Self::ZERO, Self::ZERO) } else { (quotient, Self::of(rest.into())) };
        }
        let m = self.len();
        if m < n {
            return (Self::ZERO, *self);
        }
        let shift = divisor.0[n - 1].leading_zeros();
        let by = divisor.shifted_left(shift).0;
        // One limb more than the number, for what the shift moves out.
        let mut of = [0_u64; LIMBS + 1];
        of[..LIMBS].copy_from_slice(&self.shifted_left(shift).0);
        of[LIMBS] = if shift > 0 { self.0[LIMBS - 1] >> (64 - shift) } else { 0 };
        let mut quotient = [0_u64; LIMBS];
        for j in (0..=m - n).rev() {
            let top = u128::from(of[j + n]) << 64 | u128::from(of[j + n - 1]);
            let (mut guess, mut rest) = (top / u128::from(by[n - 1]), top % u128::from(by[n - 1]));
            while guess >> 64 != 0 || guess * u128::from(by[n - 2]) > (rest << 64 | u128::from(of[j + n - 2])) {
                guess -= 1;
                rest += u128::from(by[n - 1]);
                if rest >> 64 != 0 {
                    break;
                }
            }
            let (mut carry, mut borrow) = (0_u128, false);
            for i in 0..=n {
                carry += guess * u128::from(if i < n { by[i] } else { 0 });
                let (one, under) = of[i + j].overflowing_sub(carry as u64);
                let (two, again) = one.overflowing_sub(u64::from(borrow));
                (of[i + j], borrow) = (two, under || again);
                carry >>= 64;
            }
            if borrow {
                guess -= 1;
                let mut carry = false;
                for i in 0..=n {
                    let (one, over) = of[i + j].overflowing_add(if i < n { by[i] } else { 0 });
                    let (two, again) = one.overflowing_add(u64::from(carry));
                    (of[i + j], carry) = (two, over || again);
                }
            }
            quotient[j] = guess as u64;
        }
        let mut rest = [0; LIMBS];
        rest[..n].copy_from_slice(&of[..n]);
        (Self(quotient), Self(rest).shifted_right(shift))
    }

    /// The quotient, rounded: a half goes up.
    pub(crate) fn over_rounded(&self, divisor: &Self) -> Self {
        let (quotient, rest) = self.over(divisor);
        match rest >= divisor.minus(&rest) {
            true => quotient.plus(&Self::of(1)),
            false => quotient,
        }
    }

    /// The whole part of the square root.
    pub(crate) fn root(&self) -> Self {
        if self.is_zero() {
            return Self::ZERO;
        }
        let mut root = Self::of(1).shifted_left(self.bits().div_ceil(2));
        loop {
            let next = root.plus(&self.over(&root).0).shifted_right(1);
            if next >= root {
                return root;
            }
            root = next;
        }
    }

    /// Its decimal digits; none of 0.
    pub(crate) fn digits(&self) -> String {
        let mut chunks = Vec::new();
        let mut rest = *self;
        while !rest.is_zero() {
            let (quotient, chunk) = rest.over_small(CHUNK_POWER);
            chunks.push(chunk);
            rest = quotient;
        }
        let mut text = chunks.pop().map(|first| first.to_string()).unwrap_or_default();
        for chunk in chunks.into_iter().rev() {
            text.push_str(&format!("{chunk:0CHUNK$}"));
        }
        text
    }
}

impl Ord for Wide {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of many lengths, with limbs of ones and zeros, where a guess of a quotient is wrong most often.
    fn numbers() -> Vec<Wide> {
        let mut numbers = vec![Wide::ZERO, Wide::of(1), Wide::of(10)];
        let mut limb = 0x9e37_79b9_7f4a_7c15_u64;
        for length in 1..=7 {
            for kind in 0..4 {
                let mut limbs = [0; LIMBS];
                for slot in limbs.iter_mut().take(length) {
                    limb = limb.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
                    *slot = match kind {
                        0 => u64::MAX,
                        1 if limb & 1 == 0 => 0,
                        2 => 1 << 63,
                        _ => limb,
                    };
                }
                limbs[length - 1] |= 1;
                numbers.push(Wide(limbs));
            }
        }
        numbers
    }

    #[test]
    fn a_quotient_times_its_divisor_and_the_rest_is_the_number() {
        for one in numbers() {
            for other in numbers().into_iter().filter(|other| !other.is_zero()) {
                let product = one.times(&other);
                assert_eq!(product, other.times(&one));
                assert_eq!(product.over(&other), (one, Wide::ZERO));
                let (quotient, rest) = one.over(&other);
                assert!(rest < other);
                assert_eq!(quotient.times(&other).plus(&rest), one);
                let more = product.plus(&other.minus(&Wide::of(1)));
                assert_eq!(more.over(&other), (one, other.minus(&Wide::of(1))));
            }
            assert_eq!(one.shifted_left(67).shifted_right(67), one);
            let root = one.root();
            assert!(root.times(&root) <= one && root.plus(&Wide::of(1)).times(&root.plus(&Wide::of(1))) > one);
        }
    }

    #[test]
    fn digits_are_those_of_powers_of_ten() {
        for power in 0..200 {
            assert_eq!(Wide::power_of_ten(power).digits(), format!("1{}", "0".repeat(power as usize)));
        }
        assert_eq!(Wide::of(u128::MAX).digits(), u128::MAX.to_string());
        assert_eq!(Wide::of_halves(7, 1).minus(&Wide::of(8)), Wide::of(u128::MAX));
        assert_eq!(Wide::of_halves(7, 9).halves(), Some((7, 9)));
    }
}
