//! What happens at one moment: a request through the gateway. All sources tell of the same requests, so that they can
//! be joined by request id, project and time.

use std::fmt::Write;

use super::dice::{Dice, Weights, mix};
use super::words::{AUTH_PATHS, BUCKETS, FILTERS, FUNCTIONS, PLACES, PLATFORMS, Place, TABLES};

/// How many projects there are; the first one has a third of all records.
pub(crate) const PROJECTS: usize = 50;
/// Users of one project.
const USERS: usize = 5_000;
const AGENTS: usize = 240;
/// One request in this many has a mark in its address, which the question with the rare expression looks for.
const RARE: u64 = 10_000;

/// What stays the same over all records.
#[derive(Debug)]
pub(crate) struct World {
    /// The names of the projects, the largest first.
    pub(crate) projects: Vec<String>,
    weights: Weights,
    agents: Vec<String>,
    agent_weights: Weights,
    user_weights: Weights,
}

impl World {
    /// The world of a seed. Projects whose names have a prefix are other projects.
    pub(crate) fn new(seed: u64, prefix: &str) -> Self {
        let name = |rank: usize| {
            let mut dice = Dice::new(seed, 1_000 + rank as u64);
            let letters = (0..20 - prefix.len()).map(|_| char::from(b'a' + dice.below(26) as u8));
            prefix.chars().chain(letters).collect::<String>()
        };
        // A third for the first; the others share the rest by Zipf's law.
        let rest: Vec<f64> = (1..PROJECTS).map(|rank| (rank as f64).powf(-1.1)).collect();
        let first = rest.iter().sum::<f64>() / 2.0;
        let agent = |number: usize| {
            let platform = PLATFORMS.get(number % PLATFORMS.len()).copied().unwrap_or_default();
            match number % 5 {
                0 => format!("BakeryApp/{}.{} ({platform})", 3 + number / 50, number % 10),
                1 => format!("okhttp/4.{}.{}", number / 24, number % 7),
                2 => format!("node/{}.{}", 18 + number / 60, number % 9),
                _ => format!("Mozilla/5.0 ({platform}) Crumb/{}.0", 100 + number / 5),
            }
        };
        Self {
            projects: (0..PROJECTS).map(name).collect(),
            weights: Weights::new(std::iter::once(first).chain(rest)),
            agents: (0..AGENTS).map(agent).collect(),
            agent_weights: Weights::zipf(AGENTS, 1.0),
            user_weights: Weights::zipf(USERS, 0.8),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Product {
    #[default]
    Rest,
    Auth,
    Storage,
    Realtime,
    Functions,
    Graphql,
}

impl Product {
    /// What the path of a request begins with.
    fn prefix(self) -> &'static str {
        match self {
            Self::Rest => "/rest/v1",
            Self::Auth => "/auth/v1",
            Self::Storage => "/storage/v1",
            Self::Realtime => "/realtime/v1",
            Self::Functions => "/functions/v1",
            Self::Graphql => "/graphql/v1",
        }
    }
}

/// One request. Texts are kept from request to request, so that none is allocated anew.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    /// Microseconds since 1970.
    pub(crate) at: i64,
    pub(crate) project: String,
    /// Whether the project's senders write each record into an array of its own.
    pub(crate) wrapped: bool,
    pub(crate) product: Product,
    pub(crate) method: &'static str,
    pub(crate) host: String,
    pub(crate) path: String,
    /// The query string with its question mark, or nothing.
    pub(crate) search: String,
    pub(crate) url: String,
    pub(crate) status: u64,
    /// Milliseconds until the origin answered.
    pub(crate) origin: u32,
    pub(crate) agent: String,
    pub(crate) place: Place,
    pub(crate) user: Option<(u64, u64)>,
    pub(crate) role: Option<&'static str>,
    pub(crate) id: (u64, u64),
    pub(crate) request: (u64, u64),
    pub(crate) function: usize,
    /// Random bits for details of little weight.
    pub(crate) bits: u64,
}

impl Moment {
    /// Makes this the next request.
    pub(crate) fn draw(&mut self, at: i64, world: &World, dice: &mut Dice) {
        self.at = at;
        let rank = world.weights.pick(dice);
        set(&mut self.project, world.projects.get(rank).map_or("", String::as_str));
        self.wrapped = rank % 10 == 3;
        (self.id, self.request, self.bits) = ((dice.any(), dice.any()), (dice.any(), dice.any()), dice.any());
        set(&mut self.agent, world.agents.get(world.agent_weights.pick(dice)).map_or("", String::as_str));
        self.place = dice.pick(&PLACES);
        self.product = match dice.below(100) {
            0..55 => Product::Rest,
            55..70 => Product::Auth,
            70..85 => Product::Storage,
            85..93 => Product::Realtime,
            93..99 => Product::Functions,
            _ => Product::Graphql,
        };
        self.role = match dice.below(100) {
            0..25 => None,
            25..45 => Some("anon"),
            45..92 => Some("authenticated"),
            _ => Some("service_role"),
        };
        self.user = (self.role == Some("authenticated")).then(|| {
            let user = (rank * USERS + world.user_weights.pick(dice)) as u64;
            (mix(user), mix(!user))
        });
        self.status = match dice.below(1_000) {
            0..780 => 200,
            780..860 => 201,
            860..880 => 204,
            880..910 => 304,
            910..980 => dice.pick(&[401, 401, 403, 404, 404, 404, 406, 409, 429]),
            _ => dice.pick(&[500, 500, 502, 503, 504]),
        };
        self.origin = dice.duration(if self.status >= 500 { 400.0 } else { 40.0 });
        self.address(dice);
    }

    /// The method and the address.
    fn address(&mut self, dice: &mut Dice) {
        set(&mut self.path, self.product.prefix());
        self.search.clear();
        self.method = match self.product {
            Product::Rest => dice.pick(&["GET", "GET", "GET", "GET", "GET", "GET", "GET", "POST", "PATCH", "DELETE"]),
            Product::Storage => dice.pick(&["GET", "GET", "GET", "GET", "GET", "GET", "POST"]),
            Product::Realtime => "GET",
            Product::Auth | Product::Functions | Product::Graphql => "POST",
        };
        // Writing to a text does not fail.
        let _ = match self.product {
            Product::Rest => {
                let written = write!(self.path, "/{}", dice.pick(&TABLES));
                match dice.below(100) {
                    0..30 => {}
                    30..70 => {
                        let _ = write!(self.search, "?id=eq.{}&select=*", dice.below(90_000));
                    }
                    _ => self.search.push_str(dice.pick(&FILTERS)),
                }
                written
            }
            Product::Auth => {
                let path = dice.pick(&AUTH_PATHS);
                if path == "/token" {
                    self.search.push_str(dice.pick(&["?grant_type=password", "?grant_type=refresh_token"]));
                }
                write!(self.path, "{path}")
            }
            Product::Storage => {
                write!(self.path, "/object/{}/{}.webp", dice.pick(&BUCKETS), dice.below(20_000))
            }
            Product::Realtime => write!(self.path, "/websocket"),
            Product::Functions => {
                self.function = dice.below(FUNCTIONS.len() as u64) as usize;
                write!(self.path, "/{}", FUNCTIONS.get(self.function).copied().unwrap_or_default())
            }
            Product::Graphql => Ok(()),
        };
        if dice.one_in(RARE) {
            self.search.push(if self.search.is_empty() { '?' } else { '&' });
            let _ = write!(self.search, "trace=zq-{:04}-{}", dice.below(10_000), dice.pick(&["ab", "cd", "ef"]));
        }
        set(&mut self.host, &self.project);
        self.host.push_str(".example.test");
        set(&mut self.url, "https://");
        for part in [&self.host, &self.path, &self.search] {
            self.url.push_str(part);
        }
    }
}

fn set(text: &mut String, value: &str) {
    text.clear();
    text.push_str(value);
}
