//! How a kernel is launched for a problem on a device: grid, slices of K and workspace.

mod fit;
mod last_round;
mod pace;
mod sharing;
mod walk;

pub(crate) use fit::fitted;
pub(in crate::kernels) use last_round::COST_OF_SHARING_DOUBLES;
pub(crate) use last_round::shares;
pub(in crate::kernels) use sharing::Sharing;
pub(crate) use sharing::keeps_k;

use self::last_round::shares_of;
pub(crate) use self::pace::drifts;
use self::pace::pace_of;
pub(crate) use self::walk::Walk;
use super::halves::{Room, rooms};
use super::{Problem, Repack};
use crate::device::info::DeviceInfo;
use crate::device::workspace::WorkspaceSize;
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::{KernelInfo, Schedule};
use regemm_kernels::schedule::partials::Partials;
use regemm_kernels::schedule::reduce;
use regemm_kernels::schedule::shares::Shares;

/// Most blocks of a grid along y or z on every GPU (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
pub(crate) const MAX_PRODUCTS: u32 = 65_535;

/// Most slices, which lie along z.
const MAX_SLICES: u32 = MAX_PRODUCTS;

/// What a launch of a kernel looks like.
///
/// It depends on the kernel, the problem, the device's multiprocessors and the number of slices that was asked for, and
/// on nothing else: the same product gives the same bits every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks along x and z; along y there is one for each product of a batch, unless blocks [go
    /// through](Self::products) all of them. None where nothing is left to sum: then the reducer alone runs.
    pub main: Option<[u32; 2]>,
    /// Products that each block goes through: one, or all of a batch ([`regemm_kernels::schedule::batches`]).
    pub products: u32,
    /// Columns of a block's tile, or rows where the kernel [swaps A and B](regemm_kernels::swapped): fewer than the
    /// kernel's own only where that [lets them fit](regemm_kernels::warpgroup::fit).
    pub tile_width: u32,
    /// Values of k in a slice. All of them where K is not split.
    pub slice_depth: u32,
    /// Slices of K: none where there is no k.
    pub slices: u32,
    /// Tiles of D that several blocks share: [`regemm_kernels::schedule::shares`].
    pub shared_tiles: u32,
    /// Blocks, or clusters of blocks, that share them.
    pub sharing_blocks: u32,
    /// Slices of K between two looks of a block at how far the others are, zero where nobody looks:
    /// [`regemm_kernels::warpgroup::pace`].
    pub pace: u32,
    /// What is copied in a launch before the main one.
    pub repack: Repack,
    /// Memory besides the operands.
    pub workspace: WorkspaceSize,
    /// Blocks along x of the second launch, which adds the slices up, if there is one.
    pub reduce: Option<u32>,
}

impl LaunchShape {
    /// For a problem whose D has elements and that the device [supports](super::supports) with this kernel. `slices` is
    /// the number of slices that K is to be split into, if that is not the library's to choose.
    ///
    /// # Panics
    /// Maybe where D has no elements or the device does not support the problem; otherwise the numbers mean nothing
    /// then.
    pub fn new(
        kernel: &KernelInfo,
        problem: &Problem,
        device: &DeviceInfo,
        slices: Option<u32>,
    ) -> LaunchShape {
        let shape = LaunchShape::of_sums(kernel, problem, device, slices);
        let repack = Repack::of(kernel, problem);
        let [a, b] = match kernel.takes_halves() {
            true => rooms(problem, kernel.halves()).map(Room::bytes),
            false => repack.bytes(problem),
        };
        let workspace = WorkspaceSize { copy_bytes: a.saturating_add(b), ..shape.workspace };
        LaunchShape { repack, workspace, ..shape }
    }

    /// For factors that need not be repacked.
    fn of_sums(
        kernel: &KernelInfo,
        problem: &Problem,
        device: &DeviceInfo,
        slices: Option<u32>,
    ) -> LaunchShape {
        let Walk { problem, products } = Walk::of(kernel, problem);
        let problem = &problem;
        let Problem { m, n, k, batch, .. } = *problem;
        let kernel = &fitted(kernel, [m, n, k], device.multiprocessors);
        let tile_width = kernel.width();
        // `supports` has compared them with the largest grid, which has fewer than 2^31.
        let tiles = kernel.blocks(m, n) as u32;
        match kernel.schedule {
            Schedule::Tiles | Schedule::ClusterK => LaunchShape::of_whole_sums(kernel, tiles, k),
            Schedule::Persistent => {
                let shares = shares_of(kernel, problem, device, slices);
                let sharing = shares.blocks() * kernel.cluster;
                let blocks = persistent_blocks(kernel, problem, device, tiles).max(sharing);
                let pace = pace_of(kernel, problem, device, blocks);
                let whole = LaunchShape::of_whole_sums(kernel, blocks, k);
                let shape = LaunchShape { products, ..whole };
                shape.with_shares(kernel, shares).with_pace(pace)
            }
            Schedule::StreamK => {
                let shares = shares_of(kernel, problem, device, slices);
                let blocks = shares.blocks() + (tiles - shares.tiles());
                LaunchShape::of_whole_sums(kernel, blocks, k).with_shares(kernel, shares)
            }
            Schedule::SplitK => {
                let slices = slices
                    .unwrap_or_else(|| Sharing::of(kernel, problem, device).best(kernel, problem));
                let slice_depth = depth_of_slices(kernel.tile.bk, k, slices);
                if kernel.finishes && (1..=slice_depth).contains(&k) {
                    let whole = LaunchShape::of_whole_sums(kernel, tiles, k);
                    return LaunchShape { slice_depth, ..whole };
                }
                let partials = match kernel.dtype {
                    Dtype::F64 => Partials::new::<f64>(m, n, k, slice_depth),
                    _ => Partials::new::<f32>(m, n, k, slice_depth),
                };
                let products = u64::from(batch.min(MAX_PRODUCTS));
                let elements = partials.product().saturating_mul(products);
                let partial_bytes = elements.saturating_mul(sum_bytes(kernel.dtype));
                LaunchShape {
                    main: (k > 0).then_some([tiles, partials.slices]),
                    products: 1,
                    tile_width,
                    slice_depth,
                    slices: partials.slices,
                    shared_tiles: 0,
                    sharing_blocks: 0,
                    pace: 0,
                    repack: Repack::default(),
                    workspace: WorkspaceSize { partial_bytes, ..WorkspaceSize::default() },
                    reduce: Some(reducer_blocks(kernel, problem) as u32),
                }
            }
        }
    }

    /// For blocks each of which sums over all of k and finishes what it sums.
    fn of_whole_sums(kernel: &KernelInfo, blocks: u32, k: u32) -> LaunchShape {
        LaunchShape {
            main: Some([blocks, 1]),
            products: 1,
            tile_width: kernel.width(),
            slice_depth: k.max(1),
            slices: k.min(1),
            shared_tiles: 0,
            sharing_blocks: 0,
            pace: 0,
            repack: Repack::default(),
            workspace: WorkspaceSize::default(),
            reduce: None,
        }
    }

    /// The same where blocks share tiles so, each of which may leave its sums of one to another.
    fn with_shares(self, kernel: &KernelInfo, shares: Shares) -> LaunchShape {
        let blocks = u64::from(shares.blocks()) * u64::from(kernel.cluster);
        let tile = kernel.tile.bm * kernel.tile.bn * kernel.depth_groups;
        LaunchShape {
            shared_tiles: shares.tiles(),
            sharing_blocks: shares.blocks(),
            workspace: WorkspaceSize {
                partial_bytes: blocks * u64::from(tile) * sum_bytes(kernel.dtype),
                signals: blocks,
                ..self.workspace
            },
            ..self
        }
    }

    /// The same where blocks keep pace, for which they count together.
    fn with_pace(mut self, pace: u32) -> LaunchShape {
        self.pace = pace;
        if pace > 0 {
            self.workspace.signals += u64::from(regemm_kernels::warpgroup::pace::WORDS);
        }
        self
    }

    /// Blocks of the first launch, of all products of a batch.
    pub(super) fn blocks(&self, problem: &Problem) -> u64 {
        let [x, z] = self.main.unwrap_or_default();
        let along_y = problem.batch.div_ceil(self.products);
        (u64::from(x) * u64::from(z)).saturating_mul(along_y.into())
    }
}

/// Blocks that stay: as many as the device has multiprocessors, or tiles if those are fewer. In a batch of which each
/// computes one product there is one for each tile, since there are those of other products to go on with. All are in
/// whole clusters.
fn persistent_blocks(
    kernel: &KernelInfo,
    problem: &Problem,
    device: &DeviceInfo,
    tiles: u32,
) -> u32 {
    if problem.batch > 1 {
        return tiles;
    }
    tiles.min(resident(kernel, device.multiprocessors))
}

/// Blocks that have a multiprocessor each, in whole clusters: one at least.
///
/// A cluster lies in one of a GPU's parts (GPC), which differ in how many of their multiprocessors work. Two of them
/// are neighbours in any. Of larger clusters there are fewer than all multiprocessors have room for: of an H100's 132
/// 30 of four and 15 of eight blocks (`cuOccupancyMaxActiveClusters`), which is what is taken of others too.
pub(crate) fn resident(kernel: &KernelInfo, multiprocessors: u32) -> u32 {
    let clusters = multiprocessors / kernel.cluster;
    let clusters = if kernel.cluster > 2 { clusters * 10 / 11 } else { clusters };
    clusters.max(1) * kernel.cluster
}

/// Bytes of a sum.
fn sum_bytes(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::F64 => size_of::<f64>() as u64,
        // Those of half the precision are summed in f32.
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 => size_of::<f32>() as u64,
    }
}

/// Blocks along x of the launch that adds slices up; none where there is none.
pub(super) fn reducer_blocks(kernel: &KernelInfo, problem: &Problem) -> u64 {
    match (kernel.schedule, kernel.dtype) {
        (Schedule::Tiles | Schedule::Persistent | Schedule::ClusterK | Schedule::StreamK, _) => 0,
        (Schedule::SplitK, Dtype::F64) => reduce::blocks::<f64>(problem.m, problem.n),
        // Those of half the precision are summed in f32.
        (Schedule::SplitK, _) => reduce::blocks::<f32>(problem.m, problem.n),
    }
}

/// The depth of slices, a multiple of `bk` and not zero, that makes them as many as wanted or fewer. None of them is
/// empty.
fn depth_of_slices(bk: u32, k: u32, slices: u32) -> u32 {
    let steps = k.div_ceil(bk);
    let steps_of_slice = steps.div_ceil(slices.clamp(1, MAX_SLICES)).max(1);
    steps_of_slice * bk
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;
    use crate::device::info::tests::h200;

    fn shape(name: &str, (m, n, k): (u32, u32, u32), slices: Option<u32>) -> LaunchShape {
        LaunchShape::new(find(name).unwrap(), &Problem::new(Dtype::F32, m, n, k), &h200(), slices)
    }

    #[test]
    fn tiles_need_no_workspace() {
        let shape = shape("tiled16_f32", (100, 40, 30), Some(5));
        assert_eq!((shape.main, shape.reduce), (Some([7 * 3, 1]), None));
        assert_eq!(shape.workspace, WorkspaceSize::default());
    }

    #[test]
    fn persistent_blocks_are_as_many_as_multiprocessors() {
        let kernel = find("warpgroup_bf16").unwrap();
        let blocks = |size, batch| {
            let problem = Problem { batch, ..Problem::new(Dtype::Bf16, size, size, 64) };
            LaunchShape::new(kernel, &problem, &h200(), None).main
        };
        assert_eq!(blocks(1024, 1), Some([8 * 4, 1]));
        assert_eq!(blocks(8192, 1), Some([132, 1]));
        assert_eq!(blocks(8192, 2), Some([132, 1]), "of both products");
        assert_eq!(blocks(256, 64), Some([2 * 64, 1]));
        let problem = Problem { batch: 2, ..Problem::new(Dtype::F64, 8192, 8192, 64) };
        let one_by_one =
            LaunchShape::new(find("tensor_core_bulk_f64").unwrap(), &problem, &h200(), None);
        assert_eq!((one_by_one.main, one_by_one.products), (Some([64 * 64, 1]), 1));
    }

    #[test]
    fn clusters_are_whole() {
        let of = |kernel: &str, m, n, multiprocessors| {
            let problem = Problem::new(Dtype::Bf16, m, n, 64);
            let device = DeviceInfo { multiprocessors, ..h200() };
            LaunchShape::new(find(kernel).unwrap(), &problem, &device, None).main
        };
        let blocks = |m, multiprocessors| of("warpgroup_pair_bf16", m, 512, multiprocessors);
        // Three rows of two tiles, of which clusters take two at a time.
        assert_eq!(blocks(3 * 128, 132), Some([4 * 2, 1]));
        assert_eq!(blocks(1, 132), Some([2 * 2, 1]));
        assert_eq!(blocks(1 << 20, 132), Some([132, 1]));
        assert_eq!(blocks(1 << 20, 7), Some([6, 1]));
        assert_eq!(blocks(1 << 20, 1), Some([2, 1]));
        // Three columns of tiles beside each other, of which clusters take two.
        assert_eq!(of("warpgroup_abreast64_bf16", 5 * 128, 3 * 64, 132), Some([5 * 4, 1]));
        assert_eq!(of("warpgroup_abreast64_bf16", 5 * 128, 1, 132), Some([5 * 2, 1]));
    }

    #[test]
    fn copies_take_whole_lines_and_as_many_matrices_as_one_launch_has() {
        let bytes = |name: &str, repack, batch| {
            let problem = Problem { repack, batch, ..Problem::new(Dtype::Bf16, 100, 70, 65) };
            let shape = LaunchShape::new(find(name).unwrap(), &problem, &h200(), None);
            assert_eq!(
                shape.repack == repack,
                shape.workspace.copy_bytes > 0 || repack.is_nothing()
            );
            shape.workspace.copy_bytes
        };
        let (a, b) = (100 * 256, 65 * 256);
        assert_eq!(bytes("warpgroup_bf16", Repack::new(1, 1), 1), a + b);
        assert_eq!(bytes("warpgroup_bf16", Repack::new(1, 0), 1), a);
        assert_eq!(bytes("warpgroup_bf16", Repack::new(1, 5), 5), a + 5 * b);
        assert_eq!(bytes("warpgroup_bf16", Repack::new(1, 100_000), 100_000), a + 65_535 * b);
        assert_eq!(bytes("warpgroup_bf16", Repack::default(), 1), 0);
        assert_eq!(bytes("tensor_core_bf16", Repack::new(1, 1), 1), 0);
    }

    #[test]
    fn transposed_copies_have_columns_for_rows() {
        let kernel = find("sliced_k_bulk_nt_f32").unwrap();
        let problem = Problem::packed(Dtype::F32, (100, 70, 65), kernel.layouts);
        let shape = LaunchShape::new(kernel, &problem, &h200(), None);
        // 65 rows of 100 and of 70 elements, at multiples of 128 bytes.
        assert_eq!(shape.workspace.copy_bytes, 65 * (512 + 384));
        assert_eq!(shape.repack.blocks(&problem), (2 + 2) * 2, "squares of 64 x 64");
    }

    #[test]
    fn slices_fill_the_device_once() {
        let found = shape("split_k_f32", (256, 256, 1 << 20), None);
        let resident = 132 * 4;
        assert_eq!(found.main, Some([8, resident / 8]));
        assert_eq!(found.workspace.partial_bytes, 4 * 256 * 256 * u64::from(resident / 8));
        let shallow = shape("split_k_f32", (256, 256, 1024), None);
        assert_eq!((shallow.slices, shallow.slice_depth), (4, 256), "deep enough to pay");
        let large = shape("split_k_f32", (8192, 8192, 8192), None);
        assert_eq!((large.slices, large.slice_depth), (1, 8192));
    }

    #[test]
    fn no_slice_is_empty_and_all_are_whole_steps() {
        for k in [1, 15, 16, 17, 100, 1000, 4096, i32::MAX as u32] {
            for wanted in [1, 2, 3, 7, 64, 1000, u32::MAX] {
                let found = shape("split_k_f32", (64, 128, k), Some(wanted));
                assert!(found.slice_depth.is_multiple_of(16));
                assert!(1 <= found.slices && found.slices <= wanted.min(MAX_SLICES));
                let before_last = u64::from(found.slices - 1) * u64::from(found.slice_depth);
                let end = u64::from(found.slices) * u64::from(found.slice_depth);
                assert!(before_last < k.into() && u64::from(k) <= end, "{k}, {wanted}: {found:?}");
            }
        }
    }

    #[test]
    fn one_slice_may_need_no_reducer() {
        let whole = shape("skinny_rows_f32", (1, 8192, 8192), None);
        assert_eq!((whole.main, whole.reduce), (Some([128, 1]), None));
        assert_eq!((whole.slices, whole.workspace), (1, WorkspaceSize::default()));
        let narrow = shape("skinny_rows_f32", (1, 256, 8192), None);
        assert_eq!((narrow.slices, narrow.reduce), (32, Some(1)));
        let asked = shape("skinny_rows_f32", (1, 8192, 8192), Some(3));
        assert_eq!((asked.slices, asked.reduce), (3, Some(32)));
        assert_eq!(shape("skinny_rows_f32", (1, 8192, 0), None).reduce, Some(32));
        assert_eq!(shape("split_k_f32", (64, 128, 16), None).reduce, Some(32));
    }

    #[test]
    fn without_k_only_the_epilogue_is_left() {
        let found = shape("split_k_f32", (70, 33, 0), None);
        assert_eq!((found.main, found.slices), (None, 0));
        assert_eq!(found.reduce, Some((70 * 9u32).div_ceil(64)));
        assert_eq!(found.workspace, WorkspaceSize::default());
    }
}
