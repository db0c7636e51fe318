//! Reads a definition field by field, so that all its errors are reported at once.

use axum::extract::Request;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tidegate_model::{Code, Failure, json_fault, nearest, parse_timestamp};
use tidegate_service::Service;
use tidegate_service::tokens::Access;

use super::{MAX_BODY, answer_room, memory_of};
use crate::request_body::RequestBody;
use tidegate_service::off_connections;

/// A type of fields, with the words for it in the error for a value of another type.
pub(crate) trait SentType: DeserializeOwned {
    /// What the field must be.
    const WHAT: &'static str;
}

impl SentType for String {
    const WHAT: &'static str = "a text";
}

impl SentType for Option<String> {
    const WHAT: &'static str = "a text, or null";
}

impl SentType for u64 {
    const WHAT: &'static str = "a whole number, not below 0";
}

/// Null switches the setting off.
impl SentType for Option<u64> {
    const WHAT: &'static str = "a whole number, not below 0, or null";
}

impl SentType for bool {
    const WHAT: &'static str = "true or false";
}

/// What a request may say of something. See [`definition`].
pub(crate) trait Definition: Sized {
    /// Reads it from the fields of a request; what is wrong is noted there.
    fn take(fields: &mut Fields) -> Self;

    /// It with the fields of `base` in the place of those that it leaves out.
    #[must_use]
    fn or(self, base: Self) -> Self;
}

/// Declares what requests may say of something, once: a struct that has each field if it was sent, which is also how answers
/// show these fields; how it is read; and its schema. `needs` makes the schema of a request that must have some of them.
///
/// Attributes of fields are for the schema, unless that is `like` the one of a type of the model. A type without [`SentType`] is
/// followed by what the field must be.
macro_rules! definition {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(and $new:ident needs $needed:tt)? $(like $model:ident)? {
            $( $(#[$attribute:meta])* $field:ident: $type:ty $(= $what:expr)?, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
        $vis struct $name {
            $( #[serde(skip_serializing_if = "Option::is_none")] $vis $field: Option<$type>, )*
        }

        impl $crate::manage::fields::Definition for $name {
            fn take(fields: &mut $crate::manage::fields::Fields) -> Self {
                Self { $( $field: fields.take(stringify!($field), definition!(@what $type $(, $what)?)), )* }
            }

            fn or(self, base: Self) -> Self {
                Self { $( $field: self.$field.or(base.$field), )* }
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut schema = definition!(@schema generator [$($model)?] $( $(#[$attribute])* $field: $type, )*);
                schema.remove("required");
                schema
            }
        }

        $(
            /// The same of something new.
            #[derive(Debug)]
            $vis enum $new {}

            impl schemars::JsonSchema for $new {
                fn schema_name() -> std::borrow::Cow<'static, str> {
                    stringify!($new).into()
                }

                fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                    let mut schema = <$name as schemars::JsonSchema>::json_schema(generator);
                    schema.insert("required".to_owned(), serde_json::json!($needed));
                    schema
                }
            }
        )?
    };
    (@schema $generator:ident [$model:ident] $($fields:tt)*) => { <$model as schemars::JsonSchema>::json_schema($generator) };
    (@schema $generator:ident [] $($fields:tt)*) => {{
        #[expect(dead_code, reason = "only its schema is used")]
        #[derive(schemars::JsonSchema)]
        #[schemars(deny_unknown_fields)]
        struct AllFields { $($fields)* }
        <AllFields as schemars::JsonSchema>::json_schema($generator)
    }};
    (@what $type:ty) => { <$type as $crate::manage::fields::SentType>::WHAT };
    (@what $type:ty, $what:expr) => { $what };
}
pub(crate) use definition;

/// The names of the fields that answers show of something. They are made of its schema, so once.
pub(crate) fn shown_names<T: JsonSchema>() -> Vec<String> {
    let shown = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let fields = shown.get("properties").and_then(Value::as_object);
    fields.map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
}

/// The most unknown fields that are reported by name.
const MOST_TOLD: usize = 50;

/// The fields of a JSON object that was sent.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    object: Map<String, Value>,
    /// Names that are ignored where they are left over.
    shown: &'static [String],
    /// The names of the fields that were read so far. They are suggested for unknown fields.
    asked: Vec<&'static str>,
    failures: Vec<Failure>,
}

impl Fields {
    /// Reads the fields from the body of a request, and takes the room for its answer.
    ///
    /// # Errors
    /// Those of [`RequestBody::read`]; [`Code::InvalidBody`] if it is not a JSON object.
    pub(crate) async fn read(service: &Service, access: &Access, request: Request) -> Result<Self, Failure> {
        let empty = || Failure::new(Code::InvalidBody, "the body is empty; send a JSON object, {} at least");
        Self::read_if_sent(service, access, request).await?.ok_or_else(empty)
    }

    /// Reads the fields from the body of a request, which may be empty: then there are none.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) async fn read_if_sent(
        service: &Service,
        access: &Access,
        request: Request,
    ) -> Result<Option<Self>, Failure> {
        let (head, body) = request.into_parts();
        let body = RequestBody::read(&head.headers, body, MAX_BODY, &memory_of(service, access), "the body").await?;
        let bad = |message: String| Failure::new(Code::InvalidBody, message);
        let (bytes, held) = body.into_parts();
        let length = bytes.len();
        if bytes.iter().all(u8::is_ascii_whitespace) {
            answer_room::keep(service, held).await?;
            return Ok(None);
        }
        let parse = move || match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok((Self::of(object), held)),
            Ok(_) => Err(bad("the body must be a JSON object".to_owned())),
            Err(error) => Err(bad(format!("the body is not valid JSON: {}", json_fault(&error)))),
        };
        let (fields, held) = off_connections(length, parse).await?;
        answer_room::keep(service, held).await?;
        Ok(Some(fields))
    }

    fn of(object: Map<String, Value>) -> Self {
        Self { object, ..Self::default() }
    }

    /// Says what answers show of the same thing ([`shown_names`]): it may be sent back as it was shown, so whatever of that is no
    /// field of the request is ignored.
    pub(crate) fn ignore_shown(&mut self, names: &'static [String]) {
        self.shown = names;
    }

    /// Ignores a field that clients of the compatible API send.
    pub(crate) fn ignore(&mut self, name: &'static str) {
        self.object.shift_remove(name);
    }

    /// Takes a field of any type, if it was sent. `what` says in the error what the field must be.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &'static str, what: &str) -> Option<T> {
        self.asked.push(name);
        let value = self.object.shift_remove(name)?;
        match serde_json::from_value(value) {
            Ok(value) => Some(value),
            Err(error) => {
                let mut message = format!("{name} must be {what}");
                // For a single value, `what` is enough. For a list or an object, the parser's error says which part of
                // it is wrong.
                if what.contains("list") || what.contains("object") {
                    message.push_str(&format!(": {error}"));
                }
                self.refuse(name, message);
                None
            }
        }
    }

    /// Records an error of a field.
    pub(crate) fn refuse(&mut self, name: &str, message: impl Into<String>) {
        self.failures.push(Failure::new(Code::Refused, message).about(name));
    }

    /// Records what a check of the whole has found of fields that are not refused already.
    pub(crate) fn check(&mut self, checked: Result<(), Failure>) {
        for failure in checked.err().into_iter().flat_map(|failure| failure.each()) {
            if !failure.location.as_deref().is_some_and(|field| self.has_refused(field)) {
                self.fail(failure);
            }
        }
    }

    /// The time that a field says, in microseconds since 1970.
    pub(crate) fn time(&mut self, name: &str, text: &str) -> Option<i64> {
        let time = parse_timestamp(text);
        if time.is_none() {
            self.refuse(name, format!("'{text}' is no ISO 8601 time; write e.g. 2027-01-31T12:00:00Z"));
        }
        time
    }

    /// Records a failure.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failures.push(failure);
    }

    /// Whether a field was refused already, so that it is not reported twice.
    pub(crate) fn has_refused(&self, name: &str) -> bool {
        self.failures.iter().any(|failure| failure.location.as_deref() == Some(name))
    }

    /// Checks that no failure was recorded and no unknown field is left over.
    ///
    /// # Errors
    /// [`Code::Refused`] with all failures.
    pub(crate) fn done(&mut self) -> Result<(), Failure> {
        self.object.retain(|name, _| !self.shown.contains(name));
        let more = self.object.len().saturating_sub(MOST_TOLD);
        for name in std::mem::take(&mut self.object).into_iter().map(|(name, _)| name).take(MOST_TOLD) {
            let hint = match nearest(&name, self.asked.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("there are {}", self.asked.join(", ")),
            };
            self.refuse(&name, format!("there is no field {name}; {hint}"));
        }
        if more > 0 {
            let message = format!("there are {more} more fields that are not known");
            self.failures.push(Failure::new(Code::Refused, message));
        }
        Failure::of_all(std::mem::take(&mut self.failures)).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::sync::LazyLock;

    use serde_json::json;

    use super::*;

    #[test]
    fn everything_wrong_is_told_at_once() {
        definition! {
            struct Settings {
                name: String,
                max_limit: u64,
                sandboxable: bool,
            }
        }
        let Value::Object(object) = json!({"name": 5, "max_limit": -1, "sandboxabel": true, "id": "x"}) else { return };
        let mut fields = Fields::of(object);
        fields.ignore("id");
        assert_eq!(Settings::take(&mut fields), Settings::default());
        let failure = fields.done().unwrap_err();
        let all: Vec<_> = std::iter::once(&failure).chain(&failure.others).collect();
        let places: Vec<_> = all.iter().map(|failure| failure.location.as_deref().unwrap()).collect();
        assert_eq!(places, ["name", "max_limit", "sandboxabel"]);
        assert_eq!(all.last().unwrap().message, "there is no field sandboxabel; did you mean sandboxable?");
    }

    #[test]
    fn what_is_only_shown_may_be_sent_back_and_nothing_else() {
        #[expect(dead_code, reason = "only its schema is used")]
        #[derive(JsonSchema)]
        struct Shown {
            id: u64,
            name: String,
        }
        let Value::Object(object) = json!({"id": 1, "name": "a", "other": 2}) else { return };
        let mut fields = Fields::of(object);
        static SHOWN: LazyLock<Vec<String>> = LazyLock::new(shown_names::<Shown>);
        fields.ignore_shown(&SHOWN);
        assert_eq!(fields.take::<String>("name", "a text").as_deref(), Some("a"));
        assert_eq!(fields.done().unwrap_err().message, "there is no field other; there are name");
    }

    #[test]
    fn something_new_needs_what_a_change_may_leave_out() {
        definition! {
            struct Changed and New needs ["a"] {
                a: Option<u64>,
                #[schemars(skip_serializing)]
                b: bool,
            }
        }
        let of = |settings: SchemaSettings, new: bool| {
            let mut generator = settings.into_generator();
            if new { New::json_schema(&mut generator) } else { Changed::json_schema(&mut generator) }
        };
        let (sent, shown) = (SchemaSettings::draft2020_12(), SchemaSettings::draft2020_12().for_serialize());
        let (changed, new, shown) = (of(sent.clone(), false), of(sent, true), of(shown, false));
        assert_eq!((changed.get("required"), new.get("required")), (None, Some(&json!(["a"]))));
        assert_eq!(changed.get("additionalProperties"), Some(&json!(false)));
        assert_eq!(changed.pointer("/properties/b/type"), Some(&json!("boolean")));
        assert_eq!(shown.pointer("/properties/b"), None);
    }

    #[test]
    fn null_is_told_from_absence() {
        definition! {
            struct Counts {
                a: Option<u64>,
                b: Option<u64>,
            }
        }
        let Value::Object(object) = json!({"a": null}) else { return };
        let mut fields = Fields::of(object);
        assert_eq!(Counts::take(&mut fields), Counts { a: Some(None), b: None });
        assert!(fields.done().is_ok());
    }

    #[test]
    fn of_many_unknown_fields_some_are_told() {
        let object = (0..10_000).map(|i| (format!("f{i}"), Value::Null)).collect();
        let failure = Fields::of(object).done().unwrap_err();
        assert_eq!(failure.others.len(), MOST_TOLD);
        assert_eq!(failure.others.last().unwrap().message, "there are 9950 more fields that are not known");
    }
}
