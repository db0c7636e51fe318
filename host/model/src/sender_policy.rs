//! What the events of a token must have that sends logs of one tenant: the writing side of [`SourceTenancy`].
//!
//! It is stricter than reading. A pinned name that is no tenant key is a parameter of queries, but says nothing that could
//! stand in an event: what the token sends would be nobody's, or everybody's. So each pinned name must be a key of the
//! source, and a name that is misspelt closes.

use crate::tenancy::{Audience, KeyPath, SourceTenancy};

/// What each event of a sender must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderPolicy {
    /// At least one.
    pub values: Vec<TenantValue>,
}

/// The value of a tenant key, and where it stands in an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantValue {
    /// The name of the key, which the token pins.
    pub key: String,
    /// The field that holds it.
    pub path: KeyPath,
    /// The value that the token pins.
    pub value: String,
}

/// Why a source takes no events of a token that sends logs of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotForSender {
    /// The source does not say whose its rows are.
    Undeclared,
    /// The rows of the source are for all tenants.
    Shared,
    /// The source does not have this pinned name as a key; other sources do.
    LacksKey(String),
    /// No source has this pinned name as a key.
    UnknownKey(String),
}

impl SourceTenancy {
    /// What the events that are sent for an audience to a source must have; nothing for a sender of all tenants. `is_key`
    /// tells whether any source has a name as its key.
    ///
    /// # Errors
    /// The source cannot hold the events of such a sender.
    pub fn sender_policy(
        own: Option<&Self>,
        audience: &Audience,
        is_key: impl Fn(&str) -> bool,
    ) -> Result<Option<SenderPolicy>, NotForSender> {
        let Audience::Tenant(pins) = audience else { return Ok(None) };
        let is_own = |name: &str| matches!(own, Some(Self::Keyed(keys)) if keys.contains_key(name));
        // First of all what is a mistake at every source.
        if let Some(name) = pins.keys().find(|name| !is_own(name) && !is_key(name)) {
            return Err(NotForSender::UnknownKey(name.clone()));
        }
        let keys = match own {
            None => return Err(NotForSender::Undeclared),
            Some(Self::Shared) => return Err(NotForSender::Shared),
            Some(Self::Keyed(keys)) => keys,
        };
        let value = |(name, value): (&String, &String)| match keys.get(name) {
            Some(path) => Ok(TenantValue { key: name.clone(), path: path.clone(), value: value.clone() }),
            None => Err(NotForSender::LacksKey(name.clone())),
        };
        Ok(Some(SenderPolicy { values: pins.iter().map(value).collect::<Result<_, _>>()? }))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn each_pinned_name_must_be_a_key_of_the_source() {
        let keyed: SourceTenancy = serde_json::from_str(r#"{"project": "m.p", "team": "t"}"#).unwrap();
        let pins = |pins: &[(&str, &str)]| {
            Audience::of_pins(pins.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let policy = |own: Option<&SourceTenancy>, audience: &Audience| {
            SourceTenancy::sender_policy(own, audience, |name| ["project", "team", "region"].contains(&name))
        };
        let abc = pins(&[("project", "abc")]);
        assert_eq!(policy(None, &Audience::All), Ok(None));
        assert_eq!(policy(Some(&SourceTenancy::Shared), &Audience::All), Ok(None));
        assert_eq!(policy(None, &abc), Err(NotForSender::Undeclared));
        assert_eq!(policy(Some(&SourceTenancy::Shared), &abc), Err(NotForSender::Shared));
        let must = |key: &str, path: &str, value: &str| TenantValue {
            key: key.to_owned(),
            path: path.parse().unwrap(),
            value: value.to_owned(),
        };
        let of_abc = SenderPolicy { values: vec![must("project", "m.p", "abc")] };
        assert_eq!(policy(Some(&keyed), &abc), Ok(Some(of_abc)));
        let both = SenderPolicy { values: vec![must("project", "m.p", "abc"), must("team", "t", "x")] };
        assert_eq!(policy(Some(&keyed), &pins(&[("project", "abc"), ("team", "x")])), Ok(Some(both)));
        let lacks = pins(&[("project", "abc"), ("region", "eu")]);
        assert_eq!(policy(Some(&keyed), &lacks), Err(NotForSender::LacksKey("region".to_owned())));
        for own in [None, Some(&SourceTenancy::Shared), Some(&keyed)] {
            let wrong = pins(&[("project", "abc"), ("projct", "abc")]);
            assert_eq!(policy(own, &wrong), Err(NotForSender::UnknownKey("projct".to_owned())));
        }
    }
}
