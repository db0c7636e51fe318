//! What a scan of rows in memory leaves out, counts and limits.

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, RecordBatch, StringViewArray, TimestampMicrosecondArray},
        compute::SortOptions,
        datatypes::Schema,
    },
    datasource::source::DataSourceExec,
    physical_expr::{
        PhysicalSortExpr,
        expressions::{Column, lit},
    },
    physical_plan::{ExecutionPlan, execution_plan::reset_plan_states},
    scalar::ScalarValue,
};
use futures::TryStreamExt;
use serde_json::json;

use super::*;
use crate::{
    field_names::OVERFLOW,
    ingest::tape::Tape,
    schema::shape::Shape,
    shred::{limits::ShapeLimits, shredder::Shredder},
};

/// Rows of two tenants; the overflow of the one cannot be read.
fn rows() -> MemoryScan {
    let mut shredder =
        Shredder::new(&Shape::default(), ShapeLimits { fields: 3, depth: 8, reserved: Arc::default(), tenant: None });
    let junk: serde_json::Map<String, serde_json::Value> = (0..9).map(|n| (format!("j{n}"), json!(n))).collect();
    let event = json!({"id": "1", "timestamp": 1, "project": "p", "metadata": junk});
    shredder.add(Tape::of_value(&event).root());
    let (_, shape) = shredder.finish(100).unwrap();
    let shape = Arc::new(shape.unwrap());
    assert!(shape.overflows());
    let texts = |texts: [&str; 4]| Arc::new(StringViewArray::from(texts.to_vec())) as ArrayRef;
    let columns = [
        ("id", texts(["1", "2", "3", "4"])),
        ("timestamp", Arc::new(TimestampMicrosecondArray::from(vec![4, 3, 2, 1])) as ArrayRef),
        ("project", texts(["good", "evil", "good", "evil"])),
        (OVERFLOW, texts([r#"{"/metadata/late":1}"#, "?", r#"{"/metadata/late":2}"#, "?"])),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let batch = Arc::new(MemBatch::new(batch, 100, (1, 1)));
    let table = shape.schema();
    let time = Arc::new(Column::new_with_schema("timestamp", &table).unwrap());
    let order = LexOrdering::new([PhysicalSortExpr::new(time, SortOptions::default().desc())]).unwrap();
    let origin = Origin { source: "logs".into(), shape };
    MemoryScan::new(vec![vec![batch]], origin, table, None, order, None).unwrap()
}

fn project_is(schema: &Schema, name: &str) -> Arc<dyn PhysicalExpr> {
    let column = Arc::new(Column::new_with_schema("project", schema).unwrap());
    Arc::new(BinaryExpr::new(column, Operator::Eq, lit(ScalarValue::Utf8View(Some(name.to_owned())))))
}

async fn read(rows: &dyn DataSource) -> Result<Vec<RecordBatch>> {
    rows.open(0, Arc::new(TaskContext::default()))?.try_collect().await
}

fn with_filter(rows: &MemoryScan, filter: Arc<dyn PhysicalExpr>) -> Option<Arc<dyn DataSource>> {
    let pushed = rows.try_pushdown_filters(vec![filter], &ConfigOptions::default()).unwrap();
    assert!(pushed.filters.iter().all(|filter| matches!(filter, PushedDown::No)), "the filter above stays");
    pushed.updated_node
}

#[tokio::test]
async fn of_rows_that_do_not_pass_nothing_is_read() {
    let rows = rows();
    assert!(read(&rows).await.is_err());
    let good = with_filter(&rows, project_is(&rows.table, "good")).unwrap();
    let batches = read(good.as_ref()).await.unwrap();
    let [batch] = batches.as_slice() else { unreachable!("one slice") };
    let ids = batch.column_by_name("id").unwrap().as_string_view();
    assert_eq!(ids.iter().flatten().collect::<Vec<_>>(), ["1", "3"]);
    assert!(matches!(good.partition_statistics(None).unwrap().num_rows, Precision::Inexact(4)));
    // A limit that comes later counts what passed.
    let one = good.with_fetch(Some(1)).unwrap();
    assert_eq!(read(one.as_ref()).await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    let nobody = with_filter(&rows, project_is(&rows.table, "nobody")).unwrap();
    assert!(read(nobody.as_ref()).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_a_followed_scan_counts_does_not_grow_with_its_runs() {
    let leaf: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(rows().followed());
    let counts = || leaf.metrics().map_or(0, |metrics| metrics.iter().count());
    let before = counts();
    for _ in 0..100 {
        let run = reset_plan_states(Arc::clone(&leaf)).unwrap();
        run.execute(0, Arc::default()).unwrap().try_collect::<Vec<_>>().await.unwrap();
    }
    assert_eq!(counts(), before);
}

#[test]
fn a_limit_counts_rows_before_any_filter() {
    let limited = MemoryScan { fetch: Some(1), ..rows() };
    assert!(with_filter(&limited, project_is(&limited.table, "good")).is_none());
}
