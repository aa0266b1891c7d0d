//! What the memories and multiply-add units of a GPU let a kernel attain.
//!
//! The roofline model (S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model for
//! Multicore Architectures", Communications of the ACM 52(4), 2009): a kernel that does `I` operations for each byte
//! that crosses a boundary of bandwidth `B` attains at most `min(peak, I * B)`. There are three boundaries here:
//!
//! - *global memory*, at the published bandwidth. How much crosses it depends on the caches, so there are two bounds:
//!   all sectors that requests touch ([`Traffic::global_bytes`]), as if there were no cache, and A, B and D once
//!   ([`compulsory_bytes`]), as if caches were perfect. The truth lies between, and nearer to the second the more of A,
//!   B and D the L2 cache holds and the more of the blocks that share rows or columns run at the same time.
//! - *shared memory*: one pass over the banks a clock and multiprocessor, 128 bytes (CUDA C++ Programming Guide,
//!   "Shared Memory": 32 banks of 32 bits a clock), conflicts included; on Turing
//!   [half of one](super::shared_bytes_per_clock).
//! - *the L1 cache*, where perfect caches serve what comes from global memory: it is one unit with shared memory and
//!   hands the lanes of a warp as many bytes a clock (Z. Jia, M. Maggioni, B. Staiger, D. Scarpazza, "Dissecting the
//!   NVIDIA Volta GPU Architecture via Microbenchmarking", 2018), a request counting as no less than a pass. It is what
//!   holds `naive` back when the caches work.
//!
//! Nothing is said about latency, so a kernel on a small matrix stays far below.

use super::{PASS_BYTES, Traffic, compulsory_bytes, operations, shared_bytes_per_clock};
use crate::device::info::DeviceInfo;
use crate::kernels::Problem;
use regemm_kernels::element::Dtype;
use serde::Serialize;
use std::fmt;

/// The bounds of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Roofs {
    /// Floating-point operations a second, outside the tensor cores.
    pub peak_flops: f64,
    /// Those of the tensor cores, if known.
    pub tensor_peak_flops: Option<f64>,
    /// Bytes a second from global memory.
    pub bandwidth: f64,
    /// Bytes a second from the shared memory of all multiprocessors together, and from their L1 caches.
    pub shared_bandwidth: f64,
}

/// What holds a kernel back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The multiply-add units, or the tensor cores.
    Peak,
    /// The banks of shared memory.
    SharedMemory,
    /// The L1 cache.
    L1Cache,
    /// The bandwidth of global memory.
    GlobalMemory,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Bound::Peak => "peak",
            Bound::SharedMemory => "shared memory",
            Bound::L1Cache => "L1 cache",
            Bound::GlobalMemory => "global memory",
        })
    }
}

/// The most that a kernel can attain, and why not more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Attainable {
    /// Floating-point operations a second.
    pub flops: f64,
    /// The lowest roof above the kernel.
    pub bound: Bound,
}

/// A kernel on the roofline of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Placement {
    /// Operations for each byte of the sectors in global memory that requests touch.
    pub global_intensity: f64,
    /// Operations for each byte of A, B and D.
    pub compulsory_intensity: f64,
    /// Operations for each byte that lanes receive from shared memory or store there; none without shared memory.
    pub shared_intensity: Option<f64>,
    /// If every sector came from global memory.
    pub without_caches: Attainable,
    /// If A, B and D came from global memory once and everything else from the L1 cache.
    pub with_perfect_caches: Attainable,
}

impl Roofs {
    /// The roofs of a GPU for an element type. None where one of its numbers is not known, as on the simulator.
    pub fn of(device: &DeviceInfo, dtype: Dtype) -> Option<Roofs> {
        let clock_hz = f64::from(device.clock_khz?) * 1e3;
        Some(Roofs {
            peak_flops: device.peak_flops(dtype)?,
            tensor_peak_flops: device.tensor_peak_flops(dtype),
            bandwidth: device.memory_bandwidth? as f64,
            shared_bandwidth: shared_bytes_per_clock(device.compute_capability) as f64
                * f64::from(device.multiprocessors)
                * clock_hz,
        })
    }

    /// Where a kernel lies that moves this much for a product, below the roofs that are known: `peak` is that of the
    /// units that it [multiplies with](DeviceInfo::peak_flops_of). None for a product without operations.
    pub fn place(
        &self,
        peak: Option<f64>,
        traffic: &Traffic,
        problem: &Problem,
    ) -> Option<Placement> {
        let operations = operations(problem);
        if operations == 0.0 {
            return None;
        }
        let passes = |count: u64| PASS_BYTES as f64 * count as f64;
        let l1_bytes = passes(traffic.global_load_requests).max(traffic.global_load_bytes as f64);
        let compulsory = compulsory_bytes(problem);
        let global = traffic.global_bytes() as f64;
        let roof = |bytes: f64, bandwidth: f64, bound| Attainable {
            flops: operations / bytes * bandwidth,
            bound,
        };
        let peak = Attainable { flops: peak.unwrap_or(f64::INFINITY), bound: Bound::Peak };
        let shared =
            roof(passes(traffic.shared_passes), self.shared_bandwidth, Bound::SharedMemory);
        let on_chip = lower(peak, shared);
        let l1 = roof(l1_bytes, self.shared_bandwidth, Bound::L1Cache);
        let shared_bytes = traffic.shared_bytes() as f64;
        Some(Placement {
            global_intensity: operations / global,
            compulsory_intensity: operations / compulsory,
            shared_intensity: (shared_bytes > 0.0).then(|| operations / shared_bytes),
            without_caches: lower(on_chip, roof(global, self.bandwidth, Bound::GlobalMemory)),
            with_perfect_caches: lower(
                lower(on_chip, l1),
                roof(compulsory, self.bandwidth, Bound::GlobalMemory),
            ),
        })
    }
}

/// The lower of two roofs; the first if they are equal.
fn lower(a: Attainable, b: Attainable) -> Attainable {
    if b.flops < a.flops { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpus;
    use crate::kernels::find;
    use crate::traffic::formula::Formula;

    fn placement(kernel: &str, gpu: &str) -> (Roofs, Placement) {
        let kernel = find(kernel).unwrap();
        let plain = Problem::new(kernel.dtype, 4096, 4096, 4096);
        let problem = Problem { target: kernel.target, ..plain };
        let gpu = gpus::find(gpu).unwrap().info();
        let roofs = Roofs::of(&gpu, kernel.dtype).unwrap();
        let traffic = Formula::new(kernel, &problem).unwrap().traffic;
        (roofs, roofs.place(gpu.peak_flops_of(kernel), &traffic, &problem).unwrap())
    }

    fn close(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-3
    }

    /// 128 bytes x 132 multiprocessors x 1.98 GHz.
    #[test]
    fn roofs_of_an_h200() {
        let (roofs, _) = placement("naive_f32", "h200");
        assert!(close(roofs.shared_bandwidth, 33.45e12), "{roofs:?}");
        assert!(close(roofs.bandwidth, 4.8e12) && close(roofs.peak_flops, 66.9e12), "{roofs:?}");
    }

    /// Five sectors for 32 multiply-adds: 64 operations for 160 bytes.
    #[test]
    fn naive_is_held_back_by_global_memory_or_by_the_cache() {
        let (roofs, place) = placement("naive_f32", "h200");
        assert!(close(place.global_intensity, 0.4), "{place:?}");
        assert_eq!(place.shared_intensity, None);
        assert_eq!(place.without_caches.bound, Bound::GlobalMemory);
        assert!(close(place.without_caches.flops, 0.4 * roofs.bandwidth));
        // Two loads of four bytes for each multiply-add, which is two operations.
        assert_eq!(place.with_perfect_caches.bound, Bound::L1Cache);
        assert!(close(place.with_perfect_caches.flops, 2.0 / 8.0 * roofs.shared_bandwidth));
        // Three matrices once.
        assert!(close(place.compulsory_intensity, 2.0 * 4096.0 / (3.0 * 4.0)));
    }

    /// Tiles of 32 x 32 do 2 * 32 operations for 8 bytes from global memory. In shared memory each multiply-add takes 8
    /// bytes, and every 32 of them 8 bytes that are stored.
    #[test]
    fn tiles_are_held_back_by_shared_memory() {
        let (roofs, place) = placement("tiled32_f32", "h200");
        assert!(close(place.global_intensity, 8.0 / (1.0 + 16.0 / 4096.0)), "{place:?}");
        assert_eq!(place.without_caches, place.with_perfect_caches);
        assert_eq!(place.without_caches.bound, Bound::SharedMemory);
        let shared = 2.0 / (8.0 + 8.0 / 32.0);
        assert!(close(place.shared_intensity.unwrap(), shared), "{place:?}");
        assert!(close(place.without_caches.flops, shared * roofs.shared_bandwidth), "{place:?}");
    }

    /// Their roof is that of tensor cores, and where that is not known there are those of memory.
    #[test]
    fn tensor_cores_have_a_roof_of_their_own() {
        let (roofs, place) = placement("tensor_core_f16", "h200");
        assert!(close(roofs.tensor_peak_flops.unwrap(), 1070.5e12), "{roofs:?}");
        assert!(place.without_caches.flops > 3.0 * roofs.peak_flops, "{place:?}");
        assert_eq!(placement("tiled16_f16", "h200").0, roofs);
        let (roofs, place) = placement("tensor_core_f16", "rtx4090");
        assert_eq!(roofs.tensor_peak_flops, None);
        for attainable in [place.without_caches, place.with_perfect_caches] {
            assert!(attainable.flops.is_finite() && attainable.bound != Bound::Peak, "{place:?}");
        }
        // There they are the few units for f64.
        let (roofs, place) = placement("tensor_core_f64", "rtx4090");
        assert_eq!(roofs.tensor_peak_flops, Some(roofs.peak_flops));
        assert_eq!(place.with_perfect_caches.bound, Bound::Peak);
    }

    /// An RTX 4090 has a fifth of an H200's bandwidth and more multiply-add units: there tiles of 16 are not enough.
    #[test]
    fn the_bound_depends_on_the_gpu() {
        let bound = |gpu| placement("tiled16_f32", gpu).1.without_caches.bound;
        assert_eq!(bound("h200"), Bound::SharedMemory);
        assert_eq!(bound("rtx4090"), Bound::GlobalMemory);
    }

    #[test]
    fn double_precision_reaches_the_peak_where_there_is_little_of_it() {
        let (roofs, place) = placement("pipelined_f64", "rtx4090");
        assert_eq!(
            place.with_perfect_caches,
            Attainable { flops: roofs.peak_flops, bound: Bound::Peak }
        );
    }

    #[test]
    fn no_roofs_without_numbers_and_no_place_without_operations() {
        let info = gpus::find("h200").unwrap().info();
        assert_eq!(Roofs::of(&DeviceInfo { clock_khz: None, ..info.clone() }, Dtype::F32), None);
        let roofs = Roofs::of(&info, Dtype::F32).unwrap();
        let nothing = Problem::new(Dtype::F32, 4, 4, 0);
        assert_eq!(roofs.place(Some(roofs.peak_flops), &Traffic::default(), &nothing), None);
    }
}
