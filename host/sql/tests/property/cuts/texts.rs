//! What the conditions of a statement demand of texts reaches the scan of its table, and demands no more than they do.

use tidegate_model::TextCondition;

use super::world::World;

const GRANT: &str =
    "WITH t AS (SELECT id, timestamp, event_message, n, metadata FROM t WHERE project = 'p1') SELECT id FROM t";

/// A condition in short: parts, `&` for all, `|` for one.
fn shown(condition: &TextCondition) -> String {
    let joined = |parts: &[TextCondition], with: &str| {
        let parts: Vec<String> = parts.iter().map(shown).collect();
        format!("({})", parts.join(with))
    };
    match condition {
        TextCondition::All(parts) => joined(parts, " & "),
        TextCondition::Any(parts) => joined(parts, " | "),
        TextCondition::Contains { column, part } => format!("{column}:{part}"),
    }
}

/// What the one scan of a statement with this condition demands.
async fn demanded(world: &World, condition: &str) -> Option<String> {
    let demanded = world.demanded_texts(&format!("SELECT id FROM t WHERE {condition}"), GRANT).await;
    assert!(demanded.len() <= 1, "{condition}: {demanded:?}");
    demanded.first().map(shown)
}

#[tokio::test]
async fn conditions_on_texts_reach_the_scan() {
    let world = World::small(2, 1).await;
    for (condition, texts) in [
        ("event_message LIKE '%timeout%'", "event_message:timeout"),
        ("event_message LIKE 'GET%_rest%'", "(event_message:GET & event_message:rest)"),
        ("event_message ILIKE '%TIMEout%'", "event_message:MEout"),
        ("REGEXP_CONTAINS(event_message, 'timeout')", "event_message:timeout"),
        ("REGEXP_CONTAINS(event_message, r'status=\\d+ timeout')", "(event_message:status= & event_message: timeout)"),
        ("REGEXP_CONTAINS(event_message, '(?i)meout')", "event_message:meout"),
        ("event_message = 'GET /rest'", "event_message:GET /rest"),
        ("event_message IN ('one', 'two')", "(event_message:one | event_message:two)"),
        ("STARTS_WITH(event_message, 'GET')", "event_message:GET"),
        ("event_message LIKE '%one%' OR event_message LIKE '%two%'", "(event_message:one | event_message:two)"),
        ("event_message LIKE '%one%' AND n > 0", "event_message:one"),
    ] {
        assert_eq!(demanded(&world, condition).await.as_deref(), Some(texts), "{condition}");
    }
}

/// As `usage.api-counts` searches the address of a request.
#[tokio::test]
async fn a_text_that_a_saved_query_searches_below_unnested_records_reaches_the_scan() {
    let world = World::small(2, 1).await;
    let grant =
        "WITH t AS (SELECT t.id, web.url FROM t CROSS JOIN UNNEST(t.metadata) AS m CROSS JOIN UNNEST(m.web) AS web
                   WHERE REGEXP_CONTAINS(web.url, 'p1[.]example')) SELECT id FROM t";
    let demanded = world.demanded_texts("SELECT COUNT(*) FROM t", grant).await;
    assert_eq!(demanded.iter().map(shown).collect::<Vec<_>>(), ["/metadata/web/url:p1.example"]);
}

#[tokio::test]
async fn what_does_not_demand_a_text_demands_none() {
    let world = World::small(2, 1).await;
    for condition in [
        "event_message NOT LIKE '%timeout%'",
        "NOT REGEXP_CONTAINS(event_message, 'timeout')",
        "event_message LIKE '%timeout%' OR n = 1",
        "event_message LIKE '%ab%'",
        "REGEXP_CONTAINS(event_message, 'a*|timeout')",
        "IF(n = 1, TRUE, event_message LIKE '%timeout%')",
        "event_message LIKE CONCAT('%', id)",
        // What makes a text may fail, so it stays above the grant.
        "LOWER(event_message) LIKE '%timeout%'",
        "CONTAINS_SUBSTR(event_message, 'timeout')",
        "UPPER(event_message) LIKE '%TIMEOUT%'",
        "event_message != 'timeout'",
        // No index is made of other columns.
        "id = 'timeout'",
        "id LIKE '%timeout%'",
    ] {
        assert_eq!(demanded(&world, condition).await, None, "{condition}");
    }
}
