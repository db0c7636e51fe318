//! UUIDs as text in the JSON that the store writes to footers and notes.

use serde::{Deserialize, Deserializer, Serializer, de::Error};
use uuid::Uuid;

pub(crate) fn serialize<S: Serializer>(id: &Uuid, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(id)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Uuid, D::Error> {
    let text = String::deserialize(from)?;
    Uuid::parse_str(&text).map_err(D::Error::custom)
}

/// The same for lists of UUIDs.
pub(crate) mod list {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use uuid::Uuid;

    pub(crate) fn serialize<S: Serializer>(ids: &[Uuid], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ids.iter().map(Uuid::to_string))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Uuid>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        texts.iter().map(|text| Uuid::parse_str(text).map_err(D::Error::custom)).collect()
    }
}
