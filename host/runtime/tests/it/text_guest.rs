//! Guests written as text, for what no compiler would make: bad pointers, handles and allocators.

use super::fake::component;

/// The parts of a guest that misbehave; the others do what they should.
#[derive(Default, Clone, Copy)]
pub(crate) struct Parts {
    /// More items of the module.
    pub(crate) items: &'static str,
    /// The body of `cabi_realloc`, with `$size` and `$align`; it gives out memory one after another
    /// unless set.
    pub(crate) realloc: &'static str,
    /// The body of the handler, after it wrote one line of log; `$request` is the handle. It answers
    /// without rows unless set.
    pub(crate) handle: &'static str,
    /// What follows the answer, with `$area`; nothing unless set.
    pub(crate) post_return: &'static str,
}

/// An answer without rows: its result lies at 1024.
const EMPTY: &str = "(call $drop-request (local.get $request))
    (i32.store8 (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (call $empty)) (i32.const 1024)";

/// The component of a guest of these parts.
///
/// The imports are at hand as `$drop-request`, `$names`, `$empty`, `$rows`, `$document`, `$log`,
/// `$run`, `$next` and `$drop-set`; the name of the default statement lies at 256 (7 bytes).
pub(crate) fn text_guest(parts: Parts) -> Vec<u8> {
    let Parts { items, realloc, handle, post_return } = parts;
    let realloc = if realloc.is_empty() {
        "(global.set $heap (i32.add (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)) (local.get $size)))
         (i32.sub (global.get $heap) (local.get $size))"
    } else {
        realloc
    };
    let handle = if handle.is_empty() { EMPTY } else { handle };
    component(&format!(
        r#"(module
        (import "tidegate:endpoint/exchange@0.1.0" "[resource-drop]request" (func $drop-request (param i32)))
        (import "tidegate:endpoint/exchange@0.1.0" "[method]request.names" (func $names (param i32 i32)))
        (import "tidegate:endpoint/exchange@0.1.0" "[static]response.empty" (func $empty (result i32)))
        (import "tidegate:endpoint/exchange@0.1.0" "[static]response.rows" (func $rows (param i32) (result i32)))
        (import "tidegate:endpoint/exchange@0.1.0" "[static]response.document" (func $document (param i32 i32 i32)))
        (import "tidegate:endpoint/log@0.1.0" "record-line" (func $log (param i32 i32 i32)))
        (import "tidegate:endpoint/statements@0.1.0" "run" (func $run (param i32 i32 i32 i32 i32)))
        (import "tidegate:endpoint/results@0.1.0" "[method]result-set.next" (func $next (param i32 i32 i32)))
        (import "tidegate:endpoint/results@0.1.0" "[resource-drop]result-set" (func $drop-set (param i32)))
        (type $nothing (func))
        (memory (export "memory") 1)
        (global $heap (mut i32) (i32.const 8192))
        (func (export "cabi_realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
            {realloc})
        (func $set (result i32)
            (call $run (i32.const 256) (i32.const 7) (i32.const 0) (i32.const 0) (i32.const 1024))
            (i32.load (i32.const 1028)))
        (data (i32.const 256) "default")
        (data (i32.const 512) "\ff\fe\fd")
        {items}
        (func $the_handler (export "tidegate:endpoint/handler@0.1.0#handle") (param $request i32) (result i32)
            (call $log (i32.const 1) (i32.const 256) (i32.const 7))
            {handle})
        (func (export "cabi_post_tidegate:endpoint/handler@0.1.0#handle") (param $area i32) {post_return}))"#
    ))
}

/// A guest with a resource of its own, whose destructor is `destructor` and whose handler does
/// `body`, with `$new` and `$drop` for the resource. It ends with a problem of no code.
pub(crate) fn with_own_resource(destructor: &str, body: &str) -> Vec<u8> {
    let problem = r#"(record (field "code" string) (field "detail" string) (field "retryable" bool))"#;
    let text = format!(
        r#"(component
        (import "tidegate:endpoint/exchange@0.1.0" (instance $exchange
            (export "request" (type (sub resource)))
            (export "response" (type (sub resource)))))
        (alias export $exchange "request" (type $request))
        (alias export $exchange "response" (type $response))
        (core module $destructor (func (export "end") (param i32) {destructor}))
        (core instance $destructor (instantiate $destructor))
        (type $own (resource (rep i32) (dtor (core func $destructor "end"))))
        (core func $new (canon resource.new $own))
        (core func $drop (canon resource.drop $own))
        (core func $done (canon resource.drop $request))
        (core module $main
            (import "own" "new" (func $new (param i32) (result i32)))
            (import "own" "drop" (func $drop (param i32)))
            (import "own" "done" (func $done (param i32)))
            (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
            (func (export "handle") (param $request i32) (result i32)
                (call $done (local.get $request))
                {body}
                (i32.store8 (i32.const 64) (i32.const 1))
                (i32.const 64)))
        (core instance $main (instantiate $main (with "own" (instance
            (export "new" (func $new)) (export "drop" (func $drop)) (export "done" (func $done))))))
        (alias core export $main "memory" (core memory $memory))
        (type $problem {problem})
        (func $handle (param "request" (borrow $request)) (result (result (own $response) (error $problem)))
            (canon lift (core func $main "handle") (memory $memory) (realloc (core func $main "realloc"))))
        (component $shape
            (import "request" (type $request (sub resource)))
            (import "response" (type $response (sub resource)))
            (type $plain {problem})
            (import "problem" (type $problem (eq $plain)))
            (import "handle" (func $handle
                (param "request" (borrow $request)) (result (result (own $response) (error $problem)))))
            (export $request-out "request" (type $request))
            (export $response-out "response" (type $response))
            (export $problem-out "problem" (type $problem))
            (export "handle" (func $handle) (func
                (param "request" (borrow $request-out))
                (result (result (own $response-out) (error $problem-out))))))
        (instance $handler (instantiate $shape
            (with "request" (type $request)) (with "response" (type $response))
            (with "problem" (type $problem)) (with "handle" (func $handle))))
        (export "tidegate:endpoint/handler@0.1.0" (instance $handler)))"#
    );
    wat::parse_str(text).unwrap()
}
