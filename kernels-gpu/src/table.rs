//! Every instantiation of every kernel. PTX entries, their names, the host's table and launch bounds come from here and
//! from nowhere else: a new kernel is a new row. Kernels that differ in layouts and element types alone are one row
//! together: see [`gemm_kernels!`].
//!
//! The feature `entries` (on by default) makes PTX entries of the rows. A kernel crate that instantiates kernels of its
//! own switches it off, or its PTX would contain these as well.

use crate::cycles;
use crate::double::bulk::DoubleBulk;
use crate::double::cluster_split::DoubleClusterSplit;
use crate::double::split::DoubleSplit;
use crate::double::tensor_core::DoubleTensorCore;
use crate::epilogue::Linear;
use crate::ladder::decoupled::Decoupled;
use crate::ladder::double_buffered::DoubleBuffered;
use crate::ladder::microkernel::Microkernel;
use crate::ladder::naive::Naive;
use crate::ladder::pipelined::Pipelined;
use crate::ladder::skinny::staged::SkinnyStaged;
use crate::ladder::skinny::{FewCols, FewRows, Skinny};
use crate::ladder::sliced_k::SlicedK;
use crate::ladder::split_k::SplitK;
use crate::ladder::split_sliced_k::SplitSlicedK;
use crate::ladder::stream_k::StreamK;
use crate::ladder::tiled::Tiled;
use crate::ladder::warp_specialised::WarpSpecialised;
use crate::ladder::warp_tiled::WarpTiled;
use crate::layout::{Nn, Nt, Tn, Tt};
use crate::prepare::repack::{self, Repack};
use crate::prepare::split::{self, Split};
use crate::prepare::transposed::Transposed;
use crate::slices::in_bulk::InBulk;
use crate::swapped::SwapAB;
use crate::warp::halves::WarpHalves;
use crate::warp::tensor_core::TensorCore;
use crate::warpgroup::Warpgroup;
use crate::warpgroup::cluster_split::ClusterSplit;
use crate::warpgroup::halves::Halves;
use crate::warpgroup::ping_pong::PingPong;
use crate::warpgroup::rounded::Rounded;
use crate::warpgroup::split::SplitWarpgroup;
use crate::warpgroup::split_halves::SplitHalves;
use crate::{gemm_kernels, reducers};
use cuda_std::memory::GlobalPtr;
use half::{bf16, f16};

reducers! {
    /// The second launches of kernels with the built-in epilogue whose K is split.
    REDUCERS:

    reduce_f32 = f32, epilogue = Linear<f32>;
    reduce_f64 = f64, epilogue = Linear<f64>;
    reduce_f16 = f16, epilogue = Linear<f16>;
    reduce_bf16 = bf16, epilogue = Linear<bf16>;
    // Of halves: it leaves at once where the kernel before it has.
    reduce_unmarked_f32 = f32, epilogue = Linear<f32>, only = unmarked;
}

/// The launch before a product whose factors bulk copies cannot take as they are.
///
/// # Safety
/// As [`repack`](repack::repack).
#[cuda_std::kernel(max_threads = repack::THREADS, min_blocks = repack::MIN_BLOCKS, early_start)]
pub unsafe fn repack_factors(params: Repack) {
    cuda_std::early_start::wait();
    // SAFETY: the launcher keeps the contract.
    unsafe { repack::repack(params) }
}

/// [`repack_factors()`] as the host sees it.
#[cfg(not(target_arch = "nvptx64"))]
pub static REPACKER: cuda_std::entry::KernelEntry = repack_factors::ENTRY;

/// The launch before a product of f32 of which a factor is to be transposed.
///
/// # Safety
/// As [`transpose`](repack::transpose::transpose).
#[cuda_std::kernel(max_threads = repack::THREADS, min_blocks = repack::transpose::MIN_BLOCKS, early_start)]
pub unsafe fn transpose_factors(params: Repack) {
    cuda_std::early_start::wait();
    // SAFETY: the launcher keeps the contract.
    unsafe { repack::transpose::transpose(params) }
}

/// [`transpose_factors()`] as the host sees it.
#[cfg(not(target_arch = "nvptx64"))]
pub static TRANSPOSER: cuda_std::entry::KernelEntry = transpose_factors::ENTRY;

/// The launch before a product of f32 that tensor cores multiply by halves.
///
/// # Safety
/// As [`split`](split::split).
#[cuda_std::kernel(max_threads = split::THREADS, min_blocks = split::MIN_BLOCKS, early_start)]
pub unsafe fn split_factors(params: Split) {
    cuda_std::early_start::wait();
    // SAFETY: the launcher keeps the contract.
    unsafe { split::split::<{ split::HALVES }>(params) }
}

/// [`split_factors()`] as the host sees it.
#[cfg(not(target_arch = "nvptx64"))]
pub static SPLITTER: cuda_std::entry::KernelEntry = split_factors::ENTRY;

/// The launch before a product of f32 whose factors are rounded to f16.
///
/// # Safety
/// As [`split`](split::split).
#[cuda_std::kernel(max_threads = split::THREADS, min_blocks = split::MIN_BLOCKS, early_start)]
pub unsafe fn round_factors(params: Split) {
    cuda_std::early_start::wait();
    // SAFETY: the launcher keeps the contract.
    unsafe { split::split::<1>(params) }
}

/// [`round_factors()`] as the host sees it.
#[cfg(not(target_arch = "nvptx64"))]
pub static ROUNDER: cuda_std::entry::KernelEntry = round_factors::ENTRY;

/// The launches before and behind others whose clock is measured.
///
/// # Safety
/// As [`note`](cycles::note).
#[cuda_std::kernel(max_threads = cycles::THREADS, min_blocks = 1)]
pub unsafe fn note_cycles(to: GlobalPtr<u64>, multiprocessors: u32, mark: u32) {
    // SAFETY: the launcher keeps the contract.
    unsafe { cycles::note(to, multiprocessors, mark) }
}

/// [`note_cycles()`] as the host sees it.
#[cfg(not(target_arch = "nvptx64"))]
pub static CYCLE_COUNTER: cuda_std::entry::KernelEntry = note_cycles::ENTRY;

gemm_kernels! {
    /// All kernels with the built-in epilogue for f32 in two [halves](crate::warpgroup::halves), by layouts. They are
    /// apart from the others, since they do not give what others give.
    HALVES:

    // Halves<BM, BN, STAGES, layouts>, and small tiles for small D.
    halves{L}_f32 = Halves<128, 128, 3, L>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, only = unmarked;
    halves64{L}_f32 = Halves<128, 64, 4, L>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, only = unmarked;

    // SplitHalves<BM, BN, STAGES, layouts>: several blocks for a tile where tiles are few and K is deep.
    split_halves{L}_f32 = SplitHalves<128, 64, 4, L>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_unmarked_f32, factors = mapped, only = unmarked;

    // WarpHalves<BM, BN, TM, TN, STAGES, layouts>: for devices that cannot run those.
    warp_halves{L}_f32 = WarpHalves<128, 128, 8, 8, 3, L>, epilogue = Linear<f32>, min_blocks = 1, only = unmarked;
}

gemm_kernels! {
    /// The kernels that compute exactly what halves cannot stand for, by layouts: they are launched behind one of
    /// [`HALVES`], and leave at once unless that has [found a mark](crate::prepare::decision). One of `KERNELS` for
    /// each, so that bits are those of any that sums in ascending order; it is one that every device can run.
    IF_MARKED:

    warp_tiled_if_marked{L}_f32 = WarpTiled<f32, 64, 128, 16, 8, 8, 3, L>, epilogue = Linear<f32>, min_blocks = 4, only = marked;
}

gemm_kernels! {
    /// All kernels with the built-in epilogue for f32 [rounded](crate::warpgroup::rounded) to f16, by layouts: apart
    /// from the others for the same reason.
    ROUNDED:

    // Rounded<BN, STAGES, layouts>
    rounded{L}_f32 = Rounded<256, 4, L>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
}

gemm_kernels! {
    /// All kernels with the built-in epilogue for f32 rounded to [TF32](cuda_std::mma::tf32), by layouts: apart from
    /// the others for the same reason.
    TF32:

    // TensorCore<T, BM, BN, BK, TM, TN, STAGES, layouts>
    tf32{L}_f32 = TensorCore<f32, 128, 128, 16, 8, 16, 4, L>, epilogue = Linear<f32>, min_blocks = 2;
}

gemm_kernels! {
    /// All kernels with the built-in epilogue, by rung, element type and layouts. A name without layouts means [NN];
    /// where results are of another type than factors, it ends in both.
    ///
    /// [NN]: crate::layout::Layouts::NN
    KERNELS:

    // Naive<T, BM, BN, layouts, D>: a block is BM x BN threads, a warp 32 columns of one row.
    naive{L}_{T} = Naive<T, 8, 32, L>, epilogue = Linear<T>, min_blocks = 8, for T in [f32, f16, bf16];
    naive{L}_f64 = Naive<f64, 8, 32, L>, epilogue = Linear<f64>, min_blocks = 4;
    // Results of f32, for devices that have no tensor cores. Fewer blocks, since addresses of two types take more
    // registers.
    naive{L}_{T}_f32 = Naive<T, 8, 32, L, f32>, epilogue = Linear<f32>, min_blocks = 5, for T in [f16, bf16];

    // Tiled<T, TILE, layouts>: a block is TILE x TILE threads.
    tiled16{L}_{T} = Tiled<T, 16, L>, epilogue = Linear<T>, min_blocks = 8, for T in [f32, f16, bf16];
    tiled16{L}_f64 = Tiled<f64, 16, L>, epilogue = Linear<f64>, min_blocks = 5;
    tiled32{L}_{T} = Tiled<T, 32, L>, epilogue = Linear<T>, min_blocks = 2, for T in [f32, f16, bf16];
    tiled32{L}_f64 = Tiled<f64, 32, L>, epilogue = Linear<f64>, min_blocks = 1;

    // Microkernel<T, BM, BN, BK, TM, TN>
    microkernel_{T} = Microkernel<T, 128, 128, 8, 8, 8>, epilogue = Linear<T>, min_blocks = 2, for T in [f32, f16, bf16];
    microkernel_f64 = Microkernel<f64, 64, 64, 8, 4, 4>, epilogue = Linear<f64>, min_blocks = 2;
    // Small tiles where D is small: more of them are multiplied at once.
    microkernel32_f32 = Microkernel<f32, 32, 32, 32, 2, 2>, epilogue = Linear<f32>, min_blocks = 5;

    // DoubleBuffered<T, BM, BN, BK, TM, TN>
    double_buffered_{T} = DoubleBuffered<T, 128, 128, 8, 8, 8>, epilogue = Linear<T>, min_blocks = 2, for T in [f32, f16, bf16];
    double_buffered_f64 = DoubleBuffered<f64, 64, 64, 8, 4, 4>, epilogue = Linear<f64>, min_blocks = 2;
    // Smaller tiles keep more multiprocessors busy where D is small.
    double_buffered64_{T} = DoubleBuffered<T, 64, 64, 16, 4, 4>, epilogue = Linear<T>, min_blocks = 4, for T in [f32, f16, bf16];

    // Pipelined<T, BM, BN, BK, TM, TN, STAGES>: types that need no widening. Which of them is fastest where, the sweep
    // found (`docs/measurements`).
    pipelined_f32 = Pipelined<f32, 64, 128, 16, 8, 8, 3>, epilogue = Linear<f32>, min_blocks = 4;
    pipelined_deep_f32 = Pipelined<f32, 64, 128, 32, 8, 8, 2>, epilogue = Linear<f32>, min_blocks = 4;
    pipelined64_f32 = Pipelined<f32, 64, 64, 32, 8, 4, 2>, epilogue = Linear<f32>, min_blocks = 5;
    pipelined64_deep_f32 = Pipelined<f32, 64, 64, 64, 8, 4, 3>, epilogue = Linear<f32>, min_blocks = 2;
    pipelined_f64 = Pipelined<f64, 64, 64, 8, 4, 4, 3>, epilogue = Linear<f64>, min_blocks = 2;

    // WarpTiled<T, BM, BN, BK, TM, TN, STAGES, layouts>: small tiles, for small D.
    warp_tiled{L}_f32 = WarpTiled<f32, 64, 128, 16, 8, 8, 3, L>, epilogue = Linear<f32>, min_blocks = 4;
    warp_tiled32{L}_f32 = WarpTiled<f32, 32, 64, 32, 4, 4, 4, L>, epilogue = Linear<f32>, min_blocks = 3;

    // Decoupled<T, BM, BN, BK, TM, TN, STAGES, layouts>: two warps on each scheduler, and nearly all registers.
    decoupled{L}_f32 = Decoupled<f32, 128, 256, 16, 8, 16, 4, L>, epilogue = Linear<f32>, min_blocks = 1;

    // WarpSpecialised<T, BM, BN, BK, TM, TN, STAGES, layouts>: a warpgroup of producers beside the two that multiply.
    warp_specialised_f32 = WarpSpecialised<f32, 128, 256, 32, 8, 16, 4>, epilogue = Linear<f32>, min_blocks = 1;

    // SlicedK<T, BM, BN, BK, TM, TN, STAGES, GROUPS, layouts, how slices come>: a quarter of the tile for all
    // consumers, each a quarter of the depth.
    sliced_k{L}_f32 = SlicedK<f32, 64, 128, 64, 8, 16, 4, 4, L>, epilogue = Linear<f32>, min_blocks = 1;
    // The same in bulk, for factors that lie as slices do or are transposed before.
    sliced_k_bulk{L}_f32 = Transposed<SlicedK<f32, 64, 128, 64, 8, 16, 4, 4, Tn, InBulk>, L>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, entry = sliced_k_bulk_tn_f32;
    // For D of fewer rows and columns: a warp for a whole tile, eight of which share the depth.
    sliced_k48_bulk{L}_f32 = Transposed<SlicedK<f32, 48, 96, 64, 12, 12, 5, 8, Tn, InBulk>, L>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, entry = sliced_k48_bulk_tn_f32;
    sliced_k32_bulk{L}_f32 = Transposed<SlicedK<f32, 32, 64, 128, 8, 8, 4, 8, Tn, InBulk>, L>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, entry = sliced_k32_bulk_tn_f32;

    // StreamK<T, BM, BN, BK, TM, TN, STAGES, GROUPS, layouts, how slices come>: the tiles of `warp_specialised` or
    // `sliced_k`, and nobody idle at the end.
    stream_k{L}_f32 = StreamK<f32, 128, 256, 32, 8, 16, 4, 1, L>, epilogue = Linear<f32>, min_blocks = 1;
    stream_k64{L}_f32 = StreamK<f32, 64, 128, 64, 8, 16, 4, 4, L>, epilogue = Linear<f32>, min_blocks = 1;

    stream_k_bulk{L}_f32 = Transposed<StreamK<f32, 128, 256, 32, 8, 16, 4, 1, Tn, InBulk>, L>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, entry = stream_k_bulk_tn_f32;
    stream_k64_bulk{L}_f32 = Transposed<StreamK<f32, 64, 128, 64, 8, 16, 4, 4, Tn, InBulk>, L>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, entry = stream_k64_bulk_tn_f32;

    // SplitK<T, BM, BN, BK, TM, TN, STAGES, layouts>: the tiles of `warp_tiled`.
    split_k{L}_f32 = SplitK<f32, 64, 128, 16, 8, 8, 3, L>, epilogue = Linear<f32>, min_blocks = 4, reducer = reduce_f32;
    // SplitSlicedK<T, BM, BN, BK, TM, TN, STAGES, GROUPS, layouts>: the tiles of `sliced_k`.
    split_sliced_k{L}_f32 = SplitSlicedK<f32, 64, 128, 64, 8, 16, 4, 4, L>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    // Those of `warp_specialised`: some hundred rows of D and a deep K.
    split_specialised{L}_f32 = SplitSlicedK<f32, 128, 256, 32, 8, 16, 4, 1, L>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    // A few rows of D, more than are `skinny` in all layouts.
    split_k16{L}_f32 = SplitK<f32, 16, 256, 16, 4, 8, 3, L>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;

    // Skinny<T, ROWS, LONG, GROUPS, short axis, layouts, D>: where the large factor's rows lie along k, a warp reads
    // whole rows.
    skinny_rows_f32 = Skinny<f32, 4, 64, 32, FewRows>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    skinny_rows_nt_f32 = Skinny<f32, 4, 32, 32, FewRows, Nt>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny_rows_tn_f32 = Skinny<f32, 4, 64, 32, FewRows, Tn>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    skinny_rows_tt_f32 = Skinny<f32, 4, 32, 32, FewRows, Tt>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny_cols_f32 = Skinny<f32, 4, 32, 32, FewCols>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny_cols_nt_f32 = Skinny<f32, 4, 32, 32, FewCols, Nt>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny_cols_tn_f32 = Skinny<f32, 4, 64, 32, FewCols, Tn>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    skinny_cols_tt_f32 = Skinny<f32, 4, 64, 32, FewCols, Tt>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    // SkinnyStaged<T, ROWS, LONG, TM, TN, STAGES, short axis, layouts>: both factors through shared memory, where the
    // large one's rows lie along k.
    skinny4_rows_nt_f32 = SkinnyStaged<f32, 4, 32, 4, 8, 4, FewRows, Nt>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    skinny4_rows_tt_f32 = SkinnyStaged<f32, 4, 32, 4, 8, 4, FewRows, Tt>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    skinny4_cols_f32 = SkinnyStaged<f32, 4, 32, 4, 8, 4, FewCols, Nn>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    skinny4_cols_nt_f32 = SkinnyStaged<f32, 4, 32, 4, 8, 4, FewCols, Nt>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    skinny8_rows_nt_f32 = SkinnyStaged<f32, 8, 32, 8, 4, 4, FewRows, Nt>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny8_rows_tt_f32 = SkinnyStaged<f32, 8, 32, 8, 4, 4, FewRows, Tt>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny8_cols_f32 = SkinnyStaged<f32, 8, 32, 8, 4, 4, FewCols, Nn>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny8_cols_nt_f32 = SkinnyStaged<f32, 8, 32, 8, 4, 4, FewCols, Nt>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny16_rows_nt_f32 = SkinnyStaged<f32, 16, 16, 16, 4, 4, FewRows, Nt>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    skinny16_rows_tt_f32 = SkinnyStaged<f32, 16, 16, 16, 4, 4, FewRows, Tt>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    skinny16_cols_f32 = SkinnyStaged<f32, 16, 16, 16, 4, 4, FewCols, Nn>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    skinny16_cols_nt_f32 = SkinnyStaged<f32, 16, 16, 16, 4, 4, FewCols, Nt>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    skinny32_rows_nt_f32 = SkinnyStaged<f32, 32, 32, 16, 8, 3, FewRows, Nt>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    skinny32_rows_tt_f32 = SkinnyStaged<f32, 32, 32, 16, 8, 3, FewRows, Tt>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    skinny32_cols_f32 = SkinnyStaged<f32, 32, 32, 16, 8, 3, FewCols, Nn>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    skinny32_cols_nt_f32 = SkinnyStaged<f32, 32, 32, 16, 8, 3, FewCols, Nt>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    // From three rows on tensor cores are as fast.
    skinny_rows_f64 = Skinny<f64, 2, 32, 32, FewRows>, epilogue = Linear<f64>, min_blocks = 1, reducer = reduce_f64;
    skinny_rows_nt_f64 = Skinny<f64, 2, 16, 32, FewRows, Nt>, epilogue = Linear<f64>, min_blocks = 2, reducer = reduce_f64;
    skinny_rows_tn_f64 = Skinny<f64, 2, 32, 32, FewRows, Tn>, epilogue = Linear<f64>, min_blocks = 1, reducer = reduce_f64;
    skinny_rows_tt_f64 = Skinny<f64, 2, 16, 32, FewRows, Tt>, epilogue = Linear<f64>, min_blocks = 2, reducer = reduce_f64;
    skinny_cols_f64 = Skinny<f64, 2, 16, 32, FewCols>, epilogue = Linear<f64>, min_blocks = 2, reducer = reduce_f64;
    skinny_cols_nt_f64 = Skinny<f64, 2, 16, 32, FewCols, Nt>, epilogue = Linear<f64>, min_blocks = 2, reducer = reduce_f64;
    skinny_cols_tn_f64 = Skinny<f64, 2, 32, 32, FewCols, Tn>, epilogue = Linear<f64>, min_blocks = 1, reducer = reduce_f64;
    skinny_cols_tt_f64 = Skinny<f64, 2, 32, 32, FewCols, Tt>, epilogue = Linear<f64>, min_blocks = 1, reducer = reduce_f64;
    // Of elements half as long a vector has twice as many: half of the threads have as many bytes in flight. From three
    // rows on tensor cores are faster.
    skinny_rows{L}_{T} = Skinny<T, 2, 64, 32, FewRows, L>, epilogue = Linear<T>, min_blocks = 1, reducer = reduce_{T}, for T in [f16, bf16];
    skinny_cols{L}_{T} = Skinny<T, 2, 64, 32, FewCols, L>, epilogue = Linear<T>, min_blocks = 1, reducer = reduce_{T}, for T in [f16, bf16];
    // Results of f32 are the reducer's to make: the same code.
    skinny_rows{L}_{T}_f32 = Skinny<T, 2, 64, 32, FewRows, L, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_rows{L}_{T}, for T in [f16, bf16];
    skinny_cols{L}_{T}_f32 = Skinny<T, 2, 64, 32, FewCols, L, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_cols{L}_{T}, for T in [f16, bf16];

    // TensorCore<T, BM, BN, BK, TM, TN, STAGES, layouts, D>: 64 x 64 for a warp, and small tiles for small D.
    tensor_core{L}_{T} = TensorCore<T, 128, 128, 32, 8, 16, 4, L>, epilogue = Linear<T>, min_blocks = 2, for T in [f16, bf16];
    tensor_core64{L}_{T} = TensorCore<T, 64, 64, 64, 4, 8, 3, L>, epilogue = Linear<T>, min_blocks = 4, for T in [f16, bf16];
    tensor_core{L}_{T}_f32 = TensorCore<T, 128, 128, 32, 8, 16, 4, L, f32>, epilogue = Linear<f32>, min_blocks = 2, for T in [f16, bf16];
    tensor_core64{L}_{T}_f32 = TensorCore<T, 64, 64, 64, 4, 8, 3, L, f32>, epilogue = Linear<f32>, min_blocks = 4, for T in [f16, bf16];
    // DoubleTensorCore<BM, BN, BK, TM, TN, STAGES, layouts>: 32 x 64 for a warp, less for smaller D, and 48 x 48.
    tensor_core{L}_f64 = DoubleTensorCore<128, 128, 16, 4, 16, 4, L>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core128x64{L}_f64 = DoubleTensorCore<128, 64, 32, 4, 8, 4, L>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core64{L}_f64 = DoubleTensorCore<64, 64, 16, 4, 8, 4, L>, epilogue = Linear<f64>, min_blocks = 3;
    tensor_core32{L}_f64 = DoubleTensorCore<64, 32, 32, 4, 4, 4, L>, epilogue = Linear<f64>, min_blocks = 2;
    tensor_core96{L}_f64 = DoubleTensorCore<96, 96, 16, 6, 12, 4, L>, epilogue = Linear<f64>, min_blocks = 2;
    // DoubleBulk<BM, BN, BK, TM, TN, STAGES, CLUSTER, layouts>: the same in bulk, for large D.
    tensor_core_bulk{L}_f64 = DoubleBulk<128, 128, 16, 4, 16, 6, 2, L>, epilogue = Linear<f64>, min_blocks = 1, factors = mapped;
    tensor_core_bulk128x96{L}_f64 = DoubleBulk<128, 96, 16, 4, 12, 7, 2, L>, epilogue = Linear<f64>, min_blocks = 1, factors = mapped;
    // DoubleClusterSplit<BM, BN, BK, TM, TN, STAGES, layouts>: two blocks for a tile, one of them a multiprocessor or,
    // with shorter slices, three.
    cluster_split64{L}_f64 = DoubleClusterSplit<64, 64, 32, 4, 8, 4, L>, epilogue = Linear<f64>, min_blocks = 1;
    cluster_split64k16{L}_f64 = DoubleClusterSplit<64, 64, 16, 4, 8, 4, L>, epilogue = Linear<f64>, min_blocks = 3;
    cluster_split96{L}_f64 = DoubleClusterSplit<96, 96, 16, 6, 12, 4, L>, epilogue = Linear<f64>, min_blocks = 1;
    // DoubleSplit<BM, BN, BK, TM, TN, STAGES, layouts>: for K deep beside both sides of D, for smaller D of more tiles,
    // and for few rows.
    split_tensor_core{L}_f64 = DoubleSplit<128, 128, 16, 4, 16, 4, L>, epilogue = Linear<f64>, min_blocks = 1, reducer = reduce_f64;
    split_tensor_core64{L}_f64 = DoubleSplit<64, 64, 16, 4, 8, 4, L>, epilogue = Linear<f64>, min_blocks = 3, reducer = reduce_f64;
    split_tensor_core16{L}_f64 = DoubleSplit<16, 64, 32, 2, 4, 4, L>, epilogue = Linear<f64>, min_blocks = 2, reducer = reduce_f64;

    // Warpgroup<T, BM, BN, BK, STAGES, layouts, ABOVE, D, BESIDE, FITS>: 64 rows for each of two warpgroups, or one,
    // and another that brings the slices. Narrower tiles are for smaller D. Clusters have so many blocks above or
    // beside each other, tiles that fit at most BN columns.
    warpgroup{L}_{T} = Warpgroup<T, 128, 256, 64, 4, L>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // A cluster of two blocks, each of which fetches one half of what both take from B.
    warpgroup_pair{L}_{T} = Warpgroup<T, 128, 256, 64, 4, L, 2>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // The same for D of so few tiles that blocks share them, and K that is deep enough for that.
    warpgroup_pair128{L}_{T} = Warpgroup<T, 128, 128, 64, 6, L, 2>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup128{L}_{T} = Warpgroup<T, 128, 128, 64, 6, L>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup64{L}_{T} = Warpgroup<T, 128, 64, 64, 8, L>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // For D of so few rows that one warpgroup has them all, which leaves room for more slices on their way.
    warpgroup64x64{L}_{T} = Warpgroup<T, 64, 64, 64, 13, L>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // Of half as many, as columns of products, which take half the time so: in small tiles, and for D so wide that wide
    // ones are many.
    warpgroup32x64_{T} = Warpgroup<T, 64, 32, 64, 18, SwapAB<Nn>>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup32x64_nt_{T} = Warpgroup<T, 64, 32, 64, 18, SwapAB<Nt>>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup32x128_{T} = Warpgroup<T, 128, 32, 64, 11, SwapAB<Nn>>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup32x128_nt_{T} = Warpgroup<T, 128, 32, 64, 11, SwapAB<Nt>>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // A cluster of two blocks beside each other, each of which fetches one half of what both take from A: for D of so
    // few columns that A is most of it.
    warpgroup_abreast64{L}_{T} = Warpgroup<T, 128, 64, 64, 8, L, 1, T, 2>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // As wide as makes rounds full.
    warpgroup_fitted_nt_{T} = Warpgroup<T, 128, 256, 64, 4, Nt, 1, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_tn_{T} = Warpgroup<T, 128, 256, 64, 4, Tn, 1, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_tt_{T} = Warpgroup<T, 128, 256, 64, 4, Tt, 1, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // As high: of factors whose rows run as those of both row-major ones do, A is the one whose rows run along k.
    warpgroup_fitted_{T} = Warpgroup<T, 128, 256, 64, 4, SwapAB<Nn>, 1, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // The same in pairs, which fetch what is across the width once for both: where rows are no whole sectors of the L2
    // cache and so take longer to fetch.
    warpgroup_fitted_pair_nt_{T} = Warpgroup<T, 128, 256, 64, 4, Nt, 2, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair_tn_{T} = Warpgroup<T, 128, 256, 64, 4, Tn, 2, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair_tt_{T} = Warpgroup<T, 128, 256, 64, 4, Tt, 2, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair_{T} = Warpgroup<T, 128, 256, 64, 4, SwapAB<Nn>, 2, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // The same with twice as many rows and at most 160 columns, in clusters of two beside each other, which fetch the
    // fewest rows for their products.
    warpgroup_fitted_tall_nt_{T} = Warpgroup<T, 256, 160, 64, 3, Nt, 1, T, 2, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_tall_tt_{T} = Warpgroup<T, 256, 160, 64, 3, Tt, 1, T, 2, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_tall_{T} = Warpgroup<T, 256, 160, 64, 3, SwapAB<Nn>, 1, T, 2, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // For row-major factors that is what the kernels above do. Of a transposed B all rows run along k, so tiles can fit
    // the rows of D there as well as its columns: those of any number of tokens, where weights have a round number of
    // columns.
    warpgroup_fitted_rows_nt_{T} = Warpgroup<T, 128, 256, 64, 4, SwapAB<Nt>, 1, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // At most 128 rows of D high and 128 columns wide, where D has too few tiles of more; and so in pairs below each
    // other in D, which fetch what they share of B once for both.
    warpgroup_fitted128_{T} = Warpgroup<T, 128, 128, 64, 6, SwapAB<Nn>, 1, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted128_nt_{T} = Warpgroup<T, 128, 128, 64, 6, SwapAB<Nt>, 1, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair128_{T} = Warpgroup<T, 128, 128, 64, 6, SwapAB<Nn>, 1, T, 2, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair128_nt_{T} = Warpgroup<T, 128, 128, 64, 6, SwapAB<Nt>, 1, T, 2, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // The same as wide as makes rounds full, for few tokens; and half as wide, for fewer: 256 x 6144 are 128 tiles of
    // 128 x 96, and 128 x 6144 are 96 of 128 x 64.
    warpgroup_fitted_cols128_nt_{T} = Warpgroup<T, 128, 128, 64, 6, Nt, 1, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted64_nt_{T} = Warpgroup<T, 64, 128, 64, 8, SwapAB<Nt>, 1, T, 1, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // And two by two, which fetch half of both factors' rows each: for round sizes whose rows are no whole sectors of
    // the L2 cache.
    warpgroup_fitted_quad128_{T} = Warpgroup<T, 128, 128, 64, 6, SwapAB<Nn>, 2, T, 2, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_quad_{T} = Warpgroup<T, 128, 256, 64, 4, SwapAB<Nn>, 2, T, 2, true>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    // Results of f32.
    warpgroup{L}_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, L, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_pair{L}_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, L, 2, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_pair128{L}_{T}_f32 = Warpgroup<T, 128, 128, 64, 6, L, 2, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup128{L}_{T}_f32 = Warpgroup<T, 128, 128, 64, 6, L, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_nt_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, Nt, 1, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_tn_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, Tn, 1, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_tt_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, Tt, 1, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, SwapAB<Nn>, 1, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair_nt_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, Nt, 2, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair_tn_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, Tn, 2, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair_tt_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, Tt, 2, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, SwapAB<Nn>, 2, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_tall_nt_{T}_f32 = Warpgroup<T, 256, 160, 64, 3, Nt, 1, f32, 2, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_tall_tt_{T}_f32 = Warpgroup<T, 256, 160, 64, 3, Tt, 1, f32, 2, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_tall_{T}_f32 = Warpgroup<T, 256, 160, 64, 3, SwapAB<Nn>, 1, f32, 2, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_rows_nt_{T}_f32 = Warpgroup<T, 128, 256, 64, 4, SwapAB<Nt>, 1, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted128_{T}_f32 = Warpgroup<T, 128, 128, 64, 6, SwapAB<Nn>, 1, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted128_nt_{T}_f32 = Warpgroup<T, 128, 128, 64, 6, SwapAB<Nt>, 1, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair128_{T}_f32 = Warpgroup<T, 128, 128, 64, 6, SwapAB<Nn>, 1, f32, 2, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_pair128_nt_{T}_f32 = Warpgroup<T, 128, 128, 64, 6, SwapAB<Nt>, 1, f32, 2, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted_cols128_nt_{T}_f32 = Warpgroup<T, 128, 128, 64, 6, Nt, 1, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_fitted64_nt_{T}_f32 = Warpgroup<T, 64, 128, 64, 8, SwapAB<Nt>, 1, f32, 1, true>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup64{L}_{T}_f32 = Warpgroup<T, 128, 64, 64, 8, L, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup64x64{L}_{T}_f32 = Warpgroup<T, 64, 64, 64, 13, L, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup32x64_{T}_f32 = Warpgroup<T, 64, 32, 64, 18, SwapAB<Nn>, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup32x64_nt_{T}_f32 = Warpgroup<T, 64, 32, 64, 18, SwapAB<Nt>, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup32x128_{T}_f32 = Warpgroup<T, 128, 32, 64, 11, SwapAB<Nn>, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup32x128_nt_{T}_f32 = Warpgroup<T, 128, 32, 64, 11, SwapAB<Nt>, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    warpgroup_abreast64{L}_{T}_f32 = Warpgroup<T, 128, 64, 64, 8, L, 1, f32, 2>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];

    // PingPong<T, STAGES, layouts, D>: a tile of 128 x 128 for each of two warpgroups, which take turns. For K that is
    // short beside what the way to D takes.
    ping_pong{L}_{T} = PingPong<T, 6, L>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    ping_pong{L}_{T}_f32 = PingPong<T, 6, L, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];

    // SplitWarpgroup<T, BM, BN, BK, STAGES, layouts, D>: the smaller tiles of `warpgroup`.
    split_warpgroup128{L}_{T} = SplitWarpgroup<T, 128, 128, 64, 6, L>, epilogue = Linear<T>, min_blocks = 1, reducer = reduce_{T}, factors = mapped, for T in [f16, bf16];
    split_warpgroup64{L}_{T} = SplitWarpgroup<T, 128, 64, 64, 8, L>, epilogue = Linear<T>, min_blocks = 1, reducer = reduce_{T}, factors = mapped, for T in [f16, bf16];
    // Results of f32 are the reducer's to make: the same code.
    split_warpgroup128{L}_{T}_f32 = SplitWarpgroup<T, 128, 128, 64, 6, L, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup128{L}_{T}, for T in [f16, bf16];
    split_warpgroup64{L}_{T}_f32 = SplitWarpgroup<T, 128, 64, 64, 8, L, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup64{L}_{T}, for T in [f16, bf16];

    // ClusterSplit<T, BM, BN, BK, STAGES, layouts, D>: two blocks for a tile. Larger ones are hardly ever the fastest.
    cluster_split64{L}_{T} = ClusterSplit<T, 128, 64, 64, 8, L>, epilogue = Linear<T>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
    cluster_split64{L}_{T}_f32 = ClusterSplit<T, 128, 64, 64, 8, L, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, for T in [f16, bf16];
}
