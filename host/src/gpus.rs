//! Known GPUs by their published numbers, so that what depends on a GPU can be worked out without having it.

use crate::device::info::{DeviceInfo, DeviceKind};
use crate::error::{Error, Result};
use crate::near::near;
use crate::occupancy::Limits;

/// The published numbers of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// A short name for command lines.
    pub id: &'static str,
    /// The name the driver gives it.
    pub name: &'static str,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Highest clock of the multiprocessors (boost clock) in kHz.
    pub clock_khz: u32,
    /// Bandwidth of the memory in bytes a second.
    pub memory_bandwidth: u64,
    /// L2 cache in bytes.
    pub l2_bytes: u64,
    /// Memory in bytes. The GB of data sheets are taken as 2^30 bytes, which they are.
    pub memory_bytes: u64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A gigabyte a second, as data sheets count.
const GB_PER_SECOND: u64 = 1_000_000_000;

/// From old to new architectures, the largest GPU of each last.
///
/// Sources: NVIDIA's data sheets of the T4, A10, A100, L4, L40S, H100, H200 and HGX B200, its line card of laptop GPUs,
/// and its architecture white papers: GA100 (A100), GA102 (RTX 3090), AD102 (RTX 4090, L40S), GH100 (H100) and GB202
/// (RTX 5090). They do not give the clocks of H100, H200 and B200 nor the L2 cache of H200 and B200, which are
/// as the driver reports them; with those clocks the published peaks come out. A laptop's maker chooses clock and power
/// limit of its GPU: the A500's are those of a common 60 W variant.
static KNOWN: [Gpu; 13] = [
    Gpu {
        id: "t4",
        name: "Tesla T4",
        capability: (7, 5),
        multiprocessors: 40,
        clock_khz: 1_590_000,
        memory_bandwidth: 320 * GB_PER_SECOND,
        l2_bytes: 4 * MIB,
        memory_bytes: 16 * GIB,
    },
    Gpu {
        id: "a500",
        name: "NVIDIA RTX A500 Laptop GPU",
        capability: (8, 6),
        multiprocessors: 16,
        clock_khz: 1_537_000,
        memory_bandwidth: 112 * GB_PER_SECOND,
        l2_bytes: 2 * MIB,
        memory_bytes: 4 * GIB,
    },
    Gpu {
        id: "a10",
        name: "NVIDIA A10",
        capability: (8, 6),
        multiprocessors: 72,
        clock_khz: 1_695_000,
        memory_bandwidth: 600 * GB_PER_SECOND,
        l2_bytes: 6 * MIB,
        memory_bytes: 24 * GIB,
    },
    Gpu {
        id: "rtx3090",
        name: "NVIDIA GeForce RTX 3090",
        capability: (8, 6),
        multiprocessors: 82,
        clock_khz: 1_695_000,
        memory_bandwidth: 936 * GB_PER_SECOND,
        l2_bytes: 6 * MIB,
        memory_bytes: 24 * GIB,
    },
    Gpu {
        id: "a100-40gb",
        name: "NVIDIA A100-SXM4-40GB",
        capability: (8, 0),
        multiprocessors: 108,
        clock_khz: 1_410_000,
        memory_bandwidth: 1555 * GB_PER_SECOND,
        l2_bytes: 40 * MIB,
        memory_bytes: 40 * GIB,
    },
    Gpu {
        id: "a100-80gb",
        name: "NVIDIA A100-SXM4-80GB",
        capability: (8, 0),
        multiprocessors: 108,
        clock_khz: 1_410_000,
        memory_bandwidth: 2039 * GB_PER_SECOND,
        l2_bytes: 40 * MIB,
        memory_bytes: 80 * GIB,
    },
    Gpu {
        id: "l4",
        name: "NVIDIA L4",
        capability: (8, 9),
        multiprocessors: 58,
        clock_khz: 2_040_000,
        memory_bandwidth: 300 * GB_PER_SECOND,
        l2_bytes: 48 * MIB,
        memory_bytes: 24 * GIB,
    },
    Gpu {
        id: "rtx4090",
        name: "NVIDIA GeForce RTX 4090",
        capability: (8, 9),
        multiprocessors: 128,
        clock_khz: 2_520_000,
        memory_bandwidth: 1008 * GB_PER_SECOND,
        l2_bytes: 72 * MIB,
        memory_bytes: 24 * GIB,
    },
    Gpu {
        id: "l40s",
        name: "NVIDIA L40S",
        capability: (8, 9),
        multiprocessors: 142,
        clock_khz: 2_520_000,
        memory_bandwidth: 864 * GB_PER_SECOND,
        l2_bytes: 96 * MIB,
        memory_bytes: 48 * GIB,
    },
    Gpu {
        id: "h100",
        name: "NVIDIA H100 80GB HBM3",
        capability: (9, 0),
        multiprocessors: 132,
        clock_khz: 1_980_000,
        memory_bandwidth: 3350 * GB_PER_SECOND,
        l2_bytes: 50 * MIB,
        memory_bytes: 80 * GIB,
    },
    Gpu {
        id: "h200",
        name: "NVIDIA H200",
        capability: (9, 0),
        multiprocessors: 132,
        clock_khz: 1_980_000,
        memory_bandwidth: 4800 * GB_PER_SECOND,
        l2_bytes: 60 * MIB,
        memory_bytes: 141 * GIB,
    },
    Gpu {
        id: "b200",
        name: "NVIDIA B200",
        capability: (10, 0),
        multiprocessors: 148,
        clock_khz: 1_965_000,
        memory_bandwidth: 8000 * GB_PER_SECOND,
        l2_bytes: 129_536 * KIB,
        memory_bytes: 180 * GIB,
    },
    Gpu {
        id: "rtx5090",
        name: "NVIDIA GeForce RTX 5090",
        capability: (12, 0),
        multiprocessors: 170,
        clock_khz: 2_407_000,
        memory_bandwidth: 1792 * GB_PER_SECOND,
        l2_bytes: 96 * MIB,
        memory_bytes: 32 * GIB,
    },
];

/// All GPUs whose numbers are known here.
pub fn known() -> &'static [Gpu] {
    &KNOWN
}

/// The GPU with this id (`h200`) or driver's name (`NVIDIA H200`, with or without `NVIDIA`), in upper or lower case.
///
/// # Errors
/// [`Error::UnknownGpu`], which lists similar ids, else all.
pub fn find(id_or_name: &str) -> Result<&'static Gpu> {
    let plain = |name: &str| {
        let name = name.trim().to_lowercase();
        name.strip_prefix("nvidia ").map(str::to_owned).unwrap_or(name)
    };
    let wanted = plain(id_or_name);
    known().iter().find(|gpu| gpu.id == wanted || plain(gpu.name) == wanted).ok_or_else(|| {
        let ids = || known().iter().map(|gpu| gpu.id);
        let near = near(&wanted, ids());
        Error::UnknownGpu { name: id_or_name.to_owned(), near, known: ids().collect() }
    })
}

impl Gpu {
    /// The limits of its multiprocessors.
    pub fn limits(&self) -> Limits {
        Limits::of(self.capability).unwrap_or(Limits::NEWEST)
    }

    /// Described as a device would be, as if it were the first GPU of a machine; the driver's version is not known.
    pub fn info(&self) -> DeviceInfo {
        let limits = self.limits();
        DeviceInfo {
            name: self.name.to_owned(),
            kind: DeviceKind::Cuda { ordinal: 0 },
            compute_capability: Some(self.capability),
            multiprocessors: self.multiprocessors,
            clock_khz: Some(self.clock_khz),
            memory_bytes: self.memory_bytes,
            memory_bandwidth: Some(self.memory_bandwidth),
            l2_bytes: Some(self.l2_bytes),
            max_threads_per_block: limits.threads_per_block,
            max_threads_per_multiprocessor: limits.threads,
            max_blocks_per_multiprocessor: limits.blocks,
            registers_per_multiprocessor: limits.registers,
            shared_bytes_per_block: limits.shared_bytes_per_block,
            shared_bytes_per_multiprocessor: limits.shared_bytes,
            driver_version: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regemm_kernels::element::Dtype;

    /// Peaks outside the tensor cores that NVIDIA publishes, in TFLOP/s: f32, and f64 where it is given.
    const PUBLISHED: [(&str, f64, Option<f64>); 13] = [
        ("t4", 8.1, None),
        ("a500", 6.3, None),
        ("a10", 31.2, None),
        ("rtx3090", 35.6, Some(0.556)),
        ("a100-40gb", 19.5, Some(9.7)),
        ("a100-80gb", 19.5, Some(9.7)),
        ("l4", 30.3, None),
        ("rtx4090", 82.6, Some(1.29)),
        ("l40s", 91.6, None),
        ("h100", 67.0, Some(34.0)),
        ("h200", 67.0, Some(34.0)),
        ("b200", 75.0, Some(37.0)),
        ("rtx5090", 104.8, Some(1.64)),
    ];

    /// Published peaks are rounded to two digits.
    const SLACK: f64 = 0.02;

    #[test]
    fn clocks_and_multiprocessors_give_the_published_peaks() {
        assert_eq!(known().len(), PUBLISHED.len());
        for (id, single, double) in PUBLISHED {
            let info = find(id).unwrap().info();
            let peaks = [(Dtype::F32, Some(single)), (Dtype::F64, double)];
            for (dtype, published) in peaks {
                let peak = info.peak_flops(dtype).unwrap() / 1e12;
                let Some(published) = published else { continue };
                let off = (peak / published - 1.0).abs();
                assert!(off <= SLACK, "{id} {dtype}: {peak:.2}, published {published}");
            }
        }
    }

    #[test]
    fn every_gpu_is_found_and_has_its_own_limits() {
        for (index, gpu) in known().iter().enumerate() {
            assert!(Limits::of(gpu.capability).is_some(), "{}", gpu.id);
            assert_eq!(find(gpu.id).unwrap(), gpu);
            assert_eq!(find(&gpu.id.to_uppercase()).unwrap(), gpu);
            assert_eq!(find(gpu.name).unwrap(), gpu);
            assert_eq!(find(gpu.name.trim_start_matches("NVIDIA ")).unwrap(), gpu);
            for other in &known()[..index] {
                assert!(gpu.id != other.id && gpu.name != other.name, "{}", gpu.id);
            }
        }
    }

    #[test]
    fn an_unknown_gpu_gets_suggestions() {
        let error = find("h20").unwrap_err();
        let Error::UnknownGpu { near, .. } = &error else { panic!("{error}") };
        assert_eq!(near[0], "h200");
        assert!(error.to_string().contains("did you mean h200"), "{error}");
        let error = find("zzz").unwrap_err();
        for gpu in known() {
            assert!(error.to_string().contains(gpu.id), "{error}");
        }
    }

    #[test]
    fn an_h200_is_described_as_its_driver_does() {
        let driver = crate::device::info::tests::h200();
        let ours = find(&driver.name).unwrap().info();
        let shared = |info: &DeviceInfo| {
            (info.shared_bytes_per_block, info.shared_bytes_per_multiprocessor, info.l2_bytes)
        };
        assert_eq!(shared(&ours), shared(&driver));
        assert_eq!(ours.peak_flops(Dtype::F32), driver.peak_flops(Dtype::F32));
    }
}
