//! What the gate refuses, and how it says so.

use tidegate_compiler::{GateError, MAX_COMPONENT_BYTES, MAX_MANIFEST_BYTES, compile_sql, inspect, pack};

use super::manifest;

/// A component from text, with a manifest.
fn component(wat: &str) -> Vec<u8> {
    pack(&wat::parse_str(wat).unwrap(), &manifest()).unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    inspect(bytes).unwrap_err().to_string()
}

#[test]
fn files_that_are_no_component_are_told_apart() {
    assert_eq!(inspect(&vec![0; MAX_COMPONENT_BYTES + 1]), Err(GateError::TooLarge { size: MAX_COMPONENT_BYTES + 1 }));
    assert_eq!(inspect(b"\x7fELF..."), Err(GateError::Precompiled));
    assert_eq!(inspect(b"select 1"), Err(GateError::NotWasm));
    assert_eq!(inspect(b""), Err(GateError::NotWasm));
    assert_eq!(inspect(&wat::parse_str("(module)").unwrap()), Err(GateError::CoreModule));
    assert!(pack(b"\x7fELF", &manifest()).is_err());
    assert!(pack(b"select 1", &manifest()).unwrap_err().to_string().contains("cargo build"));
    let no_world = pack(&wat::parse_str("(module)").unwrap(), &manifest()).unwrap_err().to_string();
    assert!(no_world.contains("tidegate-sdk"), "{no_world}");
}

#[test]
fn wasi_is_refused_by_name_and_with_the_way_out() {
    let refusal =
        refusal(&component(r#"(component (import "wasi:cli/environment@0.2.0" (instance (export "get" (func)))))"#));
    assert!(refusal.contains("'wasi:cli/environment@0.2.0'"), "{refusal}");
    assert!(refusal.contains("wasm32-unknown-unknown"), "{refusal}");
    let module = r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)))"#;
    let packed = pack(&wat::parse_str(module).unwrap(), &manifest()).unwrap_err().to_string();
    assert!(packed.contains("'wasi_snapshot_preview1.fd_write'"), "{packed}");
}

#[test]
fn other_imports_and_a_missing_handler_are_named() {
    let import = refusal(&component(r#"(component (import "acme:net/sockets" (instance)))"#));
    assert!(import.contains("'acme:net/sockets'") && import.contains("tidegate:endpoint/statements@0.1.0"), "{import}");
    let handler = refusal(&component("(component)"));
    assert!(handler.contains("'tidegate:endpoint/handler@0.1.0'"), "{handler}");
}

#[test]
fn a_handler_of_another_type_does_not_fit() {
    let refusal = refusal(&component(
        r#"(component
            (core module $m (func (export "handle")))
            (core instance $i (instantiate $m))
            (func $handle (canon lift (core func $i "handle")))
            (instance $handler (export "handle" (func $handle)))
            (export "tidegate:endpoint/handler@0.1.0" (instance $handler)))"#,
    ));
    assert!(refusal.contains("does not fit the world"), "{refusal}");
}

#[test]
fn proposals_that_are_off_are_refused() {
    for module in [
        "(memory 1 1 shared)",
        "(memory i64 1)",
        "(memory 1) (memory 1)",
        "(tag)",
        "(func (result v128) v128.const i64x2 0 0 v128.const i64x2 0 0 i8x16.relaxed_swizzle)",
        "(func $f return_call $f)",
        "(type (struct))",
        "(func (param externref))",
    ] {
        let refusal = refusal(&component(&format!("(component (core module {module}))")));
        assert!(refusal.starts_with("the component is not valid here"), "{module}: {refusal}");
    }
}

#[test]
fn declared_memory_and_tables_are_weighed() {
    for (module, what) in [("(memory 1025)", "bytes of initial memory"), ("(table 100001 funcref)", "table elements")] {
        let refusal = refusal(&component(&format!("(component (core module {module}))")));
        assert!(refusal.contains(what), "{refusal}");
    }
    let many = "(core module (memory 1))".repeat(3);
    assert!(refusal(&component(&format!("(component {many})"))).contains("3 memories; at most 2"));
}

#[test]
fn a_component_without_a_manifest_or_with_two_is_refused() {
    let packed = compile_sql(&manifest()).unwrap();
    let bare = wat::parse_str("(component)").unwrap();
    assert!(tidegate_compiler::manifest_of(&bare).unwrap_err().to_string().contains("tidegate build"));
    // A second section of the same name, appended by hand.
    let name = tidegate_compiler::MANIFEST_SECTION;
    let mut twice = packed;
    twice.extend([0, u8::try_from(name.len() + 3).unwrap(), u8::try_from(name.len()).unwrap()]);
    twice.extend(name.as_bytes());
    twice.extend(b"{}");
    assert!(refusal(&twice).contains("twice"));
}

#[test]
fn a_megabyte_of_manifest_is_refused_before_it_is_read() {
    let mut big = manifest();
    big.description = "d".repeat(MAX_MANIFEST_BYTES);
    let packed = compile_sql(&big).unwrap_err().to_string();
    assert!(packed.contains("the manifest has") && packed.contains("1048576"), "{packed}");
    // By hand, as no packer would; it is not even JSON.
    let name = tidegate_compiler::MANIFEST_SECTION;
    let mut component = wasm_encoder::Component::new();
    component.section(&wasm_encoder::CustomSection { name: name.into(), data: vec![b'['; 2 << 20].into() });
    let refusal = tidegate_compiler::manifest_of(&component.finish()).unwrap_err().to_string();
    assert!(refusal.contains("2097152 bytes"), "{refusal}");
}

#[test]
fn what_nests_or_is_named_without_end_is_refused_in_few_words() {
    for depth in [90, 5_000] {
        let mut component = wasm_encoder::Component::new().finish();
        for _ in 0..depth {
            let mut outer = wasm_encoder::Component::new();
            outer.section(&wasm_encoder::RawSection { id: 4, data: &component });
            component = outer.finish();
        }
        assert!(refusal(&component).len() < 2_000);
    }
    let types: String = (1..20_000).map(|n| format!("(type $t{n} (list $t{}))", n - 1)).collect();
    let lists =
        wat::parse_str(format!(r#"(component (type $t0 (list u8)) {types} (import "f" (func (param "x" $t19999))))"#));
    let lists = refusal(&lists.unwrap());
    assert!(lists.contains("not valid here"), "{lists}");
    let long = wat::parse_str(format!(r#"(component (import "{}:b/c" (instance)))"#, "a".repeat(100_000))).unwrap();
    assert!(refusal(&long).len() < 2_000);
}

#[test]
fn one_function_too_many_is_refused_also_in_an_interface_that_is_granted() {
    let more = r#"(component
        (import "tidegate:endpoint/log@0.1.0" (instance (export "delete-lines" (func))))
        (core module $m (func (export "handle")))
        (core instance $i (instantiate $m))
        (func $handle (canon lift (core func $i "handle")))
        (instance $handler (export "handle" (func $handle)))
        (export "tidegate:endpoint/handler@0.1.0" (instance $handler)))"#;
    let refusal = refusal(&component(more));
    assert!(refusal.contains("delete-lines"), "{refusal}");
}

#[test]
fn no_cut_or_flipped_component_panics_the_gate() {
    let packed = compile_sql(&manifest()).unwrap();
    for end in (0..packed.len()).step_by(7) {
        assert!(inspect(packed.get(..end).unwrap()).is_err());
    }
    for at in (0..packed.len()).step_by(3) {
        let mut flipped = packed.clone();
        *flipped.get_mut(at).unwrap() ^= 0x55;
        let _either = inspect(&flipped);
    }
}
