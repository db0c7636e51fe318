//! Describing a scan of segments. What cannot be described is an error, never left out.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use datafusion::{
    arrow::datatypes::SchemaRef,
    common::{config::ConfigOptions, plan_err, stats::Precision},
    datasource::{
        listing::PartitionedFile,
        object_store::ObjectStoreUrl,
        physical_plan::{
            FileScanConfig, FileSource, ParquetSource,
            parquet::{ParquetAccessPlan, RowGroupAccess},
        },
    },
    error::Result,
    physical_plan::ExecutionPlan,
    scalar::ScalarValue,
};
use tidegate_model::TextCondition;
use uuid::Uuid;

use crate::{
    field_names::TIMESTAMP,
    scan::{
        described_scan::parquet_options,
        description::{DescribedSchema, FileDescription, ScanDescription, SegmentName},
        held_segments::scan_of,
        id_search::IdSearch,
        segment_file::segment_file,
        segment_reader::SegmentOfFile,
        segment_scan::SegmentScan,
        trigram_reader::TextSearch,
    },
    segment::handle::Segment,
};

impl ScanDescription {
    /// The description of an operator, if it is a scan of segments. `options` are those of the session that planned it.
    ///
    /// # Errors
    /// If the scan has something that cannot be described.
    pub fn of(plan: &dyn ExecutionPlan, options: &ConfigOptions) -> Option<Result<ScanDescription>> {
        scan_of(plan).map(|scan| described(scan, options))
    }
}

fn described(scan: &SegmentScan, options: &ConfigOptions) -> Result<ScanDescription> {
    let (files, origin) = (scan.files(), scan.origin());
    let FileScanConfig {
        object_store_url,
        file_groups,
        constraints,
        limit,
        preserve_order,
        output_ordering,
        file_compression_type: _,
        file_source,
        batch_size,
        expr_adapter_factory: _,
        output_partitioning,
        ..
    } = files;
    let Some(parquet) = file_source.downcast_ref::<ParquetSource>() else {
        return plan_err!("a scan of segments reads something else");
    };
    let Some(projection) = parquet.projection() else {
        return plan_err!("a scan of segments has no projection");
    };
    let is_plain = *object_store_url == ObjectStoreUrl::local_filesystem()
        && constraints.is_empty()
        && batch_size.is_none()
        && output_partitioning.is_none()
        && files.table_partition_cols().is_empty()
        && *parquet.table_parquet_options() == parquet_options(options);
    if !is_plain {
        return plan_err!("a scan of segments has settings of its own");
    }
    let schema = Arc::clone(files.file_schema());
    let mut segments: Vec<SegmentName> = Vec::new();
    let mut places: HashMap<Uuid, usize> = HashMap::new();
    // Those of the first file, if there is one.
    let mut texts: Option<Option<Arc<TextCondition>>> = None;
    let mut ids: Option<Option<IdSearch>> = None;
    let mut describe = |file: &PartitionedFile| {
        let Some(SegmentOfFile(segment)) = file.extension() else {
            return plan_err!("a file of the scan is no segment");
        };
        let place = *places.entry(segment.id).or_insert_with(|| {
            segments.push(SegmentName::of(segment));
            segments.len() - 1
        });
        let search = file.extension::<TextSearch>().map(TextSearch::condition);
        if texts.get_or_insert_with(|| search.cloned()).as_ref() != search {
            return plan_err!("the files of a scan have several conditions on texts");
        }
        let search = file.extension::<IdSearch>();
        if ids.get_or_insert_with(|| search.cloned()).as_ref() != search {
            return plan_err!("the files of a scan demand several lists of ids");
        }
        described_file(file, segment, place, &schema)
    };
    let partitions = file_groups.iter().map(|group| group.iter().map(&mut describe).collect::<Result<Vec<_>>>());
    let partitions = partitions.collect::<Result<Vec<_>>>()?;
    let fields = Cow::Borrowed(&origin.shape.fields);
    let schema_of_source = DescribedSchema { fields, tenant_path: Cow::Borrowed(&origin.tenant_path) };
    let Ok(shape) = serde_json::to_vec(&schema_of_source) else {
        return plan_err!("the schema of a source cannot be written");
    };
    Ok(ScanDescription {
        source: Arc::clone(&origin.source),
        shape,
        segments,
        partitions,
        rows: files.statistics().num_rows,
        projection: projection.clone(),
        predicate: parquet.filter(),
        texts: texts.flatten().map(Arc::unwrap_or_clone),
        ids: ids.flatten().map(|search| search.ids().to_vec()),
        orders: output_ordering.clone(),
        preserves_order: *preserve_order,
        reading_order: scan.reading_order().map(<[_]>::to_vec),
        limit: *limit,
        schema,
    })
}

fn described_file(
    file: &PartitionedFile,
    segment: &Arc<Segment>,
    place: usize,
    schema: &SchemaRef,
) -> Result<FileDescription> {
    let time = file.statistics.as_ref().and_then(|statistics| {
        let time = statistics.column_statistics.get(schema.index_of(TIMESTAMP).ok()?)?;
        let of = |bound: &Precision<ScalarValue>| match bound {
            Precision::Exact(ScalarValue::TimestampMicrosecond(at, None)) => *at,
            _ => None,
        };
        Some((statistics.num_rows, (of(&time.min_value)?, of(&time.max_value)?)))
    });
    let Some((rows, times)) = time else {
        return plan_err!("a file of the scan has no bounds of its times");
    };
    // What else a file has would be lost.
    let again = segment_file(segment, schema, rows, times)?;
    let differences = [
        ("object", again.object_meta == file.object_meta),
        ("statistics", again.statistics == file.statistics),
        ("values", file.partition_values.is_empty()),
        ("order", file.ordering.is_none()),
        ("hint", file.metadata_size_hint.is_none()),
        ("table", file.table_reference.is_none()),
        ("schema", file.arrow_schema.is_none()),
    ];
    if let Some((what, _)) = differences.iter().find(|(_, same)| !same) {
        return plan_err!("a file of the scan has more than can be described: {what}");
    }
    let row_groups = match file.extension::<ParquetAccessPlan>() {
        None => None,
        Some(plan) => {
            let is_read = |access: &RowGroupAccess| match access {
                RowGroupAccess::Scan => Ok(true),
                RowGroupAccess::Skip => Ok(false),
                RowGroupAccess::Selection(_) => plan_err!("a file of the scan reads single rows"),
            };
            Some(plan.inner().iter().map(is_read).collect::<Result<_>>()?)
        }
    };
    let range = file.range.as_ref().map(|range| (range.start, range.end));
    Ok(FileDescription { segment: place, row_groups, range, rows, times })
}
