//! Columns of a call that are made while its events arrive, of the values that were just parsed.
//!
//! Which columns a source has is decided under its lock, in the order of commits. A call that comes in does not know its
//! place in that order. So its columns are made for the schema as it is then, and are used if the schema is still the same
//! when the call's turn comes, and if its events bring nothing new. Both are so for nearly all calls. Of the others columns are
//! made later, of the JSON in the write-ahead log.

use std::{mem, sync::Arc};

use datafusion::error::Result;

use crate::{
    ingest::tape::Item,
    memory::{mem_batch::MemBatch, places::Places},
    schema::{shape::Shape, tenant_path::TenantPath},
    shred::{limits::ShapeLimits, misfits::Misfits, shredder::Shredder},
};

/// The schema of a source at some time, with its bounds and the path of its tenants.
#[derive(Debug, Clone)]
pub(crate) struct KnownShape {
    pub(crate) shape: Arc<Shape>,
    pub(crate) limits: ShapeLimits,
    pub(crate) tenant_path: Arc<TenantPath>,
}

/// Makes columns of the events of a call.
#[derive(Debug)]
pub(crate) struct CallColumns {
    known: KnownShape,
    /// The current batch; made with its first row.
    shredder: Option<Shredder>,
    /// Of the current batch.
    places: Places,
    bytes: usize,
    rows: usize,
    batches: Vec<Arc<MemBatch>>,
    misfits: Misfits,
    held: usize,
}

/// The columns of a call.
#[derive(Debug)]
pub(crate) struct MadeColumns {
    /// The schema that they belong to.
    shape: Arc<Shape>,
    batches: Vec<Arc<MemBatch>>,
    misfits: Misfits,
    held: usize,
}

impl CallColumns {
    pub(crate) fn new(known: KnownShape) -> CallColumns {
        CallColumns {
            known,
            shredder: None,
            places: Places::default(),
            bytes: 0,
            rows: 0,
            batches: Vec::new(),
            misfits: Misfits::default(),
            held: 0,
        }
    }

    /// Adds the next event of the call, which has so many bytes as JSON. Returns false where the columns would need another
    /// schema: they are of no use then.
    pub(crate) fn add(&mut self, event: Item<'_>, bytes: usize) -> bool {
        let new = || Shredder::new(&self.known.shape, self.known.limits.clone());
        let shredder = self.shredder.get_or_insert_with(new);
        shredder.add(event);
        if shredder.has_grown() {
            return false;
        }
        let is_full = shredder.is_full();
        self.places.push(0, self.rows);
        self.rows += 1;
        self.bytes += bytes;
        !is_full || self.end_batch().is_ok()
    }

    fn end_batch(&mut self) -> Result<()> {
        let Some(shredder) = self.shredder.take() else { return Ok(()) };
        let bytes = mem::take(&mut self.bytes);
        self.misfits.add_all(shredder.misfits());
        let (rows, _) = shredder.finish(bytes)?;
        let places = mem::take(&mut self.places);
        let rows = if self.known.shape.is_placed() { places.put(&rows)? } else { rows };
        let batch = MemBatch::new(rows, bytes, (0, 0), &self.known.tenant_path);
        self.held += batch.held();
        self.batches.push(Arc::new(batch));
        Ok(())
    }

    /// Bytes that the columns hold in memory. Of a batch that is not ended it is an estimate.
    pub(crate) fn held(&self) -> usize {
        // Builders have room for half as much again, of the texts and of 16 bytes for each value.
        let values = self.shredder.as_ref().map_or(0, Shredder::values);
        self.held + values.saturating_mul(24) + self.bytes + self.bytes / 2
    }

    /// The columns of all events so far; none if they cannot be made.
    pub(crate) fn finish(mut self) -> Option<MadeColumns> {
        self.end_batch().ok()?;
        let CallColumns { known, batches, misfits, held, .. } = self;
        Some(MadeColumns { shape: known.shape, batches, misfits, held })
    }
}

impl MadeColumns {
    /// Bytes that the columns hold in memory.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Whether they belong to this schema.
    pub(crate) fn are_for(&self, shape: &Arc<Shape>) -> bool {
        Arc::ptr_eq(&self.shape, shape)
    }

    /// The batches, as those of the call with this number.
    pub(crate) fn of_call(&self, seq: i64) -> Result<Vec<Arc<MemBatch>>> {
        self.batches.iter().map(|batch| Ok(Arc::new(batch.of_call(seq)?))).collect()
    }

    /// The fields that have had values of another kind.
    pub(crate) fn misfits(&self) -> &Misfits {
        &self.misfits
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::{
        intake::{Intake, PreparedCall},
        memory::batch_builder::{RawCall, build},
    };

    fn limits() -> ShapeLimits {
        ShapeLimits { fields: 40, depth: 3, reserved: Arc::default(), tenant: None }
    }

    /// The rows of calls, with the schema after them.
    fn built(calls: &[RawCall], shape: &Arc<Shape>) -> (Vec<Arc<MemBatch>>, Arc<Shape>) {
        let mut batches = Vec::new();
        let (shape, _) = build(calls, (shape, &Arc::default()), &limits(), &mut batches).unwrap();
        (batches, shape)
    }

    fn call(texts: &[String], known: Option<KnownShape>) -> PreparedCall {
        let intake = Intake::new(1_763_633_702_123_456, 1 << 20, tidegate_model::Audience::All);
        let mut intake = known.into_iter().fold(intake, Intake::making_columns);
        texts.iter().for_each(|text| assert!(intake.add_text(text), "{text}"));
        assert!(intake.held() > 0);
        intake.finish()
    }

    fn any_value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|flag| flag.to_string()),
            "-?(0|[1-9][0-9]{0,20})",
            "-?(0|[1-9][0-9]{0,3})\\.[0-9]{1,20}([eE][+-]?[0-9]{1,2})?",
            "[a-z\\n\"\\\\é]{0,20}".prop_map(|text| Value::from(text).to_string()),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" ,"))),
                prop::collection::vec(("[a-c]", inner), 0..4).prop_map(|entries| {
                    let entries: Vec<_> = entries.iter().map(|(key, value)| format!("\"{key}\" :{value}")).collect();
                    format!("{{{}}}", entries.join(", "))
                }),
            ]
        })
    }

    fn any_event() -> impl Strategy<Value = String> {
        let keys =
            ["id", "timestamp", "event_message", "message", "metadata", "project", "time", "_overflow", "a", "b"];
        prop::collection::vec((prop::sample::select(keys.to_vec()), any_value()), 0..8).prop_map(|entries| {
            let entries: Vec<_> = entries.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            format!("{{{}}}", entries.join(","))
        })
    }

    proptest! {
        /// Columns that are made of the events are those that are made of the write-ahead row.
        #[test]
        fn columns_are_those_of_the_log(
            before in prop::collection::vec(any_event(), 0..6),
            texts in prop::collection::vec(any_event(), 1..6),
        ) {
            // So that the schema mostly has what the events need, and sometimes not.
            let first = call(&[before, texts.clone()].concat(), None);
            let first = RawCall::of_body(1, first.rows, Arc::new(first.body));
            let (_, shape) = built(&[first], &Arc::default());
            let known = KnownShape { shape: Arc::clone(&shape), limits: limits(), tenant_path: Arc::default() };
            let PreparedCall { body, columns, rows, .. } = call(&texts, Some(known));
            let body = Arc::new(body);
            let (expected, grown) = built(&[RawCall::of_body(7, rows, Arc::clone(&body))], &shape);
            prop_assert_eq!(columns.is_some(), Arc::ptr_eq(&grown, &shape));
            let (made, _) = built(&[RawCall { seq: 7, rows, body, columns }], &shape);
            prop_assert_eq!(made.len(), expected.len());
            for (made, expected) in made.iter().zip(&expected) {
                prop_assert_eq!(&made.rows, &expected.rows);
                prop_assert_eq!((made.first_seq, made.last_seq), (expected.first_seq, expected.last_seq));
                prop_assert_eq!(&made.tenants, &expected.tenants);
                prop_assert_eq!((made.min_time, made.max_time), (expected.min_time, expected.max_time));
            }
        }
    }

    /// The columns of a call are for one schema, and for another one made anew.
    #[test]
    fn columns_of_another_schema_are_not_used() {
        let texts = ["{\"a\":1}".to_owned()];
        let shape = built(&[RawCall::of_body(1, 1, Arc::new(call(&texts, None).body))], &Arc::default()).1;
        let PreparedCall { body, columns, .. } =
            call(&texts, Some(KnownShape { shape: Arc::clone(&shape), limits: limits(), tenant_path: Arc::default() }));
        let columns = columns.unwrap();
        assert!(columns.are_for(&shape));
        let wider = Arc::new(b"[{\"id\":\"x\",\"timestamp\":1,\"b\":1}]".to_vec());
        let calls =
            [RawCall::of_body(2, 1, wider), RawCall { seq: 3, rows: 1, body: Arc::new(body), columns: Some(columns) }];
        let (batches, wider) = built(&calls, &shape);
        assert!(!Arc::ptr_eq(&wider, &shape));
        assert_eq!(batches.iter().map(|batch| batch.rows.num_rows()).sum::<usize>(), 2);
        assert_eq!(batches.iter().map(|batch| batch.last_seq).max(), Some(3));
    }
}
