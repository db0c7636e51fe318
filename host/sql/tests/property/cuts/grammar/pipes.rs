//! Piped statements, and the same as SELECTs over one another.

use super::{Compare, Make, NAMED};

impl Make<'_, '_> {
    /// Operators over a relation, and a SELECT for each of them over the one before.
    pub(super) fn piped(&mut self) -> (String, Compare, String) {
        let relation = self.relation(1);
        let mut unique = relation.unique;
        let mut piped = match self.below(3) {
            0 => format!("({})", relation.sql),
            1 => format!("FROM ({}) AS r", relation.sql),
            _ => format!("WITH w AS ({}) FROM w", relation.sql),
        };
        let mut same = relation.sql;
        let mut aliased = false;
        for nth in 0..=self.below(5) {
            let (operator, select) = match self.below(9) {
                0 | 1 => {
                    let condition = self.condition(NAMED, 1);
                    (format!("WHERE {condition}"), format!("SELECT * FROM (PREVIOUS) AS r WHERE {condition}"))
                }
                2 => {
                    let value = self.pick(&["UPPER(k)", "n + 1", "COUNT(*) OVER (PARTITION BY p)"]);
                    let value = format!("{value} AS x{nth}");
                    (format!("EXTEND {value}"), format!("SELECT *, {value} FROM (PREVIOUS) AS r"))
                }
                3 => {
                    let (name, value) = self.pick(&[("n", "n + 1"), ("k", "CONCAT(k, p)"), ("s", "COALESCE(s, 0)")]);
                    (
                        format!("SET {name} = {value}"),
                        format!("SELECT * REPLACE ({value} AS {name}) FROM (PREVIOUS) AS r"),
                    )
                }
                4 => {
                    let list = self.pick(&[
                        "id, ts, p, k, n, s, l",
                        "l, s, n, k, p, ts, id",
                        "id, ts, p, LOWER(k) AS k, n, s, l",
                    ]);
                    (format!("SELECT {list}"), format!("SELECT {list} FROM (PREVIOUS) AS r"))
                }
                5 => {
                    let order = self.whole_order(NAMED, unique);
                    let limit = self.limit().unwrap_or_else(|| " LIMIT 7".to_owned());
                    (format!("{order} |>{limit}"), format!("SELECT * FROM (PREVIOUS) AS r{order}{limit}"))
                }
                6 => ("DISTINCT".to_owned(), "SELECT DISTINCT * FROM (PREVIOUS) AS r".to_owned()),
                7 => {
                    unique = false;
                    let other = self.relation(0).sql;
                    let both = "SELECT id, ts, p, k, n, s, l FROM (PREVIOUS) AS r";
                    (
                        format!("SELECT id, ts, p, k, n, s, l |> UNION ALL BY NAME (FROM ({other}) AS o)"),
                        format!("SELECT * FROM (({both}) UNION ALL ({other})) AS u"),
                    )
                }
                _ => {
                    aliased = true;
                    ("AS q".to_owned(), "PREVIOUS".to_owned())
                }
            };
            piped = format!("{piped} |> {}", operator.trim_start());
            same = select.replace("PREVIOUS", &same);
        }
        // An alias at the end: earlier ones may be gone.
        if aliased {
            piped.push_str(" |> AS z |> WHERE z.id IS NOT NULL");
            same = format!("SELECT * FROM ({same}) AS r WHERE id IS NOT NULL");
        }
        if self.below(3) == 0 {
            let key = self.pick(&["p", "l", "s"]);
            piped = format!("{piped} |> AGGREGATE COUNT(*) AS c, MAX(n) AS m, MIN(id) AS i GROUP BY {key}");
            same = format!("SELECT {key}, COUNT(*) AS c, MAX(n) AS m, MIN(id) AS i FROM ({same}) AS r GROUP BY {key}");
        }
        (piped, Compare::Bag, same)
    }
}
