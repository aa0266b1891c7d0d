//! Tensor cores in double precision: [`regemm_kernels::double_tensor_core`].

use super::{Launch, Sums, VECTOR};
use crate::traffic::WARP_LANES;
use crate::traffic::request::Request;
use regemm_kernels::double_sums::PAIR;
use regemm_kernels::double_tile::{AHEAD, STEP};
use regemm_kernels::kernel::Tile;
use regemm_kernels::layout::{Layout, Layouts};
use regemm_kernels::sums_on_the_way::LANES;

impl Launch {
    /// Slices lie in shared memory as they do in global memory, and fragments are read element by element. The sums take a way
    /// through shared memory to D, by 2 a lane.
    pub(super) fn double_tensor_cores(&self) -> Sums {
        let Tile { bm, bn, bk, tm, tn, .. } = self.tile;
        let [bm, bn, bk, tm, tn] = [bm, bn, bk, tm, tn].map(u64::from);
        let bytes = self.element_bytes;
        let block_threads = self.blocks() * u128::from(self.threads);
        let multiplied = self.slices * bk;
        let any = u64::from(self.k > 0);
        // Elements that a warp reads: those that a step begins with once more than there are steps.
        let (rows, cols) = (LANES.0 as u64 * tm, LANES.1 as u64 * tn);
        let fragments = (rows + cols) * multiplied + any * (AHEAD * STEP) as u64;
        let warps = block_threads / u128::from(WARP_LANES);
        let sum_bytes = self.blocks() * u128::from(bm * bn * self.sum_bytes);
        let slice_bytes = self.block_slices() * u128::from(bk * (bm + bn) * bytes);
        let (pairs, pair) = (cols / PAIR as u64, PAIR as u64);
        let piece = if self.n.is_multiple_of(pair) { pair } else { 1 };
        let store = Request::spread((WARP_LANES / pairs, 1), (pairs, pair), piece);
        let mut sums = Sums {
            store_sectors: store.sectors(self.m, self.n, self.result_bytes),
            shared_load_bytes: warps * u128::from(fragments * bytes) + sum_bytes,
            shared_store_bytes: slice_bytes + sum_bytes,
            // One for the first slice, one for each, and one before the sums take their place.
            barriers: self.block_slices() + self.blocks() * u128::from(1 + any),
            fma: block_threads * u128::from(multiplied * tm * tn)
                + u128::from(self.m) * u128::from(self.n.next_multiple_of(pair)),
            ..Sums::default()
        };
        let request = |layout: Layout, tile: (u64, u64), shape: (u64, u64)| {
            let (_, stored) = layout.stored(shape.0, shape.1);
            let chunk = VECTOR / bytes;
            let len = if stored.is_multiple_of(chunk) { chunk } else { 1 };
            let across = WARP_LANES.min(layout.stored(tile.0, tile.1).1 / len);
            Request::rectangle(WARP_LANES / across, across * len)
        };
        let Layouts { a, b } = self.layouts;
        let of_a = request(a, (bm, bk), (self.m, self.k));
        let of_b = request(b, (bk, bn), (self.k, self.n));
        self.load_by_blocks(&mut sums, of_a, of_b);
        sums
    }
}
