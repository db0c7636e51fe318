//! The fields of logs that a saved query names, whether any log has had them or not.
//!
//! A source has a bounded number of columns. Fields that come first and that nobody reads must not take the columns of
//! the fields that endpoints read, so the store is told of the latter: they always have a column. They are found in the
//! text alone, because a field that no log has had yet is in no schema. Where the text leaves open what a name
//! stands for, each of the possible fields is named: a column that is kept for nothing costs nothing.
//!
//! The store may also have an index of texts that are searched. Those are found in the same way, but only where the text
//! leaves nothing open: an index that is made for nothing costs time whenever events are stored.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, PipeOperator, Query, TableFactor,
    Visit, Visitor,
};

use crate::saved_query::SavedQuery;
use crate::text::marker_name;

/// The most fields of one query.
const MOST_FIELDS: usize = 200;

/// Functions that search their first argument for a text.
const SEARCHES: [&str; 4] = ["regexp_contains", "contains_substr", "starts_with", "ends_with"];

/// A field: its name after those of the records that it is in, from a column of the source on.
pub type FieldPath = Vec<String>;

impl SavedQuery {
    /// The fields that the query may read of the tables that it names; 200 at most. A path may begin with a name
    /// that is no column of a source, such as an alias: no log has it then.
    pub fn wanted_fields(&self) -> BTreeSet<FieldPath> {
        let mut names = Names::default();
        let _ = self.query.visit(&mut names);
        names.fields()
    }

    /// The texts in records that the query searches: by LIKE, a regular expression, or for a part.
    pub fn searched_texts(&self) -> BTreeSet<FieldPath> {
        let mut names = Names::default();
        let _ = self.query.visit(&mut names);
        names.searched_texts()
    }
}

/// The names of a query, in the order of its text.
#[derive(Default)]
struct Names {
    /// Tables and arrays under other names: the name, and for an array the names within its expression.
    aliases: Vec<(String, Option<Vec<FieldPath>>)>,
    written: Vec<FieldPath>,
    /// Those of them that are searched.
    searched: Vec<FieldPath>,
}

/// What each alias stands for, by its name in lower case: the event itself is the empty path.
type Bases = HashMap<String, BTreeSet<FieldPath>>;

/// The paths that a name may stand for.
fn under(bases: &Bases, path: &FieldPath) -> Vec<FieldPath> {
    let Some((first, rest)) = path.split_first() else { return Vec::new() };
    match bases.get(&first.to_lowercase()) {
        Some(found) => found.iter().map(|base| [base.as_slice(), rest].concat()).collect(),
        None => vec![path.clone()],
    }
}

impl Names {
    fn bases(&self) -> Bases {
        let mut bases = Bases::new();
        for (alias, array) in &self.aliases {
            let paths = match array {
                None => vec![FieldPath::new()],
                Some(names) => names.iter().flat_map(|name| under(&bases, name)).collect(),
            };
            let known = bases.entry(alias.to_lowercase()).or_default();
            known.extend(paths.into_iter().take(MOST_FIELDS));
        }
        bases
    }

    fn searched_texts(self) -> BTreeSet<FieldPath> {
        let bases = self.bases();
        let one_path = |path: &FieldPath| match under(&bases, path).as_slice() {
            [one] if one.len() > 1 => Some(one.clone()),
            _ => None,
        };
        self.searched.iter().filter_map(one_path).collect()
    }

    fn fields(self) -> BTreeSet<FieldPath> {
        let bases = self.bases();
        let mut fields: BTreeSet<FieldPath> =
            bases.values().flatten().filter(|path| !path.is_empty()).cloned().collect();
        // Names of fields before names that stand alone, which may be of any record.
        let (alone, fields_of): (Vec<_>, Vec<_>) = self.written.iter().partition(|path| path.len() == 1);
        let fields_of = fields_of.into_iter().flat_map(|path| under(&bases, path));
        let elements: Vec<&FieldPath> = bases.values().flatten().collect();
        let alone = alone.into_iter().filter(|path| !bases.contains_key(&path.concat().to_lowercase()));
        let alone = alone.flat_map(|path| elements.iter().map(move |base| [base.as_slice(), path].concat()));
        for path in fields_of.chain(alone).filter(|path| !path.is_empty()) {
            if fields.len() >= MOST_FIELDS {
                break;
            }
            fields.insert(path);
        }
        fields.into_iter().take(MOST_FIELDS).collect()
    }
}

/// The name that an expression is, if it is one.
fn name_of(expr: &Expr) -> Option<FieldPath> {
    match expr {
        Expr::Identifier(ident) if !ident.value.starts_with('@') => Some(vec![ident.value.clone()]),
        Expr::CompoundIdentifier(parts) => Some(parts.iter().map(|part| part.value.clone()).collect()),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let mut path = name_of(root)?;
            for step in access_chain {
                if let AccessExpr::Dot(step) = step {
                    path.extend(name_of(step)?);
                }
            }
            Some(path)
        }
        _ => None,
    }
}

/// The names within an expression.
fn names_in(expr: &Expr) -> Vec<FieldPath> {
    #[derive(Default)]
    struct Within(Vec<FieldPath>);
    impl Visitor for Within {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.0.extend(name_of(expr));
            ControlFlow::Continue(())
        }
    }
    let mut within = Within::default();
    let _ = expr.visit(&mut within);
    within.0
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } => {
                let names = array_exprs.iter().flat_map(names_in).collect();
                self.aliases.push((alias.name.value.clone(), Some(names)));
            }
            TableFactor::Table { name, alias, .. } => {
                let parts: FieldPath =
                    name.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.clone()).collect();
                let Some(last) = parts.last() else { return ControlFlow::Continue(()) };
                let own = alias.as_ref().map_or(last, |alias| &alias.name.value).clone();
                let is_alias = |name: &String| self.aliases.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
                // `FROM t, t.metadata AS m` reads an array.
                let array = (parts.len() > 1 && parts.first().is_some_and(is_alias)).then(|| vec![parts]);
                self.aliases.push((own, array));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for operator in &query.pipe_operators {
            if let PipeOperator::As { alias } = operator {
                self.aliases.push((alias.value.clone(), None));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Identifier(name) if marker_name(name).is_some()) {
            return ControlFlow::Continue(());
        }
        self.written.extend(name_of(expr));
        self.searched.extend(searched(expr).and_then(name_of));
        ControlFlow::Continue(())
    }
}

/// What an expression searches for a text.
fn searched(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Like { expr, .. } | Expr::ILike { expr, .. } => Some(expr),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) => {
            let name = name.0.last()?.as_ident()?;
            SEARCHES.iter().find(|search| name.value.eq_ignore_ascii_case(search))?;
            match list.args.first()? {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(subject)) => Some(subject),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn wanted(sql: &str) -> Vec<String> {
        let fields = SavedQuery::parse(sql).unwrap().wanted_fields();
        fields.into_iter().map(|path| path.join("/")).collect()
    }

    #[test]
    fn paths_go_through_the_names_of_arrays() {
        let sql = "WITH a AS (SELECT id, m.level, request.headers.host, t.project, request.cf[0].city
                     FROM `edge.logs` AS t CROSS JOIN UNNEST(t.metadata) AS m, UNNEST(m.request) AS request
                     WHERE t.extra = @p)
                   SELECT 1 FROM a";
        let fields = wanted(sql);
        for path in [
            "metadata",
            "metadata/level",
            "metadata/request",
            "metadata/request/headers/host",
            "metadata/request/cf/city",
            "project",
            "extra",
        ] {
            assert!(fields.iter().any(|field| field == path), "{path} is not in {fields:?}");
        }
        assert!(!fields.iter().any(|field| field.contains('@')), "{fields:?}");
    }

    #[test]
    fn a_name_that_stands_alone_may_be_of_any_record() {
        for from in ["src, src.metadata AS m", "src AS t, t.metadata AS m", "src CROSS JOIN UNNEST(metadata) AS m"] {
            let fields = wanted(&format!("SELECT status FROM {from}"));
            assert!(fields.contains(&"metadata/status".to_owned()), "{fields:?}");
            assert!(fields.contains(&"status".to_owned()), "{fields:?}");
        }
        let fields = wanted("SELECT x FROM src AS t, UNNEST(COALESCE(t.metadata, [])) AS m");
        assert!(fields.contains(&"metadata/x".to_owned()), "{fields:?}");
    }

    #[test]
    fn texts_that_are_searched_are_known_where_their_path_is() {
        let sql = "WITH a AS (SELECT request.path FROM src AS t
                     CROSS JOIN UNNEST(t.metadata) AS m CROSS JOIN UNNEST(m.request) AS request
                     WHERE REGEXP_CONTAINS(request.url, @project) AND m.level NOT LIKE 'x%' AND request.method = 'GET'
                       AND t.event_message LIKE '%a%')
                   SELECT COUNTIF(REGEXP_CONTAINS(path, '/rest')) FROM a";
        let texts = SavedQuery::parse(sql).unwrap().searched_texts();
        let texts: Vec<String> = texts.into_iter().map(|path| path.join("/")).collect();
        assert_eq!(texts, ["metadata/level", "metadata/request/url"]);
    }

    #[test]
    fn pipes_name_fields_as_clauses_do() {
        let fields = wanted(
            "FROM `edge.logs` |> AS t |> CROSS JOIN UNNEST(t.metadata) AS m |> WHERE m.level = 'x' |> EXTEND t.extra AS e",
        );
        for path in ["metadata", "metadata/level", "extra"] {
            assert!(fields.iter().any(|field| field == path), "{path} is not in {fields:?}");
        }
        assert!(!fields.iter().any(|field| field.contains('|')), "{fields:?}");
    }

    #[test]
    fn there_are_no_more_than_a_source_has_room_for() {
        let many: Vec<String> = (0..1_000).map(|n| format!("m.f{n}")).collect();
        let fields = wanted(&format!("SELECT {} FROM src, UNNEST(metadata) AS m", many.join(", ")));
        assert_eq!(fields.len(), MOST_FIELDS);
    }
}
