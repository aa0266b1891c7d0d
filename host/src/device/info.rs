//! What a device is and what its limits are.

use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::{KernelInfo, Rung, Summation};
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
    /// Multiprocessors; on the simulator as many as it [was made with](crate::Device::sim_with_multiprocessors), two
    /// unless a number was asked for.
    pub multiprocessors: u32,
    /// Highest clock of the multiprocessors in kHz; none on the simulator or where the driver does not know it.
    pub clock_khz: Option<u32>,
    /// Global memory in bytes.
    pub memory_bytes: u64,
    /// Bandwidth of global memory in bytes a second: on a GPU two transfers in each clock of the memory, over the whole
    /// width of its bus. None on the simulator or where the driver does not know them.
    pub memory_bandwidth: Option<u64>,
    /// L2 cache in bytes; none on the simulator or where the driver does not know it.
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
        self.flops(fma_per_clock(self.compute_capability?, dtype)?)
    }

    /// Most floating-point operations a second of the tensor cores, a multiply-add counting two, at the highest clock
    /// as well: of f16 and bf16 with sums in f32, of TF32 for f32. None on the simulator and for compute capabilities
    /// that are not listed here.
    pub fn tensor_peak_flops(&self, dtype: Dtype) -> Option<f64> {
        self.flops(tensor_fma_per_clock(self.compute_capability?, dtype)?)
    }

    /// The peak of the units that a kernel multiplies with: [`peak_flops`](Self::peak_flops) or
    /// [`tensor_peak_flops`](Self::tensor_peak_flops), of [halves](regemm_kernels::warpgroup::halves) a third, as there
    /// are three products.
    pub fn peak_flops_of(&self, kernel: &KernelInfo) -> Option<f64> {
        match kernel.summation {
            Summation::Halves => Some(self.tensor_peak_flops(Dtype::F16)? / 3.0),
            Summation::Rounded => self.tensor_peak_flops(Dtype::F16),
            _ if kernel.rung >= Rung::TensorCore => self.tensor_peak_flops(kernel.dtype),
            _ => self.peak_flops(kernel.dtype),
        }
    }

    /// Operations a second of as many multiply-adds a clock and multiprocessor.
    fn flops(&self, fma_per_clock: u32) -> Option<f64> {
        let clock_hz = f64::from(self.clock_khz?) * 1e3;
        Some(2.0 * f64::from(fma_per_clock) * f64::from(self.multiprocessors) * clock_hz)
    }

    /// Whether f64 has half the speed of f32, as on GPUs for data centres and only there: these have tensor cores for
    /// f64, which are twice as fast on A100 and H100 and as fast on B200 (NVIDIA's white papers of GA100 and GH100,
    /// data sheet of HGX B200). Others of compute capability 8.0 and later have the instruction, but no more than the
    /// few units for f64 to execute it with. True of the simulator, on which nothing is fast.
    pub fn is_made_for_doubles(&self) -> bool {
        self.compute_capability.is_none_or(|capability| {
            let rate = |dtype| fma_per_clock(capability, dtype).unwrap_or_default();
            rate(Dtype::F64) > 0 && 2 * rate(Dtype::F64) >= rate(Dtype::F32)
        })
    }
}

/// Fused multiply-adds a multiprocessor finishes in one clock.
///
/// CUDA C++ Programming Guide, section "Arithmetic Instructions", table of throughputs, rows "32-bit floating-point
/// add, multiply, multiply-add" and the 64-bit one.
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

/// The same of its tensor cores, for factors without structured zeros: the peaks of NVIDIA's white papers of GA100 and
/// GH100 and of the data sheet of HGX B200, by multiprocessors and the clock that they are given for. Of GPUs that are
/// not for data centres the rate with sums in f32 differs among those of one compute capability.
fn tensor_fma_per_clock(capability: (u32, u32), dtype: Dtype) -> Option<u32> {
    let (half, double) = match capability {
        (8, 0) => (1024, 64),
        (9, 0) => (2048, 128),
        (10, 0) => (4096, 64),
        // The few units for f64 execute the instruction.
        (8.., _) if dtype == Dtype::F64 => return fma_per_clock(capability, dtype),
        _ => return None,
    };
    Some(match dtype {
        Dtype::F64 => double,
        Dtype::F32 => half / 2,
        Dtype::F16 | Dtype::Bf16 => half,
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
    fn peaks_of_tensor_cores_are_those_that_are_published() {
        // The clocks are those that the peaks are given for.
        let of = |compute_capability, multiprocessors, clock_khz| DeviceInfo {
            compute_capability: Some(compute_capability),
            multiprocessors,
            clock_khz: Some(clock_khz),
            ..h200()
        };
        let (a100, h100) = (of((8, 0), 108, 1_410_000), of((9, 0), 132, 1_830_000));
        for (gpu, dtype, published) in [
            (&a100, Dtype::F16, 312.0),
            (&a100, Dtype::F32, 156.0),
            (&a100, Dtype::F64, 19.5),
            (&h100, Dtype::Bf16, 989.4),
            (&h100, Dtype::F32, 494.7),
            (&of((9, 0), 132, 1_980_000), Dtype::F64, 66.9),
        ] {
            let peak = gpu.tensor_peak_flops(dtype).unwrap() / 1e12;
            assert!((peak / published - 1.0).abs() < 0.005, "{dtype}: {peak}, not {published}");
        }
        let ga102 = of((8, 6), 84, 1_700_000);
        assert_eq!(ga102.tensor_peak_flops(Dtype::F16), None);
        assert_eq!(ga102.tensor_peak_flops(Dtype::F64), ga102.peak_flops(Dtype::F64));
        assert_eq!(of((7, 5), 40, 1_590_000).tensor_peak_flops(Dtype::F64), None);
    }

    #[test]
    fn a_kernel_has_the_peak_of_its_units() {
        let gpu = h200();
        let of = |name: &str| gpu.peak_flops_of(crate::kernels::find(name).unwrap());
        assert_eq!(of("stream_k_f32"), gpu.peak_flops(Dtype::F32));
        assert_eq!(of("tiled16_f16"), gpu.peak_flops(Dtype::F16));
        assert_eq!(of("tensor_core_f16"), gpu.tensor_peak_flops(Dtype::F16));
        assert_eq!(of("warpgroup_bf16"), gpu.tensor_peak_flops(Dtype::Bf16));
        assert_eq!(of("tensor_core_f64"), gpu.tensor_peak_flops(Dtype::F64));
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
