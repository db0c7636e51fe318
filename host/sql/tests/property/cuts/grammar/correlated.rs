//! Subqueries that compare a column of the enclosing row in another way than by `=`, and the same as joins.

use super::{Compare, Make, NAMED};

impl Make<'_, '_> {
    /// A value for each row of a relation, and a GROUP BY over a join with the same answer if the rows are unique.
    pub(super) fn correlated(&mut self) -> (String, Compare, Option<String>) {
        let (mut outer, inner) = (self.relation(1), self.relation(0).sql);
        // Rows that are computed, and chosen among others, are the rows that are answered.
        if self.tape.yes() {
            let order = self.whole_order(NAMED, outer.unique);
            outer.sql = format!("SELECT * FROM ({}) AS o{order} LIMIT {}", outer.sql, self.pick(&[1, 7, 40]));
        }
        let condition = match self.below(5) {
            0 => "q.n > r.n".to_owned(),
            1 => "q.n <= r.n AND q.p != r.p".to_owned(),
            2 => "q.n BETWEEN r.n - 1 AND r.n + 1".to_owned(),
            3 => "q.p = r.p AND q.n < r.n".to_owned(),
            _ => format!("q.n + r.n > {}", self.pick(&[30, 60])),
        };
        let and = if self.tape.yes() {
            format!(
                " AND {}",
                self.condition(
                    super::Names { id: "q.id", ts: "q.ts", p: "q.p", k: "q.k", n: "q.n", s: "q.s", l: "q.l", ..NAMED },
                    0
                )
            )
        } else {
            String::new()
        };
        let value = self.pick(&["COUNT(q.one)", "MAX(q.id)", "MIN(q.ts)", "COUNT(DISTINCT q.p)"]);
        let inner = format!("(SELECT *, 1 AS one FROM ({inner}) AS i) AS q");
        let subquery = format!("(SELECT {value} FROM {inner} WHERE {condition}{and})");
        let from = format!("({}) AS r", outer.sql);
        let joined = format!(
            "SELECT r.id AS id, r.n AS n, {value} AS c FROM {from} LEFT JOIN {inner} ON {condition}{and} GROUP BY r.id, r.n"
        );
        let (sql, same) = match self.below(4) {
            0 => (
                format!("SELECT r.id AS id, r.n AS n FROM {from} WHERE {subquery} IS NOT NULL"),
                format!("SELECT id, n FROM ({joined}) AS j WHERE c IS NOT NULL"),
            ),
            1 => (format!("FROM {from} |> EXTEND {subquery} AS c |> SELECT id, n, c"), joined),
            _ => (format!("SELECT r.id AS id, r.n AS n, {subquery} AS c FROM {from}"), joined),
        };
        (sql, Compare::Bag, outer.unique.then_some(same))
    }
}
