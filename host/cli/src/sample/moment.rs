//! What happened at one moment, which is the same for all sources.

use super::clock::Spread;
use super::dice::{Dice, mixed, uuid};
use super::words::{AGENTS, FUNCTIONS};

/// The number of users in the samples.
const USERS: u32 = 200;

/// The part of the platform that handles a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Product {
    #[default]
    Rest,
    Auth,
    Storage,
    Realtime,
    Functions,
    Graphql,
}

#[derive(Debug)]
pub(super) struct Moment {
    pub(super) index: usize,
    /// Microseconds since 1970.
    pub(super) at: i64,
    pub(super) project: &'static str,
    /// Whether the event comes from a self-hosted shipper, if the source has such events.
    pub(super) bare: bool,
    pub(super) product: Product,
    pub(super) status: u16,
    pub(super) client: String,
    pub(super) agent: &'static str,
    pub(super) function: &'static str,
    pub(super) auth_path: &'static str,
    pub(super) user: u32,
    seed: u64,
    request: u64,
}

impl Moment {
    pub(super) fn new(seed: u64, index: usize, spread: &mut Spread) -> Self {
        let mut dice = Dice::new(seed, index as u64);
        let at = spread.at(index, &mut dice);
        let project = dice.weighted(&[(60, "default"), (25, "acme"), (15, "globex")]);
        Self {
            index,
            at,
            project,
            bare: project == "default" && dice.one_in(3),
            product: dice.weighted(&[
                (55, Product::Rest),
                (15, Product::Auth),
                (15, Product::Storage),
                (8, Product::Realtime),
                (6, Product::Functions),
                (1, Product::Graphql),
            ]),
            status: status(&mut dice),
            client: dice.address(),
            agent: dice.pick(&AGENTS),
            function: dice.pick(&FUNCTIONS),
            auth_path: dice.weighted(&[
                (55, "/token"),
                (15, "/user"),
                (10, "/signup"),
                (6, "/otp"),
                (5, "/logout"),
                (4, "/verify"),
                (3, "/recover"),
                (2, "/admin/users"),
            ]),
            user: dice.below(USERS),
            seed,
            request: dice.any(),
        }
    }

    pub(super) fn host(&self) -> String {
        format!("{}.example.test", self.project)
    }

    pub(super) fn request_id(&self) -> String {
        self.named(1, self.request)
    }

    /// The id of the function execution that a request to functions starts.
    pub(super) fn execution_id(&self) -> String {
        self.named(2, self.request)
    }

    pub(super) fn user_id(&self) -> String {
        self.named(3, self.user.into())
    }

    /// The id of the function, the same for all its executions.
    pub(super) fn function_id(&self) -> String {
        let sum = self.function.bytes().fold(0, |sum, byte| mixed(sum ^ u64::from(byte)));
        self.named(4, sum)
    }

    /// The deployed version of the function.
    pub(super) fn version(&self) -> String {
        (self.function.len() * 3 % 17 + 1).to_string()
    }

    pub(super) fn deployment_id(&self) -> String {
        let id = self.function_id();
        format!("{}_{}_{}", self.project, id.get(..8).unwrap_or_default(), self.version())
    }

    fn named(&self, kind: u64, number: u64) -> String {
        let high = mixed(self.seed ^ mixed(kind ^ number.rotate_left(8)));
        uuid(u128::from(high) << 64 | u128::from(mixed(high ^ number)))
    }
}

fn status(dice: &mut Dice) -> u16 {
    match dice.below(100) {
        0..75 => 200,
        75..84 => 201,
        84..88 => 204,
        88..91 => 304,
        91..98 => dice.pick(&[400, 401, 401, 403, 404, 404, 406, 409, 429]),
        _ => dice.pick(&[500, 500, 502, 503, 504]),
    }
}
