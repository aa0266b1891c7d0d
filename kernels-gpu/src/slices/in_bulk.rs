//! Slices of A and B by bulk copies, for factors that lie as slices do: A transposed, B row-major.
//!
//! Of such factors a slice is a box, `BK` rows of `BM` or `BN` elements, and a box is what one instruction copies
//! ([`crate::maps`]). One thread brings all slices with two instructions each, where each of 128 threads issues 24
//! copies for a slice of `sliced_k` ([`crate::slices::copies`]), and what their addresses take. Those go through the
//! same schedulers as the multiply-adds, so that what is spared is time. What of a box lies outside of the matrix
//! arrives as zeros, so nobody asks where it ends.
//!
//! Factors that lie otherwise are transposed before, all at once, in a launch of its own:
//! [`crate::prepare::transposed`].

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, consumers};
use crate::ladder::warp_specialised::Bring;
use crate::layout::Layouts;
use crate::maps::{BoxShape, Boxes};
use crate::params::GemmParams;
use crate::slices::clusters::Cluster;
use crate::slices::ring::{Ring, WARP, is_elected};
use crate::slices::{Slices, shared_bytes};
use crate::tile::Origin;
use core::ops::Range;
use cuda_std::bulk_copy::{self, load_3d};
use cuda_std::device_inline;
use cuda_std::swizzle::Swizzle;

/// The boxes of a kernel whose slices come so.
pub const fn boxes<K: GemmKernel>() -> Boxes {
    assert!(matches!(K::LAYOUTS, Layouts::TN), "slices are boxes of factors that lie so");
    let (rows, swizzle) = (K::TILE.bk, Swizzle::None);
    let a = BoxShape { rows, cols: K::TILE.bm, swizzle };
    let b = BoxShape { rows, cols: K::TILE.bn, swizzle };
    Boxes { a, b, rests: false, c: None, d: None }
}

/// In bulk.
pub struct InBulk;

impl Bring for InBulk {
    const IN_BULK: bool = true;

    #[device_inline]
    unsafe fn ring<K: GemmKernel<Element: Element<Acc = K::Element>>, const STAGES: u32>()
    -> Ring<STAGES> {
        // SAFETY: as promised by the caller.
        unsafe {
            Ring::for_bulk_copies(shared_bytes::<K>(), consumers::<K>() / WARP, Cluster::ALONE)
        }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn produce<
        K: GemmKernel<Element: Element<Acc = K::Element>>,
        E: Epilogue<K::Element>,
        const STAGES: u32,
    >(
        p: &GemmParams<K::Element, E>,
        ring: &mut Ring<STAGES>,
        origin: Origin,
        depth: Range<u32>,
    ) {
        // Without depth there are no maps.
        // SAFETY: all producers get here, as promised by the caller.
        if depth.is_empty() || !unsafe { is_elected(consumers::<K>()) } {
            return;
        }
        let bytes = const { (Slices::<K>::LEN * size_of::<K::Element>()) as u32 };
        // SAFETY: as promised by the caller; one thread fills stages, which are empty by then.
        unsafe {
            let (a, b) = p.mapped_factors();
            bulk_copy::prefetch(a.map);
            bulk_copy::prefetch(b.map);
            let mut k = depth.start;
            while k < depth.end {
                let to = Slices::<K>::of_stage(ring.wait_empty());
                let full = ring.expect(bytes);
                load_3d(to.a, a.map, [origin.row as i32, k as i32, a.index], full);
                load_3d(to.b, b.map, [origin.col as i32, k as i32, b.index], full);
                k += K::TILE.bk;
            }
        }
    }
}
