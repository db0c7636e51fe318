//! The groups are those of the engine's own operator, whatever the keys, the memory and the number of groups.

use std::collections::BTreeMap;

use datafusion::arrow::array::{BooleanArray, Int64Array, StringViewArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::functions_aggregate::expr_fn::{avg, count, count_distinct, max};
use datafusion::logical_expr::{Expr, ExprFunctionExt, lit};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext, col, when};

use super::*;

/// Three partitions of two batches each; `texts` is how many texts there are.
fn table(texts: usize) -> Arc<MemTable> {
    let distinct: StringViewArray = (0..texts)
        .map(|i| Some(if i % 3 == 0 { format!("{i}") } else { format!("a text of some length, {i}") }))
        .collect();
    let batch = |seed: usize| {
        let place = |row: usize| (row * 7 + seed * 11) % texts;
        let places: UInt32Array = (0..400).map(|row| (row % 17 != 0).then_some(place(row) as u32)).collect();
        let number: ArrayRef = Arc::new((0..400).map(|row| (row % 5 > 0).then_some(row % 6)).collect::<Int64Array>());
        let flag: ArrayRef =
            Arc::new((0..400).map(|row| Some((row + seed).is_multiple_of(2))).collect::<BooleanArray>());
        let day = |row: i64| (row / 90 != 2).then_some((row / 40 + seed as i64) << 40);
        let day: ArrayRef = Arc::new((0..400).map(day).collect::<Int64Array>());
        let value: ArrayRef = Arc::new((0..400_i64).map(|row| (row % 3 > 0).then_some(row)).collect::<Int64Array>());
        let text = take(&distinct, &places, None).unwrap();
        RecordBatch::try_from_iter_with_nullable([
            ("text", text, true),
            ("number", number, true),
            ("flag", flag, true),
            ("day", day, true),
            ("value", value, true),
        ])
        .unwrap()
    };
    let partitions: Vec<Vec<RecordBatch>> = (0..3).map(|part| vec![batch(2 * part), batch(2 * part + 1)]).collect();
    Arc::new(MemTable::try_new(partitions[0][0].schema(), partitions).unwrap())
}

/// Counts of rows, alone and with NULLs that count nothing; others, which need the group of each row; and conditions on
/// texts.
fn aggregates() -> [Vec<Expr>; 4] {
    let some = count(col("value")).filter(col("number").gt(lit(2_i64))).build().unwrap();
    let texts = [count_distinct(col("text")), tidegate_functions::aggregate::count_distinct().call(vec![col("text")])];
    let others = [count(lit(1_i64)), some, avg(col("value")), max(col("text"))].into_iter().chain(texts).collect();
    let rows = count(lit(1_i64)).filter(col("flag")).build().unwrap();
    let text = || col("text");
    let conditions = [text().like(lit("%length, 1%")), text().not_like(lit("3%")), text().ilike(lit("%TEXT%"))];
    let conditions = conditions.into_iter().map(|condition| count(lit(1_i64)).filter(condition).build().unwrap());
    let inside = max(when(text().like(lit("%2")), col("value")).otherwise(lit(-1_i64)).unwrap());
    [
        others,
        vec![count(lit(1_i64))],
        vec![count(lit(ScalarValue::Int64(None))), count(lit(1_i64)), rows],
        conditions.chain([inside]).collect(),
    ]
}

async fn plan(
    table: Arc<MemTable>,
    keys: &[&str],
    aggregates: Vec<Expr>,
    config: SessionConfig,
) -> Arc<dyn ExecutionPlan> {
    let context = SessionContext::new_with_config(config.with_target_partitions(3));
    let frame = context.read_table(table).unwrap();
    let keys = keys.iter().map(|key| col(*key)).collect();
    frame.aggregate(keys, aggregates).unwrap().create_physical_plan().await.unwrap()
}

fn sorted(batch: &RecordBatch) -> Vec<Vec<String>> {
    let shown = |row| batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap()).collect();
    let mut rows: Vec<Vec<String>> = (0..batch.num_rows()).map(shown).collect();
    rows.sort();
    rows
}

async fn rows(plan: Arc<dyn ExecutionPlan>, config: &SessionConfig) -> Vec<Vec<String>> {
    let task = TaskContext::default().with_session_config(config.clone());
    let batches = collect(Arc::clone(&plan), Arc::new(task)).await.unwrap();
    sorted(&concat_batches(&plan.schema(), &batches).unwrap())
}

/// With a group for nearly each row, grouping is given up.
fn passing() -> SessionConfig {
    SessionConfig::new()
        .set_usize("datafusion.execution.skip_partial_aggregation_probe_rows_threshold", 100)
        .set("datafusion.execution.skip_partial_aggregation_probe_ratio_threshold", &0.05.into())
}

#[tokio::test]
async fn groups_are_those_of_the_engine() {
    let plain = SessionConfig::new();
    let passing = passing();
    for (config, texts) in [(&plain, 9), (&plain, 350), (&passing, 350), (&plain, 1)] {
        let all_keys =
            [&["text"][..], &["number"], &["day"], &["flag", "text"], &["day", "text"], &["number", "text", "flag"]];
        for (keys, aggregates) in
            all_keys.into_iter().flat_map(|keys| aggregates().map(|aggregates| (keys, aggregates)))
        {
            let shown = format!("{keys:?}, {texts} texts, {aggregates:?}");
            let engine = plan(table(texts), keys, aggregates, config.clone()).await;
            let own = with_partial_groups(Arc::clone(&engine), never).unwrap();
            let text = displayable(own.as_ref()).indent(true).to_string();
            assert!(text.contains("PartialGroups: AggregateExec: mode=Partial"), "{text}");
            assert_eq!(rows(own, config).await, rows(engine, config).await, "{shown}");
        }
    }
}

/// Each row as two of its kind.
fn twice(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("text", 0));
    let two: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Int64(Some(2))));
    let columns = [(column, "text".to_owned()), (two, "rows".to_owned())];
    Some(Arc::new(ProjectionExec::try_new(columns, Arc::clone(plan)).unwrap()))
}

/// What a scan has counted is added up, also where grouping is given up; other plans have no counts.
#[tokio::test]
async fn rows_that_were_counted_are_added_up() {
    let plain = SessionConfig::new();
    let passing = passing();
    for (config, texts) in [(&plain, 9), (&plain, 350), (&passing, 350)] {
        let ones = || count(lit(1_i64));
        for (aggregates, of_counts) in [(vec![ones(), ones().alias("other")], true), (vec![max(col("text"))], false)] {
            let engine = plan(table(texts), &["text"], aggregates, config.clone()).await;
            let own = with_partial_groups(Arc::clone(&engine), twice).unwrap();
            let text = displayable(own.as_ref()).indent(true).to_string();
            assert_eq!(text.contains("PartialGroups of counts"), of_counts, "{text}");
            let double = |row: Vec<String>| {
                let number = |value: &String| value.parse::<i64>().map_or(value.clone(), |n| (2 * n).to_string());
                let (key, counts) = row.split_first().unwrap();
                std::iter::once(key.clone()).chain(counts.iter().map(number)).collect()
            };
            let expected: Vec<Vec<String>> = rows(engine, config).await;
            let expected = if of_counts { expected.into_iter().map(double).collect() } else { expected };
            assert_eq!(rows(own, config).await, expected, "{texts} texts");
        }
    }
}

/// Without keys, rows that a scan has counted are added up for each partition.
#[tokio::test]
async fn rows_without_keys_that_were_counted_are_added_up() {
    /// Each row as two, with a column that rows without columns get.
    fn twice_of_none(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        let two: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Int64(Some(2))));
        let columns = [(Arc::clone(&two), "value".to_owned()), (two, "rows".to_owned())];
        Some(Arc::new(ProjectionExec::try_new(columns, Arc::clone(plan)).unwrap()))
    }
    let config = SessionConfig::new();
    let ones = || count(lit(1_i64));
    let flagged = || col("flag").is_not_null();
    for (aggregates, is_counted) in
        [(vec![ones(), ones().alias("other")], true), (vec![ones(), max(col("value"))], false)]
    {
        let context = SessionContext::new_with_config(config.clone());
        let frame = context.read_table(table(9)).unwrap().filter(flagged()).unwrap();
        let engine = frame.aggregate(vec![], aggregates).unwrap().create_physical_plan().await.unwrap();
        let own = with_partial_groups(Arc::clone(&engine), twice_of_none).unwrap();
        let text = displayable(own.as_ref()).indent(true).to_string();
        assert_eq!(text.contains("PartialGroups of counts: AggregateExec"), is_counted, "{text}");
        let (own, engine) = (rows(own, &config).await, rows(engine, &config).await);
        if is_counted {
            assert_eq!((own, engine), (vec![vec!["4800".to_owned(); 2]], vec![vec!["2400".to_owned(); 2]]));
        } else {
            assert_eq!(own, engine);
        }
    }
    // Nothing comes of a scan without rows but 0.
    let context = SessionContext::new_with_config(config.clone());
    let none = context.read_table(table(9)).unwrap().filter(col("number").gt(lit(1_000_i64))).unwrap();
    let engine = none.aggregate(vec![], vec![ones()]).unwrap().create_physical_plan().await.unwrap();
    let own = with_partial_groups(engine, twice_of_none).unwrap();
    assert_eq!(rows(own, &config).await, vec![vec!["0".to_owned()]]);
}

/// Without room for all groups they go out before the end, several times if need be; nothing is lost.
#[tokio::test]
async fn groups_go_out_when_memory_ends() {
    let [others, ..] = aggregates();
    let plan = plan(table(350), &["text", "number"], others, SessionConfig::new()).await;
    let mut found = None;
    let own = with_partial_groups(plan, never).unwrap();
    own.apply(|node| {
        if node.name() == "PartialGroups" {
            found = Some(Arc::clone(node));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    let own = found.unwrap();
    let mut groups = Vec::new();
    // The table of keys takes 128 KiB of it.
    for room in [1 << 30, 180 << 10] {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(room))).build().unwrap();
        let task = Arc::new(TaskContext::default().with_runtime(Arc::new(runtime)));
        let batches: Vec<_> = own.execute(0, task).unwrap().collect().await;
        let batches: Vec<RecordBatch> = batches.into_iter().map(|batch| batch.unwrap()).collect();
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        let mut rows = 0;
        for batch in &batches {
            rows += batch.num_rows();
            for (row, count) in sorted(batch).iter().map(|row| (row[..2].join("|"), row[2].parse::<i64>().unwrap())) {
                *counts.entry(row).or_default() += count;
            }
        }
        groups.push((rows, counts));
    }
    assert_eq!(groups[0].1, groups[1].1);
    assert_eq!(groups[0].1.values().sum::<i64>(), 800);
    assert!(groups[1].0 > groups[0].0, "{} and {} rows", groups[0].0, groups[1].0);
}
