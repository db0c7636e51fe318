//! Packs: endpoints that belong together and are put on a server together.
//!
//! A pack is a folder of endpoint folders, with a `pack.toml` if it says whose the rows of sources are (`pack_file`). Those that this program has inside are the folders of
//! `guest-endpoints/packs/`, so that they are there without the source tree; any other is named by its path.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};

use tidegate_compiler::{Folder, compile_sql, inspect, manifest_of_texts};
use tidegate_model::{Manifest, SourceTenancy, nearest};
use tidegate_service::{PackEndpoint, PackSource};
use tidegate_sql::SavedQuery;

use super::build::built;
use super::pack_file;

/// A pack inside this program.
pub(super) struct Shipped {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// `endpoint.toml` and `query.sql` of each endpoint.
    endpoints: &'static [(&'static str, &'static str)],
}

macro_rules! shipped {
    ($pack:literal: $($endpoint:literal),* $(,)?) => {
        &[$((
            include_str!(concat!("../../../../guest-endpoints/packs/", $pack, "/", $endpoint, "/endpoint.toml")),
            include_str!(concat!("../../../../guest-endpoints/packs/", $pack, "/", $endpoint, "/query.sql")),
        )),*]
    };
}

pub(super) const SHIPPED: &[Shipped] = &[Shipped {
    name: "log-viewer",
    description: "what the log pages, reports and charts of Supabase Studio ask for",
    endpoints: shipped!("log-viewer":
        "auth.metrics",
        "functions.combined-stats",
        "functions.req-stats",
        "logs.all",
        "project.metrics",
        "service-health",
        "usage.api-counts",
        "usage.api-requests-count",
    ),
}];

impl Shipped {
    /// What its endpoints declare.
    ///
    /// # Errors
    /// None; a test reads them all.
    pub(super) fn manifests(&self) -> Result<Vec<Manifest>, Box<dyn Error>> {
        let manifest = |(toml, query): &(&str, &str)| manifest_of_texts(toml, query);
        Ok(self.endpoints.iter().map(manifest).collect::<Result<_, _>>()?)
    }
}

/// A pack, ready to be installed.
pub(super) struct Pack {
    /// Its name, of a folder that of the folder.
    pub(super) name: String,
    /// Its endpoints; one that reads another comes after it.
    pub(super) endpoints: Vec<Packed>,
    /// Whose the rows of sources are, by the name of the source.
    pub(super) sources: BTreeMap<String, SourceTenancy>,
}

/// An endpoint of a pack.
pub(super) struct Packed {
    pub(super) manifest: Manifest,
    pub(super) component: Vec<u8>,
}

impl Pack {
    /// The pack that is meant: one of this program by its name, or a folder by its path. Endpoints with code are built.
    ///
    /// # Errors
    /// There is none; what is wrong with one of its endpoints.
    pub(super) fn find(named: &str) -> Result<Self, Box<dyn Error>> {
        match SHIPPED.iter().find(|shipped| shipped.name == named) {
            Some(shipped) => Self::shipped(shipped),
            None => Self::folder(Path::new(named)),
        }
    }

    fn shipped(shipped: &Shipped) -> Result<Self, Box<dyn Error>> {
        let mut endpoints = Vec::new();
        for manifest in shipped.manifests()? {
            let component = compile_sql(&manifest)?;
            endpoints.push(Packed { manifest, component });
        }
        Self::of(shipped.name.to_owned(), endpoints)
    }

    fn folder(path: &Path) -> Result<Self, Box<dyn Error>> {
        let shown = path.display();
        if !path.is_dir() {
            let names = || SHIPPED.iter().map(|shipped| shipped.name);
            let hint = match nearest(&shown.to_string(), names()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
            };
            return Err(format!("there is no pack {shown}, and no folder; {hint}").into());
        }
        if path.join("endpoint.toml").exists() {
            return Err(format!(
                "{shown} is the folder of one endpoint, for tidegate push; a pack is a folder of such folders"
            )
            .into());
        }
        let folders = endpoint_folders(path)?;
        if folders.is_empty() {
            return Err(format!(
                "{shown} is no pack: no folder in it has an endpoint.toml; `tidegate new NAME --lang sql` makes one"
            )
            .into());
        }
        let mut endpoints = Vec::new();
        for folder in folders {
            let folder = Folder::read(&folder)?;
            let component = built(&folder, None)?;
            // As a server reads it.
            let manifest = inspect(&component)?.manifest;
            endpoints.push(Packed { manifest, component });
        }
        let whole = path.canonicalize().map_err(|error| format!("{shown}: {error}"))?;
        let name = whole.file_name().map_or_else(|| shown.to_string(), |name| name.to_string_lossy().into_owned());
        let sources = pack_file::read(path)?;
        Ok(Self { sources, ..Self::of(name, endpoints)? })
    }

    /// A pack of these endpoints, in the order in which they can be saved.
    fn of(name: String, endpoints: Vec<Packed>) -> Result<Self, Box<dyn Error>> {
        let mut left = BTreeMap::new();
        for endpoint in endpoints {
            let own = endpoint.manifest.name.to_string();
            let query = SavedQuery::parse(&endpoint.manifest.query);
            let reads = query.map_err(|error| format!("{own}: query.sql: {error}"))?;
            let reads: BTreeSet<String> = reads.relations().into_iter().map(str::to_owned).collect();
            if left.insert(own.clone(), (reads, endpoint)).is_some() {
                return Err(format!("two endpoints of the pack {name} have the name {own}").into());
            }
        }
        let mut ordered = Vec::new();
        while !left.is_empty() {
            let free = left.iter().find(|(own, (reads, _))| !left.keys().any(|key| key != *own && reads.contains(key)));
            let Some(next) = free.map(|(own, _)| own.clone()) else {
                let circle: Vec<_> = left.into_keys().collect();
                return Err(format!("endpoints of the pack {name} read each other: {}", circle.join(", ")).into());
            };
            ordered.extend(left.remove(&next).map(|(_, endpoint)| endpoint));
        }
        Ok(Self { name, endpoints: ordered, sources: BTreeMap::new() })
    }
}

/// The folders in a folder that are endpoints, sorted.
fn endpoint_folders(path: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let folder = entry.map_err(failed)?.path();
        if folder.join("endpoint.toml").is_file() {
            folders.push(folder);
        }
    }
    folders.sort();
    Ok(folders)
}

/// The endpoints of packs and what they say of sources, for a service that saves them when it starts.
///
/// # Errors
/// As [`Pack::find`]; an endpoint that two of the packs have; a source of which two of them say something else.
pub(crate) fn for_start(named: &[String]) -> Result<(Vec<PackEndpoint>, Vec<PackSource>), Box<dyn Error>> {
    let (mut all, mut of) = (Vec::new(), BTreeMap::new());
    let mut declared: Vec<PackSource> = Vec::new();
    for named in named {
        let Pack { name: pack, endpoints, sources } = Pack::find(named)?;
        for (name, tenant) in sources {
            match declared.iter().find(|other| other.name == name) {
                Some(other) if other.tenant == tenant => {}
                Some(PackSource { pack: other, .. }) => {
                    return Err(
                        format!("the packs {other} and {pack} say different things of the source {name}").into()
                    );
                }
                None => declared.push(PackSource { pack: pack.clone(), name, tenant }),
            }
        }
        for Packed { manifest, component } in endpoints {
            if let Some(other) = of.insert(manifest.name.to_string(), pack.clone()) {
                return Err(format!("the packs {other} and {pack} both have the endpoint {}", manifest.name).into());
            }
            all.push(PackEndpoint { pack: pack.clone(), component });
        }
    }
    Ok((all, declared))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn write(folder: &Path, endpoint: &str, name: &str, query: &str) {
        let folder = folder.join(endpoint);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("endpoint.toml"), format!("name = \"{name}\"\n")).unwrap();
        std::fs::write(folder.join("query.sql"), query).unwrap();
    }

    fn names(pack: &Pack) -> Vec<&str> {
        pack.endpoints.iter().map(|endpoint| endpoint.manifest.name.as_str()).collect()
    }

    fn refused(named: &Path) -> String {
        Pack::find(named.to_str().unwrap()).err().unwrap().to_string()
    }

    #[test]
    fn the_packs_of_the_tree_are_inside_whole() {
        let packs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-endpoints/packs");
        let mut there: Vec<_> = std::fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path()).collect();
        there.retain(|path| path.is_dir());
        assert_eq!(there.len(), SHIPPED.len());
        for shipped in SHIPPED {
            let inside = Pack::find(shipped.name).unwrap();
            let tree = Pack::find(packs.join(shipped.name).to_str().unwrap()).unwrap();
            assert_eq!((&inside.name, names(&inside)), (&tree.name, names(&tree)));
            for (inside, tree) in inside.endpoints.iter().zip(&tree.endpoints) {
                assert!(inside.component == tree.component, "{}", inside.manifest.name);
            }
        }
    }

    #[test]
    fn an_endpoint_comes_after_those_that_it_reads() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "1", "a", "WITH t AS (SELECT id FROM `c`) SELECT id FROM t");
        write(folder.path(), "2", "b", "SELECT id FROM `postgres.logs`");
        write(folder.path(), "3", "c", "SELECT id FROM b");
        std::fs::create_dir(folder.path().join("notes")).unwrap();
        std::fs::write(folder.path().join("README.md"), "").unwrap();
        assert_eq!(names(&Pack::find(folder.path().to_str().unwrap()).unwrap()), ["b", "c", "a"]);
        write(folder.path(), "2", "b", "SELECT id FROM a");
        assert!(refused(folder.path()).contains("read each other: a, b, c"));
        write(folder.path(), "2", "a", "SELECT id FROM `postgres.logs`");
        assert!(refused(folder.path()).contains("two endpoints"));
    }

    #[test]
    fn what_is_no_pack_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refused(folder.path()).contains("no folder in it has an endpoint.toml"));
        write(folder.path(), "one", "one", "SELECT 1 AS n");
        assert!(refused(&folder.path().join("one")).contains("tidegate push"));
        assert!(refused(Path::new("log-viever")).contains("did you mean log-viewer?"));
        assert!(refused(Path::new("nothing-like-it")).contains("there are log-viewer"));
    }

    #[test]
    fn two_packs_for_a_start_share_no_endpoint() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "one", "logs.all", "SELECT 1 AS n");
        let own = folder.path().to_str().unwrap().to_owned();
        assert!(for_start(&["log-viewer".to_owned(), own.clone()]).unwrap_err().to_string().contains("logs.all"));
        assert_eq!(for_start(&[own]).unwrap().0.len(), 1);
        assert!(for_start(&[]).unwrap().0.is_empty());
    }
}
