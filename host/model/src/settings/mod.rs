//! Settings: what each is called, its unit, the bounds within which it may be set.
//!
//! One table a section serves the configuration file, the environment, the help text, the
//! printed configuration and the checks, so that a setting cannot be known in one place and
//! unknown in another. What is not understood is refused, with the nearest name: a limit with a
//! typing error in its name would not limit anything.

mod limits;
mod unit;

use std::time::Duration;

pub use limits::LIMITS;
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

/// A setting's number as a size in memory; the largest there is if it does not fit.
pub fn size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A size in memory as a setting's number.
pub fn number(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A time as a setting's number.
pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How a setting is read from and written to the `T` that holds it.
#[derive(Debug, Clone, Copy)]
pub enum Access<T: 'static> {
    /// A number within bounds.
    Number {
        /// What it counts.
        unit: Unit,
        /// The smallest that makes sense.
        least: u64,
        /// The largest that is taken.
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
    /// A text of some form.
    Text {
        /// What it can be, for a person.
        how: &'static str,
        /// Reads it.
        get: fn(&T) -> String,
        /// Writes it; false if it does not have the form, and then nothing is written.
        set: fn(&mut T, &str) -> bool,
    },
}

/// One thing that can be set.
#[derive(Debug, Clone, Copy)]
pub struct Setting<T: 'static> {
    /// Its key in its section.
    pub name: &'static str,
    /// What it decides.
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
    /// The text is not of the setting's form.
    #[error("{name} = {text:?} cannot be read; write {how}")]
    Unreadable {
        /// The setting.
        name: &'static str,
        /// What was written.
        text: String,
        /// How it is written.
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
    /// Its value in `holder`, as a person would write it.
    pub fn show(&self, holder: &T) -> String {
        match self.access {
            Access::Number { unit, get, .. } => unit.show(get(holder)),
            Access::Flag { get, .. } => get(holder).to_string(),
            Access::Text { get, .. } => get(holder),
        }
    }

    /// Sets it from text.
    ///
    /// # Errors
    /// Texts that cannot be read, numbers out of bounds.
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
            Access::Text { how, set, .. } => {
                if !set(holder, text.trim()) {
                    return unreadable(how);
                }
            }
        }
        Ok(())
    }

    /// What it may be: bounds or form.
    fn bounds(&self) -> String {
        match self.access {
            Access::Number { unit, least, most, .. } => format!("from {} to {}", unit.show(least), unit.show(most)),
            Access::Flag { .. } => "true or false".to_owned(),
            Access::Text { how, .. } => how.to_owned(),
        }
    }
}

/// A part of all settings, as a configuration file divides them, held somewhere in a `W`.
pub trait Section<W>: Sync {
    /// Its name in brackets.
    fn name(&self) -> &'static str;
    /// What its settings are about.
    fn what(&self) -> &'static str;
    /// The names of its settings, in the order in which they are told.
    fn settings(&self) -> Vec<&'static str>;
    /// Sets one.
    ///
    /// # Errors
    /// Unknown names, with the nearest one; texts that cannot be read; numbers out of bounds.
    fn set(&self, whole: &mut W, name: &str, text: &str) -> Result<(), SettingError>;
    /// The value of one as a person would write it.
    ///
    /// # Errors
    /// Unknown names.
    fn show(&self, whole: &W, name: &str) -> Result<String, SettingError>;
    /// The value of one as TOML.
    ///
    /// # Errors
    /// Unknown names.
    fn toml(&self, whole: &W, name: &str) -> Result<String, SettingError>;
    /// What one decides, its default and what it may be.
    ///
    /// # Errors
    /// Unknown names.
    fn tell(&self, defaults: &W, name: &str) -> Result<String, SettingError>;
}

/// A [`Section`] from a table of settings and the place of their holder.
#[derive(Debug)]
pub struct Part<T: 'static, W: 'static> {
    /// Its name in brackets.
    pub name: &'static str,
    /// What its settings are about.
    pub what: &'static str,
    /// The settings.
    pub settings: &'static [Setting<T>],
    /// Their holder.
    pub of: fn(&W) -> &T,
    /// Their holder, to write.
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

    fn show(&self, whole: &W, name: &str) -> Result<String, SettingError> {
        Ok(find(self.settings, self.name, name)?.show((self.of)(whole)))
    }

    fn toml(&self, whole: &W, name: &str) -> Result<String, SettingError> {
        let setting = find(self.settings, self.name, name)?;
        let text = setting.show((self.of)(whole));
        let bare = match setting.access {
            Access::Number { .. } => text.bytes().all(|byte| byte.is_ascii_digit()),
            Access::Flag { .. } => true,
            Access::Text { .. } => false,
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
fn quoted(text: &str) -> String {
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
