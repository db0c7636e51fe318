//! Throwaway.
#![expect(clippy::unwrap_used, reason = "throwaway")]
use tidegate_compiler::*;
use tidegate_model::*;
fn main() {
    let manifest = Manifest::new(EndpointName::try_from("golden".to_owned()).unwrap(), "WITH edge_logs AS (SELECT * FROM `cloudflare.logs.prod`) SELECT id FROM edge_logs");
    let out = std::env::args().nth(1).unwrap();
    std::fs::write(format!("{out}/sql.wasm"), compile_sql(&manifest).unwrap()).unwrap();
    std::fs::write(format!("{out}/adhoc.wasm"), pack(&compile_adhoc().unwrap(), &manifest).unwrap()).unwrap();
    let rust = std::fs::read(std::env::args().nth(2).unwrap()).unwrap();
    let folder = Folder::read("guest-endpoints/edge-methods").unwrap();
    std::fs::write(format!("{out}/rust.wasm"), pack(&rust, &folder.manifest).unwrap()).unwrap();
}
