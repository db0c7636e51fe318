//! Mutation by tokens. Changing bytes breaks nearly every statement at its syntax; pieces of one
//! text put in the place of pieces of another reach what lies behind it.

use std::path::Path;

/// The texts that pieces are taken from, cut into tokens.
#[derive(Debug)]
pub struct Tokens {
    texts: Vec<Vec<String>>,
}

/// Xorshift: a mutation must follow from its seed alone.
struct Random(u64);

impl Random {
    /// A number below `end`, or zero.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or_default().checked_rem(end).unwrap_or_default()
    }
}

impl Tokens {
    /// The texts of a target's corpus and the words of its dictionary.
    pub fn of(target: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let files = std::fs::read_dir(folder.join("corpus").join(target)).into_iter().flatten().flatten();
        let mut paths: Vec<_> = files.map(|file| file.path()).collect();
        paths.sort();
        let mut texts: Vec<_> = paths.iter().map(|path| cut(&read(path))).collect();
        for line in read(&folder.join(format!("{target}.dict"))).lines().filter(|line| line.starts_with('"')) {
            texts.push(cut(&line.trim_matches('"').replace("\\\"", "\"").replace("\\\\", "\\")));
        }
        Self { texts }
    }

    /// The text with one or two runs of its tokens replaced by runs of another text's.
    pub fn mutate(&self, text: &str, seed: u32) -> String {
        let mut random = Random(u64::from(seed) << 1 | 1);
        for _ in 0..8 {
            random.below(1);
        }
        let mut tokens = cut(text);
        for _ in 0..=random.below(2) {
            let start = random.below(tokens.len() + 1);
            let end = (start + random.below(5)).min(tokens.len());
            let other = random.below(self.texts.len() + 1);
            let run = match self.texts.get(other) {
                Some(other) => slice(other, &mut random),
                None => slice(&tokens, &mut random),
            };
            tokens.splice(start..end, run);
        }
        tokens.concat()
    }
}

fn slice(tokens: &[String], random: &mut Random) -> Vec<String> {
    let start = random.below(tokens.len());
    let length = random.below(12);
    tokens.iter().skip(start).take(length).cloned().collect()
}

/// Words, runs of blanks, and every other character by itself.
fn cut(text: &str) -> Vec<String> {
    let class = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 1,
        c if c.is_whitespace() => 2,
        _ => 0,
    };
    let mut tokens: Vec<String> = Vec::new();
    let mut last = 0;
    for c in text.chars() {
        match tokens.last_mut() {
            Some(token) if class(c) != 0 && class(c) == last => token.push(c),
            _ => tokens.push(c.to_string()),
        }
        last = class(c);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_its_tokens() {
        assert_eq!(cut("a_1 >=  'é'"), ["a_1", " ", ">", "=", "  ", "'", "é", "'"]);
    }

    #[test]
    fn a_mutation_follows_from_its_seed_and_takes_from_the_corpus() {
        let tokens = Tokens::of("sql");
        assert!(tokens.texts.len() > 50);
        let made: Vec<_> = (0..50).map(|seed| tokens.mutate("select id from hits", seed)).collect();
        assert!(made.iter().zip(0..).all(|(text, seed)| tokens.mutate("select id from hits", seed) == *text));
        assert!(made.iter().any(|text| text.starts_with("select id") && text.len() > 25), "{made:?}");
    }
}
