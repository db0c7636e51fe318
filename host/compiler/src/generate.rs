//! Components of SQL endpoints, generated without a toolchain.
//!
//! The module has a few hundred bytes: `handle` runs one statement and passes its rows on. It has no loop, so that its
//! cost is bounded by construction. The SQL itself stays in the manifest, where the gate checked it; the code refers to
//! it by name. Two alternatives were considered: patching a prebuilt component (breaks with each recompilation), and
//! linking a data component with an interpreter component (two instances for each request, and parsing at run time).
//!
//! Offsets follow the canonical ABI of the contract; a test computes them from the WIT and compares.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};
use tidegate_model::Manifest;
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataSection, EntityType, ExportKind, ExportSection, Function, FunctionSection,
    GlobalSection, GlobalType, ImportSection, InstructionSink, MemArg, MemArgTarget, MemorySection, MemoryType, Module,
    TypeSection, ValType,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

use crate::contract::{HANDLER, World, contract};
use crate::pack::{CompileError, pack};

/// The name of the statement that is the body of the saved query.
pub const DEFAULT_STATEMENT: &str = "default";

/// The request argument that has the query for the ad-hoc component.
pub const SQL_ARGUMENT: &str = "sql";

const STATEMENTS: &str = "tidegate:endpoint/statements@0.1.0";
const ADHOC: &str = "tidegate:endpoint/adhoc@0.1.0";
const EXCHANGE: &str = "tidegate:endpoint/exchange@0.1.0";

/// Addresses in the memory of a generated module, in bytes.
mod at {
    /// `result<result-set, failure>`, as `run` writes it.
    pub(super) const RUN: i32 = 16;
    /// `option<value>`, as `argument` writes it.
    pub(super) const ARGUMENT: i32 = 64;
    /// `result<response, problem>`, as `handle` returns it when all is well.
    pub(super) const ANSWER: i32 = 96;
    /// The same, for a statement that failed.
    pub(super) const FAILED: i32 = 128;
    /// The same, for an ad-hoc request without a query.
    pub(super) const MISSING: i32 = 160;
    /// Texts.
    pub(super) const TEXTS: i32 = 256;
    /// Where `cabi_realloc` begins.
    pub(super) const HEAP: i32 = 1024;
}

/// Offsets inside of the values above, in bytes.
mod field {
    /// The payload of `result<result-set, failure>` and of `result<response, problem>`.
    pub(super) const PAYLOAD: u64 = 4;
    /// The payload of `option<value>`, which is the case of the value.
    pub(super) const VALUE: u64 = 8;
    /// The payload of that value.
    pub(super) const VALUE_PAYLOAD: u64 = 16;
    /// The number of the case `text` of a value.
    pub(super) const TEXT_CASE: i32 = 4;
}

/// The component of a SQL endpoint, with its manifest embedded.
///
/// # Errors
/// The manifest breaks its rules.
pub fn compile_sql(manifest: &Manifest) -> Result<Vec<u8>, CompileError> {
    manifest.validate()?;
    pack(&encode(World::Endpoint)?, manifest)
}

/// The SHA-256 of the code of saved queries of past releases. This program generated it, and it runs unchanged,
/// whatever this build generates. When a version is released, that of `tests/compat/VERSION/sql.wasm` is added.
const RELEASED: [&str; 1] = ["727c425a167800321a5fb79abcdc9ea5ab36c65555b5e2b51bbb6029b0d8d166"];

/// Whether this is the SHA-256 of the code ([`crate::code_of`]) of a saved query. Endpoints of saved queries differ
/// only in their manifest.
pub fn is_generated_code(digest: &[u8; 32]) -> bool {
    static PRESENT: LazyLock<Option<[u8; 32]>> = LazyLock::new(|| digest_of_code(&encode(World::Endpoint).ok()?));
    let hex = || digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    PRESENT.as_ref() == Some(digest) || RELEASED.contains(&hex().as_str())
}

/// Whether a component is a saved query without code, which this or an earlier build generated. The manifest may be
/// any.
pub fn is_generated(component: &[u8]) -> bool {
    digest_of_code(component).is_some_and(|digest| is_generated_code(&digest))
}

fn digest_of_code(component: &[u8]) -> Option<[u8; 32]> {
    Some(Sha256::digest(crate::section::code_of(component).ok()?).into())
}

/// The component that runs the query in the request argument [`SQL_ARGUMENT`]. One component serves every endpoint: the
/// host decides for each request under which grants the query runs.
///
/// # Errors
/// None that input can cause.
pub fn compile_adhoc() -> Result<Vec<u8>, CompileError> {
    encode(World::EndpointAdhoc)
}

fn encode(world: World) -> Result<Vec<u8>, CompileError> {
    let contract = contract().map_err(CompileError::Contract)?;
    let mut module = core_module(world);
    embed_component_metadata(&mut module, &contract.resolve, contract.world(world), StringEncoding::UTF8, false)
        .map_err(CompileError::encoding)?;
    ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .and_then(|encoder| encoder.encode())
        .map_err(CompileError::encoding)
}

/// Indices of the functions of a generated module, imports first.
mod function {
    pub(super) const RUN: u32 = 0;
    pub(super) const ROWS: u32 = 1;
    pub(super) const DROP_REQUEST: u32 = 2;
    /// Only with ad-hoc queries. The two functions after it then have the next higher index.
    pub(super) const ARGUMENT: u32 = 3;
}

fn core_module(world: World) -> Vec<u8> {
    let adhoc = world == World::EndpointAdhoc;
    let mut texts = Texts::default();

    let mut types = TypeSection::new();
    let i32s = |count| std::iter::repeat_n(ValType::I32, count);
    types.ty().function(i32s(5), []); // 0: run
    types.ty().function(i32s(1), i32s(1)); // 1: rows, handle
    types.ty().function(i32s(1), []); // 2: drop
    types.ty().function(i32s(4), []); // 3: argument
    types.ty().function(i32s(4), i32s(1)); // 4: cabi_realloc

    let mut imports = ImportSection::new();
    imports.import(if adhoc { ADHOC } else { STATEMENTS }, "run", EntityType::Function(0));
    imports.import(EXCHANGE, "[static]response.rows", EntityType::Function(1));
    imports.import(EXCHANGE, "[resource-drop]request", EntityType::Function(2));
    if adhoc {
        imports.import(EXCHANGE, "[method]request.argument", EntityType::Function(3));
    }
    let handle = if adhoc { function::ARGUMENT + 1 } else { function::ARGUMENT };

    let mut functions = FunctionSection::new();
    functions.function(1).function(4);

    let mut memories = MemorySection::new();
    // An ad-hoc query passes through the memory of the guest, otherwise only the text of a failure.
    let maximum = Some(if adhoc { 64 } else { 4 });
    memories.memory(MemoryType { minimum: 1, maximum, memory64: false, shared: false, page_size_log2: None });

    let mut globals = GlobalSection::new();
    let heap = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
    globals.global(heap, &ConstExpr::i32_const(at::HEAP));

    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0);
    exports.export(&format!("{HANDLER}#handle"), ExportKind::Func, handle);
    exports.export("cabi_realloc", ExportKind::Func, handle + 1);

    let mut code = CodeSection::new();
    code.function(&handle_function(adhoc, &mut texts));
    code.function(&realloc_function());

    let mut data = DataSection::new();
    let failed = problem(texts.place("statement-failed"), (0, 0));
    data.active(0, &ConstExpr::i32_const(at::FAILED), failed);
    if adhoc {
        let detail = texts.place("parameter 'sql' is required: the query to run");
        data.active(0, &ConstExpr::i32_const(at::MISSING), problem(texts.place("invalid-argument"), detail));
    }
    data.active(0, &ConstExpr::i32_const(at::TEXTS), texts.bytes);

    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&memories).section(&globals);
    module.section(&exports).section(&code).section(&data);
    module.finish()
}

fn handle_function(adhoc: bool, texts: &mut Texts) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    if adhoc {
        let (pointer, length) = texts.place(SQL_ARGUMENT);
        code.local_get(0).i32_const(pointer).i32_const(length).i32_const(at::ARGUMENT).call(function::ARGUMENT);
        code.local_get(0).call(function::DROP_REQUEST);
        // Everything except some(text(..)) counts as a missing query.
        code.i32_const(at::ARGUMENT).i32_load8_u(byte(0)).i32_eqz();
        code.i32_const(at::ARGUMENT).i32_load8_u(byte(field::VALUE)).i32_const(field::TEXT_CASE).i32_ne();
        code.i32_or().if_(BlockType::Empty).i32_const(at::MISSING).return_().end();
        code.i32_const(at::ARGUMENT).i32_load(word(field::VALUE_PAYLOAD));
        code.i32_const(at::ARGUMENT).i32_load(word(field::VALUE_PAYLOAD + 4));
    } else {
        let (pointer, length) = texts.place(DEFAULT_STATEMENT);
        code.local_get(0).call(function::DROP_REQUEST);
        code.i32_const(pointer).i32_const(length);
    }
    run_and_pass_on(&mut code);
    function
}

/// Expects the text (name or query) on the stack; runs it without arguments and returns.
fn run_and_pass_on(code: &mut InstructionSink<'_>) {
    code.i32_const(0).i32_const(0).i32_const(at::RUN).call(function::RUN);
    code.i32_const(at::RUN).i32_load8_u(byte(0));
    code.if_(BlockType::Empty).i32_const(at::FAILED).return_().end();
    code.i32_const(at::ANSWER);
    code.i32_const(at::RUN).i32_load(word(field::PAYLOAD)).call(function::ROWS);
    code.i32_store(word(field::PAYLOAD));
    code.i32_const(at::ANSWER).end();
}

/// `cabi_realloc(old, old-size, align, size)`: a bump allocator that never frees, for one request.
fn realloc_function() -> Function {
    const OLD: u32 = 0;
    const ALIGN: u32 = 2;
    const SIZE: u32 = 3;
    const PLACE: u32 = 4;
    const PAGES: u32 = 5;
    let mut function = Function::new([(2, ValType::I32)]);
    let mut code = function.instructions();
    // The host writes UTF-8 and knows its length, so that it never asks to grow an allocation.
    code.local_get(OLD).if_(BlockType::Empty).unreachable().end();
    // place = (heap + align - 1) & -align
    code.global_get(0).local_get(ALIGN).i32_add().i32_const(1).i32_sub();
    code.i32_const(0).local_get(ALIGN).i32_sub().i32_and().local_tee(PLACE);
    // heap = place + size; a sum that wraps around, or goes over 2 GiB, traps.
    code.local_get(SIZE).i32_add().global_set(0);
    code.global_get(0).local_get(PLACE).i32_lt_s().if_(BlockType::Empty).unreachable().end();
    // pages = ((heap + 65535) >> 16) - memory.size, grown if positive
    code.global_get(0).i32_const(65_535).i32_add().i32_const(16).i32_shr_u();
    code.memory_size(0).i32_sub().local_tee(PAGES).i32_const(0).i32_gt_s().if_(BlockType::Empty);
    code.local_get(PAGES).memory_grow(0).i32_const(-1).i32_eq();
    code.if_(BlockType::Empty).unreachable().end().end();
    code.local_get(PLACE).end();
    function
}

/// The bytes of `err(problem { code, detail, retryable: false })`.
fn problem(code: (i32, i32), detail: (i32, i32)) -> Vec<u8> {
    [1, code.0, code.1, detail.0, detail.1, 0].into_iter().flat_map(i32::to_le_bytes).collect()
}

fn byte(offset: u64) -> MemArg {
    MemArg { offset, align: 0, target: MemArgTarget::Memory(0), ordering: None }
}

fn word(offset: u64) -> MemArg {
    MemArg { offset, align: 2, target: MemArgTarget::Memory(0), ordering: None }
}

/// The constant texts of a module, one after the other.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
}

impl Texts {
    /// Adds a text and returns its pointer and length. All texts are literals of this file, so that nothing overflows.
    fn place(&mut self, text: &str) -> (i32, i32) {
        let length = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
        let pointer = at::TEXTS.saturating_add(length(self.bytes.len()));
        self.bytes.extend_from_slice(text.as_bytes());
        (pointer, length(text.len()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use wit_parser::{Int, SizeAlign, Type, TypeDefKind};

    use super::*;

    /// The canonical ABI's idea of a named type of `interface`.
    fn named(interface: &str, name: &str) -> Type {
        let resolve = &contract().unwrap().resolve;
        let (_, interface) = resolve.interfaces.iter().find(|(_, i)| i.name.as_deref() == Some(interface)).unwrap();
        Type::Id(interface.types[name])
    }

    #[test]
    fn offsets_are_those_of_the_contract() {
        let resolve = &contract().unwrap().resolve;
        let mut sizes = SizeAlign::default();
        sizes.fill(resolve).unwrap();
        let payload = |case: &Type| sizes.payload_offset(Int::U8, [Some(case)]).size_wasm32() as u64;
        let size = |ty: &Type| sizes.size(ty).size_wasm32() as u64;

        let (failure, problem, value) =
            (named("types", "failure"), named("handler", "problem"), named("types", "value"));
        assert_eq!(payload(&failure), field::PAYLOAD);
        assert_eq!(payload(&problem), field::PAYLOAD);
        assert_eq!(payload(&value), field::VALUE);
        let Type::Id(id) = value else { panic!("a variant") };
        let TypeDefKind::Variant(variant) = &resolve.types[id].kind else { panic!("a variant") };
        let cases = variant.cases.iter().map(|case| case.ty.as_ref());
        assert_eq!(field::VALUE + sizes.payload_offset(Int::U8, cases).size_wasm32() as u64, field::VALUE_PAYLOAD);
        assert_eq!(variant.cases[usize::try_from(field::TEXT_CASE).unwrap()].name, "text");

        let fits = |at: i32, size: u64, next: i32| u64::try_from(next - at).unwrap() >= size;
        assert!(fits(at::RUN, field::PAYLOAD + size(&failure), at::ARGUMENT));
        assert!(fits(at::ARGUMENT, field::VALUE + size(&value), at::ANSWER));
        assert!(fits(at::ANSWER, field::PAYLOAD + size(&problem), at::FAILED));
        assert!(fits(at::FAILED, field::PAYLOAD + size(&problem), at::MISSING));
    }

    #[test]
    fn a_generated_module_is_small() {
        assert!(core_module(World::Endpoint).len() < 700);
        assert!(core_module(World::EndpointAdhoc).len() < 1000);
    }

    #[test]
    fn texts_end_before_the_heap() {
        let mut texts = Texts::default();
        handle_function(true, &mut texts);
        assert!(texts.bytes.len() + 100 < usize::try_from(at::HEAP - at::TEXTS).unwrap());
    }
}
