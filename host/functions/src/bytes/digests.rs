//! Hash functions: those of the cryptographic crates, and the fingerprint of FarmHash, which no dependency has.

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

pub(super) fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

pub(super) fn sha1(bytes: &[u8]) -> [u8; 20] {
    Sha1::digest(bytes).into()
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

pub(super) fn sha512(bytes: &[u8]) -> [u8; 64] {
    Sha512::digest(bytes).into()
}

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;

/// The eight bytes at a position; callers stay within the text.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, |b| u64::from(u32::from_le_bytes(b)))
}

fn shift_mix(value: u64) -> u64 {
    value ^ (value >> 47)
}

fn mixed(u: u64, v: u64, by: u64) -> u64 {
    let a = shift_mix((u ^ v).wrapping_mul(by));
    shift_mix((v ^ a).wrapping_mul(by)).wrapping_mul(by)
}

/// FarmHash's Fingerprint64.
pub(super) fn farm(s: &[u8]) -> u64 {
    let len = s.len();
    let mul = K2.wrapping_add(2 * len as u64);
    match len {
        0 => K2,
        1..=3 => {
            let at = |i: usize| s.get(i).map_or(0, |byte| u64::from(*byte));
            let y = at(0).wrapping_add(at(len / 2) << 8);
            let z = (len as u64).wrapping_add(at(len - 1) << 2);
            shift_mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2)
        }
        4..=7 => mixed((half(s, 0) << 3).wrapping_add(len as u64), half(s, len - 4), mul),
        8..=16 => {
            let a = word(s, 0).wrapping_add(K2);
            let b = word(s, len - 8);
            let c = b.rotate_right(37).wrapping_mul(mul).wrapping_add(a);
            let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(mul);
            mixed(c, d, mul)
        }
        17..=32 => {
            let a = word(s, 0).wrapping_mul(K1);
            let b = word(s, 8);
            let c = word(s, len - 8).wrapping_mul(mul);
            let d = word(s, len - 16).wrapping_mul(K2);
            let first = a.wrapping_add(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d);
            mixed(first, a.wrapping_add(b.wrapping_add(K2).rotate_right(18)).wrapping_add(c), mul)
        }
        33..=64 => {
            let a = word(s, 0).wrapping_mul(K2);
            let b = word(s, 8);
            let c = word(s, len - 8).wrapping_mul(mul);
            let d = word(s, len - 16).wrapping_mul(K2);
            let y = a.wrapping_add(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d);
            let z = mixed(y, a.wrapping_add(b.wrapping_add(K2).rotate_right(18)).wrapping_add(c), mul);
            let e = word(s, 16).wrapping_mul(mul);
            let f = word(s, 24);
            let g = y.wrapping_add(word(s, len - 32)).wrapping_mul(mul);
            let h = z.wrapping_add(word(s, len - 24)).wrapping_mul(mul);
            let first = e.wrapping_add(f).rotate_right(43).wrapping_add(g.rotate_right(30)).wrapping_add(h);
            mixed(first, e.wrapping_add(f.wrapping_add(a).rotate_right(18)).wrapping_add(g), mul)
        }
        _ => long(s),
    }
}

type Pair = (u64, u64);

fn weak(s: &[u8], at: usize, a: u64, b: u64) -> Pair {
    let (w, x, y, z) = (word(s, at), word(s, at + 8), word(s, at + 16), word(s, at + 24));
    let a = a.wrapping_add(w);
    let b = b.wrapping_add(a).wrapping_add(z).rotate_right(21);
    let sum = a.wrapping_add(x).wrapping_add(y);
    (sum.wrapping_add(z), b.wrapping_add(sum.rotate_right(44)).wrapping_add(a))
}

/// The state of a long text's hash.
struct State {
    x: u64,
    y: u64,
    z: u64,
    v: Pair,
    w: Pair,
}

impl State {
    fn step(&mut self, s: &[u8], at: usize, mul: u64, (times_w, times_v): (u64, u64)) {
        let Self { mut x, mut y, mut z, v, w } = *self;
        x = x.wrapping_add(y).wrapping_add(v.0).wrapping_add(word(s, at + 8)).rotate_right(37).wrapping_mul(mul);
        y = y.wrapping_add(v.1).wrapping_add(word(s, at + 48)).rotate_right(42).wrapping_mul(mul);
        x ^= w.1.wrapping_mul(times_w);
        y = y.wrapping_add(v.0.wrapping_mul(times_v)).wrapping_add(word(s, at + 40));
        z = z.wrapping_add(w.0).rotate_right(33).wrapping_mul(mul);
        let v = weak(s, at, v.1.wrapping_mul(mul), x.wrapping_add(w.0));
        let w = weak(s, at + 32, z.wrapping_add(w.1), y.wrapping_add(word(s, at + 16)));
        *self = Self { x: z, y, z: x, v, w };
    }
}

fn long(s: &[u8]) -> u64 {
    let seed = 81_u64;
    let y = seed.wrapping_mul(K1).wrapping_add(113);
    let z = shift_mix(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2);
    let x = seed.wrapping_mul(K2).wrapping_add(word(s, 0));
    let mut state = State { x, y, z, v: (0, 0), w: (0, 0) };
    let end = (s.len() - 1) / 64 * 64;
    let rest = (s.len() - 1) & 63;
    for at in (0..end).step_by(64) {
        state.step(s, at, K1, (1, 1));
    }
    let mul = K1.wrapping_add((state.z & 0xff) << 1);
    state.w.0 = state.w.0.wrapping_add(rest as u64);
    state.v.0 = state.v.0.wrapping_add(state.w.0);
    state.w.0 = state.w.0.wrapping_add(state.v.0);
    state.step(s, end + rest - 63, mul, (9, 9));
    let State { x, y, z, v, w } = state;
    mixed(
        mixed(v.0, w.0, mul).wrapping_add(shift_mix(y).wrapping_mul(K0)).wrapping_add(z),
        mixed(v.1, w.1, mul).wrapping_add(x),
        mul,
    )
}

#[cfg(test)]
mod tests {
    use super::farm;

    #[test]
    fn fingerprints_are_the_published_ones() {
        // The first three are the examples of BigQuery's documentation.
        for (text, expected) in [
            ("1footrue", -1_541_654_101_129_638_711_i64),
            ("2applefalse", 2_794_438_866_806_483_259),
            ("3true", -4_880_158_226_897_771_312),
        ] {
            assert_eq!(farm(text.as_bytes()).cast_signed(), expected, "{text}");
        }
        // Those of FarmHash itself, of the alphabet over and over.
        let text: Vec<u8> = (b'a'..=b'z').cycle().take(300).collect();
        for (len, expected) in [
            (0, -7_286_425_919_675_154_353_i64),
            (1, -5_528_939_962_900_187_677),
            (20, 7_349_542_659_848_948_094),
            (40, 4_224_718_273_921_451_922),
            (64, -7_184_832_003_244_844_038),
            (65, 2_608_948_203_458_330_154),
            (128, -4_385_295_067_663_546_550),
            (129, -7_269_759_402_498_002_988),
            (300, -7_834_006_943_512_290_672),
        ] {
            assert_eq!(text.get(..len).map(farm).map(u64::cast_signed), Some(expected), "{len}");
        }
    }
}
