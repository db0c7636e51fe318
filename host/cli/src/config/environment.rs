//! The environment: settings as `TIDEGATE_<SECTION>_<KEY>`, and a few variables with other names.

use std::path::PathBuf;

use tidegate_model::{Section, nearest};
use tidegate_service::Options;
use tidegate_service::settings::SECTIONS;

use super::{Outcome, section};

/// The prefix of all variables of Tidegate.
const PREFIX: &str = "TIDEGATE_";
/// Short names of settings. If both names are set, the full name wins.
const SHORT: [(&str, &str, &str); 3] = [
    ("TIDEGATE_LISTEN", "server", "listen"),
    ("TIDEGATE_DATA_DIR", "server", "data_dir"),
    ("TIDEGATE_LOG", "server", "log_level"),
];
/// Variables that are not settings: of this command, of the client commands, of the tests, and of the build script, whose
/// variables cargo hands on to what it runs.
const SPECIAL: [&str; 7] = [
    "TIDEGATE_CONFIG",
    "TIDEGATE_PRIVATE_ACCESS_TOKEN",
    "TIDEGATE_PUBLIC_ACCESS_TOKEN",
    "TIDEGATE_TOKEN",
    "TIDEGATE_URL",
    "TIDEGATE_BIN",
    "TIDEGATE_BUILD",
];

/// The variables for the private token: our own name first, then Logflare's names.
const PRIVATE: [&str; 3] = ["TIDEGATE_PRIVATE_ACCESS_TOKEN", "LOGFLARE_PRIVATE_ACCESS_TOKEN", "LOGFLARE_API_KEY"];
/// The variables for the public token.
const PUBLIC: [&str; 2] = ["TIDEGATE_PUBLIC_ACCESS_TOKEN", "LOGFLARE_PUBLIC_ACCESS_TOKEN"];

/// The variables of the environment, grouped by purpose.
pub(super) struct Environment {
    pub(super) config: Option<PathBuf>,
    pub(super) private_token: Option<String>,
    pub(super) public_token: Option<String>,
    /// Section, setting, variable and text. A later entry overrides an earlier one.
    pub(super) settings: Vec<(&'static dyn Section<Options>, String, String, String)>,
}

/// The environment variables whose names are valid text.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
}

impl Environment {
    /// Groups the variables of an environment.
    ///
    /// # Errors
    /// An unknown variable whose name is similar to a known one, or begins with one of our sections.
    pub(super) fn sort(environment: impl Iterator<Item = (String, String)>) -> Outcome<Self> {
        // Many tools set a variable to an empty text to unset it.
        let all: Vec<(String, String)> = environment.filter(|(_, text)| !text.trim().is_empty()).collect();
        let value = |names: &[&str]| {
            names.iter().find_map(|name| all.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone()))
        };
        let mut settings = Vec::new();
        for (variable, part, name) in SHORT {
            if let (Some(text), Some(section)) = (value(&[variable]), section(part)) {
                settings.push((section, name.to_owned(), variable.to_owned(), text));
            }
        }
        for (variable, text) in &all {
            let Some(name) = variable.strip_prefix(PREFIX) else { continue };
            let named = SHORT.iter().map(|(short, _, _)| *short).chain(SPECIAL).any(|known| known == variable);
            if named || of_orchestrator(name) {
                continue;
            }
            let Some((section, setting)) = setting(name) else {
                match hint(variable) {
                    Some(hint) => return Err(format!("the environment variable {variable} is unknown; {hint}").into()),
                    // The name is not similar to any known one, so the variable probably belongs to something else.
                    None => eprintln!("tidegate: the environment variable {variable} is unknown and does nothing"),
                }
                continue;
            };
            settings.push((section, setting, variable.clone(), text.clone()));
        }
        Ok(Self {
            config: value(&["TIDEGATE_CONFIG"]).map(PathBuf::from),
            private_token: value(&PRIVATE),
            public_token: value(&PUBLIC),
            settings,
        })
    }
}

/// The setting that a variable names, without its prefix.
fn setting(variable: &str) -> Option<(&'static dyn Section<Options>, String)> {
    SECTIONS.iter().copied().find_map(|section| {
        let name = variable.strip_prefix(&section.name().to_uppercase())?.strip_prefix('_')?.to_lowercase();
        let known = section.settings().contains(&name.as_str());
        (known && variable.bytes().all(|byte| !byte.is_ascii_lowercase())).then_some((section, name))
    })
}

/// Whether a variable is set by an orchestrator. Kubernetes, and Docker for linked containers, set variables for each
/// service, and a service may be called `tidegate`. Refusing to start because of such a variable would be useless.
fn of_orchestrator(name: &str) -> bool {
    let mut words = name.split('_').rev();
    let last = words.next().unwrap_or_default();
    matches!((last, words.next()), ("HOST" | "PORT", Some("SERVICE")))
        || last == "PORT"
        || name.contains("SERVICE_PORT_")
        || ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| {
            let ends = name.ends_with(protocol) || name.contains(&format!("{protocol}_"));
            ends && name.contains("PORT_")
        })
}

/// A suggestion for an unknown variable; `None` if its name is not similar to a known one.
fn hint(variable: &str) -> Option<String> {
    let of = |section: &&'static dyn Section<Options>| {
        let start = section.name().to_uppercase();
        let name = move |name: &str| format!("{start}_{}", name.to_uppercase());
        section.settings().into_iter().map(name).collect::<Vec<_>>()
    };
    let mut names: Vec<String> = SECTIONS.iter().flat_map(of).collect();
    // The common prefix is removed before the comparison. It would make all names similar.
    let others = SHORT.iter().map(|(short, _, _)| *short).chain(SPECIAL);
    names.extend(others.filter_map(|name| name.strip_prefix(PREFIX)).map(str::to_owned));
    let variable = variable.trim_start_matches(PREFIX);
    match nearest(variable, names.iter().map(String::as_str)) {
        Some(near) => Some(format!("did you mean {PREFIX}{near}?")),
        None => {
            let ours = SECTIONS.iter().any(|section| {
                variable.strip_prefix(&section.name().to_uppercase()).is_some_and(|rest| rest.starts_with('_'))
            });
            ours.then(|| "tidegate serve --help lists the settings".to_owned())
        }
    }
}
