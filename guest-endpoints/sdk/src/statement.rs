//! Running statements, and the rows that they have in the host.

use crate::contract::{self, Failure, Value};
use crate::{FromValue, Problem, Rows};

/// The statement `name` of this endpoint: `default` is the body of `query.sql`, others are the files in `statements/`,
/// without `.sql`.
///
/// ```no_run
/// use tidegate_sdk::{Failure, ResultSet, statement};
///
/// # fn f() -> Result<ResultSet, Failure> {
/// statement("slowest").bind("least", 250).run()
/// # }
/// ```
pub fn statement(name: &str) -> Statement<'_> {
    Statement { text: Text::Named(name), arguments: Vec::new() }
}

/// SQL text to run over the tables that the endpoint was granted, for endpoints that make their SQL or take it from the
/// caller. It needs the feature `adhoc`, which makes the endpoint one of the world `endpoint-adhoc`.
///
/// Bind values instead of writing them into the text. The text is parsed and planned in each request, and has the limits
/// `statement_text`, `tokens`, `nesting` and `relations`.
#[cfg(feature = "adhoc")]
pub fn sql(text: &str) -> Statement<'_> {
    Statement { text: Text::Sql(text), arguments: Vec::new() }
}

/// A statement to be run; made by [`statement`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens before `run`"]
pub struct Statement<'a> {
    text: Text<'a>,
    arguments: Vec<(String, Value)>,
}

#[derive(Debug, Clone, Copy)]
enum Text<'a> {
    Named(&'a str),
    #[cfg(feature = "adhoc")]
    Sql(&'a str),
}

impl Statement<'_> {
    /// Gives the statement a value for `@name`. The parameters of the request are bound already, under their names, and
    /// cannot be replaced: the granted tables rely on some of them.
    ///
    /// A value is a `bool`, `i64`, `i32`, `u32`, `f64`, `&str`, `String`, bytes, a [`Timestamp`](crate::Timestamp), or
    /// an `Option` of one, where `None` is `NULL`. It is a value wherever it stands, never SQL.
    pub fn bind(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.arguments.push((name.to_owned(), value.into()));
        self
    }

    /// Runs the statement. Its rows stay in the host until they are read or passed on.
    ///
    /// # Limits
    /// A request may run `statements` statements (32 unless the server, the endpoint or the token says less), each
    /// with `statement_memory`, and all within `request_time`. At most 64 result sets can be open at once.
    ///
    /// # Errors
    /// There is no such statement, an argument is missing, of the wrong type or the name of a parameter, the statement
    /// met a value that it cannot work with, stored data cannot be read, or a limit is reached. `?` hands the error on
    /// to the caller as it is.
    pub fn run(self) -> Result<ResultSet, Failure> {
        match self.text {
            Text::Named(name) => contract::run(name, &self.arguments),
            #[cfg(feature = "adhoc")]
            Text::Sql(sql) => contract::run_sql(sql, &self.arguments),
        }
        .map(ResultSet)
    }
}

/// The rows of a statement, or rows that the endpoint made. They are in the host; this is a handle.
///
/// Pass it on with [`Response::rows`](crate::Response::rows), which streams it to the caller in the format that they
/// asked for, read it with [`rows`](Self::rows), or look at one value with [`scalar`](Self::scalar).
#[derive(Debug)]
pub struct ResultSet(contract::ResultSet);

impl ResultSet {
    /// The columns, in order: name, kind, and whether there may be nulls.
    pub fn columns(&self) -> Vec<contract::Column> {
        self.0.columns()
    }

    /// The same rows with these columns only, in this order. Nothing is copied.
    ///
    /// # Errors
    /// A column that is not there, or one that is named twice.
    pub fn select(self, columns: &[&str]) -> Result<Self, Failure> {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        contract::ResultSet::select(self.0, &columns).map(Self)
    }

    /// The first `rows` rows. The statement ends when they were read.
    #[must_use]
    pub fn limit(self, rows: u32) -> Self {
        Self(contract::ResultSet::limit(self.0, rows))
    }

    /// The first column of the next row, which is thereby read; `None` if it is null or there is no row. For decisions,
    /// such as whether there is anything to answer.
    ///
    /// # Errors
    /// The statement failed or a limit is reached; or a failure of the endpoint (500), if the value is no `T`.
    pub fn scalar<T: FromValue>(&self) -> Result<Option<T>, Problem> {
        match self.0.scalar()? {
            Value::Null => Ok(None),
            value => match T::from_value(value) {
                Some(value) => Ok(Some(value)),
                None => Err(Problem::mistake(&["the first column of a statement is read as ", T::KIND, "; cast it"])),
            },
        }
    }

    /// Reads the rows into the endpoint's memory, a batch at a time.
    pub fn rows(self) -> Rows {
        Rows::new(self.0)
    }

    /// The handle as the contract has it.
    pub fn contract(self) -> contract::ResultSet {
        self.0
    }
}

impl From<contract::ResultSet> for ResultSet {
    fn from(set: contract::ResultSet) -> Self {
        Self(set)
    }
}
