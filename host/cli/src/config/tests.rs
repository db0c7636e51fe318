//! Which settings are read, in which order they apply, and how invalid ones are refused.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

use std::time::Duration;

use tidegate_model::Limits;

use super::*;

fn read(text: &str) -> Result<Options, String> {
    let mut config = Config::default();
    config.text(text).map_err(|error| error.to_string())?;
    Ok(config.options)
}

fn with(flags: &Flags, environment: &[(&str, &str)]) -> Result<Config, String> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::read(flags, environment).map_err(|error| error.to_string())
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn flags(config: &Path) -> Flags {
    Flags { config: Some(config.to_owned()), ..Flags::default() }
}

#[test]
fn flags_win_over_the_environment_over_the_file() {
    let file = file(
        "[limits]\nrequest_time = \"3 s\"\nrows = 50\n[server]\nlisten = \"127.0.0.1:1\"\ndata_dir = \"in-file\"\n\
         [ingest]\nkey_in_query = true\n[traces]\nsample = 0.25\n",
    );
    let flags = Flags { listen: Some("127.0.0.1:3".to_owned()), ..flags(file.path()) };
    let environment = [
        ("TIDEGATE_LIMITS_ROWS", "20"),
        ("TIDEGATE_LIMITS_TOKENS", ""),
        ("TIDEGATE_LISTEN", "127.0.0.1:2"),
        ("TIDEGATE_SERVER_DATA_DIR", "long-name"),
        ("TIDEGATE_DATA_DIR", "short-name"),
        ("LOGFLARE_API_KEY", "the-secret-of-the-incumbent"),
        ("HOME", "/nowhere"),
    ];
    let config = with(&flags, &environment).unwrap();
    let options = &config.options;
    assert_eq!((options.limits.wall_clock, options.limits.rows), (Duration::from_secs(3), 20));
    assert_eq!(options.limits.text, Limits::default().text);
    assert_eq!((options.server.listen.port(), options.data_dir.as_path()), (3, Path::new("long-name")));
    assert!(options.ingest.key_in_query);
    assert_eq!(options.private_token.as_deref(), Some("the-secret-of-the-incumbent"));

    let printed = print(&config);
    for line in [
        "request_time = \"3 s\"  # file",
        "rows = 20  # environment TIDEGATE_LIMITS_ROWS",
        "listen = \"127.0.0.1:3\"  # flag --listen",
        "data_dir = \"long-name\"  # environment TIDEGATE_SERVER_DATA_DIR",
        "nesting = 64  # default",
        "sample = \"0.25\"  # file",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}:\n{printed}");
    }
    assert!(!printed.contains("secret"), "{printed}");
}

#[test]
fn a_setting_of_several_texts_may_be_a_list() {
    let workers = |text: &str| read(&format!("[cluster]\n{text}")).map(|options| options.cluster.workers);
    let listed = workers("workers = [\"127.0.0.1:1\", \" localhost:2\"]").unwrap();
    assert_eq!(listed, workers("workers = \"127.0.0.1:1, localhost:2\"").unwrap());
    assert_eq!(listed.len(), 2);
    assert_eq!(workers("workers = []").unwrap(), []);
    let networks = |text: &str| read(&format!("[syslog]\n{text}")).map(|options| options.syslog.networks);
    let listed = networks("networks = [\"10.0.0.0/8\", \"::1\"]").unwrap();
    assert_eq!(listed, networks("networks = \"10.0.0.0/8, ::1\"").unwrap());
    for (text, words) in [
        ("workers = [\"127.0.0.1:1, 127.0.0.1:2\"]", "has a comma"),
        ("workers = [1]", "1 is no text"),
        ("workers = [\"127.0.0.1\"]", "hosts and ports"),
    ] {
        let error = workers(text).unwrap_err();
        assert!(error.contains("[cluster]") && error.contains(words), "{error}");
    }
    // No other setting is a list.
    assert!(read("[limits]\nrows = [5]").is_err());
    assert!(read("[server]\nlisten = [\"127.0.0.1:1\"]").is_err());
}

#[test]
fn what_is_printed_gives_the_same_configuration() {
    let environment = [
        ("TIDEGATE_DATA_DIR", "a \"strange\" \\ folder"),
        ("TIDEGATE_ADMISSION_WAIT", "0 s"),
        ("TIDEGATE_STORE_RETENTION_BYTES", "3 GiB"),
        ("TIDEGATE_TRACES_ENDPOINT", "http://127.0.0.1:4318"),
        ("TIDEGATE_SERVER_LOG_FORMAT", "json"),
    ];
    let config = with(&Flags::default(), &environment).unwrap();
    assert_ne!(config.options, Options::default());
    let fed = file(&print(&config));
    let again = with(&flags(fed.path()), &[]).unwrap();
    assert_eq!(again.options, config.options);
}

#[test]
fn what_is_not_understood_is_refused() {
    for (text, words) in [
        ("[limit]\nrows = 1", "did you mean [limits]?"),
        ("rows = 1", "rows belongs under [limits]"),
        ("[background]\nrows = 1", "there are [server], [limits]"),
        ("[limits]\nrow = 1", "did you mean rows?"),
        ("[limits]\nrows = 0", "from 1 to 10000"),
        ("[limits]\nrows = -1", "cannot be read"),
        ("[limits]\nrequest_time = 30", "\"30 s\""),
        ("[limits]\nrows = 1.5", "whole number"),
        ("[limits.rows]\nx = 1", "whole number"),
        ("limits = 1", "write [limits]"),
        ("[limits", "line 1"),
        ("[server]\nlisten = 4000", "an address and a port"),
        ("[server]\nlog_format = \"xml\"", "\"text\" or \"json\""),
        ("[ingest]\nkey_in_query = 1", "true or false"),
    ] {
        let message = read(text).unwrap_err();
        assert!(message.contains(words), "{text}: {message}");
    }
    for (variable, words) in [
        ("TIDEGATE_LIMITS_ROWZ", "did you mean TIDEGATE_LIMITS_ROWS?"),
        ("TIDEGATE_LISTN", "did you mean TIDEGATE_LISTEN?"),
        ("TIDEGATE_PRIVATE_TOKEN", "did you mean TIDEGATE_PRIVATE_ACCESS_TOKEN?"),
        ("TIDEGATE_CACHE_XYZZY_PLUGH_FROTZ_GNUSTO", "--help lists"),
    ] {
        let message = with(&Flags::default(), &[(variable, "1")]).unwrap_err();
        assert!(message.contains(variable) && message.contains(words), "{message}");
    }
    // This name is not similar to any known variable.
    assert!(with(&Flags::default(), &[("TIDEGATE_XYZZY_PLUGH_FROTZ_GNUSTO", "1")]).is_ok());
    let message = with(&Flags::default(), &[("TIDEGATE_LIMITS_ROWS", "many")]).unwrap_err();
    assert!(message.contains("TIDEGATE_LIMITS_ROWS") && message.contains("a whole number"), "{message}");
    let message = with(&flags(Path::new("/nowhere.toml")), &[]).unwrap_err();
    assert!(message.contains("/nowhere.toml"), "{message}");
    let message = with(&Flags::default(), &[("TIDEGATE_LIMITS_TOTAL_MEMORY", "1 MiB")]).unwrap_err();
    assert!(message.contains("raise total_memory"), "{message}");
}

#[test]
fn what_orchestrators_tell_of_services_is_theirs() {
    let theirs = [
        ("TIDEGATE_PORT", "tcp://10.0.0.1:4000"),
        ("TIDEGATE_SERVICE_HOST", "10.0.0.1"),
        ("TIDEGATE_SERVICE_PORT", "4000"),
        ("TIDEGATE_SERVICE_PORT_HTTP", "4000"),
        ("TIDEGATE_PORT_4000_TCP", "tcp://10.0.0.1:4000"),
        ("TIDEGATE_PORT_4000_TCP_ADDR", "10.0.0.1"),
        ("TIDEGATE_INGEST_SERVICE_HOST", "10.0.0.1"),
    ];
    assert_eq!(with(&Flags::default(), &theirs).unwrap().options, Options::default());
}

#[test]
fn the_help_tells_every_setting_with_its_default() {
    let help = help();
    assert!(help.contains("request_time: time of a request, its statements included; default 30 s, from 10 ms to 1 h"));
    let settings: usize = SECTIONS.iter().map(|section| section.settings().len()).sum();
    assert_eq!(help.lines().filter(|line| line.contains("; default ")).count(), settings);
}

/// The default configuration as a file, each setting with its description.
fn defaults() -> String {
    use std::fmt::Write;
    let mut text = "# The settings of Tidegate, each with its default: tidegate serve --config FILE\n\
        # What is not understood is refused. Sizes are bytes or \"64 MiB\", times \"30 s\" or \"500 ms\". The environment wins over\n\
        # this file (TIDEGATE_SERVER_LISTEN, TIDEGATE_LIMITS_ROWS, ...). Access tokens stand only in the environment:\n\
        # TIDEGATE_PRIVATE_ACCESS_TOKEN and TIDEGATE_PUBLIC_ACCESS_TOKEN.\n"
        .to_owned();
    let options = Options::default();
    for section in SECTIONS {
        write!(text, "\n# {}\n[{}]\n", section.what(), section.name()).unwrap();
        for name in section.settings() {
            let told = section.tell(&options, name).unwrap();
            let (what, bounds) = told.rsplit_once("; default ").unwrap();
            let bounds = bounds.split_once(", ").unwrap().1;
            write!(text, "# {what}: {bounds}\n{name} = {}\n", section.toml(&options, name).unwrap()).unwrap();
        }
    }
    for array in ARRAYS {
        write!(text, "\n# {}; none unless set, such as\n", array.what).unwrap();
        for line in array.example.lines() {
            text.push_str(if line.is_empty() { "#\n" } else { "# " });
            text.push_str(line);
            text.push_str(if line.is_empty() { "" } else { "\n" });
        }
    }
    text
}

#[test]
fn the_packaged_file_is_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/tidegate.toml");
    let packaged = std::fs::read_to_string(&path).unwrap_or_default();
    if packaged != defaults() {
        // The new file is written beside the old one, so that the changes can be reviewed and taken over.
        let fresh = path.with_extension("toml.new");
        std::fs::write(&fresh, defaults()).unwrap();
        panic!("packaging/tidegate.toml is not the defaults; those are in {}", fresh.display());
    }
    assert_eq!(read(&packaged).unwrap(), Options::default());
}
