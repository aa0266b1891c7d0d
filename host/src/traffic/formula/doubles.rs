//! Tensor cores in double precision: [`regemm_kernels::double::tensor_core`].

use super::{Launch, Sums};
use crate::traffic::WARP_LANES;
use crate::traffic::request::Request;
use regemm_kernels::double::panels::{CHUNK, part_of_row};
use regemm_kernels::double::sums::{PAIR, ROWS, pairs_of_turn};
use regemm_kernels::double::tile::STEP;
use regemm_kernels::kernel::Tile;
use regemm_kernels::layout::{Layout, Layouts};
use regemm_kernels::warp::sums_on_the_way::LANES;

impl Launch {
    /// Slices lie in shared memory as they do in global memory, and fragments are read element by element. The sums
    /// take a way through shared memory to D, by 2 in each of 4 rows a lane.
    pub(super) fn double_tensor_cores(&self) -> Sums {
        let Tile { bm, bn, bk, tm, tn, stages } = self.tile;
        let [bm, bn, bk, tm, tn, stages] = [bm, bn, bk, tm, tn, stages].map(u64::from);
        let bytes = self.element_bytes;
        let block_threads = self.blocks() * u128::from(self.threads);
        let multiplied = self.slices * bk;
        // Elements that a warp reads, for one step more than there are.
        let (rows, cols) = (LANES.0 as u64 * tm, LANES.1 as u64 * tn);
        let fragments = (rows + cols) * (multiplied + STEP as u64);
        let warps = block_threads / u128::from(WARP_LANES);
        let sum_bytes = self.blocks() * u128::from(bm * bn * self.sum_bytes);
        // As many slices of zeros as are under way follow the last.
        let copied = self.blocks() * u128::from(self.slices + stages - 1);
        let slice_bytes = copied * u128::from(bk * (bm + bn) * bytes);
        let (pairs, pair) = (pairs_of_turn(cols as usize) as u64, PAIR as u64);
        let piece = if self.n.is_multiple_of(pair) { pair } else { 1 };
        // The rows that a warp stores at once are apart.
        let store = Request::spread((1, 1), (pairs, pair), piece);
        let mut sums = Sums {
            store_sectors: store.sectors(self.m, self.n, self.result_bytes),
            shared_load_bytes: warps * u128::from(fragments * bytes) + sum_bytes,
            shared_store_bytes: slice_bytes + sum_bytes,
            // One for the first slice, one for each, and one before the sums take their place.
            barriers: self.block_slices() + 2 * self.blocks(),
            fma: block_threads * u128::from(multiplied * tm * tn)
                + u128::from(self.m.next_multiple_of(ROWS as u64))
                    * u128::from(self.n.next_multiple_of(pair)),
            ..Sums::default()
        };
        let chunk = u64::from(CHUNK);
        let Layouts { a, b } = self.layouts;
        let rows = [a.stored(self.m, self.k).1, b.stored(self.k, self.n).1];
        let by_chunks = rows.iter().all(|row| row.is_multiple_of(chunk));
        let request = |layout: Layout, tile: (u64, u64)| {
            let len = if by_chunks { chunk } else { 1 };
            let row = layout.stored(tile.0, tile.1).1;
            let across = WARP_LANES.min(u64::from(part_of_row(row as u32)) / len);
            Request::rectangle(WARP_LANES / across, across * len)
        };
        let of_a = request(a, (bm, bk));
        let of_b = request(b, (bk, bn));
        self.load_by_blocks(&mut sums, of_a, of_b);
        sums
    }
}
