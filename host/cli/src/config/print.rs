//! Prints the configuration: the effective values with their origins, and the help text of all settings.

use std::fmt::Write;

use tidegate_service::Options;
use tidegate_service::settings::{ARRAYS, SECTIONS};

use super::{Config, Origin};

/// The effective configuration as TOML that can be used as a configuration file, each value with its origin. Tokens are
/// not part of it: the output says only whether they are set.
pub(crate) fn print(config: &Config) -> String {
    let mut text = String::new();
    for (what, token) in [("private", &config.options.private_token), ("public", &config.options.public_token)] {
        let state = if token.is_some() { "set in the environment" } else { "not set in the environment" };
        let _ = writeln!(text, "# {what} access token: {state}");
    }
    for section in SECTIONS {
        let _ = writeln!(text, "\n[{}]", section.name());
        for name in section.settings() {
            let Ok(value) = section.toml(&config.options, name) else { continue };
            let origin = match config.origins.get(&(section.name(), name.to_owned())) {
                None => "default".to_owned(),
                Some(Origin::File) => "file".to_owned(),
                Some(Origin::Environment(variable)) => format!("environment {variable}"),
                Some(Origin::Flag(flag)) => format!("flag {flag}"),
            };
            let _ = writeln!(text, "{name} = {value}  # {origin}");
        }
    }
    for array in ARRAYS {
        text.push_str(&(array.toml)(&config.options));
    }
    text
}

/// All settings, for the help text.
pub(crate) fn help() -> String {
    let mut text = "Settings, in the file of --config under their section, or in the environment as \
         TIDEGATE_<SECTION>_<SETTING>\n(TIDEGATE_LIMITS_REQUEST_TIME=10s). The command line wins over the environment, the \
         environment over the file.\nSizes are bytes or \"64 MiB\", times \"30 s\" or \"500 ms\". The two access tokens stand only in the \
         environment:\nTIDEGATE_PRIVATE_ACCESS_TOKEN, TIDEGATE_PUBLIC_ACCESS_TOKEN. The names LOGFLARE_PRIVATE_ACCESS_TOKEN, \
         LOGFLARE_API_KEY (both the\nprivate one) and LOGFLARE_PUBLIC_ACCESS_TOKEN are read too. TIDEGATE_LOG is short for \
         TIDEGATE_SERVER_LOG_LEVEL.\n"
        .to_owned();
    let defaults = Options::default();
    for section in SECTIONS {
        let _ = writeln!(text, "\n[{}] {}", section.name(), section.what());
        for name in section.settings() {
            if let Ok(told) = section.tell(&defaults, name) {
                let _ = writeln!(text, "  {name}: {told}");
            }
        }
    }
    for array in ARRAYS {
        let _ = writeln!(text, "\n[[{}]] {}", array.name, array.what);
        for (name, told) in (array.settings)() {
            let _ = writeln!(text, "  {name}: {told}");
        }
    }
    text
}
