//! The engine: its WebAssembly features, the pool of instances, and the epoch that interrupts guests.
//!
//! The features are those of the gate (`tidegate_compiler::FEATURES`); a test compares the two.

use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate_model::Limits;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy, WasmBacktraceDetails,
    WasmFeatures,
};

/// Core instances of one component (a Rust guest has three or four).
pub(crate) const MAX_INSTANCES: usize = 32;
/// Memories of one component.
pub(crate) const MAX_MEMORIES: usize = 2;
/// Tables of one component.
pub(crate) const MAX_TABLES: usize = 16;
/// Components that may be instantiated for a trial at once, in addition to those that answer requests.
pub(crate) const TRIALS: usize = 4;
/// Elements of one table.
const TABLE_ELEMENTS: usize = 100_000;
/// Bytes of stack for guest code. The rest of the stack of the fiber is for host functions.
const WASM_STACK: usize = 256 << 10;
const FIBER_STACK: usize = 1536 << 10;

/// An engine for `concurrency` requests at once with `memory` bytes each, and whether instances come from a pool.
/// `count` makes the code count its instructions, which costs speed.
///
/// The pool reserves address space and not memory: about 8 GiB for each request. Where that much is not available
/// (because of the limit of a container), instances are allocated on demand, which is slower and otherwise equivalent.
pub(crate) fn engine(concurrency: usize, memory: usize, count: bool) -> wasmtime::Result<(Engine, bool)> {
    let mut config = config(memory);
    config.consume_fuel(count);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(concurrency, memory)));
    match Engine::new(&config) {
        Ok(engine) => Ok((engine, true)),
        Err(error) => {
            tracing::warn!(error = ?error, concurrency, "no pool of instances: too little address space; allocating on demand");
            config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
            Ok((Engine::new(&config)?, false))
        }
    }
}

/// An engine that only compiles, one function after the other. Its code fits [`engine`]. It reserves no memory for
/// instances, and memory images may be as large as the initial memory of any component.
pub(crate) fn compiling_engine() -> wasmtime::Result<Engine> {
    let mut config = config(Limits::default().guest_memory);
    config.parallel_compilation(false);
    config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
    Engine::new(&config)
}

fn config(memory: usize) -> Config {
    let mut config = Config::new();
    config.strategy(Strategy::Cranelift);

    // Every feature that is off is named, although most are off by default, because defaults change.
    let off = WasmFeatures::TAIL_CALL
        | WasmFeatures::RELAXED_SIMD
        | WasmFeatures::FUNCTION_REFERENCES
        | WasmFeatures::MULTI_MEMORY
        | WasmFeatures::MEMORY64
        | WasmFeatures::EXCEPTIONS
        | WasmFeatures::THREADS
        | WasmFeatures::GC
        | WasmFeatures::WIDE_ARITHMETIC
        | WasmFeatures::CUSTOM_PAGE_SIZES
        | WasmFeatures::STACK_SWITCHING;
    config.wasm_features(off, false);
    config.wasm_features(WasmFeatures::WASM2.difference(WasmFeatures::GC_TYPES), true);
    config.wasm_features(WasmFeatures::EXTENDED_CONST | WasmFeatures::COMPONENT_MODEL, true);
    config.shared_memory(false);
    config.gc_support(false);
    config.concurrency_support(false);

    // Only the epoch interrupts a guest that does not call the host.
    config.epoch_interruption(true);
    config.max_wasm_stack(WASM_STACK);
    config.async_stack_size(FIBER_STACK);
    // No data of one tenant's request remains on the stack for the next.
    config.async_stack_zeroing(true);
    config.cranelift_nan_canonicalization(true);
    // The default reads an environment variable and parses debug information of the guest.
    config.wasm_backtrace_details(WasmBacktraceDetails::Disable);
    config.wasm_backtrace_max_frames(NonZeroUsize::new(16));
    config.memory_init_cow(true);
    // The memory image of a guest that fills all of its memory (an interpreter) is mapped too, and not copied for each
    // request.
    config.memory_guaranteed_dense_image_size(u64::try_from(memory).unwrap_or(u64::MAX));
    config
}

fn pool(concurrency: usize, memory: usize) -> PoolingAllocationConfig {
    // There are more places than permits, because components under trial are instantiated too. Each place has room for
    // the largest component, so that none takes the room of another.
    let places = u32::try_from(concurrency.saturating_add(TRIALS)).unwrap_or(u32::MAX);
    let times = |count: u32| places.saturating_mul(count);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(places)
        .total_stacks(places.saturating_add(8))
        .total_memories(times(MAX_MEMORIES as u32))
        .total_tables(times(MAX_TABLES as u32))
        .total_core_instances(times(MAX_INSTANCES as u32))
        .max_memory_size(memory)
        .max_tables_per_module(MAX_TABLES as u32)
        .table_elements(TABLE_ELEMENTS)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(4 << 20)
        .max_core_instances_per_component(MAX_INSTANCES as u32)
        .max_memories_per_component(MAX_MEMORIES as u32)
        .max_tables_per_component(MAX_TABLES as u32)
        .linear_memory_keep_resident(1 << 20)
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(64 << 10)
        .max_unused_warm_slots(places)
        .pagemap_scan(Enabled::Auto);
    pool
}

/// Starts the thread that increments the epoch of the engine at every `tick`, as long as the engine exists. It is a
/// thread of the operating system, because load on the async executor must not delay it.
pub(crate) fn start_ticking(engine: &Engine, tick: Duration) -> std::io::Result<()> {
    let weak = engine.weak();
    let ticker = move || {
        loop {
            std::thread::sleep(tick);
            match weak.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => break,
            }
        }
    };
    std::thread::Builder::new().name("tidegate-epoch".to_owned()).spawn(ticker)?;
    Ok(())
}
