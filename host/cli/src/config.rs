//! The settings of a service: a TOML file, and the environment over it.
//!
//! What is written there and not understood is refused: a limit with a typing error in its name
//! would not limit anything.

use std::error::Error;
use std::path::Path;

use tidegate_model::{Limits, SETTINGS, nearest};
use toml::{Table, Value};

/// Before the name of a limit, in capitals, in the environment.
const PREFIX: &str = "TIDEGATE_LIMITS_";
/// The sections of a configuration file.
const SECTIONS: [&str; 1] = ["limits"];

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The limits: the defaults, what the file says, what the environment says over it.
pub(crate) fn limits(file: Option<&Path>, environment: impl Iterator<Item = (String, String)>) -> Outcome<Limits> {
    let mut limits = Limits::default();
    if let Some(path) = file {
        let told = |error: String| format!("the configuration file {}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
        from_text(&mut limits, &text).map_err(|error| told(error.to_string()))?;
    }
    from_environment(&mut limits, environment)?;
    limits.validate()?;
    Ok(limits)
}

fn from_text(limits: &mut Limits, text: &str) -> Outcome<()> {
    let whole: Table = text.parse().map_err(|error: toml::de::Error| error.to_string().trim_end().to_owned())?;
    for (section, value) in &whole {
        if !SECTIONS.contains(&section.as_str()) {
            let hint = match nearest(section, SECTIONS) {
                Some(near) => format!("did you mean [{near}]?"),
                None if SETTINGS.iter().any(|setting| setting.name == section) => {
                    "it belongs under [limits]".to_owned()
                }
                None => format!("there are [{}]", SECTIONS.join("], [")),
            };
            return Err(format!("there is no section {section}; {hint}").into());
        }
        let Value::Table(settings) = value else {
            return Err(format!("{section} is a section; write [{section}] and its settings below").into());
        };
        for (name, value) in settings {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            limits.set(name, &text).map_err(|error| format!("[{section}] {error}"))?;
        }
    }
    Ok(())
}

fn from_environment(limits: &mut Limits, environment: impl Iterator<Item = (String, String)>) -> Outcome<()> {
    for (variable, text) in environment {
        let Some(name) = variable.strip_prefix(PREFIX) else { continue };
        // An empty variable is how many tools say that there is none.
        if !text.trim().is_empty() {
            let name = name.to_lowercase();
            limits.set(&name, &text).map_err(|error| format!("the environment variable {variable}: {error}"))?;
        }
    }
    Ok(())
}

/// The environment, where it is text.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
}

/// The limits and how to set them, for the help text.
pub(crate) fn help() -> String {
    let mut text = format!(
        "Limits, under [limits] in the file of --config, or in the environment as {PREFIX}REQUEST_TIME and so on.\n\
         Sizes are bytes or \"64 MiB\", times \"30 s\" or \"500 ms\".\n"
    );
    for setting in SETTINGS {
        text.push_str(&format!("\n  {setting}"));
    }
    text
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use std::time::Duration;

    fn read(text: &str) -> Result<Limits, String> {
        let mut limits = Limits::default();
        from_text(&mut limits, text).map_err(|error| error.to_string())?;
        Ok(limits)
    }

    #[test]
    fn the_file_and_then_the_environment_set_limits() {
        let folder = std::env::temp_dir().join(format!("tidegate-config-{}", uuid::Uuid::new_v4()));
        std::fs::write(&folder, "[limits]\nrequest_time = \"3 s\"\nrows = 50\nstatement_memory = \"64 MiB\"\n")
            .unwrap();
        let environment = [
            ("TIDEGATE_LIMITS_ROWS", "20"),
            ("TIDEGATE_LIMITS_TOKENS", ""),
            ("TIDEGATE_LISTEN", "x"),
            ("TIDEGATE_LIMITS_TOTAL_MEMORY", "128MiB"),
        ];
        let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let limits = limits(Some(&folder), environment).unwrap();
        std::fs::remove_file(&folder).unwrap();
        assert_eq!((limits.wall_clock, limits.rows), (Duration::from_secs(3), 20));
        assert_eq!((limits.statement_memory, limits.total_memory), (64 << 20, 128 << 20));
        assert_eq!(limits.text, Limits::default().text);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (text, words) in [
            ("[limit]\nrows = 1", "did you mean [limits]?"),
            ("rows = 1", "it belongs under [limits]"),
            ("[limits]\nrow = 1", "did you mean rows?"),
            ("[limits]\nrows = 0", "from 1 to 10000"),
            ("[limits]\nrows = -1", "cannot be read"),
            ("[limits]\nrequest_time = 30", "\"30 s\""),
            ("[limits]\nrows = 1.5", "whole number"),
            ("[limits.rows]\nx = 1", "whole number"),
            ("limits = 1", "write [limits]"),
            ("[limits", "line 1"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(words), "{text}: {message}");
        }
        let typed = [("TIDEGATE_LIMITS_ROWZ".to_owned(), "1".to_owned())];
        let message = limits(None, typed.into_iter()).unwrap_err().to_string();
        assert!(message.contains("TIDEGATE_LIMITS_ROWZ") && message.contains("did you mean rows?"), "{message}");
        let message = limits(Some(Path::new("/nowhere.toml")), std::iter::empty()).unwrap_err().to_string();
        assert!(message.contains("/nowhere.toml"), "{message}");
    }

    #[test]
    fn the_help_tells_every_limit_with_its_default() {
        let help = help();
        assert!(
            help.contains("request_time: time of a request, its statements included; default 30 s, from 10 ms to 1 h")
        );
        assert_eq!(help.lines().filter(|line| line.contains("; default ")).count(), SETTINGS.len());
    }
}
