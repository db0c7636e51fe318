//! `[storage]`: where segments are kept besides the data folder.

use tidegate_model::{Access, Setting};
use tidegate_store::{StoreOptions, is_store_url};

pub(super) const STORAGE: &[Setting<StoreOptions>] = &[Setting {
    name: "url",
    what: "an object store that gets a copy of each segment before the segment is used; empty is none",
    access: Access::Text {
        how: "an address such as \"s3://bucket/prefix\" or \"file:///folder\", or nothing",
        get: |o: &StoreOptions| o.copies_url.clone(),
        set: |o, text| {
            let good = text.is_empty() || is_store_url(text);
            if good {
                o.copies_url = text.to_owned();
            }
            good
        },
    },
}];
