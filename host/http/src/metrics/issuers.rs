//! The metrics of issuers. The service counts them; this module only shows them. Issuers are named by their short names in
//! the configuration, which are no secrets.

use std::sync::atomic::Ordering;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tidegate_service::Service;

use super::figures::{add, add_with_unit};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IssuerLabels {
    issuer: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    issuer: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    issuer: String,
    outcome: &'static str,
}

/// The metrics of issuers.
#[derive(Debug)]
pub(super) struct IssuerMetrics {
    accepted: Family<IssuerLabels, Counter>,
    refused: Family<ReasonLabels, Counter>,
    fetches: Family<OutcomeLabels, Counter>,
    ages: Family<IssuerLabels, Gauge>,
}

impl IssuerMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            accepted: add(
                registry,
                "tidegate_issuer_tokens_accepted",
                "Checks of tokens of issuers that were accepted",
            ),
            refused: add(
                registry,
                "tidegate_issuer_tokens_refused",
                "Checks of tokens of issuers that were refused, by reason; of no issuer where the token names none of them",
            ),
            fetches: add(
                registry,
                "tidegate_issuer_fetches",
                "How often the keys of issuers were read, by what came of it",
            ),
            ages: add_with_unit(
                registry,
                "tidegate_issuer_keys_age",
                "Time since the keys of an issuer were read or confirmed; absent without keys",
                Unit::Seconds,
            ),
        }
    }

    pub(super) fn measure(&self, service: &Service) {
        let set = |counter: &Counter, count: u64| counter.inner().store(count, Ordering::Relaxed);
        for numbers in service.issuers.numbers() {
            let issuer = || numbers.name.to_owned();
            for (reason, count) in numbers.refused.iter().copied() {
                set(&self.refused.get_or_create(&ReasonLabels { issuer: issuer(), reason }), count);
            }
            if numbers.name.is_empty() {
                continue;
            }
            set(&self.accepted.get_or_create(&IssuerLabels { issuer: issuer() }), numbers.accepted);
            for (outcome, count) in numbers.fetches.iter().copied() {
                set(&self.fetches.get_or_create(&OutcomeLabels { issuer: issuer(), outcome }), count);
            }
            if let Some(age) = numbers.keys_age {
                let seconds = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
                self.ages.get_or_create(&IssuerLabels { issuer: issuer() }).set(seconds);
            }
        }
    }
}
