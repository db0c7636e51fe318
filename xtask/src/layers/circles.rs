//! Strongly connected components of a graph: groups of nodes of which each reaches each other.

use std::collections::{BTreeMap, BTreeSet};

/// The groups of more than one node. A node that is not a key has no edges.
pub(super) fn circles<N: Ord + Clone>(edges: &BTreeMap<N, Vec<N>>) -> Vec<Vec<N>> {
    let reached: BTreeMap<&N, BTreeSet<&N>> = edges.keys().map(|node| (node, reach(edges, node))).collect();
    let reaches = |from: &N, to: &N| reached.get(from).is_some_and(|all| all.contains(to));
    let mut groups: Vec<Vec<N>> = Vec::new();
    for node in edges.keys().filter(|node| reaches(node, node)) {
        match groups.iter_mut().find(|group| group.first().is_some_and(|own| reaches(own, node) && reaches(node, own)))
        {
            Some(group) => group.push(node.clone()),
            None => groups.push(vec![node.clone()]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

/// What can be reached from a node by one edge or more.
fn reach<'g, N: Ord>(edges: &'g BTreeMap<N, Vec<N>>, from: &N) -> BTreeSet<&'g N> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&N> = edges.get(from).into_iter().flatten().collect();
    while let Some(node) = open.pop() {
        if reached.insert(node) {
            open.extend(edges.get(node).into_iter().flatten());
        }
    }
    reached
}
