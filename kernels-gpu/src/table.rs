//! Every instantiation of every kernel. PTX entries, their names, the host's table and launch bounds come from here and
//! from nowhere else: a new kernel is a new row.
//!
//! The feature `entries` (on by default) makes PTX entries of the rows. A kernel crate that instantiates kernels of its
//! own switches it off, or its PTX would contain these as well.

use crate::cluster_split::ClusterSplit;
use crate::decoupled::Decoupled;
use crate::double_buffered::DoubleBuffered;
use crate::double_cluster_split::DoubleClusterSplit;
use crate::double_tensor_core::DoubleTensorCore;
use crate::epilogue::Linear;
use crate::halves::Halves;
use crate::layout::{Nn, Nt, Tn, Tt};
use crate::microkernel::Microkernel;
use crate::naive::Naive;
use crate::pipelined::Pipelined;
use crate::repack::{self, Repack};
use crate::rounded::Rounded;
use crate::skinny::{FewCols, FewRows, Skinny};
use crate::sliced_k::SlicedK;
use crate::split::{self, Split};
use crate::split_halves::SplitHalves;
use crate::split_k::SplitK;
use crate::split_sliced_k::SplitSlicedK;
use crate::split_warpgroup::SplitWarpgroup;
use crate::stream_k::StreamK;
use crate::tensor_core::TensorCore;
use crate::tiled::Tiled;
use crate::warp_halves::WarpHalves;
use crate::warp_specialised::WarpSpecialised;
use crate::warp_tiled::WarpTiled;
use crate::warpgroup::Warpgroup;
use crate::{gemm_kernels, reducers};
use half::{bf16, f16};

#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
reducers! {
    /// The second launches of kernels with the built-in epilogue whose K is split.
    REDUCERS:

    reduce_f32 = f32, epilogue = Linear<f32>;
    reduce_f16 = f16, epilogue = Linear<f16>;
    reduce_bf16 = bf16, epilogue = Linear<bf16>;
    // Of halves: it leaves at once where the kernel before it has.
    reduce_unmarked_f32 = f32, epilogue = Linear<f32>, only = unmarked;
}

/// The launch before a product whose factors bulk copies cannot take as they are.
///
/// # Safety
/// As [`repack`](repack::repack).
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
#[cuda_std::kernel(max_threads = repack::THREADS, min_blocks = repack::MIN_BLOCKS, early_start)]
pub unsafe fn repack_factors(params: Repack) {
    cuda_std::early_start::wait();
    // SAFETY: the launcher keeps the contract.
    unsafe { repack::repack(params) }
}

/// [`repack_factors()`] as the host sees it.
#[cfg(not(target_arch = "nvptx64"))]
pub static REPACKER: cuda_std::entry::KernelEntry = repack_factors::ENTRY;

/// The launch before a product of f32 that tensor cores multiply by halves.
///
/// # Safety
/// As [`split`](split::split).
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
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
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
#[cuda_std::kernel(max_threads = split::THREADS, min_blocks = split::MIN_BLOCKS, early_start)]
pub unsafe fn round_factors(params: Split) {
    cuda_std::early_start::wait();
    // SAFETY: the launcher keeps the contract.
    unsafe { split::split::<1>(params) }
}

/// [`round_factors()`] as the host sees it.
#[cfg(not(target_arch = "nvptx64"))]
pub static ROUNDER: cuda_std::entry::KernelEntry = round_factors::ENTRY;

#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
gemm_kernels! {
    /// All kernels with the built-in epilogue for f32 in two [halves](crate::halves), by layouts. They are apart from the others, since they do not
    /// give what others give.
    HALVES:

    // Halves<BM, BN, STAGES, layouts, CLUSTER>
    halves_f32 = Halves<128, 128, 3>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, only = unmarked;
    halves_nt_f32 = Halves<128, 128, 3, Nt>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, only = unmarked;
    halves_tn_f32 = Halves<128, 128, 3, Tn>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, only = unmarked;
    halves_tt_f32 = Halves<128, 128, 3, Tt>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, only = unmarked;
    // Small tiles for small D.
    halves64_f32 = Halves<128, 64, 4>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, only = unmarked;
    halves64_nt_f32 = Halves<128, 64, 4, Nt>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, only = unmarked;
    halves64_tn_f32 = Halves<128, 64, 4, Tn>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, only = unmarked;
    halves64_tt_f32 = Halves<128, 64, 4, Tt>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped, only = unmarked;

    // SplitHalves<BM, BN, STAGES, layouts>: several blocks for a tile where tiles are few and K is deep.
    split_halves_f32 = SplitHalves<128, 64, 4>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_unmarked_f32, factors = mapped, only = unmarked;
    split_halves_nt_f32 = SplitHalves<128, 64, 4, Nt>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_unmarked_f32, factors = mapped, only = unmarked;
    split_halves_tn_f32 = SplitHalves<128, 64, 4, Tn>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_unmarked_f32, factors = mapped, only = unmarked;
    split_halves_tt_f32 = SplitHalves<128, 64, 4, Tt>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_unmarked_f32, factors = mapped, only = unmarked;

    // WarpHalves<BM, BN, TM, TN, STAGES, layouts>: for devices that cannot run those.
    warp_halves_f32 = WarpHalves<128, 128, 8, 8, 3>, epilogue = Linear<f32>, min_blocks = 1, only = unmarked;
    warp_halves_nt_f32 = WarpHalves<128, 128, 8, 8, 3, Nt>, epilogue = Linear<f32>, min_blocks = 1, only = unmarked;
    warp_halves_tn_f32 = WarpHalves<128, 128, 8, 8, 3, Tn>, epilogue = Linear<f32>, min_blocks = 1, only = unmarked;
    warp_halves_tt_f32 = WarpHalves<128, 128, 8, 8, 3, Tt>, epilogue = Linear<f32>, min_blocks = 1, only = unmarked;
}

#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
gemm_kernels! {
    /// The kernels that compute exactly what halves cannot stand for, by layouts: they are launched behind one of [`HALVES`], and leave at once
    /// unless that has [found a mark](crate::decision). One of `KERNELS` for each, so that bits are those of any that sums in ascending
    /// order; it is one that every device can run.
    IF_MARKED:

    warp_tiled_if_marked_f32 = WarpTiled<f32, 64, 128, 16, 8, 8, 3>, epilogue = Linear<f32>, min_blocks = 4, only = marked;
    warp_tiled_if_marked_nt_f32 = WarpTiled<f32, 64, 128, 16, 8, 8, 3, Nt>, epilogue = Linear<f32>, min_blocks = 4, only = marked;
    warp_tiled_if_marked_tn_f32 = WarpTiled<f32, 64, 128, 16, 8, 8, 3, Tn>, epilogue = Linear<f32>, min_blocks = 4, only = marked;
    warp_tiled_if_marked_tt_f32 = WarpTiled<f32, 64, 128, 16, 8, 8, 3, Tt>, epilogue = Linear<f32>, min_blocks = 4, only = marked;
}

#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
gemm_kernels! {
    /// All kernels with the built-in epilogue for f32 [rounded](crate::rounded) to f16, by layouts: apart from the others for the same reason.
    ROUNDED:

    // Rounded<BN, STAGES, layouts>
    rounded_f32 = Rounded<256, 4>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    rounded_nt_f32 = Rounded<256, 4, Nt>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    rounded_tn_f32 = Rounded<256, 4, Tn>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    rounded_tt_f32 = Rounded<256, 4, Tt>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
}

#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
gemm_kernels! {
    /// All kernels with the built-in epilogue for f32 rounded to [TF32](cuda_std::mma::tf32), by layouts: apart from the others for the same reason.
    TF32:

    // TensorCore<T, BM, BN, BK, TM, TN, STAGES, layouts>
    tf32_f32 = TensorCore<f32, 128, 128, 16, 8, 16, 4>, epilogue = Linear<f32>, min_blocks = 2;
    tf32_nt_f32 = TensorCore<f32, 128, 128, 16, 8, 16, 4, Nt>, epilogue = Linear<f32>, min_blocks = 2;
    tf32_tn_f32 = TensorCore<f32, 128, 128, 16, 8, 16, 4, Tn>, epilogue = Linear<f32>, min_blocks = 2;
    tf32_tt_f32 = TensorCore<f32, 128, 128, 16, 8, 16, 4, Tt>, epilogue = Linear<f32>, min_blocks = 2;
}

#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
gemm_kernels! {
    /// All kernels with the built-in epilogue, by rung, layouts and element type. A name without layouts means [NN]; where results are
    /// of another type than factors, it ends in both.
    ///
    /// [NN]: crate::layout::Layouts::NN
    KERNELS:

    // Naive<T, BM, BN, layouts>: a block is BM x BN threads, a warp 32 columns of one row.
    naive_f32 = Naive<f32, 8, 32>, epilogue = Linear<f32>, min_blocks = 8;
    naive_f64 = Naive<f64, 8, 32>, epilogue = Linear<f64>, min_blocks = 4;
    naive_f16 = Naive<f16, 8, 32>, epilogue = Linear<f16>, min_blocks = 8;
    naive_bf16 = Naive<bf16, 8, 32>, epilogue = Linear<bf16>, min_blocks = 8;
    naive_nt_f32 = Naive<f32, 8, 32, Nt>, epilogue = Linear<f32>, min_blocks = 8;
    naive_nt_f64 = Naive<f64, 8, 32, Nt>, epilogue = Linear<f64>, min_blocks = 4;
    naive_nt_f16 = Naive<f16, 8, 32, Nt>, epilogue = Linear<f16>, min_blocks = 8;
    naive_nt_bf16 = Naive<bf16, 8, 32, Nt>, epilogue = Linear<bf16>, min_blocks = 8;
    naive_tn_f32 = Naive<f32, 8, 32, Tn>, epilogue = Linear<f32>, min_blocks = 8;
    naive_tn_f64 = Naive<f64, 8, 32, Tn>, epilogue = Linear<f64>, min_blocks = 4;
    naive_tn_f16 = Naive<f16, 8, 32, Tn>, epilogue = Linear<f16>, min_blocks = 8;
    naive_tn_bf16 = Naive<bf16, 8, 32, Tn>, epilogue = Linear<bf16>, min_blocks = 8;
    naive_tt_f32 = Naive<f32, 8, 32, Tt>, epilogue = Linear<f32>, min_blocks = 8;
    naive_tt_f64 = Naive<f64, 8, 32, Tt>, epilogue = Linear<f64>, min_blocks = 4;
    naive_tt_f16 = Naive<f16, 8, 32, Tt>, epilogue = Linear<f16>, min_blocks = 8;
    naive_tt_bf16 = Naive<bf16, 8, 32, Tt>, epilogue = Linear<bf16>, min_blocks = 8;
    // Results of f32, for devices that have no tensor cores. Fewer blocks, since addresses of two types take more registers.
    naive_f16_f32 = Naive<f16, 8, 32, Nn, f32>, epilogue = Linear<f32>, min_blocks = 5;
    naive_bf16_f32 = Naive<bf16, 8, 32, Nn, f32>, epilogue = Linear<f32>, min_blocks = 5;
    naive_nt_f16_f32 = Naive<f16, 8, 32, Nt, f32>, epilogue = Linear<f32>, min_blocks = 5;
    naive_nt_bf16_f32 = Naive<bf16, 8, 32, Nt, f32>, epilogue = Linear<f32>, min_blocks = 5;
    naive_tn_f16_f32 = Naive<f16, 8, 32, Tn, f32>, epilogue = Linear<f32>, min_blocks = 5;
    naive_tn_bf16_f32 = Naive<bf16, 8, 32, Tn, f32>, epilogue = Linear<f32>, min_blocks = 5;
    naive_tt_f16_f32 = Naive<f16, 8, 32, Tt, f32>, epilogue = Linear<f32>, min_blocks = 5;
    naive_tt_bf16_f32 = Naive<bf16, 8, 32, Tt, f32>, epilogue = Linear<f32>, min_blocks = 5;

    // Tiled<T, TILE, layouts>: a block is TILE x TILE threads.
    tiled16_f32 = Tiled<f32, 16>, epilogue = Linear<f32>, min_blocks = 8;
    tiled16_f64 = Tiled<f64, 16>, epilogue = Linear<f64>, min_blocks = 5;
    tiled16_f16 = Tiled<f16, 16>, epilogue = Linear<f16>, min_blocks = 8;
    tiled16_bf16 = Tiled<bf16, 16>, epilogue = Linear<bf16>, min_blocks = 8;
    tiled16_nt_f32 = Tiled<f32, 16, Nt>, epilogue = Linear<f32>, min_blocks = 8;
    tiled16_nt_f64 = Tiled<f64, 16, Nt>, epilogue = Linear<f64>, min_blocks = 5;
    tiled16_nt_f16 = Tiled<f16, 16, Nt>, epilogue = Linear<f16>, min_blocks = 8;
    tiled16_nt_bf16 = Tiled<bf16, 16, Nt>, epilogue = Linear<bf16>, min_blocks = 8;
    tiled16_tn_f32 = Tiled<f32, 16, Tn>, epilogue = Linear<f32>, min_blocks = 8;
    tiled16_tn_f64 = Tiled<f64, 16, Tn>, epilogue = Linear<f64>, min_blocks = 5;
    tiled16_tn_f16 = Tiled<f16, 16, Tn>, epilogue = Linear<f16>, min_blocks = 8;
    tiled16_tn_bf16 = Tiled<bf16, 16, Tn>, epilogue = Linear<bf16>, min_blocks = 8;
    tiled16_tt_f32 = Tiled<f32, 16, Tt>, epilogue = Linear<f32>, min_blocks = 8;
    tiled16_tt_f64 = Tiled<f64, 16, Tt>, epilogue = Linear<f64>, min_blocks = 5;
    tiled16_tt_f16 = Tiled<f16, 16, Tt>, epilogue = Linear<f16>, min_blocks = 8;
    tiled16_tt_bf16 = Tiled<bf16, 16, Tt>, epilogue = Linear<bf16>, min_blocks = 8;
    tiled32_f32 = Tiled<f32, 32>, epilogue = Linear<f32>, min_blocks = 2;
    tiled32_f64 = Tiled<f64, 32>, epilogue = Linear<f64>, min_blocks = 1;
    tiled32_f16 = Tiled<f16, 32>, epilogue = Linear<f16>, min_blocks = 2;
    tiled32_bf16 = Tiled<bf16, 32>, epilogue = Linear<bf16>, min_blocks = 2;
    tiled32_nt_f32 = Tiled<f32, 32, Nt>, epilogue = Linear<f32>, min_blocks = 2;
    tiled32_nt_f64 = Tiled<f64, 32, Nt>, epilogue = Linear<f64>, min_blocks = 1;
    tiled32_nt_f16 = Tiled<f16, 32, Nt>, epilogue = Linear<f16>, min_blocks = 2;
    tiled32_nt_bf16 = Tiled<bf16, 32, Nt>, epilogue = Linear<bf16>, min_blocks = 2;
    tiled32_tn_f32 = Tiled<f32, 32, Tn>, epilogue = Linear<f32>, min_blocks = 2;
    tiled32_tn_f64 = Tiled<f64, 32, Tn>, epilogue = Linear<f64>, min_blocks = 1;
    tiled32_tn_f16 = Tiled<f16, 32, Tn>, epilogue = Linear<f16>, min_blocks = 2;
    tiled32_tn_bf16 = Tiled<bf16, 32, Tn>, epilogue = Linear<bf16>, min_blocks = 2;
    tiled32_tt_f32 = Tiled<f32, 32, Tt>, epilogue = Linear<f32>, min_blocks = 2;
    tiled32_tt_f64 = Tiled<f64, 32, Tt>, epilogue = Linear<f64>, min_blocks = 1;
    tiled32_tt_f16 = Tiled<f16, 32, Tt>, epilogue = Linear<f16>, min_blocks = 2;
    tiled32_tt_bf16 = Tiled<bf16, 32, Tt>, epilogue = Linear<bf16>, min_blocks = 2;

    // Microkernel<T, BM, BN, BK, TM, TN>
    microkernel_f32 = Microkernel<f32, 128, 128, 8, 8, 8>, epilogue = Linear<f32>, min_blocks = 2;
    microkernel_f64 = Microkernel<f64, 64, 64, 8, 4, 4>, epilogue = Linear<f64>, min_blocks = 2;
    microkernel_f16 = Microkernel<f16, 128, 128, 8, 8, 8>, epilogue = Linear<f16>, min_blocks = 2;
    microkernel_bf16 = Microkernel<bf16, 128, 128, 8, 8, 8>, epilogue = Linear<bf16>, min_blocks = 2;

    // Small tiles where D is small: more of them are multiplied at once.
    microkernel32_f32 = Microkernel<f32, 32, 32, 32, 2, 2>, epilogue = Linear<f32>, min_blocks = 5;

    // DoubleBuffered<T, BM, BN, BK, TM, TN>
    double_buffered_f32 = DoubleBuffered<f32, 128, 128, 8, 8, 8>, epilogue = Linear<f32>, min_blocks = 2;
    double_buffered_f64 = DoubleBuffered<f64, 64, 64, 8, 4, 4>, epilogue = Linear<f64>, min_blocks = 2;
    double_buffered_f16 = DoubleBuffered<f16, 128, 128, 8, 8, 8>, epilogue = Linear<f16>, min_blocks = 2;
    double_buffered_bf16 = DoubleBuffered<bf16, 128, 128, 8, 8, 8>, epilogue = Linear<bf16>, min_blocks = 2;
    // Smaller tiles keep more multiprocessors busy where D is small.
    double_buffered64_f32 = DoubleBuffered<f32, 64, 64, 16, 4, 4>, epilogue = Linear<f32>, min_blocks = 4;
    double_buffered64_f16 = DoubleBuffered<f16, 64, 64, 16, 4, 4>, epilogue = Linear<f16>, min_blocks = 4;
    double_buffered64_bf16 = DoubleBuffered<bf16, 64, 64, 16, 4, 4>, epilogue = Linear<bf16>, min_blocks = 4;

    // Pipelined<T, BM, BN, BK, TM, TN, STAGES>: types that need no widening. Which of them is fastest where, the sweep
    // found (`docs/measurements`).
    pipelined_f32 = Pipelined<f32, 64, 128, 16, 8, 8, 3>, epilogue = Linear<f32>, min_blocks = 4;
    pipelined_deep_f32 = Pipelined<f32, 64, 128, 32, 8, 8, 2>, epilogue = Linear<f32>, min_blocks = 4;
    pipelined64_f32 = Pipelined<f32, 64, 64, 32, 8, 4, 2>, epilogue = Linear<f32>, min_blocks = 5;
    pipelined64_deep_f32 = Pipelined<f32, 64, 64, 64, 8, 4, 3>, epilogue = Linear<f32>, min_blocks = 2;
    pipelined_f64 = Pipelined<f64, 64, 64, 8, 4, 4, 3>, epilogue = Linear<f64>, min_blocks = 2;

    // WarpTiled<T, BM, BN, BK, TM, TN, STAGES, layouts>: small tiles, for small D.
    warp_tiled_f32 = WarpTiled<f32, 64, 128, 16, 8, 8, 3>, epilogue = Linear<f32>, min_blocks = 4;
    warp_tiled_nt_f32 = WarpTiled<f32, 64, 128, 16, 8, 8, 3, Nt>, epilogue = Linear<f32>, min_blocks = 4;
    warp_tiled_tn_f32 = WarpTiled<f32, 64, 128, 16, 8, 8, 3, Tn>, epilogue = Linear<f32>, min_blocks = 4;
    warp_tiled_tt_f32 = WarpTiled<f32, 64, 128, 16, 8, 8, 3, Tt>, epilogue = Linear<f32>, min_blocks = 4;
    warp_tiled32_f32 = WarpTiled<f32, 32, 64, 32, 4, 4, 4>, epilogue = Linear<f32>, min_blocks = 3;
    warp_tiled32_nt_f32 = WarpTiled<f32, 32, 64, 32, 4, 4, 4, Nt>, epilogue = Linear<f32>, min_blocks = 3;
    warp_tiled32_tn_f32 = WarpTiled<f32, 32, 64, 32, 4, 4, 4, Tn>, epilogue = Linear<f32>, min_blocks = 3;
    warp_tiled32_tt_f32 = WarpTiled<f32, 32, 64, 32, 4, 4, 4, Tt>, epilogue = Linear<f32>, min_blocks = 3;

    // Decoupled<T, BM, BN, BK, TM, TN, STAGES, layouts>: two warps on each scheduler, and nearly all registers.
    decoupled_f32 = Decoupled<f32, 128, 256, 16, 8, 16, 4>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_nt_f32 = Decoupled<f32, 128, 256, 16, 8, 16, 4, Nt>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_tn_f32 = Decoupled<f32, 128, 256, 16, 8, 16, 4, Tn>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_tt_f32 = Decoupled<f32, 128, 256, 16, 8, 16, 4, Tt>, epilogue = Linear<f32>, min_blocks = 1;

    // WarpSpecialised<T, BM, BN, BK, TM, TN, STAGES, layouts>: a warpgroup of producers beside the two that multiply.
    warp_specialised_f32 = WarpSpecialised<f32, 128, 256, 32, 8, 16, 4>, epilogue = Linear<f32>, min_blocks = 1;

    // SlicedK<T, BM, BN, BK, TM, TN, STAGES, GROUPS, layouts>: a quarter of the tile for all consumers, each a quarter of the depth.
    sliced_k_f32 = SlicedK<f32, 64, 128, 64, 8, 16, 4, 4>, epilogue = Linear<f32>, min_blocks = 1;
    sliced_k_nt_f32 = SlicedK<f32, 64, 128, 64, 8, 16, 4, 4, Nt>, epilogue = Linear<f32>, min_blocks = 1;
    sliced_k_tn_f32 = SlicedK<f32, 64, 128, 64, 8, 16, 4, 4, Tn>, epilogue = Linear<f32>, min_blocks = 1;
    sliced_k_tt_f32 = SlicedK<f32, 64, 128, 64, 8, 16, 4, 4, Tt>, epilogue = Linear<f32>, min_blocks = 1;

    // StreamK<T, BM, BN, BK, TM, TN, STAGES, GROUPS, layouts>: the tiles of `warp_specialised` or `sliced_k`, and nobody idle at the end.
    stream_k_f32 = StreamK<f32, 128, 256, 32, 8, 16, 4, 1>, epilogue = Linear<f32>, min_blocks = 1;
    stream_k_nt_f32 = StreamK<f32, 128, 256, 32, 8, 16, 4, 1, Nt>, epilogue = Linear<f32>, min_blocks = 1;
    stream_k_tn_f32 = StreamK<f32, 128, 256, 32, 8, 16, 4, 1, Tn>, epilogue = Linear<f32>, min_blocks = 1;
    stream_k_tt_f32 = StreamK<f32, 128, 256, 32, 8, 16, 4, 1, Tt>, epilogue = Linear<f32>, min_blocks = 1;
    stream_k64_f32 = StreamK<f32, 64, 128, 64, 8, 16, 4, 4>, epilogue = Linear<f32>, min_blocks = 1;
    stream_k64_nt_f32 = StreamK<f32, 64, 128, 64, 8, 16, 4, 4, Nt>, epilogue = Linear<f32>, min_blocks = 1;
    stream_k64_tn_f32 = StreamK<f32, 64, 128, 64, 8, 16, 4, 4, Tn>, epilogue = Linear<f32>, min_blocks = 1;
    stream_k64_tt_f32 = StreamK<f32, 64, 128, 64, 8, 16, 4, 4, Tt>, epilogue = Linear<f32>, min_blocks = 1;

    // SplitK<T, BM, BN, BK, TM, TN, STAGES, layouts>: the tiles of `warp_tiled`.
    split_k_f32 = SplitK<f32, 64, 128, 16, 8, 8, 3>, epilogue = Linear<f32>, min_blocks = 4, reducer = reduce_f32;
    split_k_nt_f32 = SplitK<f32, 64, 128, 16, 8, 8, 3, Nt>, epilogue = Linear<f32>, min_blocks = 4, reducer = reduce_f32;
    split_k_tn_f32 = SplitK<f32, 64, 128, 16, 8, 8, 3, Tn>, epilogue = Linear<f32>, min_blocks = 4, reducer = reduce_f32;
    split_k_tt_f32 = SplitK<f32, 64, 128, 16, 8, 8, 3, Tt>, epilogue = Linear<f32>, min_blocks = 4, reducer = reduce_f32;
    // SplitSlicedK<T, BM, BN, BK, TM, TN, STAGES, GROUPS, layouts>: the tiles of `sliced_k`.
    split_sliced_k_f32 = SplitSlicedK<f32, 64, 128, 64, 8, 16, 4, 4>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    split_sliced_k_nt_f32 = SplitSlicedK<f32, 64, 128, 64, 8, 16, 4, 4, Nt>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    split_sliced_k_tn_f32 = SplitSlicedK<f32, 64, 128, 64, 8, 16, 4, 4, Tn>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    split_sliced_k_tt_f32 = SplitSlicedK<f32, 64, 128, 64, 8, 16, 4, 4, Tt>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    // A few rows of D, more than are `skinny`.
    split_k16_f32 = SplitK<f32, 16, 256, 16, 4, 8, 3>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    split_k16_nt_f32 = SplitK<f32, 16, 256, 16, 4, 8, 3, Nt>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    split_k16_tn_f32 = SplitK<f32, 16, 256, 16, 4, 8, 3, Tn>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;
    split_k16_tt_f32 = SplitK<f32, 16, 256, 16, 4, 8, 3, Tt>, epilogue = Linear<f32>, min_blocks = 3, reducer = reduce_f32;

    // Skinny<T, ROWS, LONG, GROUPS, short axis, layouts>: where the large factor's rows lie along k, a warp reads whole rows.
    skinny_rows_f32 = Skinny<f32, 4, 64, 32, FewRows>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    skinny_rows_nt_f32 = Skinny<f32, 4, 32, 32, FewRows, Nt>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny_rows_tn_f32 = Skinny<f32, 4, 64, 32, FewRows, Tn>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    skinny_rows_tt_f32 = Skinny<f32, 4, 32, 32, FewRows, Tt>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny_cols_f32 = Skinny<f32, 4, 32, 32, FewCols>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny_cols_nt_f32 = Skinny<f32, 4, 32, 32, FewCols, Nt>, epilogue = Linear<f32>, min_blocks = 2, reducer = reduce_f32;
    skinny_cols_tn_f32 = Skinny<f32, 4, 64, 32, FewCols, Tn>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    skinny_cols_tt_f32 = Skinny<f32, 4, 64, 32, FewCols, Tt>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32;
    // Of elements half as long a vector has twice as many: half of the threads have as many bytes in flight. From three rows on
    // tensor cores are faster.
    skinny_rows_f16 = Skinny<f16, 2, 64, 32, FewRows>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16;
    skinny_rows_nt_f16 = Skinny<f16, 2, 64, 32, FewRows, Nt>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16;
    skinny_rows_tn_f16 = Skinny<f16, 2, 64, 32, FewRows, Tn>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16;
    skinny_rows_tt_f16 = Skinny<f16, 2, 64, 32, FewRows, Tt>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16;
    skinny_cols_f16 = Skinny<f16, 2, 64, 32, FewCols>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16;
    skinny_cols_nt_f16 = Skinny<f16, 2, 64, 32, FewCols, Nt>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16;
    skinny_cols_tn_f16 = Skinny<f16, 2, 64, 32, FewCols, Tn>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16;
    skinny_cols_tt_f16 = Skinny<f16, 2, 64, 32, FewCols, Tt>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16;
    skinny_rows_bf16 = Skinny<bf16, 2, 64, 32, FewRows>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16;
    skinny_rows_nt_bf16 = Skinny<bf16, 2, 64, 32, FewRows, Nt>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16;
    skinny_rows_tn_bf16 = Skinny<bf16, 2, 64, 32, FewRows, Tn>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16;
    skinny_rows_tt_bf16 = Skinny<bf16, 2, 64, 32, FewRows, Tt>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16;
    skinny_cols_bf16 = Skinny<bf16, 2, 64, 32, FewCols>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16;
    skinny_cols_nt_bf16 = Skinny<bf16, 2, 64, 32, FewCols, Nt>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16;
    skinny_cols_tn_bf16 = Skinny<bf16, 2, 64, 32, FewCols, Tn>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16;
    skinny_cols_tt_bf16 = Skinny<bf16, 2, 64, 32, FewCols, Tt>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16;
    // Results of f32 are the reducer's to make: the same code.
    skinny_rows_f16_f32 = Skinny<f16, 2, 64, 32, FewRows, Nn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_rows_f16;
    skinny_rows_nt_f16_f32 = Skinny<f16, 2, 64, 32, FewRows, Nt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_rows_nt_f16;
    skinny_rows_tn_f16_f32 = Skinny<f16, 2, 64, 32, FewRows, Tn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_rows_tn_f16;
    skinny_rows_tt_f16_f32 = Skinny<f16, 2, 64, 32, FewRows, Tt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_rows_tt_f16;
    skinny_cols_f16_f32 = Skinny<f16, 2, 64, 32, FewCols, Nn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_cols_f16;
    skinny_cols_nt_f16_f32 = Skinny<f16, 2, 64, 32, FewCols, Nt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_cols_nt_f16;
    skinny_cols_tn_f16_f32 = Skinny<f16, 2, 64, 32, FewCols, Tn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_cols_tn_f16;
    skinny_cols_tt_f16_f32 = Skinny<f16, 2, 64, 32, FewCols, Tt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_cols_tt_f16;
    skinny_rows_bf16_f32 = Skinny<bf16, 2, 64, 32, FewRows, Nn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_rows_bf16;
    skinny_rows_nt_bf16_f32 = Skinny<bf16, 2, 64, 32, FewRows, Nt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_rows_nt_bf16;
    skinny_rows_tn_bf16_f32 = Skinny<bf16, 2, 64, 32, FewRows, Tn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_rows_tn_bf16;
    skinny_rows_tt_bf16_f32 = Skinny<bf16, 2, 64, 32, FewRows, Tt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_rows_tt_bf16;
    skinny_cols_bf16_f32 = Skinny<bf16, 2, 64, 32, FewCols, Nn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_cols_bf16;
    skinny_cols_nt_bf16_f32 = Skinny<bf16, 2, 64, 32, FewCols, Nt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_cols_nt_bf16;
    skinny_cols_tn_bf16_f32 = Skinny<bf16, 2, 64, 32, FewCols, Tn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_cols_tn_bf16;
    skinny_cols_tt_bf16_f32 = Skinny<bf16, 2, 64, 32, FewCols, Tt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, entry = skinny_cols_tt_bf16;

    // TensorCore<T, BM, BN, BK, TM, TN, STAGES, layouts>: 64 x 64 for a warp, and small tiles for small D.
    tensor_core_f16 = TensorCore<f16, 128, 128, 32, 8, 16, 4>, epilogue = Linear<f16>, min_blocks = 2;
    tensor_core_nt_f16 = TensorCore<f16, 128, 128, 32, 8, 16, 4, Nt>, epilogue = Linear<f16>, min_blocks = 2;
    tensor_core_tn_f16 = TensorCore<f16, 128, 128, 32, 8, 16, 4, Tn>, epilogue = Linear<f16>, min_blocks = 2;
    tensor_core_tt_f16 = TensorCore<f16, 128, 128, 32, 8, 16, 4, Tt>, epilogue = Linear<f16>, min_blocks = 2;
    tensor_core_bf16 = TensorCore<bf16, 128, 128, 32, 8, 16, 4>, epilogue = Linear<bf16>, min_blocks = 2;
    tensor_core_nt_bf16 = TensorCore<bf16, 128, 128, 32, 8, 16, 4, Nt>, epilogue = Linear<bf16>, min_blocks = 2;
    tensor_core_tn_bf16 = TensorCore<bf16, 128, 128, 32, 8, 16, 4, Tn>, epilogue = Linear<bf16>, min_blocks = 2;
    tensor_core_tt_bf16 = TensorCore<bf16, 128, 128, 32, 8, 16, 4, Tt>, epilogue = Linear<bf16>, min_blocks = 2;
    tensor_core64_f16 = TensorCore<f16, 64, 64, 64, 4, 8, 3>, epilogue = Linear<f16>, min_blocks = 4;
    tensor_core64_nt_f16 = TensorCore<f16, 64, 64, 64, 4, 8, 3, Nt>, epilogue = Linear<f16>, min_blocks = 4;
    tensor_core64_tn_f16 = TensorCore<f16, 64, 64, 64, 4, 8, 3, Tn>, epilogue = Linear<f16>, min_blocks = 4;
    tensor_core64_tt_f16 = TensorCore<f16, 64, 64, 64, 4, 8, 3, Tt>, epilogue = Linear<f16>, min_blocks = 4;
    tensor_core64_bf16 = TensorCore<bf16, 64, 64, 64, 4, 8, 3>, epilogue = Linear<bf16>, min_blocks = 4;
    tensor_core64_nt_bf16 = TensorCore<bf16, 64, 64, 64, 4, 8, 3, Nt>, epilogue = Linear<bf16>, min_blocks = 4;
    tensor_core64_tn_bf16 = TensorCore<bf16, 64, 64, 64, 4, 8, 3, Tn>, epilogue = Linear<bf16>, min_blocks = 4;
    tensor_core64_tt_bf16 = TensorCore<bf16, 64, 64, 64, 4, 8, 3, Tt>, epilogue = Linear<bf16>, min_blocks = 4;
    // The same with results of f32.
    tensor_core_f16_f32 = TensorCore<f16, 128, 128, 32, 8, 16, 4, Nn, f32>, epilogue = Linear<f32>, min_blocks = 2;
    tensor_core_nt_f16_f32 = TensorCore<f16, 128, 128, 32, 8, 16, 4, Nt, f32>, epilogue = Linear<f32>, min_blocks = 2;
    tensor_core_tn_f16_f32 = TensorCore<f16, 128, 128, 32, 8, 16, 4, Tn, f32>, epilogue = Linear<f32>, min_blocks = 2;
    tensor_core_tt_f16_f32 = TensorCore<f16, 128, 128, 32, 8, 16, 4, Tt, f32>, epilogue = Linear<f32>, min_blocks = 2;
    tensor_core_bf16_f32 = TensorCore<bf16, 128, 128, 32, 8, 16, 4, Nn, f32>, epilogue = Linear<f32>, min_blocks = 2;
    tensor_core_nt_bf16_f32 = TensorCore<bf16, 128, 128, 32, 8, 16, 4, Nt, f32>, epilogue = Linear<f32>, min_blocks = 2;
    tensor_core_tn_bf16_f32 = TensorCore<bf16, 128, 128, 32, 8, 16, 4, Tn, f32>, epilogue = Linear<f32>, min_blocks = 2;
    tensor_core_tt_bf16_f32 = TensorCore<bf16, 128, 128, 32, 8, 16, 4, Tt, f32>, epilogue = Linear<f32>, min_blocks = 2;
    tensor_core64_f16_f32 = TensorCore<f16, 64, 64, 64, 4, 8, 3, Nn, f32>, epilogue = Linear<f32>, min_blocks = 4;
    tensor_core64_nt_f16_f32 = TensorCore<f16, 64, 64, 64, 4, 8, 3, Nt, f32>, epilogue = Linear<f32>, min_blocks = 4;
    tensor_core64_tn_f16_f32 = TensorCore<f16, 64, 64, 64, 4, 8, 3, Tn, f32>, epilogue = Linear<f32>, min_blocks = 4;
    tensor_core64_tt_f16_f32 = TensorCore<f16, 64, 64, 64, 4, 8, 3, Tt, f32>, epilogue = Linear<f32>, min_blocks = 4;
    tensor_core64_bf16_f32 = TensorCore<bf16, 64, 64, 64, 4, 8, 3, Nn, f32>, epilogue = Linear<f32>, min_blocks = 4;
    tensor_core64_nt_bf16_f32 = TensorCore<bf16, 64, 64, 64, 4, 8, 3, Nt, f32>, epilogue = Linear<f32>, min_blocks = 4;
    tensor_core64_tn_bf16_f32 = TensorCore<bf16, 64, 64, 64, 4, 8, 3, Tn, f32>, epilogue = Linear<f32>, min_blocks = 4;
    tensor_core64_tt_bf16_f32 = TensorCore<bf16, 64, 64, 64, 4, 8, 3, Tt, f32>, epilogue = Linear<f32>, min_blocks = 4;
    // DoubleTensorCore<BM, BN, BK, TM, TN, STAGES, layouts>: 32 x 64 for a warp, and less for smaller D.
    tensor_core_f64 = DoubleTensorCore<128, 128, 16, 4, 16, 4>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core_nt_f64 = DoubleTensorCore<128, 128, 16, 4, 16, 4, Nt>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core_tn_f64 = DoubleTensorCore<128, 128, 16, 4, 16, 4, Tn>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core_tt_f64 = DoubleTensorCore<128, 128, 16, 4, 16, 4, Tt>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core128x64_f64 = DoubleTensorCore<128, 64, 32, 4, 8, 4>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core128x64_nt_f64 = DoubleTensorCore<128, 64, 32, 4, 8, 4, Nt>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core128x64_tn_f64 = DoubleTensorCore<128, 64, 32, 4, 8, 4, Tn>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core128x64_tt_f64 = DoubleTensorCore<128, 64, 32, 4, 8, 4, Tt>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core64_f64 = DoubleTensorCore<64, 64, 16, 4, 8, 4>, epilogue = Linear<f64>, min_blocks = 3;
    tensor_core64_nt_f64 = DoubleTensorCore<64, 64, 16, 4, 8, 4, Nt>, epilogue = Linear<f64>, min_blocks = 3;
    tensor_core64_tn_f64 = DoubleTensorCore<64, 64, 16, 4, 8, 4, Tn>, epilogue = Linear<f64>, min_blocks = 3;
    tensor_core64_tt_f64 = DoubleTensorCore<64, 64, 16, 4, 8, 4, Tt>, epilogue = Linear<f64>, min_blocks = 3;
    tensor_core32_f64 = DoubleTensorCore<64, 32, 32, 4, 4, 4>, epilogue = Linear<f64>, min_blocks = 2;
    tensor_core32_nt_f64 = DoubleTensorCore<64, 32, 32, 4, 4, 4, Nt>, epilogue = Linear<f64>, min_blocks = 2;
    tensor_core32_tn_f64 = DoubleTensorCore<64, 32, 32, 4, 4, 4, Tn>, epilogue = Linear<f64>, min_blocks = 2;
    tensor_core32_tt_f64 = DoubleTensorCore<64, 32, 32, 4, 4, 4, Tt>, epilogue = Linear<f64>, min_blocks = 2;
    // DoubleClusterSplit<BM, BN, BK, TM, TN, STAGES, layouts>: two blocks for a tile.
    cluster_split64_f64 = DoubleClusterSplit<64, 64, 32, 4, 8, 4>, epilogue = Linear<f64>, min_blocks = 1;
    cluster_split64_nt_f64 = DoubleClusterSplit<64, 64, 32, 4, 8, 4, Nt>, epilogue = Linear<f64>, min_blocks = 1;
    cluster_split64_tn_f64 = DoubleClusterSplit<64, 64, 32, 4, 8, 4, Tn>, epilogue = Linear<f64>, min_blocks = 1;
    cluster_split64_tt_f64 = DoubleClusterSplit<64, 64, 32, 4, 8, 4, Tt>, epilogue = Linear<f64>, min_blocks = 1;

    // Warpgroup<T, BM, BN, BK, STAGES, layouts, CLUSTER>: 64 rows for each of two warpgroups, and a third that brings the slices. Narrower tiles
    // are for smaller D.
    warpgroup_f16 = Warpgroup<f16, 128, 256, 64, 4>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_nt_f16 = Warpgroup<f16, 128, 256, 64, 4, Nt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_tn_f16 = Warpgroup<f16, 128, 256, 64, 4, Tn>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_tt_f16 = Warpgroup<f16, 128, 256, 64, 4, Tt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_bf16 = Warpgroup<bf16, 128, 256, 64, 4>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup_nt_bf16 = Warpgroup<bf16, 128, 256, 64, 4, Nt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup_tn_bf16 = Warpgroup<bf16, 128, 256, 64, 4, Tn>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup_tt_bf16 = Warpgroup<bf16, 128, 256, 64, 4, Tt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    // A cluster of two blocks, each of which fetches one half of what both take from B.
    warpgroup_pair_f16 = Warpgroup<f16, 128, 256, 64, 4, Nn, 2>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_pair_nt_f16 = Warpgroup<f16, 128, 256, 64, 4, Nt, 2>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_pair_tn_f16 = Warpgroup<f16, 128, 256, 64, 4, Tn, 2>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_pair_tt_f16 = Warpgroup<f16, 128, 256, 64, 4, Tt, 2>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_pair_bf16 = Warpgroup<bf16, 128, 256, 64, 4, Nn, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup_pair_nt_bf16 = Warpgroup<bf16, 128, 256, 64, 4, Nt, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup_pair_tn_bf16 = Warpgroup<bf16, 128, 256, 64, 4, Tn, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup_pair_tt_bf16 = Warpgroup<bf16, 128, 256, 64, 4, Tt, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup128_f16 = Warpgroup<f16, 128, 128, 64, 6>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup128_nt_f16 = Warpgroup<f16, 128, 128, 64, 6, Nt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup128_tn_f16 = Warpgroup<f16, 128, 128, 64, 6, Tn>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup128_tt_f16 = Warpgroup<f16, 128, 128, 64, 6, Tt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup128_bf16 = Warpgroup<bf16, 128, 128, 64, 6>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup128_nt_bf16 = Warpgroup<bf16, 128, 128, 64, 6, Nt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup128_tn_bf16 = Warpgroup<bf16, 128, 128, 64, 6, Tn>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup128_tt_bf16 = Warpgroup<bf16, 128, 128, 64, 6, Tt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup64_f16 = Warpgroup<f16, 128, 64, 64, 8>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup64_nt_f16 = Warpgroup<f16, 128, 64, 64, 8, Nt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup64_tn_f16 = Warpgroup<f16, 128, 64, 64, 8, Tn>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup64_tt_f16 = Warpgroup<f16, 128, 64, 64, 8, Tt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup64_bf16 = Warpgroup<bf16, 128, 64, 64, 8>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup64_nt_bf16 = Warpgroup<bf16, 128, 64, 64, 8, Nt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup64_tn_bf16 = Warpgroup<bf16, 128, 64, 64, 8, Tn>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup64_tt_bf16 = Warpgroup<bf16, 128, 64, 64, 8, Tt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    // For D of few columns, or such as make no whole tiles of 256: twice as many rows, two pieces of 64 for each warpgroup; or 192 columns.
    warpgroup_tall_f16 = Warpgroup<f16, 256, 128, 64, 4>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_tall_nt_f16 = Warpgroup<f16, 256, 128, 64, 4, Nt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_tall_tn_f16 = Warpgroup<f16, 256, 128, 64, 4, Tn>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_tall_tt_f16 = Warpgroup<f16, 256, 128, 64, 4, Tt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup_tall_bf16 = Warpgroup<bf16, 256, 128, 64, 4>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup_tall_nt_bf16 = Warpgroup<bf16, 256, 128, 64, 4, Nt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup_tall_tn_bf16 = Warpgroup<bf16, 256, 128, 64, 4, Tn>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup_tall_tt_bf16 = Warpgroup<bf16, 256, 128, 64, 4, Tt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup192_f16 = Warpgroup<f16, 128, 192, 64, 4>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup192_nt_f16 = Warpgroup<f16, 128, 192, 64, 4, Nt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup192_tn_f16 = Warpgroup<f16, 128, 192, 64, 4, Tn>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup192_tt_f16 = Warpgroup<f16, 128, 192, 64, 4, Tt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    warpgroup192_bf16 = Warpgroup<bf16, 128, 192, 64, 4>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup192_nt_bf16 = Warpgroup<bf16, 128, 192, 64, 4, Nt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup192_tn_bf16 = Warpgroup<bf16, 128, 192, 64, 4, Tn>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    warpgroup192_tt_bf16 = Warpgroup<bf16, 128, 192, 64, 4, Tt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    // The same with results of f32.
    warpgroup_f16_f32 = Warpgroup<f16, 128, 256, 64, 4, Nn, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup_nt_f16_f32 = Warpgroup<f16, 128, 256, 64, 4, Nt, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup_tn_f16_f32 = Warpgroup<f16, 128, 256, 64, 4, Tn, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup_tt_f16_f32 = Warpgroup<f16, 128, 256, 64, 4, Tt, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup_bf16_f32 = Warpgroup<bf16, 128, 256, 64, 4, Nn, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup_nt_bf16_f32 = Warpgroup<bf16, 128, 256, 64, 4, Nt, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup_tn_bf16_f32 = Warpgroup<bf16, 128, 256, 64, 4, Tn, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup_tt_bf16_f32 = Warpgroup<bf16, 128, 256, 64, 4, Tt, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup64_f16_f32 = Warpgroup<f16, 128, 64, 64, 8, Nn, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup64_nt_f16_f32 = Warpgroup<f16, 128, 64, 64, 8, Nt, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup64_tn_f16_f32 = Warpgroup<f16, 128, 64, 64, 8, Tn, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup64_tt_f16_f32 = Warpgroup<f16, 128, 64, 64, 8, Tt, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup64_bf16_f32 = Warpgroup<bf16, 128, 64, 64, 8, Nn, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup64_nt_bf16_f32 = Warpgroup<bf16, 128, 64, 64, 8, Nt, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup64_tn_bf16_f32 = Warpgroup<bf16, 128, 64, 64, 8, Tn, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    warpgroup64_tt_bf16_f32 = Warpgroup<bf16, 128, 64, 64, 8, Tt, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;

    // SplitWarpgroup<T, BM, BN, BK, STAGES, layouts>: the smaller tiles of `warpgroup`.
    split_warpgroup128_f16 = SplitWarpgroup<f16, 128, 128, 64, 6>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16, factors = mapped;
    split_warpgroup128_nt_f16 = SplitWarpgroup<f16, 128, 128, 64, 6, Nt>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16, factors = mapped;
    split_warpgroup128_tn_f16 = SplitWarpgroup<f16, 128, 128, 64, 6, Tn>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16, factors = mapped;
    split_warpgroup128_tt_f16 = SplitWarpgroup<f16, 128, 128, 64, 6, Tt>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16, factors = mapped;
    split_warpgroup128_bf16 = SplitWarpgroup<bf16, 128, 128, 64, 6>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16, factors = mapped;
    split_warpgroup128_nt_bf16 = SplitWarpgroup<bf16, 128, 128, 64, 6, Nt>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16, factors = mapped;
    split_warpgroup128_tn_bf16 = SplitWarpgroup<bf16, 128, 128, 64, 6, Tn>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16, factors = mapped;
    split_warpgroup128_tt_bf16 = SplitWarpgroup<bf16, 128, 128, 64, 6, Tt>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16, factors = mapped;
    split_warpgroup64_f16 = SplitWarpgroup<f16, 128, 64, 64, 8>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16, factors = mapped;
    split_warpgroup64_nt_f16 = SplitWarpgroup<f16, 128, 64, 64, 8, Nt>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16, factors = mapped;
    split_warpgroup64_tn_f16 = SplitWarpgroup<f16, 128, 64, 64, 8, Tn>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16, factors = mapped;
    split_warpgroup64_tt_f16 = SplitWarpgroup<f16, 128, 64, 64, 8, Tt>, epilogue = Linear<f16>, min_blocks = 1, reducer = reduce_f16, factors = mapped;
    split_warpgroup64_bf16 = SplitWarpgroup<bf16, 128, 64, 64, 8>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16, factors = mapped;
    split_warpgroup64_nt_bf16 = SplitWarpgroup<bf16, 128, 64, 64, 8, Nt>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16, factors = mapped;
    split_warpgroup64_tn_bf16 = SplitWarpgroup<bf16, 128, 64, 64, 8, Tn>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16, factors = mapped;
    split_warpgroup64_tt_bf16 = SplitWarpgroup<bf16, 128, 64, 64, 8, Tt>, epilogue = Linear<bf16>, min_blocks = 1, reducer = reduce_bf16, factors = mapped;
    // Results of f32 are the reducer's to make: the same code.
    split_warpgroup128_f16_f32 = SplitWarpgroup<f16, 128, 128, 64, 6, Nn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup128_f16;
    split_warpgroup128_nt_f16_f32 = SplitWarpgroup<f16, 128, 128, 64, 6, Nt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup128_nt_f16;
    split_warpgroup128_tn_f16_f32 = SplitWarpgroup<f16, 128, 128, 64, 6, Tn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup128_tn_f16;
    split_warpgroup128_tt_f16_f32 = SplitWarpgroup<f16, 128, 128, 64, 6, Tt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup128_tt_f16;
    split_warpgroup128_bf16_f32 = SplitWarpgroup<bf16, 128, 128, 64, 6, Nn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup128_bf16;
    split_warpgroup128_nt_bf16_f32 = SplitWarpgroup<bf16, 128, 128, 64, 6, Nt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup128_nt_bf16;
    split_warpgroup128_tn_bf16_f32 = SplitWarpgroup<bf16, 128, 128, 64, 6, Tn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup128_tn_bf16;
    split_warpgroup128_tt_bf16_f32 = SplitWarpgroup<bf16, 128, 128, 64, 6, Tt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup128_tt_bf16;
    split_warpgroup64_f16_f32 = SplitWarpgroup<f16, 128, 64, 64, 8, Nn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup64_f16;
    split_warpgroup64_nt_f16_f32 = SplitWarpgroup<f16, 128, 64, 64, 8, Nt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup64_nt_f16;
    split_warpgroup64_tn_f16_f32 = SplitWarpgroup<f16, 128, 64, 64, 8, Tn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup64_tn_f16;
    split_warpgroup64_tt_f16_f32 = SplitWarpgroup<f16, 128, 64, 64, 8, Tt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup64_tt_f16;
    split_warpgroup64_bf16_f32 = SplitWarpgroup<bf16, 128, 64, 64, 8, Nn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup64_bf16;
    split_warpgroup64_nt_bf16_f32 = SplitWarpgroup<bf16, 128, 64, 64, 8, Nt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup64_nt_bf16;
    split_warpgroup64_tn_bf16_f32 = SplitWarpgroup<bf16, 128, 64, 64, 8, Tn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup64_tn_bf16;
    split_warpgroup64_tt_bf16_f32 = SplitWarpgroup<bf16, 128, 64, 64, 8, Tt, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped, entry = split_warpgroup64_tt_bf16;

    // ClusterSplit<T, BM, BN, BK, STAGES, layouts>: the same tiles, two blocks for each.
    cluster_split128_f16 = ClusterSplit<f16, 128, 128, 64, 6>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    cluster_split128_nt_f16 = ClusterSplit<f16, 128, 128, 64, 6, Nt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    cluster_split128_tn_f16 = ClusterSplit<f16, 128, 128, 64, 6, Tn>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    cluster_split128_tt_f16 = ClusterSplit<f16, 128, 128, 64, 6, Tt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    cluster_split128_bf16 = ClusterSplit<bf16, 128, 128, 64, 6>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    cluster_split128_nt_bf16 = ClusterSplit<bf16, 128, 128, 64, 6, Nt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    cluster_split128_tn_bf16 = ClusterSplit<bf16, 128, 128, 64, 6, Tn>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    cluster_split128_tt_bf16 = ClusterSplit<bf16, 128, 128, 64, 6, Tt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    cluster_split64_f16 = ClusterSplit<f16, 128, 64, 64, 8>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    cluster_split64_nt_f16 = ClusterSplit<f16, 128, 64, 64, 8, Nt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    cluster_split64_tn_f16 = ClusterSplit<f16, 128, 64, 64, 8, Tn>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    cluster_split64_tt_f16 = ClusterSplit<f16, 128, 64, 64, 8, Tt>, epilogue = Linear<f16>, min_blocks = 1, factors = mapped;
    cluster_split64_bf16 = ClusterSplit<bf16, 128, 64, 64, 8>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    cluster_split64_nt_bf16 = ClusterSplit<bf16, 128, 64, 64, 8, Nt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    cluster_split64_tn_bf16 = ClusterSplit<bf16, 128, 64, 64, 8, Tn>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    cluster_split64_tt_bf16 = ClusterSplit<bf16, 128, 64, 64, 8, Tt>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
}
