//! The workers of a server: which of them can be used, and their tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_cluster::stages::{StageList, StageWorkers, WorkerFaults};
use tokio_util::task::AbortOnDropHandle;

use crate::address::{WorkerAddress, resolved};
use crate::member::{Member, Outcome, WorkerView};
use crate::stage_channels::StageChannels;
use crate::task_costs::TaskCosts;
use crate::transport::{Connect, is_loopback};

/// How often names are looked up again.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(10);

/// Workers that are reached over the network. Dropping it ends what is done in the background; tasks go on.
#[derive(Debug)]
pub struct RemoteWorkers {
    known: Arc<Known>,
    _background: Vec<AbortOnDropHandle<()>>,
}

/// The workers that are known now.
#[derive(Debug)]
struct Known {
    connect: Arc<Connect>,
    build: Arc<str>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The addresses that are set, with the host that they are known by.
    fixed: BTreeMap<SocketAddr, Arc<str>>,
    /// The last good answer for each name.
    named: BTreeMap<Arc<str>, BTreeSet<SocketAddr>>,
    /// Names that cannot be looked up, and why.
    unknown: BTreeMap<Arc<str>, String>,
    members: BTreeMap<SocketAddr, Watched>,
}

#[derive(Debug)]
struct Watched {
    member: Arc<Member>,
    _watch: AbortOnDropHandle<()>,
}

impl RemoteWorkers {
    /// The workers at these addresses, of which those of the same build are used ([`crate::WorkerOptions::build`]). Within a runtime, on which they are watched and their connections are driven.
    ///
    /// # Errors
    /// If an address cannot be used without TLS.
    pub fn start(addresses: &[WorkerAddress], connect: Connect, build: Arc<str>) -> Result<Arc<Self>, String> {
        let mut inner = Inner::default();
        let mut names = Vec::new();
        for address in addresses {
            match address {
                WorkerAddress::Fixed(address) => {
                    if matches!(connect, Connect::Loopback) && !is_loopback(*address) {
                        return Err(format!("worker {address} is on another machine: that needs TLS"));
                    }
                    inner.fixed.insert(*address, address.ip().to_string().into());
                }
                WorkerAddress::Named(host, port) => names.push((Arc::clone(host), *port)),
            }
        }
        let known = Arc::new(Known { connect: Arc::new(connect), build, inner: Mutex::new(inner) });
        known.change(|_| {});
        let lookups = names.into_iter().map(|(host, port)| {
            let known = Arc::clone(&known);
            AbortOnDropHandle::new(tokio::spawn(async move { known.look_up(host, port).await }))
        });
        let certificates = AbortOnDropHandle::new(tokio::spawn(Connect::clone(&known.connect).watch()));
        let background = lookups.chain([certificates]).collect();
        Ok(Arc::new(Self { known, _background: background }))
    }

    /// All workers that are known, and names that have no address.
    pub fn views(&self) -> Vec<WorkerView> {
        let inner = self.known.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let members = inner.members.values().map(|watched| watched.member.view());
        let unknown = inner.unknown.iter().map(|(name, why)| WorkerView {
            name: Arc::clone(name),
            unusable: Some(format!("its name cannot be looked up: {why}")),
            tasks: Outcome::ALL.map(|outcome| (outcome, 0)),
        });
        members.chain(unknown).collect()
    }
}

impl Known {
    /// Looks up a name for ever. While it cannot be looked up, its last addresses stay.
    async fn look_up(&self, host: Arc<str>, port: u16) {
        let name: Arc<str> = format!("{host}:{port}").into();
        loop {
            let found = resolved(&host, port).await;
            self.change(|inner| match found {
                Ok(found) => {
                    inner.unknown.remove(&name);
                    inner.named.insert(Arc::clone(&name), found);
                }
                Err(why) => {
                    inner.unknown.insert(Arc::clone(&name), why);
                }
            });
            tokio::time::sleep(LOOKUP_INTERVAL).await;
        }
    }

    /// Changes what is set or was looked up, and then the workers that are watched.
    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut inner);
        let Inner { fixed, named, members, .. } = &mut *inner;
        let host = |name: &Arc<str>| Arc::from(name.rsplit_once(':').map_or(name.as_ref(), |(host, _)| host));
        let named = named.iter().flat_map(|(name, found)| found.iter().map(move |address| (*address, host(name))));
        let mut wanted: BTreeMap<SocketAddr, Arc<str>> = named.collect();
        wanted.extend(fixed.iter().map(|(address, host)| (*address, Arc::clone(host))));
        members.retain(|address, _| wanted.contains_key(address));
        for (address, host) in wanted {
            members.entry(address).or_insert_with(|| {
                let member = Member::new(address, host, Arc::clone(&self.build));
                let watch = tokio::spawn(Arc::clone(&member).watch(Arc::clone(&self.connect)));
                Watched { member, _watch: AbortOnDropHandle::new(watch) }
            });
        }
    }
}

impl StageWorkers for RemoteWorkers {
    fn list(&self, left_out: &[Arc<str>]) -> StageList {
        let inner = self.known.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let members = inner.members.values().map(|watched| &watched.member);
        let usable = members.filter(|member| member.link().is_ok() && !left_out.contains(member.name()));
        let members: Vec<_> = usable.map(Arc::clone).collect();
        let names = members.iter().map(|member| Arc::clone(member.name())).collect();
        let (costs, faults) = (TaskCosts::default(), WorkerFaults::default());
        let channels = StageChannels::of_coordinator(members, costs.clone(), faults.clone());
        StageList { names, channels, tasks: Arc::new(move || costs.tasks()), faults }
    }
}
