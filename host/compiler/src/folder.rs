//! An endpoint as a folder: `endpoint.toml`, `query.sql`, and optionally `statements/*.sql`.
//!
//! The folder is the source, and the manifest is made from it, so that an endpoint can be reviewed and kept in git.
//! Unknown keys are refused, because a misspelt setting must not silently become the default.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidegate_model::{Alert, EndpointName, LimitSet, Manifest, ManifestError, Parameter, Settings};

use crate::generate::{DEFAULT_STATEMENT, compile_sql};
use crate::pack::{CompileError, pack};
use crate::serde_messages::in_plain_words;

/// The folder of an endpoint, parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Folder {
    /// Its path.
    pub path: PathBuf,
    /// The manifest that it declares.
    pub manifest: Manifest,
    /// Whether code replaces the body of the query.
    pub has_code: bool,
    /// What its component is made of.
    pub source: Source,
    /// The cases in `tests/*.json`, sorted.
    pub tests: Vec<PathBuf>,
}

/// How the component of a folder is made. If a folder has several of these, the first counts: `[build]`, `Cargo.toml`,
/// `component.wasm`, the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// From the query alone: the component is generated.
    Sql,
    /// From what cargo builds for `wasm32-unknown-unknown`.
    Cargo,
    /// From what a command of the author builds.
    Command(Build),
    /// From a component file, as `tidegate pull` writes it.
    Component(PathBuf),
}

/// The section `[build]` of `endpoint.toml`, for code in a language that this program does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// The program and its arguments. It is started in the folder, without a shell. Empty if the build is done
    /// elsewhere.
    #[serde(default)]
    pub command: Vec<String>,
    /// The module or component that exists after the build, as a path inside the folder.
    pub module: PathBuf,
}

/// The component file of an endpoint whose sources are elsewhere.
pub const COMPONENT_FILE: &str = "component.wasm";

/// Why a folder is not an endpoint.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is no such folder.
    #[error("{}: there is no such folder; `tidegate new NAME --lang sql` makes one", path.display())]
    NoFolder {
        /// Its path.
        path: PathBuf,
    },
    /// The folder lacks a file that every endpoint has.
    #[error(
        "{}: the folder of an endpoint has this file; `tidegate new NAME --lang sql` makes a folder with all",
        path.display()
    )]
    Missing {
        /// The missing file.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// `endpoint.toml` is invalid.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A file in `statements/` has a name that a guest cannot use.
    #[error(
        "{}: a statement is named by its file: letters, digits, '_' and '-', and not 'default', which is query.sql", path.display()
    )]
    StatementName {
        /// The file.
        path: PathBuf,
    },
    /// `[build]` names a file that is not in the folder.
    #[error("{}: the module of [build] must be a path in the folder, such as \"dist/endpoint.wasm\"", path.display())]
    Module {
        /// The file that says so.
        path: PathBuf,
    },
    /// The manifest breaks a rule.
    #[error("{}: {source}", path.display())]
    Manifest {
        /// The file that says so.
        path: PathBuf,
        /// Which rule is broken.
        source: ManifestError,
    },
}

/// The layout of `endpoint.toml`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointToml {
    name: EndpointName,
    #[serde(default)]
    description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<Parameter>,
    #[serde(default)]
    settings: Settings,
    #[serde(default, skip_serializing_if = "LimitSet::is_empty")]
    limits: LimitSet,
    #[serde(default, rename = "alert", skip_serializing_if = "Vec::is_empty")]
    alerts: Vec<Alert>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    build: Option<Build>,
}

impl Folder {
    /// Reads the folder at `path`.
    ///
    /// # Errors
    /// The file that is wrong, and the line if known.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FolderError> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Err(FolderError::NoFolder { path: path.to_owned() });
        }
        let toml_path = path.join("endpoint.toml");
        let query_path = path.join("query.sql");
        let (mut manifest, build) = manifest(&toml_path, &read(&toml_path)?, read(&query_path)?)?;
        manifest.statements = statements(&path.join("statements"))?;
        manifest.validate().map_err(|source| {
            let path = if source == ManifestError::EmptyQuery { query_path } else { toml_path.clone() };
            FolderError::Manifest { path, source }
        })?;
        let source = match build {
            Some(build) if !is_inside(&build.module) => return Err(FolderError::Module { path: toml_path }),
            Some(build) => Source::Command(build),
            None if path.join("Cargo.toml").is_file() => Source::Cargo,
            None if path.join(COMPONENT_FILE).is_file() => Source::Component(path.join(COMPONENT_FILE)),
            None => Source::Sql,
        };
        let has_code = source != Source::Sql;
        let tests = files(&path.join("tests"), "json")?;
        Ok(Self { path: path.to_owned(), manifest, has_code, source, tests })
    }

    /// The component of the folder: generated, or packed from what a toolchain built. No toolchain is started here.
    ///
    /// # Errors
    /// The folder has code, and `built` is absent or cannot become an endpoint.
    pub fn component(&self, built: Option<&[u8]>) -> Result<Vec<u8>, CompileError> {
        match built {
            Some(built) => pack(built, &self.manifest),
            None if self.has_code => Err(CompileError::NotBuilt),
            None => compile_sql(&self.manifest),
        }
    }
}

/// The manifest of an endpoint from the texts of `endpoint.toml` and `query.sql`.
///
/// # Errors
/// As [`Folder::read`].
pub fn manifest_of_texts(toml: &str, query: &str) -> Result<Manifest, FolderError> {
    let path = Path::new("endpoint.toml");
    let (manifest, _) = manifest(path, toml, query.to_owned())?;
    manifest.validate().map_err(|source| FolderError::Manifest { path: path.to_owned(), source })?;
    Ok(manifest)
}

/// The section `[build]` of the `endpoint.toml` in a folder. The other files may be missing.
///
/// # Errors
/// The file exists and is invalid.
pub fn build_of(folder: &Path) -> Result<Option<Build>, FolderError> {
    let path = folder.join("endpoint.toml");
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => Ok(parse_toml(&path, &read(&path)?)?.build),
    }
}

/// The text of `endpoint.toml` for a manifest. Parsed together with the query and the statements, it gives the same
/// manifest. A manifest does not contain how its code is built, so `[build]` is an argument.
///
/// # Errors
/// None that a valid manifest can cause.
pub fn endpoint_toml(manifest: &Manifest, build: Option<Build>) -> Result<String, CompileError> {
    let Manifest { name, description, parameters, settings, limits, alerts, query: _, statements: _ } =
        manifest.clone();
    let toml = EndpointToml { name, description, parameters, settings, limits, alerts, build };
    let text = toml::to_string_pretty(&toml);
    text.map_err(|error| CompileError::Encoding(format!("endpoint.toml cannot be written: {error}")))
}

/// Whether a statement can have this name, which is both a file name and what a guest uses.
pub fn is_statement_name(name: &str) -> bool {
    let legal = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    !name.is_empty() && legal && name != DEFAULT_STATEMENT
}

/// Whether a relative path stays below its start.
fn is_inside(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn manifest(toml_path: &Path, toml: &str, query: String) -> Result<(Manifest, Option<Build>), FolderError> {
    let EndpointToml { name, description, parameters, settings, limits, alerts, build } = parse_toml(toml_path, toml)?;
    let mut manifest = Manifest::new(name, query);
    manifest.description = description;
    manifest.parameters = parameters;
    manifest.settings = settings;
    manifest.limits = limits;
    manifest.alerts = alerts;
    Ok((manifest, build))
}

fn read(path: &Path) -> Result<String, FolderError> {
    std::fs::read_to_string(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => FolderError::Missing { path: path.to_owned() },
        _ => FolderError::Read { path: path.to_owned(), source },
    })
}

fn parse_toml(path: &Path, text: &str) -> Result<EndpointToml, FolderError> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        FolderError::Toml {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            message: in_plain_words(error.message()),
        }
    })
}

fn statements(folder: &Path) -> Result<BTreeMap<String, String>, FolderError> {
    let mut statements = BTreeMap::new();
    for path in files(folder, "sql")? {
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if !is_statement_name(&name) {
            return Err(FolderError::StatementName { path });
        }
        statements.insert(name, read(&path)?);
    }
    Ok(statements)
}

/// The files in `folder` with that extension, sorted; none if the folder does not exist.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, FolderError> {
    let failed = |source| FolderError::Read { path: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|found| found == extension) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
