//! A runtime that is searched after each guest: whatever a guest did, nothing of it is held, and the next
//! request is served.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use tidegate_model::Code;
use tidegate_runtime::{Answer, CallError, Class, Endpoint, Quota, Runtime, RuntimeOptions};

use super::fake::{self, Fake, numbers, options, prepare, sql_component};

/// The computing time of guests that are to use it up.
pub(crate) const BRIEF: Duration = Duration::from_millis(100);
/// How those end.
pub(crate) const CPU: Class = Class::Exhausted(Quota::Cpu);

/// A runtime whose every resource is looked at after each request.
pub(crate) struct Harness {
    runtime: Arc<Runtime>,
    memory: Arc<dyn MemoryPool>,
    harmless: Arc<Endpoint>,
}

impl Harness {
    pub(crate) async fn new() -> Self {
        let memory: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
        let runtime = Runtime::new(RuntimeOptions { memory: Some(Arc::clone(&memory)), ..options() }).unwrap();
        let harmless = prepare(&runtime, &sql_component()).await.unwrap();
        Self { runtime, memory, harmless }
    }

    /// Runs a guest once. Whatever it does: nothing is held afterwards, and the next one is served.
    pub(crate) async fn run(&self, name: &str, component: &[u8]) -> Result<Answer, Box<CallError>> {
        self.run_within(Duration::from_secs(10), name, component).await
    }

    pub(crate) async fn run_within(
        &self,
        cpu: Duration,
        name: &str,
        component: &[u8],
    ) -> Result<Answer, Box<CallError>> {
        let endpoint = prepare(&self.runtime, component).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let fake = Arc::new(Fake::default());
        let mut request = fake::request(&[("project", "abc")]);
        // Only those that spin are to reach it, however busy the machine is.
        request.limits.cpu = cpu;
        request.limits.wall_clock = Duration::from_secs(30);
        let result = self.runtime.handle(&endpoint, request, fake).await;
        let pool = self.runtime.pool_use();
        assert_eq!((pool.running, pool.memories, pool.stacks), (0, 0, 0), "{name}");
        assert_eq!(self.memory.reserved(), 0, "{name}");
        let after = self.runtime.handle(&self.harmless, fake::request(&[]), Arc::new(Fake::default())).await;
        assert_eq!(numbers(after.unwrap()).await.len(), 5, "after {name}");
        result
    }

    /// Expects a guest that wrote its line to end in `class`.
    pub(crate) async fn ends(&self, name: &str, component: &[u8], class: Class) -> CallError {
        let cpu = if class == CPU { BRIEF } else { Duration::from_secs(10) };
        let ended = *self.run_within(cpu, name, component).await.expect_err(name);
        assert_eq!(ended.class, class, "{name}: {ended:?}");
        assert!(ended.usage.host_calls >= 1, "{name}: the guest was not entered: {ended:?}");
        let code = match class {
            Class::Exhausted(Quota::Cpu) => Code::Timeout,
            Class::Exhausted(_) => Code::LimitExceeded,
            _ => Code::ComponentFailed,
        };
        assert_eq!(ended.failure.code, code, "{name}: {ended}");
        for word in ["wasm", "unreachable", "the_handler", "handle index", "0x"] {
            assert!(!ended.failure.message.contains(word), "{name}: the caller is told {ended}");
        }
        ended
    }
}
