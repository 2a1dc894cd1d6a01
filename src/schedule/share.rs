//! Which part of a phase belongs to one shard.

/// One shard of a run, and so the part of each phase that it drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    shard: u16,
    shards: u16,
}

impl Share {
    /// Shard `shard` of `shards`; `shard` is below `shards`.
    pub fn new(shard: u16, shards: u16) -> Self {
        assert!(shard < shards, "shard {shard} of {shards}");
        Self { shard, shards }
    }

    /// The number of this shard, from 0.
    pub const fn shard(self) -> u16 {
        self.shard
    }

    /// How many shards there are.
    pub const fn shards(self) -> u16 {
        self.shards
    }

    /// Whether item `index` of a global sequence is driven by this shard.
    pub const fn owns(self, index: u64) -> bool {
        index % self.shards as u64 == self.shard as u64
    }

    /// How many of `total` closed-loop slots this shard holds. All shards together hold exactly `total`.
    pub fn slots(self, total: u32) -> u32 {
        let shards = u32::from(self.shards);
        total / shards + u32::from(u32::from(self.shard) < total % shards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_add_up_and_follow_ownership_for_any_number_of_shards() {
        for shards in [1_u16, 2, 3, 5, 8, 64] {
            for total in [1_u32, 2, 7, 63, 64, 65, 50_000] {
                let mut sum = 0;
                for shard in 0..shards {
                    let share = Share::new(shard, shards);
                    let owned = (0..u64::from(total)).filter(|index| share.owns(*index)).count();
                    assert_eq!(share.slots(total) as usize, owned);
                    sum += share.slots(total);
                }
                assert_eq!(sum, total);
            }
        }
    }
}
