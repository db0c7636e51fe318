//! `[storage]`: where segments are kept besides the data folder, and what of them stays in memory.

use tidegate_model::{Access, GIB, MIB, Setting, bytes};
use tidegate_store::is_store_url;

use crate::options::Options;

pub(super) const STORAGE: &[Setting<Options>] = &[
    Setting {
        name: "url",
        what: "an object store that gets a copy of each segment before the segment is used; empty is none",
        access: Access::Text {
            how: "an address such as \"s3://bucket/prefix\" or \"file:///folder\", or nothing",
            get: |o: &Options| o.store.copies_url.clone(),
            set: |o, text| {
                let good = text.is_empty() || is_store_url(text);
                if good {
                    o.store.copies_url = text.to_owned();
                }
                good
            },
        },
    },
    bytes!(
        "footer_memory",
        "footers of segments that stay in memory; a query reads again what is not there",
        MIB,
        1024 * GIB,
        Options,
        footer_memory
    ),
];
