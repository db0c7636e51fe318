//! What becomes of a task whose worker fails, step by step: with workers that give what the test says, when it says so.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{StreamExt, poll};
use tidegate_cluster::{Attempt, Failover, Task, TaskBounds, TaskRows, TaskRun, WorkerFailure, Workers, encode};
use tidegate_model::{Code, Failure};
use tidegate_sql::{Engine, EngineOptions, StatementCost};
use tidegate_store::HeldSegments;
use uuid::Uuid;

type Given = Result<RecordBatch, WorkerFailure>;

/// What a worker does with its task.
enum Script {
    Refuses(WorkerFailure),
    /// Gives what comes out of these, by partition.
    Runs(Vec<UnboundedReceiver<Given>>),
}

/// Workers that do what their scripts say.
#[derive(Default)]
struct Scripted {
    names: Mutex<Vec<Arc<str>>>,
    scripts: Mutex<HashMap<String, Script>>,
    asked: Mutex<Vec<(String, TaskBounds)>>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Workers for Scripted {
    fn names(&self) -> Vec<Arc<str>> {
        self.names.lock().unwrap().clone()
    }

    fn run(
        &self,
        task: &Task,
        bounds: &TaskBounds,
        _: &Arc<tidegate_functions::context::StatementMemory>,
    ) -> Result<TaskRun, WorkerFailure> {
        self.asked.lock().unwrap().push((task.worker.to_string(), *bounds));
        match self.scripts.lock().unwrap().remove(task.worker.as_ref()).unwrap() {
            Script::Refuses(failure) => Err(failure),
            Script::Runs(partitions) => {
                let rows = partitions.into_iter().map(|rows| rows.boxed()).collect();
                let read = StatementCost { rows_read: 10, ..StatementCost::default() };
                Ok(TaskRun::new(rows, move || read))
            }
        }
    }
}

struct Test {
    workers: Arc<Scripted>,
    engine: Engine,
    failover: Failover,
}

/// A partition whose rows the test gives.
type Partition = UnboundedSender<Given>;

impl Test {
    /// With workers `a`, `b` and `c`, of which the first runs the tasks.
    fn new() -> Self {
        let workers = Arc::new(Scripted::default());
        *workers.names.lock().unwrap() = ["a", "b", "c"].map(Arc::from).to_vec();
        let engine = Engine::new(&EngineOptions::default()).unwrap();
        Self { failover: Failover::new(Arc::clone(&workers) as _, &engine, Arc::default()), workers, engine }
    }

    fn refuses(&self, worker: &str, failure: WorkerFailure) {
        self.workers.scripts.lock().unwrap().insert(worker.to_owned(), Script::Refuses(failure));
    }

    fn runs<const N: usize>(&self, worker: &str) -> [Partition; N] {
        let channels: Vec<_> = (0..N).map(|_| unbounded()).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = channels.into_iter().unzip();
        self.workers.scripts.lock().unwrap().insert(worker.to_owned(), Script::Runs(receivers));
        senders.try_into().unwrap()
    }

    /// The others than `a`, the one first that takes over from it.
    fn others(&self) -> [&'static str; 2] {
        let other = Self::new();
        other.refuses("a", gone());
        for name in ["b", "c"] {
            other.refuses(name, gone());
        }
        let _ = other.started(2);
        let asked = other.asked();
        if asked[1] == "b" { ["b", "c"] } else { ["c", "b"] }
    }

    /// A task whose plan, where it runs on this machine, gives no rows in so many partitions.
    fn task(partitions: usize) -> Task {
        let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(schema())).with_partitions(partitions));
        let plan = encode(&plan, &Default::default(), None).unwrap();
        let (held, schema) = (HeldSegments::default(), Arc::new(schema()));
        Task { worker: "a".into(), plan, held, partitions, schema, bytes: 0, rows: 0 }
    }

    fn started(&self, partitions: usize) -> Result<TaskRun, WorkerFailure> {
        let bounds = TaskBounds {
            statement: Uuid::nil(),
            memory: 1 << 20,
            batch_rows: 100,
            time: Some(Duration::from_secs(60)),
        };
        self.failover.run(&Self::task(partitions), &bounds, &self.engine.memory_of_statement(1 << 20))
    }

    fn asked(&self) -> Vec<String> {
        self.workers.asked.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
    }
}

fn schema() -> Schema {
    Schema::new(vec![Field::new("n", DataType::Int64, true)])
}

fn batch(value: i64) -> RecordBatch {
    RecordBatch::try_new(Arc::new(schema()), vec![Arc::new(Int64Array::from(vec![value]))]).unwrap()
}

fn gone() -> WorkerFailure {
    WorkerFailure::Gone("by the test".to_owned())
}

fn give(partition: &Partition, given: Given) {
    partition.unbounded_send(given).unwrap();
}

fn pair(run: TaskRun) -> ([TaskRows; 2], TaskRun) {
    let TaskRun { partitions, cost, attempts } = run;
    (
        partitions.try_into().unwrap_or_else(|_| panic!("two partitions")),
        TaskRun { partitions: Vec::new(), cost, attempts },
    )
}

fn workers_of(run: &TaskRun) -> Vec<Option<String>> {
    (run.attempts)().into_iter().map(|Attempt { worker, .. }| worker.map(|worker| worker.to_string())).collect()
}

#[tokio::test]
async fn what_a_worker_refuses_runs_on_another_one() {
    for failure in [gone(), WorkerFailure::Busy(String::new()), WorkerFailure::Nonsense(String::new())] {
        let test = Test::new();
        let [other, _] = test.others();
        test.refuses("a", failure.clone());
        let [one] = test.runs(other);
        let mut run = test.started(1).unwrap();
        give(&one, Ok(batch(7)));
        drop(one);
        let rows: Vec<_> = std::mem::take(&mut run.partitions).remove(0).collect().await;
        assert_eq!(rows, [Ok(batch(7))]);
        assert_eq!(test.asked(), ["a", other]);
        let attempts = (run.attempts)();
        assert_eq!((attempts[0].failure.clone(), attempts[1].failure.clone()), (Some(failure.to_string()), None));
        assert_eq!((run.cost)().rows_read, 10);
    }
}

#[tokio::test]
async fn a_task_with_other_partitions_runs_on_another_worker() {
    let test = Test::new();
    let [other, _] = test.others();
    let _kept: [Partition; 3] = test.runs("a");
    let [one, two] = test.runs(other);
    let ([first, second], _) = pair(test.started(2).unwrap());
    give(&one, Ok(batch(1)));
    give(&two, Ok(batch(2)));
    drop((one, two));
    assert_eq!(first.chain(second).collect::<Vec<_>>().await, [Ok(batch(1)), Ok(batch(2))]);
}

#[tokio::test]
async fn all_partitions_move_together() {
    let test = Test::new();
    let [other, _] = test.others();
    let [one, two] = test.runs("a");
    let ([mut first, mut second], run) = pair(test.started(2).unwrap());
    // Both wait for their rows; then one fails.
    assert!(poll!(first.next()).is_pending() && poll!(second.next()).is_pending());
    let [new_one, new_two] = test.runs(other);
    give(&two, Err(gone()));
    let mut reads = pin!(first.next());
    assert!(poll!(&mut reads).is_pending());
    assert!(poll!(second.next()).is_pending());
    // A row that comes late from where the task was is none of its rows any more.
    let _ = one.unbounded_send(Ok(batch(1)));
    assert!(poll!(&mut reads).is_pending());
    give(&new_one, Ok(batch(10)));
    // It was woken: the reader need not poll by itself.
    assert_eq!(tokio::time::timeout(Duration::from_secs(20), reads).await.unwrap(), Some(Ok(batch(10))));
    give(&new_two, Ok(batch(20)));
    drop((new_one, new_two));
    assert_eq!(first.chain(second).collect::<Vec<_>>().await, [Ok(batch(20))]);
    assert!(one.is_closed() && two.is_closed(), "what is not read any more is dropped");
    assert_eq!(workers_of(&run), [Some("a".to_owned()), Some(other.to_owned())]);
    assert_eq!((run.cost)().rows_read, 20, "both attempts have read");
}

#[tokio::test]
async fn a_reader_that_waits_is_woken_when_the_task_moves() {
    let test = Test::new();
    let [other, _] = test.others();
    let [_one, two] = test.runs("a");
    let [new_one, _new_two] = test.runs(other);
    let ([mut first, mut second], _) = pair(test.started(2).unwrap());
    give(&new_one, Ok(batch(10)));
    let waits = tokio::spawn(async move { first.next().await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    give(&two, Err(gone()));
    assert!(poll!(second.next()).is_pending());
    assert_eq!(tokio::time::timeout(Duration::from_secs(20), waits).await.unwrap().unwrap(), Some(Ok(batch(10))));
}

#[tokio::test]
async fn a_partition_that_was_not_asked_for_is_read_where_the_task_is_then() {
    let test = Test::new();
    let [other, _] = test.others();
    let [one, two] = test.runs("a");
    let [new_one, new_two] = test.runs(other);
    let ([mut first, second], _) = pair(test.started(2).unwrap());
    give(&two, Ok(batch(2)));
    give(&one, Err(gone()));
    assert!(poll!(first.next()).is_pending());
    give(&new_two, Ok(batch(20)));
    drop((new_one, new_two));
    assert_eq!(second.collect::<Vec<_>>().await, [Ok(batch(20))]);
    assert_eq!(first.collect::<Vec<_>>().await, []);
}

#[tokio::test]
async fn after_a_row_a_failure_is_one_of_the_statement() {
    let test = Test::new();
    let [one, two] = test.runs("a");
    let ([mut first, mut second], run) = pair(test.started(2).unwrap());
    give(&one, Ok(batch(1)));
    assert_eq!(first.next().await, Some(Ok(batch(1))));
    // Not asked for when the other one gave its row.
    give(&two, Err(gone()));
    assert_eq!(second.next().await, Some(Err(gone())));
    assert_eq!(second.next().await, None);
    // Also of the partition that gave it.
    give(&one, Err(gone()));
    assert_eq!(first.next().await, Some(Err(gone())));
    assert_eq!(test.asked(), ["a"]);
    assert!((run.attempts)()[0].failure.is_some());
}

/// Streams of a scan take files from one another: the rows of a partition that ended may come in another one when the
/// task runs again.
#[tokio::test]
async fn after_the_end_of_a_partition_a_failure_is_one_of_the_statement() {
    let test = Test::new();
    let [one, two] = test.runs("a");
    let ([mut first, mut second], _) = pair(test.started(2).unwrap());
    drop(one);
    assert_eq!(first.next().await, None);
    give(&two, Err(gone()));
    assert_eq!(second.next().await, Some(Err(gone())));
    assert_eq!(test.asked(), ["a"]);
}

#[tokio::test]
async fn a_partition_that_nobody_wants_is_no_partition_that_ended() {
    let test = Test::new();
    let [other, _] = test.others();
    let [_one, two] = test.runs("a");
    let [new_one, new_two] = test.runs(other);
    let ([first, mut second], _) = pair(test.started(2).unwrap());
    drop(first);
    give(&two, Err(gone()));
    assert!(poll!(second.next()).is_pending());
    assert!(new_one.is_closed(), "nor is it wanted of the other worker");
    give(&new_two, Ok(batch(2)));
    assert_eq!(second.next().await, Some(Ok(batch(2))));
}

#[tokio::test]
async fn failures_of_the_statement_do_not_move_its_task() {
    let own = || WorkerFailure::Statement(Failure::new(Code::InvalidValue, "division by zero"));
    let test = Test::new();
    test.refuses("a", own());
    assert_eq!(test.started(1).unwrap_err(), own());
    let [one] = test.runs("a");
    let mut run = test.started(1).unwrap();
    give(&one, Err(own()));
    assert_eq!(run.partitions[0].next().await, Some(Err(own())));
    assert_eq!(test.asked(), ["a", "a"]);
    // Nor does one that follows a failure of the worker.
    let [other, _] = test.others();
    test.refuses("a", gone());
    test.refuses(other, own());
    assert_eq!(test.started(1).unwrap_err(), own());
}

#[tokio::test]
async fn what_two_workers_do_not_run_runs_here() {
    for at_start in [true, false] {
        let test = Test::new();
        let [other, third] = test.others();
        test.refuses("a", gone());
        let senders: Option<[Partition; 2]> = (!at_start).then(|| test.runs(other));
        if at_start {
            test.refuses(other, WorkerFailure::Busy(String::new()));
        }
        let ([first, second], run) = pair(test.started(2).unwrap());
        if let Some([one, _]) = &senders {
            give(one, Err(gone()));
        }
        assert_eq!(first.chain(second).collect::<Vec<_>>().await, []);
        assert!(!test.asked().contains(&third.to_owned()));
        assert_eq!(workers_of(&run), [Some("a".to_owned()), Some(other.to_owned()), None]);
    }
    // There is no other worker.
    let test = Test::new();
    *test.workers.names.lock().unwrap() = vec!["a".into()];
    test.refuses("a", gone());
    let ([first, second], run) = pair(test.started(2).unwrap());
    assert_eq!(first.chain(second).collect::<Vec<_>>().await, []);
    assert_eq!(workers_of(&run), [Some("a".to_owned()), None]);
}

#[tokio::test]
async fn later_attempts_have_the_time_that_is_left() {
    let test = Test::new();
    let [other, _] = test.others();
    let [one] = test.runs("a");
    let mut run = test.started(1).unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    let [_kept] = test.runs(other);
    give(&one, Err(gone()));
    assert!(poll!(run.partitions[0].next()).is_pending());
    let times: Vec<_> = test.workers.asked.lock().unwrap().iter().map(|(_, bounds)| bounds.time.unwrap()).collect();
    assert!(times[1] + Duration::from_millis(30) <= times[0], "{times:?}");
}

#[tokio::test]
async fn what_is_dropped_is_dropped_everywhere() {
    let test = Test::new();
    let [other, _] = test.others();
    let [one, two] = test.runs("a");
    let [new_one, new_two] = test.runs(other);
    let ([mut first, second], _) = pair(test.started(2).unwrap());
    give(&one, Err(gone()));
    assert!(poll!(first.next()).is_pending());
    drop((first, second));
    assert!([one, two, new_one, new_two].iter().all(UnboundedSender::is_closed));
}
