//! Groups of nodes that reach each other.

use std::collections::BTreeSet;

/// Returns the groups of at least two nodes in which each node reaches each other one.
pub(super) fn rings(arrows: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..arrows.len()).map(|from| reach(arrows, from)).collect();
    let mut rings: Vec<BTreeSet<usize>> = Vec::new();
    for (node, others) in reached.iter().enumerate() {
        let ring: BTreeSet<usize> =
            others.iter().copied().filter(|other| reached[*other].contains(&node)).collect();
        if ring.len() > 1 && !rings.contains(&ring) {
            rings.push(ring);
        }
    }
    rings
}

/// Returns the nodes that can be reached from a node by at least one arrow.
fn reach(arrows: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<usize> = arrows[from].iter().copied().collect();
    while let Some(node) = open.pop() {
        if reached.insert(node) {
            open.extend(&arrows[node]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rings_are_found_and_a_path_between_them_is_none() {
        // 0 <-> 1 -> 2 -> 3 -> 4 -> 2, and 5 -> 0.
        let arrows = [vec![1], vec![0, 2], vec![3], vec![4], vec![2], vec![0]];
        let arrows = arrows.map(|to| to.into_iter().collect::<BTreeSet<usize>>());
        let found = rings(&arrows);
        assert_eq!(found, [BTreeSet::from([0, 1]), BTreeSet::from([2, 3, 4])]);
    }
}
