//! Every setting can be written, read back and refused.
#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use super::*;

#[test]
fn every_default_can_be_written_back_and_fits() {
    for section in SECTIONS {
        for name in section.settings() {
            let mut options = Options::default();
            let text = section.show(&options, name).unwrap();
            section.set(&mut options, name, &text).unwrap();
            assert_eq!(options, Options::default(), "{name}");
        }
    }
    validate(&Options::default()).unwrap();
}

#[test]
fn every_setting_sets_one_thing_of_its_own() {
    let others = [
        ("listen", "0.0.0.0:1"),
        ("tls_certificate", "certificate.pem"),
        ("tls_key", "key.pem"),
        ("data_dir", "elsewhere"),
        ("log_format", "json"),
        ("log_level", "off,tidegate_store=debug"),
        ("errors", "ok"),
        ("key_in_query", "true"),
        ("logs_source", "other"),
        ("otlp_source", "other"),
        ("json_source", "other"),
        ("vector_source", "other"),
        ("logplex_source", "other"),
        ("elixir_source", "other"),
        ("cloudflare_source", "other"),
        ("vercel_source", "other"),
        ("netlify_source", "other"),
        ("loki_source", "other"),
        ("elasticsearch_source", "other"),
        ("splunk_source", "other"),
        ("datadog_source", "other"),
        ("firehose_source", "other"),
        ("axiom_source", "other"),
        ("vercel_verify", "other"),
        ("endpoint", "http://collector:4318"),
        ("service_name", "other"),
        ("sample", "0.5"),
        ("run", "false"),
        ("allow_networks", "10.0.0.0/8"),
        ("tls_listen", "0.0.0.0:1"),
        ("client_ca", "ca.pem"),
        ("networks", "10.0.0.0/8"),
        ("source", "other"),
        ("time_zone", "Europe/Berlin"),
        ("workers", "10.0.0.1:4100, workers:4100"),
        ("url", "s3://bucket/prefix"),
        ("tls_ca", "ca.pem"),
    ];
    let all = |options: &Options| -> Vec<String> {
        let of = |section: &&dyn Section<Options>| -> Vec<String> {
            section.settings().iter().map(|name| section.show(options, name).unwrap()).collect()
        };
        SECTIONS.iter().flat_map(of).collect()
    };
    for section in SECTIONS {
        for name in section.settings() {
            let mut options = Options::default();
            let known = others.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
            // Every number's default is another than one of these.
            let tries = match known {
                Some(text) => vec![text],
                None => ["17", "70001", "1048577", "300000001", "50001 ms"].map(str::to_owned).to_vec(),
            };
            assert!(tries.iter().any(|text| section.set(&mut options, name, text).is_ok()), "{name}");
            let (before, after) = (all(&Options::default()), all(&options));
            assert_eq!(before.iter().zip(&after).filter(|(a, b)| a != b).count(), 1, "{name}");
        }
    }
}

#[test]
fn texts_without_their_form_are_refused() {
    for (section, name, text) in [
        ("server", "listen", "4000"),
        ("server", "log_level", "loud"),
        ("server", "log_level", "tidegate_store=loud"),
        ("server", "log_format", "xml"),
        ("syslog", "listen", "514"),
        ("syslog", "networks", "all"),
        ("syslog", "time_zone", "Berlin"),
        ("cluster", "workers", "10.0.0.1"),
        ("cluster", "workers", "10.0.0.1:4100 10.0.0.2:4100"),
        ("server", "errors", "200"),
        ("ingest", "key_in_query", "yes"),
        ("doors", "loki_source", "two\nlines"),
        ("doors", "vercel_verify", "two words"),
        ("traces", "sample", "2"),
        ("traces", "sample", "NaN"),
        ("traces", "endpoint", "ftp://collector"),
        ("traces", "endpoint", "https://"),
        ("traces", "endpoint", "https://user:secret@collector"),
        ("traces", "endpoint", "http://user:secret@collector"),
        ("traces", "endpoint", "http://collector/v1/traces"),
    ] {
        let section = SECTIONS.iter().find(|known| known.name() == section).unwrap();
        let error = section.set(&mut Options::default(), name, text).unwrap_err();
        assert!(matches!(error, SettingError::Unreadable { .. }), "{name} = {text}: {error}");
    }
}

#[test]
fn receivers_of_traces_may_speak_tls() {
    let section = SECTIONS.iter().find(|known| known.name() == "traces").unwrap();
    for address in ["http://127.0.0.1:4318", "https://collector", "https://collector.example.com:4318/"] {
        let mut options = Options::default();
        section.set(&mut options, "endpoint", address).unwrap();
        assert_eq!(options.traces.endpoint, address.trim_end_matches('/'));
    }
}

#[test]
fn contradictions_are_told() {
    let mut options = Options::default();
    options.store.max_event_bytes = options.ingest.max_body + 1;
    assert!(validate(&options).unwrap_err().to_string().contains("lower event_bytes"));
    let mut options = Options::default();
    options.server.tls_key = Some("key.pem".into());
    assert!(validate(&options).unwrap_err().to_string().contains("tls_certificate is not"));
    options.server.tls_certificate = Some("certificate.pem".into());
    validate(&options).unwrap();
    options.server.tls_key = None;
    assert!(validate(&options).unwrap_err().to_string().contains("tls_key is not"));
    let mut options = Options::default();
    options.admission.answer_memory = options.limits.answer_bytes * 2 - 1;
    assert!(validate(&options).unwrap_err().to_string().contains("raise answer_memory"));
}
