//! Plans that would give another answer in stages are refused, whatever made them.

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::NullEquality;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::union::UnionExec;
use datafusion_distributed::{BroadcastExec, NetworkShuffleExec};

use super::*;

type Plan = Arc<dyn ExecutionPlan>;

const TASKS: usize = 3;

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![field("a"), field("b")]))
}

fn column(place: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema().field(place).name(), place))
}

/// A leaf of several tasks.
fn leaf(partitions: usize) -> Plan {
    let one: Plan = Arc::new(EmptyExec::new(schema()).with_partitions(partitions));
    Arc::new(DistributedLeafExec::try_new(Arc::clone(&one), vec![one; TASKS]).unwrap())
}

/// Rows that workers have shared out by the keys in column `place`.
fn shuffled(place: usize, partitions: usize) -> Plan {
    let partitioning = Partitioning::Hash(vec![column(place)], partitions);
    let below: Plan = Arc::new(RepartitionExec::try_new(leaf(2), partitioning).unwrap());
    Arc::new(NetworkShuffleExec::try_new(below, TASKS).unwrap())
}

/// Rows of which each task has all.
fn copied() -> Plan {
    let below: Plan = Arc::new(BroadcastExec::new(leaf(1), TASKS));
    let boundary: Plan = Arc::new(NetworkBroadcastExec::try_new(below, TASKS).unwrap());
    Arc::new(CoalescePartitionsExec::new(boundary))
}

fn groups(mode: AggregateMode, place: usize, input: Plan) -> Plan {
    let keys = PhysicalGroupBy::new_single(vec![(column(place), "k".to_owned())]);
    let columns = input.schema();
    Arc::new(AggregateExec::try_new(mode, keys, vec![], vec![], input, columns).unwrap())
}

fn join(kind: JoinType, mode: PartitionMode, left: Plan, right: Plan) -> Plan {
    let on = vec![(column(0), column(0))];
    let equal = NullEquality::NullEqualsNothing;
    let made = HashJoinExec::try_new(left, right, on, None, &kind, None, mode, equal, false);
    Arc::new(made.unwrap())
}

/// Whether a stage of several tasks with this plan may run.
fn is_allowed(plan: Plan) -> bool {
    let head: Plan = Arc::new(NetworkCoalesceExec::try_new(plan, TASKS, 1).unwrap());
    stages(&head).is_ok()
}

#[test]
fn what_each_task_may_do_with_its_rows_is_allowed() {
    for plan in [
        leaf(2),
        leaf(1),
        Arc::new(LocalLimitExec::new(leaf(1), 5)) as Plan,
        groups(AggregateMode::Partial, 0, leaf(1)),
        UnionExec::try_new(vec![leaf(1), shuffled(0, 4)]).unwrap(),
        groups(AggregateMode::FinalPartitioned, 0, shuffled(0, 4)),
        join(JoinType::Full, PartitionMode::Partitioned, shuffled(0, 4), shuffled(0, 4)),
    ] {
        assert!(is_allowed(Arc::clone(&plan)), "{plan:?}");
    }
}

/// One partition of each task is not one partition.
#[test]
fn a_task_has_not_all_rows() {
    for partitions in [1, 2] {
        for plan in [
            Arc::new(GlobalLimitExec::new(leaf(1), 0, Some(5))) as Plan,
            Arc::new(CoalescePartitionsExec::new(leaf(partitions))),
            groups(AggregateMode::Single, 0, leaf(1)),
            groups(AggregateMode::Final, 0, leaf(1)),
            groups(AggregateMode::SinglePartitioned, 0, leaf(partitions)),
            groups(AggregateMode::FinalPartitioned, 0, shuffled(1, 4)),
            groups(AggregateMode::FinalPartitioned, 0, shuffled(0, 1)),
            join(JoinType::Inner, PartitionMode::Partitioned, shuffled(0, 4), leaf(4)),
            join(JoinType::Inner, PartitionMode::CollectLeft, leaf(1), leaf(2)),
        ] {
            assert!(!is_allowed(Arc::clone(&plan)), "{plan:?}");
        }
    }
}

#[test]
fn copies_are_only_looked_up_in() {
    use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    for kind in [Inner, Right, RightSemi, RightAnti, RightMark] {
        assert!(is_allowed(join(kind, PartitionMode::CollectLeft, copied(), leaf(2))), "{kind}");
    }
    for kind in [Full, Left, LeftSemi, LeftAnti, LeftMark] {
        assert!(!is_allowed(join(kind, PartitionMode::CollectLeft, copied(), leaf(2))), "{kind}");
    }
    assert!(is_allowed(Arc::new(CrossJoinExec::new(copied(), leaf(2)))));
    assert!(!is_allowed(Arc::new(CrossJoinExec::new(leaf(1), copied()))));
    // Each task would hand them on.
    assert!(!is_allowed(copied()));
    assert!(!is_allowed(UnionExec::try_new(vec![copied(), leaf(2)]).unwrap()));
    assert!(!is_allowed(Arc::new(EmptyExec::new(schema()))), "no task has a share of it");
}
