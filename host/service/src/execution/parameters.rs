//! The parameters of a query request, as texts.
//!
//! An endpoint ignores parameters that it does not declare, so none is refused for its name here. `sql` and `lql` hold
//! ad-hoc queries. The number of parameters is bounded, and reading them takes time in proportion to their bytes.

use std::collections::hash_map::{Entry, HashMap};

use serde_json::{Map, Value};
use tidegate_model::{Code, Failure, MOST_PARAMETERS};

/// A query request's parameters.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct SentParameters {
    /// Names and texts; no name twice.
    pub values: Vec<(String, String)>,
    /// The names of those that were sent as records or lists of JSON, whose text is their JSON. Only parameters of kind `json`
    /// take them.
    pub records: Vec<String>,
    /// An ad-hoc query.
    pub adhoc: Option<AdhocQuery>,
}

/// An ad-hoc query, in its language.
#[derive(Debug, Clone, PartialEq)]
pub enum AdhocQuery {
    /// In the SQL dialect.
    Sql(String),
    /// In LQL.
    Lql(String),
}

impl SentParameters {
    /// The parameters of a JSON object, as in the body of a POST.
    ///
    /// # Errors
    /// [`Code::TooLarge`] for too many.
    pub fn of_object(object: Map<String, Value>) -> Result<Self, Failure> {
        let mut pairs = ParameterCollector::default();
        pairs.extend_object(object)?;
        Ok(pairs.finish())
    }
}

/// Collects parameters from the places of a request where they may be: query string, form, JSON.
#[derive(Debug, Default)]
pub struct ParameterCollector {
    values: Vec<(String, String)>,
    /// The index in `values` of each name.
    places: HashMap<String, usize>,
    records: Vec<String>,
    /// How many were sent, repetitions included.
    count: usize,
}

impl ParameterCollector {
    /// Adds parameters.
    ///
    /// # Errors
    /// [`Code::TooLarge`] for more than [`MOST_PARAMETERS`] over all calls; [`Code::InvalidParameter`] for a name that is
    /// given twice with different values.
    pub fn extend(&mut self, pairs: impl IntoIterator<Item = (String, String)>) -> Result<(), Failure> {
        for (name, text) in pairs {
            self.count += 1;
            if self.count > MOST_PARAMETERS {
                let message = format!("the request has more than {MOST_PARAMETERS} parameters; send fewer");
                return Err(Failure::new(Code::TooLarge, message));
            }
            match self.places.entry(name) {
                Entry::Vacant(vacant) => {
                    let name = vacant.key().clone();
                    vacant.insert(self.values.len());
                    self.values.push((name, text));
                }
                Entry::Occupied(known) => {
                    if self.values.get(*known.get()).is_some_and(|(_, before)| *before != text) {
                        let name = known.key();
                        let message = format!("parameter '{name}' is given twice with different values");
                        return Err(Failure::new(Code::InvalidParameter, message).about(name));
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the values of a JSON object. A value that is null counts as not sent.
    ///
    /// # Errors
    /// As [`Self::extend`].
    pub fn extend_object(&mut self, object: Map<String, Value>) -> Result<(), Failure> {
        for (name, value) in object {
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text,
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                Value::Array(_) | Value::Object(_) => {
                    self.records.push(name.clone());
                    value.to_string()
                }
            };
            self.extend([(name, text)])?;
        }
        Ok(())
    }

    /// The parameters, with the ad-hoc query taken out of them.
    pub fn finish(self) -> SentParameters {
        let mut values = self.values;
        let mut take = |name: &str| {
            let at = values.iter().position(|(known, _)| known == name)?;
            Some(values.swap_remove(at).1)
        };
        // An empty `sql` asks for the saved query, and `lql` counts only where there is no `sql`.
        let given = |text: &String| !text.trim().is_empty();
        let adhoc = match (take("sql"), take("lql")) {
            (Some(sql), _) => Some(sql).filter(given).map(AdhocQuery::Sql),
            (None, lql) => lql.filter(given).map(AdhocQuery::Lql),
        };
        SentParameters { values, records: self.records, adhoc }
    }
}
