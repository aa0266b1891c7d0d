//! What a device is and what its limits are.

use regemm_kernels::element::Dtype;
use serde::Serialize;

/// Which machine a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A GPU.
    Cuda {
        /// Its index among the driver's devices.
        ordinal: usize,
    },
    /// The SIMT simulator on the CPU.
    Sim,
}

/// A device's name and limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The name the driver gives it.
    pub name: String,
    /// Which machine it is.
    pub kind: DeviceKind,
    /// Compute capability, major and minor; none on the simulator.
    pub compute_capability: Option<(u32, u32)>,
    /// Multiprocessors; on the simulator as many as it [was made with](crate::Device::sim_with_multiprocessors), two unless a number was asked for.
    pub multiprocessors: u32,
    /// Highest clock of the multiprocessors in kHz; none on the simulator.
    pub clock_khz: Option<u32>,
    /// Global memory in bytes.
    pub memory_bytes: u64,
    /// Bandwidth of global memory in bytes a second: on a GPU two transfers in each clock of the memory, over the whole
    /// width of its bus. None on the simulator.
    pub memory_bandwidth: Option<u64>,
    /// L2 cache in bytes; none on the simulator.
    pub l2_bytes: Option<u64>,
    /// Most threads in a block.
    pub max_threads_per_block: u32,
    /// Most threads resident on a multiprocessor.
    pub max_threads_per_multiprocessor: u32,
    /// Most blocks resident on a multiprocessor.
    pub max_blocks_per_multiprocessor: u32,
    /// 32-bit registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Most shared memory a block can ask for, in bytes (the opt-in limit, not the default of 48 KiB).
    pub shared_bytes_per_block: u32,
    /// Shared memory of a multiprocessor in bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// CUDA version that the driver supports, major and minor; none on the simulator.
    pub driver_version: Option<(u32, u32)>,
}

impl DeviceInfo {
    /// Most floating-point operations a second outside the tensor cores, a fused multiply-add counting two: cores of a
    /// multiprocessor x 2 x multiprocessors x highest clock. None on the simulator and for compute capabilities that
    /// are not listed here. f16 and bf16 kernels accumulate in f32, so theirs is that of f32.
    pub fn peak_flops(&self, dtype: Dtype) -> Option<f64> {
        let cores = fma_per_clock(self.compute_capability?, dtype)?;
        let clock_hz = f64::from(self.clock_khz?) * 1e3;
        Some(2.0 * f64::from(cores) * f64::from(self.multiprocessors) * clock_hz)
    }

    /// Whether f64 has half the speed of f32, as on GPUs for data centres and only there: these have tensor cores for f64, which are
    /// twice as fast on A100 and H100 and as fast on B200 (NVIDIA's white papers of GA100 and GH100, data sheet of HGX B200). Others of
    /// compute capability 8.0 and later have the instruction, but no more than the few units for f64 to execute it with. True of the
    /// simulator, on which nothing is fast.
    pub fn is_made_for_doubles(&self) -> bool {
        self.compute_capability.is_none_or(|capability| {
            let rate = |dtype| fma_per_clock(capability, dtype).unwrap_or_default();
            rate(Dtype::F64) > 0 && 2 * rate(Dtype::F64) >= rate(Dtype::F32)
        })
    }
}

/// Fused multiply-adds a multiprocessor finishes in one clock.
///
/// CUDA C++ Programming Guide, section "Arithmetic Instructions", table of throughputs, rows "32-bit floating-point add,
/// multiply, multiply-add" and the 64-bit one.
fn fma_per_clock(capability: (u32, u32), dtype: Dtype) -> Option<u32> {
    let (single, double) = match capability {
        (7, 5) => (64, 2),
        (8, 0) => (64, 32),
        (8, 6 | 7 | 9) => (128, 2),
        (9, 0) | (10, 0) => (128, 64),
        (10 | 12, _) => (128, 2),
        _ => return None,
    };
    Some(match dtype {
        Dtype::F64 => double,
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 => single,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An H200 as the driver of CUDA 13.0 describes it.
    pub(crate) fn h200() -> DeviceInfo {
        DeviceInfo {
            name: "NVIDIA H200".into(),
            kind: DeviceKind::Cuda { ordinal: 0 },
            compute_capability: Some((9, 0)),
            multiprocessors: 132,
            clock_khz: Some(1_980_000),
            memory_bytes: 150_000_000_000,
            memory_bandwidth: Some(4_916_736_000_000),
            l2_bytes: Some(62_914_560),
            max_threads_per_block: 1024,
            max_threads_per_multiprocessor: 2048,
            max_blocks_per_multiprocessor: 32,
            registers_per_multiprocessor: 65_536,
            shared_bytes_per_block: 232_448,
            shared_bytes_per_multiprocessor: 233_472,
            driver_version: Some((13, 0)),
        }
    }

    #[test]
    fn peak_of_an_h200() {
        let teraflops = |dtype| h200().peak_flops(dtype).unwrap() / 1e12;
        assert!((teraflops(Dtype::F32) - 66.9).abs() < 0.05, "{}", teraflops(Dtype::F32));
        assert!((teraflops(Dtype::F64) - 33.45).abs() < 0.05, "{}", teraflops(Dtype::F64));
        assert_eq!(teraflops(Dtype::F16), teraflops(Dtype::F32));
    }

    #[test]
    fn gpus_for_data_centres_are_made_for_doubles() {
        let of = |compute_capability| DeviceInfo { compute_capability, ..h200() };
        let made = [None, Some((8, 0)), Some((9, 0)), Some((10, 0))];
        assert!(made.into_iter().all(|capability| of(capability).is_made_for_doubles()));
        let others = [(7, 5), (8, 6), (8, 7), (8, 9), (10, 3), (12, 0), (99, 0)].map(Some);
        assert!(!others.into_iter().any(|capability| of(capability).is_made_for_doubles()));
    }

    #[test]
    fn no_peak_where_it_is_not_known() {
        let unknown = DeviceInfo { compute_capability: Some((99, 0)), ..h200() };
        assert_eq!(unknown.peak_flops(Dtype::F32), None);
        let without_clock = DeviceInfo { clock_khz: None, ..h200() };
        assert_eq!(without_clock.peak_flops(Dtype::F32), None);
    }
}
