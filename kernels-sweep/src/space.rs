//! The space of configurations, and an instantiation of each that can run.
//!
//! The space is written down once, below: lists of block tiles, and lines of kinds of kernel, thread tiles and lists,
//! each kind with each thread tile on each block tile. Macros make rows of [`gemm_kernels!`] of it; every row is a PTX
//! entry, and [`kernels`] gives the tables of all rows. A kernel is named after its configuration:
//! `sweep_64x64x32_8x4_k_innermost_single` has block tiles of `64 x 64 x 32`, thread tiles of `8 x 4`, k as the
//! innermost loop and a single stage. `sweep_1x1024x32_1x1_k_innermost_direct` is the plainest of those without shared
//! memory: a block is a row of D, or 1024 elements of one, and a thread is an element.
//!
//! What no GPU can run is left out: see [`crate::registers`], and blocks of more than 1024 threads.

use crate::direct::{ALL, Direct};
use crate::loop_order::LoopOrder;
use crate::registers::min_blocks;
use regemm_kernels::epilogue::Linear;
use regemm_kernels::gemm_kernels;
#[cfg(not(target_arch = "nvptx64"))]
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::ladder::double_buffered::DoubleBuffered;
use regemm_kernels::ladder::microkernel::Microkernel;
use regemm_kernels::ladder::pipelined::Pipelined;

/// Continues `$next! { .. }` with the block tiles of a list.
macro_rules! blocks {
    (small, $($next:tt)*) => {
        blocks! { @ [32 x 32 x 32, 32 x 64 x 32, 64 x 32 x 32], $($next)* }
    };
    (row, $($next:tt)*) => {
        blocks! { @ [1 x 128 x 32, 1 x 256 x 32, 1 x 512 x 32, 1 x 1024 x 32], $($next)* }
    };
    (square64x32, $($next:tt)*) => { blocks! { @ [64 x 64 x 32], $($next)* } };
    (square64x64, $($next:tt)*) => { blocks! { @ [64 x 64 x 64], $($next)* } };
    (oblong, $($next:tt)*) => {
        blocks! { @ [128 x 64 x 8, 64 x 128 x 8, 128 x 64 x 16, 64 x 128 x 16], $($next)* }
    };
    (oblong_deep, $($next:tt)*) => { blocks! { @ [128 x 64 x 32, 64 x 128 x 32], $($next)* } };
    (square, $($next:tt)*) => { blocks! { @ [128 x 128 x 8, 128 x 128 x 16], $($next)* } };
    (square_deep, $($next:tt)*) => { blocks! { @ [128 x 128 x 32], $($next)* } };
    (tall, $($next:tt)*) => { blocks! { @ [256 x 128 x 8, 256 x 128 x 16], $($next)* } };
    (tall_deep, $($next:tt)*) => { blocks! { @ [256 x 128 x 32], $($next)* } };
    (@ $blocks:tt, $next:ident! { $($arguments:tt)* }) => { $next! { $($arguments)*, $blocks } };
}

/// The kernel type of a configuration: loop order and staging, then `BM BN BK TM TN`.
macro_rules! kernel {
    (standard single $bm:literal $bn:literal $bk:literal $tm:literal $tn:literal) => {
        LoopOrder<f32, $bm, $bn, $bk, $tm, $tn, 1>
    };
    (k_after_threads single $bm:literal $bn:literal $bk:literal $tm:literal $tn:literal) => {
        LoopOrder<f32, $bm, $bn, $bk, $tm, $tn, $bk>
    };
    (standard direct $bm:literal $bn:literal $bk:literal $tm:literal $tn:literal) => {
        Direct<f32, $bm, $bn, $bk, $tm, $tn, 1>
    };
    (k_after_threads direct $bm:literal $bn:literal $bk:literal $tm:literal $tn:literal) => {
        Direct<f32, $bm, $bn, $bk, $tm, $tn, $bk>
    };
    (k_innermost direct $bm:literal $bn:literal $bk:literal $tm:literal $tn:literal) => {
        Direct<f32, $bm, $bn, $bk, $tm, $tn, { ALL }>
    };
    (k_innermost single $($size:literal)*) => { Microkernel<f32, $($size),*> };
    (k_innermost double $($size:literal)*) => { DoubleBuffered<f32, $($size),*> };
    (k_innermost async2 $($size:literal)*) => { Pipelined<f32, $($size),*, 2> };
    (k_innermost async3 $($size:literal)*) => { Pipelined<f32, $($size),*, 3> };
    (k_innermost async4 $($size:literal)*) => { Pipelined<f32, $($size),*, 4> };
}

/// The rows of one kind and one thread tile on a list of block tiles.
macro_rules! rows {
    (
        $table:ident, $order:ident $staging:ident, $tm:literal x $tn:literal,
        [$($bm:literal x $bn:literal x $bk:literal),*]
    ) => {
        pastey::paste! {
            gemm_kernels! {
                /// The kernels of this kind with this thread tile on this list of block tiles.
                $table:
                $(
                    [<sweep_ $bm x $bn x $bk _ $tm x $tn _ $order _ $staging>] =
                        kernel!($order $staging $bm $bn $bk $tm $tn),
                        epilogue = Linear<f32>,
                        min_blocks = min_blocks::<kernel!($order $staging $bm $bn $bk $tm $tn)>();
                )*
            }
        }
    };
}

/// A module of the rows of one kind and one thread tile: a table for each list of block tiles.
macro_rules! thread_tile {
    ($order:ident $staging:ident, $tm:literal x $tn:literal, [$($list:ident),*]) => {
        pastey::paste! {
            mod [<tiles_ $tm x $tn>] {
                use super::*;

                $(blocks! { $list, rows! { [<$list:upper>], $order $staging, $tm x $tn } })*

                #[cfg(not(target_arch = "nvptx64"))]
                pub static TABLES: &[&[KernelInfo]] = &[$([<$list:upper>]),*];
            }
        }
    };
}

/// A module for each kind: a module for each of its thread tiles.
macro_rules! kind {
    ($order:ident $staging:ident, [$($tm:literal x $tn:literal),*], $lists:tt) => {
        pastey::paste! {
            mod [<$order _ $staging>] {
                use super::*;

                $(thread_tile! { $order $staging, $tm x $tn, $lists })*

                #[cfg(not(target_arch = "nvptx64"))]
                pub static TABLES: &[&[&[KernelInfo]]] = &[$([<tiles_ $tm x $tn>]::TABLES),*];
            }
        }
    };
}

/// A module for each line: each of its kinds with each of its thread tiles on each block tile of its lists.
macro_rules! space {
    ($(
        $line:ident: [$($order:ident $staging:ident),*], thread tiles $threads:tt, block tiles $lists:tt;
    )*) => {
        $(
            mod $line {
                use super::*;

                $(kind! { $order $staging, $threads, $lists })*

                #[cfg(not(target_arch = "nvptx64"))]
                pastey::paste! {
                    pub static TABLES: &[&[&[&[KernelInfo]]]] =
                        &[$([<$order _ $staging>]::TABLES),*];
                }
            }
        )*

        /// The kernels of all configurations that some GPU can run, in no order that means anything.
        #[cfg(not(target_arch = "nvptx64"))]
        pub fn kernels() -> impl Iterator<Item = &'static KernelInfo> {
            let kinds = [$($line::TABLES),*].into_iter().flatten();
            kinds.flat_map(|kind| kind.iter()).flat_map(|tables| tables.iter()).copied().flatten()
        }
    };
}

space! {
    loop_orders: [standard single, k_after_threads single, k_innermost single],
        thread tiles [2 x 2, 4 x 4, 4 x 8, 8 x 4, 8 x 8],
        block tiles [small, square64x32, square64x64];

    // Larger block tiles. Of 256 x 128 elements 4 x 4 a thread would be 2048 threads.
    larger_blocks: [k_innermost single],
        thread tiles [4 x 8, 8 x 4, 8 x 8],
        block tiles [oblong, oblong_deep, square, square_deep, tall, tall_deep];
    larger_blocks_4x4: [k_innermost single],
        thread tiles [4 x 4],
        block tiles [oblong, oblong_deep, square, square_deep];
    larger_threads: [k_innermost single],
        thread tiles [8 x 16],
        block tiles [
            square64x32, square64x64, oblong, oblong_deep, square, square_deep, tall, tall_deep
        ];

    // Without shared memory: the same tiles; and a block for a row of D or a part of one, a thread for an element.
    direct: [standard direct, k_after_threads direct, k_innermost direct],
        thread tiles [2 x 2, 4 x 4, 4 x 8, 8 x 4, 8 x 8],
        block tiles [small, square64x32, square64x64];
    direct_rows: [standard direct, k_after_threads direct, k_innermost direct],
        thread tiles [1 x 1],
        block tiles [row];

    // Two stages through registers. Not with what needs too many registers.
    double: [k_innermost double],
        thread tiles [4 x 4, 8 x 4],
        block tiles [square64x32, square64x64];
    double_8x8: [k_innermost double],
        thread tiles [8 x 8],
        block tiles [square64x32, oblong, oblong_deep, square, square_deep, tall];
    double_8x16: [k_innermost double],
        thread tiles [8 x 16],
        block tiles [oblong, square, tall, tall_deep];

    // Two to four stages by asynchronous copies.
    pipelined: [k_innermost async2, k_innermost async3, k_innermost async4],
        thread tiles [4 x 4, 8 x 4],
        block tiles [square64x32, square64x64];
    pipelined_8x8: [k_innermost async2, k_innermost async3, k_innermost async4],
        thread tiles [8 x 8],
        block tiles [
            square64x32, square64x64, oblong, oblong_deep, square, square_deep, tall, tall_deep
        ];
    pipelined_8x16: [k_innermost async2, k_innermost async3, k_innermost async4],
        thread tiles [8 x 16],
        block tiles [oblong, oblong_deep, square, square_deep, tall, tall_deep];
}
