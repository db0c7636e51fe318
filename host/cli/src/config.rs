//! The configuration of a service: the defaults, overridden by a TOML file, then the environment, then the command
//! line.
//!
//! Unknown settings are refused. The mechanism is our own and small, and uses the tables of
//! [`tidegate_service::settings`]. A library that merges layers would merge them before units, bounds and similar names
//! are known, and could not give the same error messages.

mod environment;
mod print;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use tidegate_model::{Section, nearest};
use tidegate_service::Options;
use tidegate_service::settings::{ARRAYS, SECTIONS, TableArray, validate};
use toml::{Table, Value};

pub(crate) use environment::environment;
pub(crate) use print::{help, print};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    File,
    Environment(String),
    Flag(&'static str),
}

/// The effective configuration.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// The effective options.
    pub(crate) options: Options,
    /// The origins of the values that are not defaults, by section and name.
    origins: BTreeMap<(&'static str, String), Origin>,
}

/// The settings of the command line.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// `--config`.
    pub(crate) config: Option<PathBuf>,
    /// `--listen`.
    pub(crate) listen: Option<String>,
    /// `--data-dir`.
    pub(crate) data_dir: Option<String>,
}

impl Config {
    /// Reads all layers, in their order.
    ///
    /// # Errors
    /// An unknown or invalid setting, with its location; settings that contradict each other.
    pub(crate) fn read(flags: &Flags, environment: impl Iterator<Item = (String, String)>) -> Outcome<Self> {
        let environment = environment::Environment::sort(environment)?;
        let mut config = Self::default();
        if let Some(path) = flags.config.as_deref().or(environment.config.as_deref()) {
            config.file(path).map_err(|error| format!("the configuration file {}: {error}", path.display()))?;
        }
        for (section, name, variable, text) in &environment.settings {
            config
                .set(*section, name, text, Origin::Environment(variable.clone()))
                .map_err(|error| format!("the environment variable {variable}: {error}"))?;
        }
        for (name, flag, text) in [("listen", "--listen", &flags.listen), ("data_dir", "--data-dir", &flags.data_dir)] {
            if let (Some(text), Some(server)) = (text, section("server")) {
                config.set(server, name, text, Origin::Flag(flag)).map_err(|error| format!("{flag}: {error}"))?;
            }
        }
        validate(&config.options)?;
        config.options.private_token = environment.private_token;
        config.options.public_token = environment.public_token;
        Ok(config)
    }

    fn file(&mut self, path: &Path) -> Outcome<()> {
        self.text(&std::fs::read_to_string(path)?)
    }

    fn text(&mut self, text: &str) -> Outcome<()> {
        let whole: Table = text.parse().map_err(|error: toml::de::Error| error.to_string().trim_end().to_owned())?;
        for (name, value) in &whole {
            if let Some(array) = ARRAYS.iter().find(|array| array.name == name) {
                self.array(array, value)?;
                continue;
            }
            let Some(section) = section(name) else { return Err(unknown_section(name).into()) };
            let Value::Table(settings) = value else {
                return Err(format!("{name} is a section; write [{name}] and its settings below").into());
            };
            for (setting, value) in settings {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Array(items) if section.is_list(setting).unwrap_or(false) => {
                        joined(items).map_err(|error| format!("[{name}] {setting}: {error}"))?
                    }
                    other => other.to_string(),
                };
                self.set(section, setting, &text, Origin::File).map_err(|error| format!("[{name}] {error}"))?;
            }
        }
        Ok(())
    }

    /// Reads what a file has several of. Only a file can have it, so its origin is not noted.
    fn array(&mut self, array: &TableArray, value: &Value) -> Outcome<()> {
        let name = array.name;
        let tables = match value {
            Value::Array(tables) if tables.iter().all(Value::is_table) => tables,
            _ => return Err(format!("there may be several of {name}; write [[{name}]] and its settings below").into()),
        };
        Ok((array.read)(&mut self.options, &tables.iter().map(as_json).collect::<Vec<_>>())?)
    }

    fn set(&mut self, section: &dyn Section<Options>, name: &str, text: &str, origin: Origin) -> Outcome<()> {
        section.set(&mut self.options, name, text)?;
        self.origins.insert((section.name(), name.to_owned()), origin);
        Ok(())
    }
}

/// A value of TOML as one of JSON, which has no times: they become texts.
fn as_json(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.clone().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Boolean(flag) => (*flag).into(),
        Value::Datetime(time) => time.to_string().into(),
        Value::Array(items) => items.iter().map(as_json).collect(),
        Value::Table(table) => table.iter().map(|(name, value)| (name.clone(), as_json(value))).collect(),
    }
}

/// The texts of a list with commas between them, as the environment gives them.
fn joined(items: &[Value]) -> Outcome<String> {
    let text = |item: &Value| match item {
        Value::String(text) if !text.contains(',') => Ok(text.trim().to_owned()),
        Value::String(text) => Err(format!("{text:?} has a comma; write each as a text of its own")),
        other => Err(format!("{other} is no text")),
    };
    Ok(items.iter().map(text).collect::<Result<Vec<_>, _>>()?.join(", "))
}

fn section(name: &str) -> Option<&'static dyn Section<Options>> {
    SECTIONS.iter().copied().find(|section| section.name() == name)
}

fn unknown_section(name: &str) -> String {
    let names = || SECTIONS.iter().map(|section| section.name());
    if let Some(near) = nearest(name, ARRAYS.iter().map(|array| array.name)) {
        return format!("there is no section {name}; did you mean [[{near}]]?");
    }
    let hint = match SECTIONS.iter().find(|section| section.settings().contains(&name)) {
        Some(owner) => format!("{name} belongs under [{}]", owner.name()),
        None => match nearest(name, names()) {
            Some(near) => format!("did you mean [{near}]?"),
            None => format!("there are [{}]", names().collect::<Vec<_>>().join("], [")),
        },
    };
    format!("there is no section {name}; {hint}")
}

#[cfg(test)]
mod tests;
