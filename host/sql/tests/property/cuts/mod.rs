//! The answer of a statement is the same, however its rows are cut into segments, row groups and
//! memory, and however many parts of it run at once.
//!
//! A scan makes promises (an order, bounds of time, numbers of rows), and the optimizer builds on
//! them: sorts go, limits and filters move. A promise that is not held shows here as another answer
//! than that over the same rows in one batch of memory that promises nothing.
//!
//! A follower of a statement gets the rows of that answer, from the feed and from what is stored.
//!
//! Nor does it depend on the rows of others: what a tenant reads of a table with the rows of all is what it reads of one
//! that has its rows alone.
//!
//! `TIDEGATE_PROPERTY_CASES` sets the number of statements; each world of rows takes `STATEMENTS` of
//! them. A failure shows the seed of the world, the statement made small, its plan and both answers;
//! `TIDEGATE_PROPERTY_SEED` runs the worlds from that seed on. Sums are of whole numbers: those of
//! floats depend on the order in which they are added.

mod arrival;
mod followed;
mod grammar;
mod tenants;
mod texts;
mod walls;
mod world;

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::excuse::is_excused;
use super::tape::Tape;
use grammar::{Compare, Facts, Statement};
use world::{World, bag};

/// Statements without the variable.
const CASES: u32 = 100;
/// Statements for each world.
const STATEMENTS: u32 = 25;
/// Bytes that a world is made of.
const WORLD_BYTES: usize = 16 << 10;

/// What once gave another answer over cut rows, or none, made small.
#[test]
fn what_once_depended_on_the_cut() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let worlds =
        runtime.block_on(async { [World::small(1, 0).await, World::small(12, 0).await, World::small(9, 2).await] });
    let mut wrong = Vec::new();
    for (sql, compare) in ONCE {
        let statement = Statement { sql: sql.to_owned(), grant: None, compare, same: None };
        for world in &worlds {
            for partitions in 1..=4 {
                wrong.extend(runtime.block_on(self::compare(world, &statement, None, partitions)).err());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const ONCE: [(&str, Compare); 8] = [
    // Streams of a merge took files from one another.
    ("SELECT timestamp, UPPER(id) AS u FROM t ORDER BY timestamp DESC", Compare::Rows),
    (
        "SELECT timestamp, id, event_message FROM t WHERE REGEXP_CONTAINS(event_message, r'503 .*10[.]0[.]77') ORDER BY timestamp DESC LIMIT 10",
        Compare::Rows,
    ),
    // A row group that matched wholly was enough for the limit, though an older one.
    (
        "SELECT timestamp, id FROM t WHERE timestamp < TIMESTAMP_SECONDS(1763600150) ORDER BY timestamp DESC LIMIT 5",
        Compare::Rows,
    ),
    // The other order went below the inner limit.
    (
        "SELECT id FROM (SELECT id, timestamp FROM t ORDER BY timestamp DESC LIMIT 10) AS r ORDER BY timestamp LIMIT 3",
        Compare::Rows,
    ),
    // MIN had no value yet, and MAX alone chose the rows.
    ("SELECT MAX(id) AS a, MIN(late) AS b FROM t", Compare::Rows),
    // A limit below the second half of DISTINCT.
    (
        "WITH s AS (SELECT n AS x FROM t WHERE n > 20 ORDER BY n LIMIT 40), u AS (SELECT x FROM s UNION ALL SELECT x FROM s UNION ALL SELECT x FROM s) SELECT DISTINCT x FROM u ORDER BY x LIMIT 4",
        Compare::Rows,
    ),
    // A filter forgot that a sum is constant below it.
    (
        "SELECT n, p FROM (SELECT * FROM ((SELECT id, project AS p, n + 1 AS n FROM t WHERE event_message LIKE '%3%') UNION ALL (SELECT id, project AS p, n FROM t WHERE id >= '8')) AS u WHERE n = 20) AS r GROUP BY n, p ORDER BY n, p DESC",
        Compare::Rows,
    ),
    // A key that decides nothing any more failed.
    ("SELECT ARRAY_AGG(id ORDER BY timestamp DESC, id, timestamp) AS a FROM t", Compare::Rows),
];

/// How many statements were followed.
static FOLLOWED: AtomicUsize = AtomicUsize::new(0);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn answers_do_not_depend_on_the_cut() {
    let cases = number("TIDEGATE_PROPERTY_CASES").unwrap_or(CASES.into());
    // Without a variable the same cases each time.
    let fresh = || {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        time.as_secs() * 1_000_000
    };
    let seed = number("TIDEGATE_PROPERTY_SEED");
    let first = seed.unwrap_or_else(|| if number("TIDEGATE_PROPERTY_CASES").is_some() { fresh() } else { 1 });
    let worlds = cases.div_ceil(STATEMENTS.into());
    let told = |failure: &String| eprintln!("{failure}");
    let failures = (first..first + worlds).filter_map(|seed| one_world(seed).err().inspect(told)).count();
    assert_eq!(failures, 0, "worlds of {worlds} with another answer");
    let followed = FOLLOWED.load(Ordering::Relaxed);
    assert!(followed > cases as usize / 50, "{followed} statements of {cases} were followed");
}

/// Runs statements over the world of a seed.
fn one_world(seed: u64) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut rows = vec![0; WORLD_BYTES];
    random.fill_bytes(&mut rows);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::new(&mut Tape::new(&rows)));
    let facts = Facts { unique_times: world.unique_times, seconds: world.seconds, rows: world.rows };
    let config = Config { cases: STATEMENTS, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, random);
    // What the runner tells of a failure is its tape, which says nothing.
    let last = RefCell::new(String::new());
    let outcome = runner.run(&proptest::collection::vec(any::<u8>(), 0..160), |bytes| {
        let mut tape = Tape::new(&bytes);
        let partitions = 1 + tape.below(4);
        let tenant = (tape.below(2) == 0).then(|| tape.below(world.tenants()));
        let statement = grammar::statement(&mut tape, facts);
        runtime.block_on(compare(&world, &statement, tenant, partitions)).map_err(|difference| {
            last.replace(difference);
            TestCaseError::fail("differs")
        })
    });
    outcome.map_err(|_| format!("\nseed {seed}: {}\n{}", world.shown, last.into_inner()))
}

async fn compare(world: &World, statement: &Statement, tenant: Option<usize>, partitions: usize) -> Result<(), String> {
    let Statement { sql, grant, compare, same } = statement;
    let expected = world.expected(same.as_ref().unwrap_or(sql), *grant, tenant).await;
    let got = world.answer(sql, *grant, tenant, partitions).await;
    let shown = async |what: String| {
        let grant = grant.map(|grant| format!("over {grant}\n")).unwrap_or_default();
        let plan = world.plan(sql, statement.grant, tenant, partitions).await;
        format!("{sql}\n{grant}with {partitions} partitions, for the tenant {tenant:?}, {what}\n{plan}")
    };
    let (expected, got) = match (expected, got) {
        (Ok(expected), Ok(got)) => (expected, got),
        (Ok(_), Err(failure)) if is_excused(&failure) => return Ok(()),
        (Err(one), Err(other)) if one.code == other.code && one.message == other.message => {
            return Err(format!("the statement is not one that runs: {sql}\n{one}"));
        }
        (expected, got) => {
            let told = |answer: Result<Vec<_>, _>| {
                answer.map_or_else(
                    |failure: tidegate_model::Failure| failure.to_string(),
                    |rows| format!("{} rows", rows.len()),
                )
            };
            return Err(shown(format!("gives {} instead of {}", told(got), told(expected))).await);
        }
    };
    let first = |rows: &[Vec<String>], count: usize| rows.iter().map(|row| row[..count].to_vec()).collect::<Vec<_>>();
    let same = match compare {
        Compare::Rows => got == expected,
        Compare::Bag => bag(&got) == bag(&expected),
        Compare::Keys(keys) => first(&got, *keys) == first(&expected, *keys) && bag(&got) == bag(&expected),
        Compare::Cut(keys, unlimited) => {
            let all = world.expected(unlimited, *grant, tenant).await.map_err(|failure| failure.to_string())?;
            let all = bag(&all);
            first(&got, *keys) == first(&expected, *keys)
                && bag(&got).iter().all(|(row, count)| all.get(row).is_some_and(|there| there >= count))
        }
    };
    let rows = |rows: &[Vec<String>]| {
        let shown: Vec<String> = rows.iter().take(12).map(|row| row.join(" | ")).collect();
        format!("{} rows\n  {}", rows.len(), shown.join("\n  "))
    };
    if !same {
        return Err(shown(format!("gives {}\ninstead of {}", rows(&got), rows(&expected))).await);
    }
    match world.followed(sql, *grant, tenant, world.rows / (2 * partitions)).await {
        None => Ok(()),
        Some(Err(failure)) if is_excused(&failure) => Ok(()),
        Some(Err(failure)) => Err(shown(format!("cannot be followed: {failure}")).await),
        Some(Ok(all)) => {
            FOLLOWED.fetch_add(1, Ordering::Relaxed);
            for (came, what) in all.iter().zip(["from the feed", "from what is stored"]) {
                if bag(came) != bag(&expected) {
                    return Err(shown(format!(
                        "followed, {what}, gives {}\ninstead of {}",
                        rows(came),
                        rows(&expected)
                    ))
                    .await);
                }
            }
            Ok(())
        }
    }
}
