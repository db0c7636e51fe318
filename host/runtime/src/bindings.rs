//! The contract in Rust, generated from `wit/`.
//!
//! Bindings are made for the wider world; a component that imports less links all the same. Only
//! functions that wait for the engine are asynchronous, the others never leave the fiber.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "endpoint-adhoc",
    imports: {
        "tidegate:endpoint/statements.run": async | trappable,
        "tidegate:endpoint/adhoc.run": async | trappable,
        "tidegate:endpoint/results.[method]result-set.next": async | trappable,
        "tidegate:endpoint/results.[method]result-set.scalar": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    with: {
        "tidegate:endpoint/results.result-set": crate::result_set::ResultSet,
        "tidegate:endpoint/exchange.request": crate::exchange::RequestEntry,
        "tidegate:endpoint/exchange.response": crate::exchange::ResponseEntry,
    },
});
