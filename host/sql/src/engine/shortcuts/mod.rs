//! What makes statements quicker, and changes no answer. What each saves was measured with and without it
//! (`docs/contributing/measurements/queries.md`):
//!
//! | shortcut | statement | without | with |
//! |---|---|---:|---:|
//! | [`narrow`]: tables no wider than they are read | list over five wide sources | 90 ms | 37 ms |
//! | [`shared_part`]: a part with several readers is computed once | six facets of a page | 89 ms | 35 ms |
//! | [`partial_groups`]: rows are numbered, one of each number is looked up | top user agents, of processors, beside two smaller changes | 39.9 ms | 23.6 ms |
//! | rows that a scan counts ([`partial_groups::Counted`]) | records by status, twenty million | 90.6 ms | 38.4 ms |
//! | conditions on texts, once for each text | counts by path | 746 ms | 508 ms |
//! | [`text_condition`]: what a scan demands of texts, for the store's index | `docs/storage.md` | | |

pub(crate) mod narrow;
pub(crate) mod partial_groups;
pub(crate) mod shared_input;
pub(crate) mod shared_part;
pub(crate) mod shared_rows;
pub(crate) mod text_condition;
