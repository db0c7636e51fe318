//! The Rust side of the WIT package, generated from `wit/`.
//!
//! The bindings are made for the larger world; a component that imports less links all the same. Only functions that
//! wait for the query engine are asynchronous; the others never suspend the fiber of the guest.
//!
//! The generated code names the types behind the resources. They are in [`crate::result_set`] and [`crate::response`],
//! which do not use the bindings, so that there is no circle of imports.

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
        "tidegate:endpoint/exchange.request": crate::response::RequestEntry,
        "tidegate:endpoint/exchange.response": crate::response::ResponseEntry,
    },
});
