//! [`Store::stats`]: totals from the counters, levels from the sources.

use std::sync::atomic::Ordering;

use crate::{metrics::stats::StoreStats, objects::copies::CopyCounters, source::Source, store::Store};

impl Store {
    /// What the store has done since it was opened and what it holds now. Reads counters; opens no file.
    pub fn stats(&self) -> StoreStats {
        let mut stats = StoreStats {
            unflushed_bytes: self.sources.unflushed.load(Ordering::Relaxed) as u64,
            read_only: self.writer.check().is_err(),
            set_aside_segments: self.recovered.set_aside,
            set_aside_rows: self.recovered.set_aside_rows,
            lost_transactions: self.recovered.log.map_or(0, |log| log.transactions),
            lost_events: self.recovered.log.and_then(|log| log.events),
            log_is_cut: self.recovered.lost_calls.is_some(),
            clock_ahead_seconds: self.clock.ahead().unsigned_abs() / 1_000_000,
            ..self.writer.counters().totals()
        };
        if let Some((copies, ..)) = &self.copies {
            let CopyCounters { puts, put_bytes, failed_puts, deleted, missing, .. } = &copies.counters;
            stats.object_puts = puts.load(Ordering::Relaxed);
            stats.object_put_bytes = put_bytes.load(Ordering::Relaxed);
            stats.failed_object_puts = failed_puts.load(Ordering::Relaxed);
            stats.deleted_objects = deleted.load(Ordering::Relaxed);
            stats.missing_objects = missing.load(Ordering::Relaxed);
            stats.objects_failing = copies.is_failing();
            let CopyCounters { epoch, catalog_puts, catalog_put_bytes, failed_catalog_puts, .. } = &copies.counters;
            stats.objects_epoch = epoch.load(Ordering::Relaxed);
            stats.objects_replaced = copies.check_replaced().is_err();
            stats.catalog_copies = catalog_puts.load(Ordering::Relaxed);
            stats.catalog_copy_bytes = catalog_put_bytes.load(Ordering::Relaxed);
            stats.failed_catalog_copies = failed_catalog_puts.load(Ordering::Relaxed);
            stats.catalog_copied_at = copies.counters.catalog_copied_at.load(Ordering::Relaxed);
            stats.catalog_copy_behind_seconds = copies.catalog_behind_seconds();
        }
        for source in self.sources.all() {
            stats.sources += 1;
            stats.overflowing_sources += u64::from(source.overflows());
            stats.mixed_sources += u64::from(source.is_mixed());
            add_segments(&mut stats, &source);
        }
        stats
    }
}

fn add_segments(stats: &mut StoreStats, source: &Source) {
    for segment in source.segments().iter() {
        stats.segments += 1;
        stats.segment_rows += segment.rows as u64;
        stats.segment_bytes += segment.bytes;
        if segment.damage().is_some() {
            stats.damaged_segments += 1;
            stats.damaged_rows += segment.rows as u64;
        }
    }
}
