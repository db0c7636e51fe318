//! Scans of segments as messages.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalSortExprNode};
use tidegate_store::{FileDescription, ScanDescription, SegmentName};
use uuid::Uuid;

use crate::bounds::MAX_PARTITIONS;
use crate::error::{PlanError, refused, unsendable};
use crate::message::{
    CountMessage, FileMessage, IdsMessage, NamedExprMessage, OrderMessage, PartitionMessage, RangeMessage, ScanMessage,
    SegmentMessage,
};
use crate::{literal_check, text_codec};

/// A scan as a message; `expr` makes messages of expressions.
///
/// # Errors
/// Those of `expr`, and if a number does not fit.
pub(crate) fn encoded(
    scan: &ScanDescription,
    expr: impl Fn(&Arc<dyn PhysicalExpr>) -> Result<PhysicalExprNode>,
) -> Result<ScanMessage> {
    let key = |key: &PhysicalSortExpr| {
        let PhysicalSortExpr { expr: of, options } = key;
        let (asc, nulls_first) = (!options.descending, options.nulls_first);
        Ok(PhysicalSortExprNode { expr: Some(Box::new(expr(of)?)), asc, nulls_first })
    };
    let order = |keys: &[PhysicalSortExpr]| -> Result<OrderMessage> {
        Ok(OrderMessage { keys: keys.iter().map(key).collect::<Result<_>>()? })
    };
    let ScanDescription {
        source,
        shape,
        schema,
        segments,
        partitions,
        rows,
        projection,
        predicate,
        texts,
        ids,
        orders,
        preserves_order,
        reading_order,
        limit,
    } = scan;
    if partitions.len() > MAX_PARTITIONS {
        return unsendable("a scan has too many partitions");
    }
    Ok(ScanMessage {
        source: source.to_string(),
        shape: shape.clone(),
        schema: Some(schema.as_ref().try_into()?),
        segments: segments
            .iter()
            .map(|SegmentName { source, id, bytes, rows, checksum }| SegmentMessage {
                source: source.as_bytes().to_vec(),
                id: id.as_bytes().to_vec(),
                bytes: *bytes,
                rows: *rows,
                checksum: *checksum,
            })
            .collect(),
        partitions: partitions
            .iter()
            .map(|files| Ok(PartitionMessage { files: files.iter().map(encoded_file).collect::<Result<_>>()? }))
            .collect::<Result<_>>()?,
        rows: count(rows),
        projection: projection
            .iter()
            .map(|of| Ok(NamedExprMessage { name: of.alias.clone(), expr: Some(expr(&of.expr)?) }))
            .collect::<Result<_>>()?,
        predicate: predicate.as_ref().map(&expr).transpose()?,
        texts: texts.as_ref().map(text_codec::encoded),
        ids: ids.clone().map(|ids| IdsMessage { ids }),
        orders: orders.iter().map(|keys| order(keys)).collect::<Result<_>>()?,
        preserves_order: *preserves_order,
        reading_order: reading_order.as_deref().map(order).transpose()?,
        limit: limit.map(|limit| limit as u64),
    })
}

fn encoded_file(file: &FileDescription) -> Result<FileMessage> {
    let FileDescription { segment, row_groups, range, rows, times: (oldest, newest) } = file;
    let Ok(segment) = u32::try_from(*segment) else { return unsendable("a scan has too many segments") };
    Ok(FileMessage {
        segment,
        all: row_groups.is_none(),
        row_groups: row_groups.clone().unwrap_or_default(),
        rows: count(rows),
        oldest: *oldest,
        newest: *newest,
        range: range.map(|(start, end)| RangeMessage { start, end }),
    })
}

fn count(rows: &Precision<usize>) -> Option<CountMessage> {
    match rows {
        Precision::Exact(count) => Some(CountMessage { count: *count as u64, exact: true }),
        Precision::Inexact(count) => Some(CountMessage { count: *count as u64, exact: false }),
        Precision::Absent => None,
    }
}

/// A scan from a message; `expr` makes expressions over a schema of messages.
///
/// # Errors
/// Those of `expr`, and if the message is not one of a scan.
pub(crate) fn decoded(
    message: &ScanMessage,
    expr: impl Fn(&PhysicalExprNode, &Schema) -> Result<Arc<dyn PhysicalExpr>>,
) -> Result<ScanDescription> {
    let ScanMessage { schema: Some(schema), .. } = message else { return refused("a scan has no schema") };
    let schema: SchemaRef = Arc::new(schema.try_into()?);
    literal_check::schema(&schema)?;
    if message.partitions.is_empty() || message.partitions.len() > MAX_PARTITIONS {
        return refused("a scan has no partitions, or too many");
    }
    let key = |key: &PhysicalSortExprNode, schema: &Schema| -> Result<PhysicalSortExpr> {
        let Some(of) = key.expr.as_deref() else { return refused("a key of an order is missing") };
        let options = SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
        Ok(PhysicalSortExpr { expr: expr(of, schema)?, options })
    };
    let order = |order: &OrderMessage, schema: &Schema| -> Result<Vec<PhysicalSortExpr>> {
        order.keys.iter().map(|of| key(of, schema)).collect()
    };
    let projection = message.projection.iter().map(|of| {
        let Some(node) = &of.expr else { return refused("an expression of a scan is missing") };
        Ok(ProjectionExpr { expr: expr(node, &schema)?, alias: of.name.clone() })
    });
    let projection = ProjectionExprs::new(projection.collect::<Result<Vec<_>>>()?);
    let output = projection.project_schema(&schema)?;
    let orders = message.orders.iter().map(|of| match LexOrdering::new(order(of, &schema)?) {
        Some(order) => Ok(order),
        None => refused("an order of a scan is empty"),
    });
    Ok(ScanDescription {
        source: message.source.as_str().into(),
        shape: message.shape.clone(),
        segments: message.segments.iter().map(decoded_segment).collect::<Result<_>>()?,
        partitions: message
            .partitions
            .iter()
            .map(|partition| partition.files.iter().map(decoded_file).collect::<Result<_>>())
            .collect::<Result<_>>()?,
        rows: precision(message.rows.as_ref()),
        predicate: message.predicate.as_ref().map(|node| expr(node, &schema)).transpose()?,
        texts: message.texts.as_ref().map(text_codec::decoded).transpose().map_err(PlanError::into_engine)?,
        ids: message.ids.clone().map(|IdsMessage { ids }| ids),
        orders: orders.collect::<Result<_>>()?,
        preserves_order: message.preserves_order,
        reading_order: message.reading_order.as_ref().map(|of| order(of, &output)).transpose()?,
        limit: message.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        projection,
        schema,
    })
}

fn decoded_segment(message: &SegmentMessage) -> Result<SegmentName> {
    let SegmentMessage { id, bytes, rows, checksum, source } = message;
    // Both are numbers of 16 bytes, so that the place of a file is always one that a store makes.
    match (Uuid::from_slice(source), Uuid::from_slice(id)) {
        (Ok(source), Ok(id)) => Ok(SegmentName { source, id, bytes: *bytes, rows: *rows, checksum: *checksum }),
        _ => refused("the id of a segment cannot be read"),
    }
}

fn decoded_file(message: &FileMessage) -> Result<FileDescription> {
    let FileMessage { segment, all, row_groups, rows, oldest, newest, range } = message;
    if *all != row_groups.is_empty() {
        return refused("a file of a scan reads all row groups and some");
    }
    Ok(FileDescription {
        segment: usize::try_from(*segment).unwrap_or(usize::MAX),
        row_groups: (!all).then(|| row_groups.clone()),
        range: range.as_ref().map(|range| (range.start, range.end)),
        rows: precision(rows.as_ref()),
        times: (*oldest, *newest),
    })
}

fn precision(message: Option<&CountMessage>) -> Precision<usize> {
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    match message {
        Some(CountMessage { count: rows, exact: true }) => Precision::Exact(count(*rows)),
        Some(CountMessage { count: rows, exact: false }) => Precision::Inexact(count(*rows)),
        None => Precision::Absent,
    }
}
