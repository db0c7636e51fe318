//! The contract in Rust, generated from `wit/`. Use the names that the crate re-exports.

#[cfg(not(feature = "adhoc"))]
wit_bindgen::generate!({
    path: "wit",
    world: "endpoint",
    pub_export_macro: true,
    export_macro_name: "export_handler",
    default_bindings_module: "tidegate_sdk::contract",
});

#[cfg(feature = "adhoc")]
wit_bindgen::generate!({
    path: "wit",
    world: "endpoint-adhoc",
    pub_export_macro: true,
    export_macro_name: "export_handler",
    default_bindings_module: "tidegate_sdk::contract",
});
