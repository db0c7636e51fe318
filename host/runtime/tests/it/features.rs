//! The gate and the engine agree on what WebAssembly is: what passes one compiles in the other.

use tidegate_compiler::{FEATURES, GateError, inspect};
use tidegate_runtime::Runtime;

use super::fake::{options, prepare, sql_component};

#[tokio::test]
async fn gate_and_engine_have_the_same_features() {
    let runtime = Runtime::new(options()).unwrap();
    let modules = [
        // On.
        ("(memory 1)", true),
        ("(memory 1) (func (memory.copy (i32.const 0) (i32.const 0) (i32.const 0)))", true),
        ("(func (result i32 i32) i32.const 1 i32.const 2)", true),
        ("(func (param f32) (result i32) (i32.trunc_sat_f32_s (local.get 0)))", true),
        ("(func (param i32) (result i32) (i32.extend8_s (local.get 0)))", true),
        ("(table 1 funcref) (table 1 funcref)", true),
        ("(func (result v128) v128.const i64x2 0 0)", true),
        ("(global i32 (i32.add (i32.const 1) (i32.const 2)))", true),
        // Off.
        ("(memory 1 1 shared)", false),
        ("(memory i64 1)", false),
        ("(memory 1) (memory 1)", false),
        ("(memory 1 (pagesize 1))", false),
        ("(tag)", false),
        ("(func $f return_call $f)", false),
        ("(type (struct))", false),
        ("(func (param externref))", false),
        ("(type $t (func)) (func (param (ref $t)))", false),
        ("(func (result v128) v128.const i64x2 0 0 v128.const i64x2 0 0 i8x16.relaxed_swizzle)", false),
        (
            "(func (param i64 i64 i64 i64) (result i64 i64) local.get 0 local.get 1 local.get 2 local.get 3 i64.add128)",
            false,
        ),
    ];
    for (module, allowed) in modules {
        let component = wat::parse_str(format!("(component (core module {module}))")).unwrap();
        let gate = !matches!(inspect(&component), Err(GateError::Invalid { .. }));
        assert_eq!(gate, allowed, "the gate, on {module}");
        // An empty world never links; what matters is whether it got as far as that.
        let error = prepare(&runtime, &component).await.unwrap_err().to_string();
        let engine = error.contains("export");
        assert_eq!(engine, allowed, "the engine, on {module}: {error}");
    }
    assert!(!FEATURES.is_empty());
    inspect(&sql_component()).unwrap();
}
