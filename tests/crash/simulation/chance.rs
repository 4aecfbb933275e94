//! Seeded chance: the same seed gives the same choices everywhere.

/// A stream of choices (`SplitMix64`: tiny, and good enough to pick from short lists).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The stream of these numbers together.
    pub(crate) fn of(parts: &[u64]) -> Self {
        let mut chance = Self(0);
        for part in parts {
            chance.0 = chance.next() ^ part;
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in so many times.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of a list.
    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }

    /// One of a list, each as likely as its weight says.
    pub(crate) fn weighted<T: Clone>(&mut self, list: &[(u64, T)]) -> T {
        let mut left = self.below(list.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in list {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return item.clone(),
            }
        }
        unreachable!("the weights add up to more than what was drawn")
    }
}
