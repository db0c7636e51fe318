//! What must hold for any bytes that come to a worker as a plan.
//!
//! A plan names segments by source, id and checksum, which are others each time. Inputs have placeholders instead, of the same
//! length ([`SOURCE_PLACEHOLDER`], [`PLACEHOLDERS`] and [`checksum_placeholder`]), which are replaced before the plan is decoded. The lengths of
//! the segments are the same each time.
#![expect(clippy::expect_used, reason = "a world that cannot be made ends the run")]

#[path = "../../host/cluster/tests/it/samples/mod.rs"]
mod samples;

use std::cell::Cell;
use std::sync::{Arc, Once, OnceLock};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_cluster::{LocalLeaves, PlanError, decode, encode, held_segments};
use tidegate_store::{HeldSegments, ScanDescription, Store};

use samples::{NAMES, SEGMENTS, STATEMENTS, Samples};

/// The id of the source in inputs.
const SOURCE_PLACEHOLDER: [u8; 16] = *b"tidegate-source1";
/// The ids of the segments in inputs, in the order in which the segments were made.
const PLACEHOLDERS: [[u8; 16]; SEGMENTS] = [*b"tidegate-segmen1", *b"tidegate-segmen2"];

/// What a worker holds.
struct Held {
    segments: HeldSegments,
    context: Arc<TaskContext>,
    /// What stands in inputs, and what stands for it in plans: of the same length.
    replacements: Vec<(Vec<u8>, Vec<u8>)>,
    /// The plans of the statements, with the ids of the segments.
    plans: Vec<(&'static str, Vec<u8>)>,
    _store: Arc<Store>,
    _folder: tempfile::TempDir,
}

impl Held {
    fn shared() -> &'static Self {
        static SHARED: OnceLock<Held> = OnceLock::new();
        SHARED.get_or_init(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            // A few checksums are too small to have the length of the others.
            let is_usable = |held: &Self| held.replacements.iter().all(|(own, other)| own.len() == other.len());
            std::iter::repeat_with(|| runtime.block_on(Self::made())).find(is_usable).expect("segments")
        })
    }

    async fn made() -> Self {
        let Samples { plans: kept, store, folder } = Samples::made().await;
        let (mut segments, mut names, mut plans) = (HeldSegments::default(), Vec::new(), Vec::new());
        let mut context = None;
        for ((name, _), (plan, task)) in STATEMENTS.iter().zip(kept) {
            segments.extend(held_segments(&plan));
            let encoded = encode(&plan, task.session_config().options(), None).expect("bytes");
            names.extend(encoded.segments.into_iter().map(|(_, name)| name));
            plans.push((*name, encoded.bytes));
            context = Some(task);
        }
        names.sort_unstable_by_key(|name| name.rows);
        names.dedup();
        let source = names.first().map(|name| name.source.as_bytes().to_vec()).unwrap_or_default();
        let mut replacements = vec![(SOURCE_PLACEHOLDER.to_vec(), source)];
        for (number, (name, id)) in names.iter().zip(PLACEHOLDERS).enumerate() {
            replacements.push((id.to_vec(), name.id.as_bytes().to_vec()));
            replacements.push((checksum_placeholder(number), varint(name.checksum.expect("a checksum"))));
        }
        let context = context.expect("a statement");
        Self { segments, context, replacements, plans, _store: store, _folder: folder }
    }

    /// An input with what stands in plans.
    fn plan(&self, input: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        self.replacements.iter().for_each(|(own, other)| replace(&mut bytes, own, other));
        bytes
    }

    /// A plan with what stands in inputs.
    fn input(&self, plan: &[u8]) -> Vec<u8> {
        let mut bytes = plan.to_vec();
        self.replacements.iter().for_each(|(own, other)| replace(&mut bytes, other, own));
        bytes
    }
}

/// What stands for the checksum of a segment in inputs.
fn checksum_placeholder(segment: usize) -> Vec<u8> {
    varint(u32::MAX - u32::try_from(segment).unwrap_or_default())
}

/// A number as messages have it.
fn varint(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

/// Replaces what is equal to `from` by `to`, which is as long.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let Some(last) = bytes.len().checked_sub(from.len()) else { return };
    for place in 0..=last {
        if let Some(window) = bytes.get_mut(place..place + from.len()).filter(|window| *window == from) {
            window.copy_from_slice(to);
        }
    }
}

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Decodes without a word where a constructor of the engine gives up: that is refused as everything else is.
fn decoded(held: &Held, bytes: &[u8]) -> Result<Arc<dyn ExecutionPlan>, PlanError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !DECODING.get() {
                before(panic);
            }
        }));
    });
    DECODING.set(true);
    let plan = decode(bytes, &held.segments, &held.context, &LocalLeaves::default());
    DECODING.set(false);
    plan
}

/// Any bytes are refused, or are a plan of operators that may run on a worker, over the segments that it holds.
pub fn plans(input: &[u8]) {
    let held = Held::shared();
    let plan = match decoded(held, &held.plan(input)) {
        Ok(plan) => plan,
        Err(PlanError::Refused(why)) => {
            assert!(!why.trim().is_empty() && why.len() < 1 << 20, "a refusal of {} bytes", why.len());
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let options = held.context.session_config().options();
    let walked = plan.apply(|operator| {
        let is_scan = ScanDescription::of(operator.as_ref(), options).is_some();
        assert!(is_scan || NAMES.contains(&operator.name()), "{} may not run", operator.name());
        Ok(TreeNodeRecursion::Continue)
    });
    assert!(walked.is_ok(), "{walked:?}");
    assert!(held_segments(&plan).len() <= held.segments.len());
    // What one side takes, the other side can send: the same plan, or it says that it cannot.
    if let Ok(again) = encode(&plan, options, None) {
        let twice = decoded(held, &again.bytes);
        assert!(twice.is_ok(), "a plan is refused after it was encoded again: {twice:?}");
    }
}

/// The plans of the corpus as they are now, with the names of their files.
pub fn plan_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let held = Held::shared();
    held.plans.iter().map(|(name, bytes)| (*name, held.input(bytes))).collect()
}

/// Whether an input is a plan.
pub fn is_plan(input: &[u8]) -> bool {
    let held = Held::shared();
    decoded(held, &held.plan(input)).is_ok()
}
