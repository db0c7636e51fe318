//! What is computed for rows that a tenant may not read: comparisons that statistics can answer, and nothing else.
//!
//! Otherwise the time of a statement would tell of them: `event_message LIKE '%password=h%' AND` slow expressions takes
//! longer where a row of somebody else matches. So the rows that reach the barrier above a policy are counted, over rows of
//! others that match and that do not, and no pattern, function or CASE stands below a barrier, or where there is none.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, displayable};
use futures::{StreamExt, TryStreamExt};
use serde_json::json;
use tidegate_model::{Arguments, RowPolicy};
use tidegate_sql::{
    Binding, Carried, Carrier, Engine, EngineOptions, OwnOperator, SavedQuery, Sources, StoredTable, Tables,
};
use tidegate_store::{Store, StoreOptions};

use super::super::tape::Tape;

/// A text of others, in every condition that is no comparison.
const MARK: &str = "MARK";
/// Rows of the tenant, which are few among those of others.
const OWN: usize = 40;

/// Counts the rows that reach barriers, and looks at what stands below them.
#[derive(Debug, Default)]
struct Counter {
    rows: Arc<AtomicUsize>,
    barriers: AtomicUsize,
}

impl Carrier for Counter {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, _: &TaskContext) -> Result<Carried> {
        let counted = plan.transform_down(|node| {
            let Some(OwnOperator::Barrier(input)) = OwnOperator::of(node.as_ref()) else {
                return Ok(Transformed::no(node));
            };
            self.barriers.fetch_add(1, Ordering::Relaxed);
            let below = displayable(input.as_ref()).indent(true).to_string();
            assert!(!below.contains(MARK), "{below}");
            let counting = Arc::new(Counting { input, rows: Arc::clone(&self.rows) });
            Ok(Transformed::new(OwnOperator::Barrier(counting).into_plan(), true, TreeNodeRecursion::Jump))
        })?;
        if self.barriers.load(Ordering::Relaxed) == 0 {
            below_groups(&counted.data);
        }
        Ok(counted.data.into())
    }
}

/// Looks at the operators that stand below groups, or at all where there are none. Whether there are.
fn below_groups(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut grouped = plan.name() == "AggregateExec";
    for input in plan.children() {
        grouped |= below_groups(input);
    }
    let operator = displayable(plan.as_ref()).one_line().to_string();
    assert!(grouped || !operator.contains(MARK), "{operator}");
    grouped
}

/// Hands rows on and counts them.
#[derive(Debug)]
struct Counting {
    input: Arc<dyn ExecutionPlan>,
    rows: Arc<AtomicUsize>,
}

impl DisplayAs for Counting {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

impl ExecutionPlan for Counting {
    fn name(&self) -> &str {
        "Counting"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { input: Arc::clone(&children[0]), rows: Arc::clone(&self.rows) }))
    }
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, counted) = (self.input.execute(partition, context)?, Arc::clone(&self.rows));
        let schema = rows.schema();
        let rows = rows.inspect_ok(move |batch| {
            counted.fetch_add(batch.num_rows(), Ordering::Relaxed);
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed())))
    }
}

/// The rows of the tenant p1 among those of others, as `layout` says, of which all match or none does.
struct Logs {
    store: Arc<Store>,
    _folder: tempfile::TempDir,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    Segments,
    Memory,
    Both,
}

impl Logs {
    async fn new(layout: Layout, matching: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options =
            StoreOptions { manual_flush: true, row_group_rows: 64, durable: false, ..StoreOptions::default() };
        let store = Store::open(folder.path(), options).unwrap();
        store.create_source("t").unwrap();
        for part in 0..4 {
            let row = |i: usize| {
                let own = i % 10 == 3;
                let word = if matching && !own { MARK } else { "none" };
                json!({
                    "id": format!("{part}-{i:03}"), "timestamp": (1_763_600_000 + i as i64) * 1_000_000,
                    "project": if own { "p1" } else { "p2" }, "event_message": format!("{word} {}", i % 7), "n": i % 50,
                    "metadata": {"owner": if own { "p1" } else { "p2" }, "text": format!("{word} {}", i % 5), "status": 200 + i % 3},
                })
            };
            store.ingest("t", (0..OWN / 4 * 10).map(row).collect::<Vec<_>>()).await.unwrap();
            if layout == Layout::Segments || layout == Layout::Both && part < 2 {
                store.flush().await.unwrap();
            }
        }
        Self { store, _folder: folder }
    }

    fn table(&self, path: &str) -> One {
        let policy = RowPolicy { values: vec![(path.parse().unwrap(), "p1".to_owned())] };
        One(StoredTable { provider: self.store.table("t").unwrap(), policy: Some(policy) })
    }
}

struct One(StoredTable);

impl Sources for One {
    fn table(&self, _: &str) -> std::result::Result<Option<StoredTable>, tidegate_model::Failure> {
        Ok(Some(self.0.clone()))
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A condition of comparisons, and of others that have the mark.
fn condition(tape: &mut Tape<'_>) -> String {
    let one = |tape: &mut Tape<'_>| {
        let text = tape.pick(&["event_message", "m.text"]);
        match tape.below(16) {
            0 => format!("n > {}", tape.below(50)),
            1 => format!("m.status {} {}", tape.pick(&["=", "!=", "<"]), 200 + tape.below(3)),
            2 => format!("timestamp >= TIMESTAMP_SECONDS({})", 1_763_600_000 + tape.below(90)),
            3 => format!("n BETWEEN {} AND 40", tape.below(30)),
            4 => format!("{text} IS NOT NULL"),
            5 => format!("n IN (1, 3, {})", tape.below(50)),
            6 => format!("{text} LIKE '%MARK%'"),
            7 => format!("NOT {text} LIKE 'MARK%'"),
            8 => format!("REGEXP_CONTAINS({text}, r'MARK [0-3]')"),
            9 => format!("STARTS_WITH({text}, 'MARK')"),
            10 => format!("UPPER({text}) = 'MARK 3'"),
            11 => format!("IF({text} = 'MARK 1', n > 3, n < 30)"),
            12 => format!("(n > {} OR {text} = 'MARK 2')", tape.below(50)),
            13 => format!("CONTAINS_SUBSTR({text}, 'mark') = ({text} = 'MARK 1')"),
            14 => format!("LENGTH(REPLACE({text}, 'MARK', '')) < {}", 2 + tape.below(5)),
            _ => format!("CASE {text} WHEN 'MARK 4' THEN n ELSE 7 END = 7"),
        }
    };
    let parts: Vec<String> = (0..1 + tape.below(4)).map(|_| one(tape)).collect();
    parts.join(" AND ")
}

/// Statements over rows that comparisons alone leave, with the mark wherever else something can be computed.
const PLACES: [&str; 13] = [
    "SELECT text, COUNT(*) AS c FROM rows GROUP BY text HAVING UPPER(text) LIKE 'MARK%'",
    "SELECT SUM(LENGTH(REPLACE(text, 'MARK', ''))) AS a, AVG(LENGTH(REPLACE(text, 'MARK', ''))) AS b FROM rows",
    "SELECT DISTINCT REPLACE(text, 'MARK', '') AS x FROM rows ORDER BY x",
    "SELECT id FROM (SELECT DISTINCT id, text FROM rows) WHERE text LIKE '%MARK%' ORDER BY id",
    "SELECT id FROM rows ORDER BY REPLACE(text, 'MARK', ''), id LIMIT 3",
    "SELECT a.id FROM rows AS a JOIN rows AS b ON a.id = b.id AND a.text LIKE '%MARK%' ORDER BY a.id",
    "SELECT a.id FROM rows AS a JOIN rows AS b ON a.id = b.id AND REPLACE(a.text, 'MARK', '') = REPLACE(b.text, 'MARK', '') \
     ORDER BY a.id",
    "SELECT id FROM (SELECT id, text FROM rows UNION ALL SELECT id, REPLACE(text, 'MARK', 'x') FROM rows) \
     WHERE text LIKE 'MARK%' ORDER BY id",
    "SELECT x, SUM(c) AS c FROM (SELECT text AS x, COUNT(*) AS c FROM rows GROUP BY x) GROUP BY x HAVING x LIKE 'MARK%'",
    "SELECT y, SUM(c) AS c FROM (SELECT REPLACE(text, 'MARK', '') AS y, c FROM \
     (SELECT text, COUNT(*) AS c FROM rows GROUP BY text)) GROUP BY y HAVING y LIKE '% 3'",
    "SELECT id, COUNT(*) OVER (PARTITION BY REPLACE(text, 'MARK', '')) AS c FROM rows ORDER BY id",
    "SELECT id FROM rows WHERE TRUE QUALIFY ROW_NUMBER() OVER (PARTITION BY text ORDER BY id) = 1 AND text LIKE 'MARK%'",
    "SELECT text, COUNT(*) AS c FROM rows GROUP BY ROLLUP(text) HAVING text LIKE 'MARK%' ORDER BY text",
];

/// What a statement answers, and how many rows reached barriers, of which there were so many.
async fn ran(table: &One, sql: &str, grant: Option<&SavedQuery>, partitions: usize) -> (String, usize, usize) {
    let options = EngineOptions {
        partitions,
        narrow: tidegate_store::narrowed,
        placed: tidegate_store::placed,
        counted: tidegate_store::counted,
        ..EngineOptions::default()
    };
    let counter = Arc::new(Counter::default());
    let engine = Engine::new(&options).unwrap().with_carrier(Arc::clone(&counter) as _);
    let arguments = Arguments::new();
    let tables = grant.map_or(Tables::Sources, Tables::Granted);
    let plan = engine.plan(sql, Binding::new(table, &arguments, 0).over(tables)).unwrap();
    let batches: Vec<_> = engine.run(plan, None).await.unwrap().try_collect().await.unwrap();
    let answer = format!("{:?}", batches.iter().filter(|batch| batch.num_rows() > 0).collect::<Vec<_>>());
    (answer, counter.rows.load(Ordering::Relaxed), counter.barriers.load(Ordering::Relaxed))
}

#[tokio::test]
async fn what_is_computed_does_not_depend_on_rows_of_others() {
    let mut seen = 0;
    for (nth, layout) in [Layout::Segments, Layout::Memory, Layout::Both].into_iter().enumerate() {
        let (with, without) = (Logs::new(layout, true).await, Logs::new(layout, false).await);
        for number in 0..34_usize {
            let bytes: Vec<u8> =
                (0..64).map(|i| (((number * 31 + nth * 7 + i * 17) * 2_654_435_761) >> 9) as u8).collect();
            let mut tape = Tape::new(&bytes);
            let condition = condition(&mut tape);
            let path = tape.pick(&["project", "metadata.owner"]);
            let inner = format!(
                "SELECT t.id, t.n, t.event_message, m.text FROM t CROSS JOIN UNNEST(t.metadata) AS m WHERE {condition}"
            );
            let grant = SavedQuery::parse(&format!("WITH g AS ({inner}) SELECT 1")).unwrap();
            let statements = [
                (format!("SELECT COUNT(*) AS c FROM ({inner}) AS r"), None),
                (format!("SELECT id FROM ({inner}) AS r ORDER BY id DESC LIMIT 3"), None),
                ("SELECT text, COUNT(*) AS c FROM g GROUP BY text ORDER BY text".to_owned(), Some(&grant)),
            ];
            for (sql, grant) in statements {
                let partitions = 1 + tape.below(3);
                let (answer, rows, barriers) = ran(&with.table(path), &sql, grant, partitions).await;
                let other = ran(&without.table(path), &sql, grant, partitions).await;
                assert_eq!(
                    (&answer, rows, barriers),
                    (&other.0, other.1, other.2),
                    "{layout:?} {path} {sql} {condition}"
                );
                assert!(rows <= OWN, "{rows} rows: {sql} {condition}");
                seen += barriers;
            }
        }
    }
    assert!(seen > 150, "{seen} barriers");
}

#[tokio::test]
async fn nothing_moves_below_the_policy_from_any_place() {
    for layout in [Layout::Segments, Layout::Memory, Layout::Both] {
        let (with, without) = (Logs::new(layout, true).await, Logs::new(layout, false).await);
        for (path, condition) in [("project", "n < 40"), ("metadata.owner", "n < 40 AND m.status != 201")] {
            for place in PLACES {
                let rows = "SELECT t.id, t.n, m.text FROM t CROSS JOIN UNNEST(t.metadata) AS m WHERE";
                let sql = format!("WITH rows AS ({rows} {condition}) {place}");
                let (answer, rows, barriers) = ran(&with.table(path), &sql, None, 2).await;
                assert_eq!(
                    (answer, rows, barriers),
                    ran(&without.table(path), &sql, None, 2).await,
                    "{layout:?} {path} {sql}"
                );
                assert!(rows <= OWN * barriers, "{rows} rows: {sql}");
            }
        }
    }
}
