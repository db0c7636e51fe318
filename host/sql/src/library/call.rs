//! A call of a function that is to be built, with its arguments resolved and typed.

use datafusion::logical_expr::Expr;
use tidegate_model::{Failure, Position};

use crate::fail::{Result, invalid};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::Conversion;
use crate::typing::kernel;

/// Builds a call of one function.
pub(super) type Builder = fn(&Call<'_>) -> Result<Typed>;

/// An argument of a call: a value, or a keyword such as the date part `HOUR`.
#[derive(Debug, Clone)]
pub(crate) enum Argument {
    Value(Typed),
    Part(String),
    /// One that is left out before another one with a name.
    Absent,
}

/// A call to build.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// The name in capitals, without `SAFE.`.
    pub(crate) name: &'a str,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) at: Option<Position>,
    /// Whether the last argument is written with its name.
    pub(crate) named_last: bool,
    /// A value that cannot be computed is NULL instead of an error.
    pub(crate) safe: bool,
    /// The time of the request in microseconds.
    pub(crate) now: i64,
}

impl Call<'_> {
    /// Checks the number of arguments, and gives it.
    pub(crate) fn count(&self, least: usize, most: usize) -> Result<usize> {
        let count = self.arguments.len();
        if (least..=most).contains(&count) {
            return Ok(count);
        }
        let wanted = match (least, most) {
            (0, 0) => "no arguments".to_owned(),
            (1, 1) => "one argument".to_owned(),
            (least, most) if least == most => format!("{least} arguments"),
            (1, usize::MAX) => "at least one argument".to_owned(),
            (least, usize::MAX) => format!("at least {least} arguments"),
            (least, most) => format!("{least} to {most} arguments"),
        };
        Err(invalid(format!("{} takes {wanted}, not {count}", self.name), self.at))
    }

    /// Whether argument `i` is there.
    pub(crate) fn has(&self, i: usize) -> bool {
        !matches!(self.arguments.get(i), None | Some(Argument::Absent))
    }

    /// Argument `i`, a literal that is one of `words`: which; `None` without it.
    ///
    /// # Errors
    /// If it is another value.
    pub(crate) fn word(&self, i: usize, words: &[&str]) -> Result<Option<usize>> {
        if !self.has(i) {
            return Ok(None);
        }
        let value = self.value(i)?;
        let found = value.literal_text().and_then(|text| words.iter().position(|word| word.eq_ignore_ascii_case(text)));
        match found {
            Some(found) => Ok(Some(found)),
            None => Err(self.fails(format!("{} takes one of '{}' there", self.name, words.join("', '")))),
        }
    }

    /// Argument `i`, a BOOL; `other` without it.
    pub(crate) fn flag(&self, i: usize, other: bool) -> Result<Expr> {
        if self.has(i) { self.typed(i, &Type::Bool) } else { Ok(datafusion::logical_expr::lit(other)) }
    }

    /// Argument `i`, which must be a value.
    pub(crate) fn value(&self, i: usize) -> Result<Typed> {
        match self.arguments.get(i) {
            Some(Argument::Value(value)) => Ok(value.clone()),
            Some(Argument::Part(part)) => {
                Err(invalid(format!("{} does not take the date part {part} there", self.name), self.at))
            }
            Some(Argument::Absent) | None => Err(invalid(format!("{} lacks argument {}", self.name, i + 1), self.at)),
        }
    }

    /// Refuses argument `i` if it is BYTES where text is taken. They are not read as text, because those that are no
    /// UTF-8, such as a hash, would be NULL without a word.
    pub(crate) fn without_bytes(&self, i: usize) -> Result<()> {
        if self.value(i)?.ty == Type::Bytes {
            return Err(self.fails(format!(
                "{} takes text there, not BYTES; SAFE_CONVERT_BYTES_TO_STRING and TO_HEX make text of them",
                self.name
            )));
        }
        Ok(())
    }

    /// Argument `i` as a `ty`, converted as the dialect does on its own.
    pub(crate) fn typed(&self, i: usize, ty: &Type) -> Result<Expr> {
        if *ty == Type::String {
            self.without_bytes(i)?;
        }
        Ok(self.value(i)?.convert(ty, Conversion::implicit(self.at))?.expr)
    }

    /// Argument `i` as a STRING.
    pub(crate) fn text(&self, i: usize) -> Result<Expr> {
        self.typed(i, &Type::String)
    }

    /// Argument `i` as an INT64.
    pub(crate) fn int(&self, i: usize) -> Result<Expr> {
        self.typed(i, &Type::Int64)
    }

    /// Argument `i` as a FLOAT64.
    pub(crate) fn float(&self, i: usize) -> Result<Expr> {
        self.typed(i, &Type::Float64)
    }

    /// Argument `i` as bytes if it is bytes, else as text.
    pub(crate) fn text_or_bytes(&self, i: usize) -> Result<Typed> {
        let value = self.value(i)?;
        if value.ty == Type::Bytes { Ok(value) } else { Ok(Typed::new(self.text(i)?, Type::String)) }
    }

    /// A kernel over the arguments, each converted to the type that is wanted of it. All but the
    /// first `least` may be missing.
    pub(crate) fn run(&self, name: &'static str, least: usize, wants: &[Type], returns: Type) -> Result<Typed> {
        let count = self.count(least, wants.len())?;
        let arguments =
            wants.iter().take(count).enumerate().map(|(i, ty)| self.typed(i, ty)).collect::<Result<Vec<_>>>()?;
        Ok(Typed::new(kernel(name, self.safe, arguments), returns))
    }

    /// Argument `i`, which must be a date part.
    pub(crate) fn part(&self, i: usize) -> Result<&str> {
        match self.arguments.get(i) {
            Some(Argument::Part(part)) => Ok(part),
            _ => Err(invalid(format!("{} needs a date part such as HOUR as argument {}", self.name, i + 1), self.at)),
        }
    }

    /// A failure at the place of the call.
    pub(crate) fn fails(&self, message: impl Into<String>) -> Failure {
        invalid(message, self.at)
    }
}
