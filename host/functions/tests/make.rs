//! Every function and aggregate can be made again from its name and parameters, and is then the same.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::functions_aggregate::{all_default_aggregate_functions, array_agg, sum};
use datafusion::functions_nested::{concat, make_array, reverse};
use datafusion::logical_expr::{AggregateUDF, Expr, ScalarUDF, col, lit};
use tidegate_functions::array_subquery::{ArraySubquery, Finish, Step};
use tidegate_functions::make::{AggregateFunction, ScalarFunction, fallibility};
use tidegate_functions::table::{kernel, kernel_function, kernels};
use tidegate_functions::types::{Field, Type};
use tidegate_functions::{Fallibility, aggregate, scalar};

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn same_scalar(function: &Arc<ScalarUDF>) -> ScalarFunction {
    let described = ScalarFunction::of(function).unwrap_or_else(|| panic!("{} is not known", function.name()));
    let made = described.make().unwrap_or_else(|| panic!("{described:?} cannot be made"));
    assert_eq!(made.name(), function.name());
    assert_eq!(made.signature(), function.signature(), "{described:?}");
    assert_eq!(&made, function, "{described:?}");
    assert_eq!(hash(&made), hash(function), "{described:?}");
    assert_eq!(ScalarFunction::of(&made).as_ref(), Some(&described));
    described
}

fn same_aggregate(function: &Arc<AggregateUDF>) -> AggregateFunction {
    let described = AggregateFunction::of(function);
    let made = described.make().unwrap_or_else(|| panic!("{described:?} cannot be made"));
    assert_eq!(made.name(), function.name());
    assert_eq!(&made, function, "{described:?}");
    assert_eq!(hash(&made), hash(function), "{described:?}");
    assert_eq!(AggregateFunction::of(&made), described);
    described
}

fn function_of(call: Expr) -> Arc<ScalarUDF> {
    match call {
        Expr::ScalarFunction(call) => call.func,
        other => panic!("{other} is no call"),
    }
}

#[test]
fn every_kernel_is_made_again_in_each_of_its_forms() {
    let mut names = BTreeSet::new();
    for row in kernels() {
        let name = row.name();
        assert!(names.insert(name), "there are two kernels {name}");
        assert!(row.arity().start() <= row.arity().end(), "{name}");
        assert!(kernel(name).is_some_and(|found| std::ptr::eq(found, row)), "{name}");
        for safe in [false, true] {
            let early = kernel_function(name, safe, false).unwrap();
            assert_eq!(same_scalar(early), ScalarFunction::Kernel { name: name.to_owned(), safe, late: false });
            assert_eq!(fallibility(early), row.fallibility(), "{name}");
            assert_eq!(kernel_function(name, safe, true).is_some(), row.makes_much(), "{name}");
            if let Some(late) = kernel_function(name, safe, true) {
                assert_ne!(late, early, "{name}");
                assert_eq!(same_scalar(late), ScalarFunction::Kernel { name: name.to_owned(), safe, late: true });
            }
        }
    }
    assert!(kernel("no_such_kernel").is_none());
    let missing = ScalarFunction::Kernel { name: "no_such_kernel".to_owned(), safe: false, late: false };
    assert_eq!(missing.make(), None);
}

#[test]
fn every_helper_is_made_again() {
    let field = |name: &str, ty: Type| Field { name: name.to_owned(), ty };
    let narrow = Type::Record([field("a", Type::Int64)].into());
    let wide = Type::Record([field("a", Type::String), field("b", Type::Bool)].into());
    let subquery = ArraySubquery {
        steps: vec![Step { array: col("tags"), keep: false, element: "tag".to_owned(), offset: Some("at".to_owned()) }],
        filter: Some(col("tag").eq(col("wanted"))),
        aggregates: Vec::new(),
        sorts: vec![col("at").sort(false, true)],
        distinct: true,
        skip: 1,
        limit: Some(2),
        value: col("tag"),
        finish: Finish::Array,
    };
    let calls = [
        scalar::bounded(make_array::make_array_udf(), vec![lit(1), lit(2)]),
        scalar::bounded(reverse::array_reverse_udf(), vec![col("a")]),
        scalar::all_or_null(concat::array_concat_udf(), vec![col("a"), col("b")]),
        scalar::counted(col("a")),
        scalar::field(col("a"), ""),
        scalar::json_text(col("a"), &wide),
        scalar::json_text(col("a"), &Type::Interval),
        scalar::portable_json_text(col("a"), &wide),
        scalar::nullable(lit(1)),
        scalar::only(col("a")),
        scalar::raised(lit("no")),
        scalar::raised_as(&scalar::raised(lit("no")), &DataType::Int64).unwrap(),
        scalar::united(col("a"), &narrow, &wide),
        subquery.into_expr().unwrap(),
    ];
    let made: Vec<ScalarFunction> = calls.into_iter().map(|call| same_scalar(&function_of(call))).collect();
    for (i, one) in made.iter().enumerate() {
        assert!(made.iter().skip(i + 1).all(|other| one != other), "{one:?} stands for two functions");
    }
    assert_eq!(ScalarFunction::of(&make_array::make_array_udf()), None, "it is the engine's");
}

#[test]
fn every_aggregate_is_made_again() {
    let order = vec![SortOptions { descending: true, nulls_first: false }];
    let aggregates = [
        aggregate::collecting(true),
        aggregate::count_distinct(),
        aggregate::decimal_moment(aggregate::FloatAggregate::Correlation),
        aggregate::decimal_moment(aggregate::FloatAggregate::VariancePop),
        aggregate::decimal_sum(false),
        aggregate::decimal_sum(true),
        aggregate::first(3, order, true),
        aggregate::first(1, Vec::new(), false),
        aggregate::having(sum::sum_udaf(), true),
        aggregate::having(aggregate::whole_sum(), false),
        aggregate::interval_sum(false),
        aggregate::interval_sum(true),
        aggregate::watched(aggregate::of_floats(aggregate::FloatAggregate::Average), false),
        aggregate::percentile(0.5, false),
        aggregate::percentile(0.5, true),
        aggregate::exact_percentile(10_u128.pow(37), false),
        aggregate::exact_percentile(10_u128.pow(37), true),
        aggregate::quantiles(4),
        aggregate::safe(aggregate::whole_sum()),
        aggregate::top(10, false),
        aggregate::top(10, true),
        aggregate::watched(aggregate::percentile(0.25, true), true),
        aggregate::watched(sum::sum_udaf(), false),
        aggregate::watched(aggregate::collecting(false), false),
        aggregate::whole_sum(),
    ];
    let floats = aggregate::FloatAggregate::ALL.map(aggregate::of_floats);
    let made: Vec<AggregateFunction> = aggregates.iter().chain(&floats).map(same_aggregate).collect();
    for (i, one) in made.iter().enumerate() {
        assert!(made.iter().skip(i + 1).all(|other| one != other), "{one:?} stands for two aggregates");
    }
    for engine in all_default_aggregate_functions().into_iter().chain([array_agg::array_agg_udaf()]) {
        let name = engine.name().to_owned();
        assert_eq!(same_aggregate(&engine), AggregateFunction::Engine(name));
    }
}

/// A new implementation of a function or an aggregate has to be added to `make`, and to the tests above.
#[test]
fn no_function_is_forgotten() {
    fn types(folder: &Path, of: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                types(&path, of, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let names =
                text.lines().filter_map(|line| line.strip_prefix(&format!("impl {of} for "))?.strip_suffix(" {"));
            found.extend(names.map(str::to_owned));
        }
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let all = |of: &str| {
        let mut found = BTreeSet::new();
        types(&sources, of, &mut found);
        found.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(
        all("ScalarUDFImpl"),
        [
            "Bounded",
            "Counted",
            "Function",
            "JsonText",
            "KernelFunction",
            "Nullable",
            "Only",
            "Raised",
            "United",
            "UnnamedField"
        ]
    );
    assert_eq!(
        all("AggregateUDFImpl"),
        [
            "Collect",
            "CountDistinct",
            "DecimalMoment",
            "DecimalSum",
            "First",
            "Floats",
            "Having",
            "IntervalSum",
            "Quantiles",
            "Safe",
            "Sketches",
            "Top",
            "Watched",
            "WholeSum"
        ]
    );
    assert!(all("WindowUDFImpl").is_empty());
}

#[test]
fn what_can_fail_is_a_property_of_the_row() {
    let of = |name: &str| kernel(name).unwrap().fallibility();
    // A text of more than 4 MiB is not read as JSON.
    assert_eq!(of("json_value"), Fallibility::Fallible);
    assert_eq!(of("regexp_contains"), Fallibility::FallibleUnlessLiterals);
    assert_eq!(fallibility(&function_of(scalar::nullable(lit(1)))), Fallibility::Infallible);
    assert_eq!(fallibility(&function_of(scalar::field(col("a"), "b"))), Fallibility::Infallible);
    assert_eq!(fallibility(&function_of(scalar::raised(lit("no")))), Fallibility::Fallible);
}
