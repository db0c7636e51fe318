//! Settings: the name of each, its unit, and its bounds.
//!
//! One table for each section serves the configuration file, the environment, the help text, the printed configuration
//! and the checks, so that a setting cannot be known in one place and unknown in another. Unknown names are refused,
//! with the nearest known one: a limit with a typing error in its name would not limit anything.

#[macro_use]
mod macros;
mod limits;
mod numeric;
mod unit;

pub use limits::LIMITS;
pub use numeric::{Numeric, milliseconds, number, size};
pub use unit::Unit;

use crate::nearest;

/// 2^10.
pub const KIB: u64 = 1 << 10;
/// 2^20.
pub const MIB: u64 = 1 << 20;
/// 2^30.
pub const GIB: u64 = 1 << 30;
/// An hour in milliseconds.
pub const HOUR: u64 = 3_600_000;

/// How a setting is read from and written to the `T` that holds it.
#[derive(Debug, Clone, Copy)]
pub enum Access<T: 'static> {
    /// A number within bounds.
    Number {
        /// Its unit.
        unit: Unit,
        /// The smallest allowed value.
        least: u64,
        /// The largest allowed value.
        most: u64,
        /// Reads it.
        get: fn(&T) -> u64,
        /// Writes it.
        set: fn(&mut T, u64),
    },
    /// `true` or `false`.
    Flag {
        /// Reads it.
        get: fn(&T) -> bool,
        /// Writes it.
        set: fn(&mut T, bool),
    },
    /// A text of a certain form.
    Text {
        /// The form, for a person.
        how: &'static str,
        /// Reads it.
        get: fn(&T) -> String,
        /// Writes it; returns false and writes nothing if the text does not have the form.
        set: fn(&mut T, &str) -> bool,
    },
    /// Several texts without commas: as one text with commas between them, and in a file also as a list.
    List {
        /// The form of the text, for a person.
        how: &'static str,
        /// Reads it as a text.
        get: fn(&T) -> String,
        /// Writes it; returns false and writes nothing if the text does not have the form.
        set: fn(&mut T, &str) -> bool,
    },
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting<T: 'static> {
    /// Its key in its section.
    pub name: &'static str,
    /// What it determines.
    pub what: &'static str,
    /// How it is read and written.
    pub access: Access<T>,
}

/// Why a setting is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error("there is no setting {name} in [{section}]; {hint}")]
    Unknown {
        /// The section.
        section: String,
        /// The name.
        name: String,
        /// The nearest name, or all.
        hint: String,
    },
    /// The text does not have the form of the setting.
    #[error("{name} = {text:?} cannot be read; write {how}")]
    Unreadable {
        /// The setting.
        name: &'static str,
        /// What was written.
        text: String,
        /// The right form.
        how: &'static str,
    },
    /// The number is outside the bounds.
    #[error("{name} is {text}; it can be from {least} to {most}")]
    OutOfBounds {
        /// The setting.
        name: &'static str,
        /// What was written.
        text: String,
        /// The smallest.
        least: String,
        /// The largest.
        most: String,
    },
    /// Two settings contradict each other.
    #[error("{0}")]
    Contradiction(String),
}

impl<T> Setting<T> {
    /// Its value in `holder`, as text.
    pub fn show(&self, holder: &T) -> String {
        match self.access {
            Access::Number { unit, get, .. } => unit.show(get(holder)),
            Access::Flag { get, .. } => get(holder).to_string(),
            Access::Text { get, .. } | Access::List { get, .. } => get(holder),
        }
    }

    /// Sets it from text.
    ///
    /// # Errors
    /// A text that cannot be parsed, or a number out of bounds.
    pub fn set(&self, holder: &mut T, text: &str) -> Result<(), SettingError> {
        let name = self.name;
        let unreadable = |how| Err(SettingError::Unreadable { name, text: text.to_owned(), how });
        match self.access {
            Access::Number { unit, least, most, set, .. } => {
                let Some(value) = unit.read(text) else { return unreadable(unit.how()) };
                if !(least..=most).contains(&value) {
                    let (least, most) = (unit.show(least), unit.show(most));
                    return Err(SettingError::OutOfBounds { name, text: text.to_owned(), least, most });
                }
                set(holder, value);
            }
            Access::Flag { set, .. } => match text.trim().to_ascii_lowercase().as_str() {
                "true" => set(holder, true),
                "false" => set(holder, false),
                _ => return unreadable("true or false"),
            },
            Access::Text { how, set, .. } | Access::List { how, set, .. } => {
                if !set(holder, text.trim()) {
                    return unreadable(how);
                }
            }
        }
        Ok(())
    }

    /// The allowed values: bounds or form.
    fn bounds(&self) -> String {
        match self.access {
            Access::Number { unit, least, most, .. } => format!("from {} to {}", unit.show(least), unit.show(most)),
            Access::Flag { .. } => "true or false".to_owned(),
            Access::Text { how, .. } | Access::List { how, .. } => how.to_owned(),
        }
    }
}

/// A section of all settings, as a configuration file divides them. Its values are somewhere in a `W`.
pub trait Section<W>: Sync {
    /// Its name in brackets.
    fn name(&self) -> &'static str;
    /// What its settings are about.
    fn what(&self) -> &'static str;
    /// The names of its settings, in the order in which they are listed.
    fn settings(&self) -> Vec<&'static str>;
    /// Sets one.
    ///
    /// # Errors
    /// Unknown names, with the nearest one; texts that cannot be read; numbers out of bounds.
    fn set(&self, whole: &mut W, name: &str, text: &str) -> Result<(), SettingError>;
    /// Whether one is several texts, which a file may give as a list.
    ///
    /// # Errors
    /// Unknown names.
    fn is_list(&self, name: &str) -> Result<bool, SettingError>;
    /// The value of one as text.
    ///
    /// # Errors
    /// Unknown names.
    fn show(&self, whole: &W, name: &str) -> Result<String, SettingError>;
    /// The value of one as TOML.
    ///
    /// # Errors
    /// Unknown names.
    fn toml(&self, whole: &W, name: &str) -> Result<String, SettingError>;
    /// What one determines, its default and its allowed values.
    ///
    /// # Errors
    /// Unknown names.
    fn tell(&self, defaults: &W, name: &str) -> Result<String, SettingError>;
}

/// A [`Section`] made of a table of settings and access to the value that holds them.
#[derive(Debug)]
pub struct Part<T: 'static, W: 'static> {
    /// Its name in brackets.
    pub name: &'static str,
    /// What its settings are about.
    pub what: &'static str,
    /// The settings.
    pub settings: &'static [Setting<T>],
    /// The holder of the values.
    pub of: fn(&W) -> &T,
    /// The same, for writing.
    pub of_mut: fn(&mut W) -> &mut T,
}

/// The setting of a name.
pub(crate) fn find<T>(
    settings: &'static [Setting<T>],
    section: &str,
    name: &str,
) -> Result<&'static Setting<T>, SettingError> {
    settings.iter().find(|setting| setting.name == name).ok_or_else(|| {
        let names = || settings.iter().map(|setting| setting.name);
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        };
        SettingError::Unknown { section: section.to_owned(), name: name.to_owned(), hint }
    })
}

impl<T, W> Section<W> for Part<T, W> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }

    fn settings(&self) -> Vec<&'static str> {
        self.settings.iter().map(|setting| setting.name).collect()
    }

    fn set(&self, whole: &mut W, name: &str, text: &str) -> Result<(), SettingError> {
        find(self.settings, self.name, name)?.set((self.of_mut)(whole), text)
    }

    fn is_list(&self, name: &str) -> Result<bool, SettingError> {
        Ok(matches!(find(self.settings, self.name, name)?.access, Access::List { .. }))
    }

    fn show(&self, whole: &W, name: &str) -> Result<String, SettingError> {
        Ok(find(self.settings, self.name, name)?.show((self.of)(whole)))
    }

    fn toml(&self, whole: &W, name: &str) -> Result<String, SettingError> {
        let setting = find(self.settings, self.name, name)?;
        let text = setting.show((self.of)(whole));
        let bare = match setting.access {
            Access::Number { .. } => text.bytes().all(|byte| byte.is_ascii_digit()),
            Access::Flag { .. } => true,
            Access::Text { .. } | Access::List { .. } => false,
        };
        Ok(if bare { text } else { quoted(&text) })
    }

    fn tell(&self, defaults: &W, name: &str) -> Result<String, SettingError> {
        let setting = find(self.settings, self.name, name)?;
        let default = match setting.show((self.of)(defaults)) {
            none if none.is_empty() => "none".to_owned(),
            default => default,
        };
        Ok(format!("{}; default {default}, {}", setting.what, setting.bounds()))
    }
}

/// A TOML basic string.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
