//! The memory of statements that have tasks on this machine: all tasks of one share it, as the operators of a statement do
//! that runs on one machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidegate_functions::context::StatementMemory;
use tidegate_sql::Engine;
use uuid::Uuid;

use crate::task_bounds::TaskBounds;

/// The memory of the statements that have tasks here, by [`TaskBounds::statement`].
#[derive(Debug)]
pub struct StatementMemories {
    engine: Engine,
    statements: Mutex<HashMap<Uuid, Weak<StatementMemory>>>,
}

impl StatementMemories {
    /// For the tasks that this engine runs.
    pub fn new(engine: Engine) -> Self {
        Self { engine, statements: Mutex::default() }
    }

    /// The memory of the statement of a task: what is held here for the task before it runs counts there too, as long as
    /// this is held.
    pub fn of(&self, bounds: &TaskBounds) -> Arc<StatementMemory> {
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = statements.get(&bounds.statement).and_then(Weak::upgrade) {
            return memory;
        }
        statements.retain(|_, memory| memory.strong_count() > 0);
        let memory = self.engine.memory_of_statement(bounds.memory);
        statements.insert(bounds.statement, Arc::downgrade(&memory));
        memory
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
    use tidegate_sql::EngineOptions;

    use super::*;

    #[test]
    fn tasks_of_one_statement_share_its_memory() {
        let engine = Engine::new(&EngineOptions { statement_memory: 3000, ..EngineOptions::default() }).unwrap();
        let memories = StatementMemories::new(engine.clone());
        let memory = |statement: u128, memory: usize| {
            let bounds = TaskBounds { statement: Uuid::from_u128(statement), memory, batch_rows: 100, time: None };
            memories.of(&bounds) as Arc<dyn MemoryPool>
        };
        let (one, same, other) = (memory(1, 1000), memory(1, 1000), memory(2, 1000));
        let held = |pool| MemoryConsumer::new("test").register(pool);
        let held = [held(&one), held(&same), held(&other)];
        held[0].try_grow(600).unwrap();
        assert!(held[1].try_grow(600).is_err() && held[1].try_grow(400).is_ok());
        held[2].try_grow(1000).unwrap();
        assert_eq!(engine.memory_held(), 2000);
        drop(held);
        drop((one, same, other));
        assert_eq!(engine.memory_held(), 0);
        // A worker lets no statement have more than it lets any.
        let one = memory(1, 1 << 30);
        let held = MemoryConsumer::new("test").register(&one);
        assert!(held.try_grow(3001).is_err() && held.try_grow(3000).is_ok());
        assert_eq!(memories.statements.lock().unwrap().len(), 1, "statements that ended are forgotten");
    }
}
