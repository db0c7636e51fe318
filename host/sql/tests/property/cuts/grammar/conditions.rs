//! The conditions of random statements: times, texts, ids, lists and numbers, as scans and indexes may take them.

use super::super::world::{self, START};
use super::{Make, Names};

impl Make<'_, '_> {
    pub(super) fn time(&mut self) -> String {
        let second = self.facts.seconds * self.tape.below(100) / 97;
        let second = START + second as i64;
        match self.below(3) {
            0 => format!("TIMESTAMP_SECONDS({second})"),
            1 => format!("TIMESTAMP_MICROS({})", second * 1_000_000),
            _ => {
                let text = chrono::DateTime::from_timestamp(second, 0).unwrap().format("%Y-%m-%d %H:%M:%S");
                format!("TIMESTAMP '{text}Z'")
            }
        }
    }

    pub(super) fn condition(&mut self, at: Names, depth: usize) -> String {
        match self.below(if depth == 0 { 16 } else { 20 }) {
            0 => format!("RANGE_CONTAINS(RANGE({}, NULL), {})", self.time(), at.ts),
            1 => {
                let op = self.pick(&[">=", "<", ">", "<="]);
                format!("{} {op} {}", at.ts, self.time())
            }
            2 => format!("{} BETWEEN {} AND {}", at.ts, self.time(), self.time()),
            3 => {
                let pattern = self.pick(&["503 .*10[.]0[.]77", "rare", "^GET (3|7)$", "[24]$", "(?i)post"]);
                format!("REGEXP_CONTAINS({}, r'{pattern}')", at.k)
            }
            4 => {
                let tenant = self.pick(&[Some(at.p), at.m]).unwrap_or(at.p);
                format!("{tenant} {} '{}'", self.pick(&["=", "!="]), self.pick(&["p0", "p1", "p9", "1"]))
            }
            5 => {
                let tenant = self.pick(&[Some(at.p), at.m]).unwrap_or(at.p);
                format!("{tenant} {}IN ('p0', '{}')", self.pick(&["", "NOT "]), self.pick(&["p2", "p3"]))
            }
            6 => format!("{} {} {}", at.n, self.pick(&[">", "<=", "="]), self.pick(&[20, 21, 33, 43])),
            7 => format!("{} {} {}", at.s, self.pick(&["=", ">=", "<"]), self.pick(&[200, 404, 500])),
            8 => format!("{} IS {}NULL", self.pick(&[at.n, at.s, at.l, at.p]), self.pick(&["", "NOT "])),
            9 => {
                let texts = [Some(at.k), at.u];
                let text = self.pick(&texts).unwrap_or(at.k);
                self.text_condition(text)
            }
            10 => format!("{} {} '8{}'", at.id, self.pick(&["<", ">="]), self.below(10)),
            11 => format!("{} = '{}'", at.l, self.pick(&["a", "b", "p1", "[\"p1\"]"])),
            12 | 13 => {
                let id = self.pick(&[Some(at.id), at.t]).unwrap_or(at.id);
                self.id_condition(id)
            }
            14 | 15 => self.list_condition(at),
            16 | 17 => format!("({} AND {})", self.condition(at, depth - 1), self.condition(at, depth - 1)),
            18 => format!("({} OR {})", self.condition(at, depth - 1), self.condition(at, depth - 1)),
            _ => format!("NOT ({})", self.condition(at, depth - 1)),
        }
    }

    /// Conditions of lists, in which a part may be decided for a segment.
    fn list_condition(&mut self, at: Names) -> String {
        let Some(list) = at.g else { return format!("{} IS NOT NULL", at.k) };
        let of_length = format!("ARRAY_LENGTH({list}) {} {}", self.pick(&["<", ">="]), 1 + self.below(3));
        match self.below(6) {
            0 => format!("{list} IS {}NULL", self.pick(&["", "NOT "])),
            1 => format!("{} IN UNNEST({list})", self.below(4)),
            2 => format!("({list} IS NULL OR {of_length})"),
            3 => format!("({} IS NULL OR {of_length})", self.pick(&[at.id, at.p, at.n, at.l])),
            4 => format!("({} IN UNNEST({list}) OR {of_length})", self.below(4)),
            _ => of_length,
        }
    }

    /// What a filter of ids may answer, and what is compared as the bytes of a UUID where all values are one.
    pub(super) fn id_condition(&mut self, id: &str) -> String {
        let one = |make: &mut Self| {
            let number = make.below(make.facts.rows) as i64;
            match make.below(8) {
                0 => "'none'".to_owned(),
                1 => format!("'{}'", world::id(number, true).to_uppercase()),
                2 => "NULL".to_owned(),
                3 => format!("'{}'", world::id(number, false)),
                _ => format!("'{}'", world::id(number, true)),
            }
        };
        match self.below(5) {
            0 => format!("{id} = {}", one(self)),
            1 => format!("{} != {id}", one(self)),
            2 => format!("{id} IS {}NULL", self.pick(&["", "NOT "])),
            3 => format!("{id} {}IN ({}, {})", self.pick(&["", "NOT "]), one(self), one(self)),
            _ => format!("{id} {}IN ({}, {}, {})", self.pick(&["", "NOT "]), one(self), one(self), one(self)),
        }
    }

    /// What an index of texts may answer, in part.
    pub(super) fn text_condition(&mut self, k: &str) -> String {
        let word = self.pick(&["rare", "503 of", "GET", "PATCH 1", "patch", "nowhere"]);
        match self.below(6) {
            0 | 1 => format!("{k} LIKE '{}'", self.pick(&["%rare%", "GET%", "%1", "P%T 3", "%PATCH _%", "nowhere%"])),
            2 => format!("LOWER({k}) LIKE '%{word}%'"),
            3 => format!("CONTAINS_SUBSTR({k}, '{word}')"),
            4 => format!("STARTS_WITH({k}, '{word}')"),
            _ => format!("{k} IN ('{word} 3', 'rare 7')"),
        }
    }
}
