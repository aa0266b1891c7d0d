//! What measured times depend on.

use crate::device::info::DeviceInfo;
use crate::device::ptx::{self, MODULES};
use crate::kernels::{Types, kernels_for};
use regemm_kernels::layout::Layouts;
use std::fmt;
use std::hash::Hasher;
use twox_hash::XxHash64;

/// Where Linux tells the version of the driver's kernel module.
const MODULE_VERSION: &str = "/sys/module/nvidia/version";

/// Seed of the hash: any fixed number will do.
const SEED: u64 = 0;

/// What measured times depend on apart from the shape: with another key they are worth nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name of the GPU.
    pub gpu: String,
    /// Its multiprocessors: a part of a GPU has its name and fewer of them, and other kernels are fastest there.
    pub multiprocessors: u32,
    /// Version of the driver, which compiles the kernels: the CUDA version that it supports, and where the system tells
    /// it the version of its kernel module.
    pub driver: String,
    /// Hash of the PTX that the GPU runs for the kernels of the element types and layouts.
    pub code: String,
    /// Element types of factors and results.
    pub types: Types,
    /// How the factors lie in memory.
    pub layouts: Layouts,
}

impl Key {
    /// The key of this library's kernels on a device. Unpacks and hashes their PTX: some milliseconds.
    pub fn of(device: &DeviceInfo, types: impl Into<Types>, layouts: Layouts) -> Key {
        let types = types.into();
        let module = std::fs::read_to_string(MODULE_VERSION).ok();
        Key {
            gpu: device.name.clone(),
            multiprocessors: device.multiprocessors,
            driver: driver(device.driver_version, module.as_deref()),
            code: code(device, types, layouts),
            types,
            layouts,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { gpu, multiprocessors, driver, code, types, layouts } = self;
        write!(
            f,
            "{gpu}, {multiprocessors} multiprocessors, driver {driver}, kernels {code}, {types} {layouts}"
        )
    }
}

fn driver(cuda: Option<(u32, u32)>, module: Option<&str>) -> String {
    let (major, minor) = cuda.unwrap_or_default();
    match module.map(str::trim).filter(|version| !version.is_empty()) {
        Some(version) => format!("CUDA {major}.{minor}, {version}"),
        None => format!("CUDA {major}.{minor}"),
    }
}

/// XXH64 of names, architectures and PTX, in hexadecimal: a hash that is the same in every build and version.
fn code(device: &DeviceInfo, types: Types, layouts: Layouts) -> String {
    let mut hasher = XxHash64::with_seed(SEED);
    for kernel in kernels_for(types, layouts) {
        // A kernel that the device cannot run has no times either.
        let module = ptx::choose(MODULES, kernel.entry.name, kernel.needs, device);
        if let Ok((arch, text)) = module.and_then(|module| Ok((module.arch, module.text()?))) {
            for part in [kernel.name, arch, &text] {
                hasher.write_u64(part.len() as u64);
                hasher.write(part.as_bytes());
            }
        }
    }
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::info::tests::h200;
    use regemm_kernels::element::Dtype;

    #[test]
    fn everything_that_matters_is_in_the_key() {
        let of = |device: &DeviceInfo, types: Types| Key::of(device, types, Layouts::NN);
        let f32 = Types::same(Dtype::F32);
        let key = of(&h200(), f32);
        assert_eq!(key, of(&h200(), f32));
        assert_eq!(key.code.len(), 16);
        let same_code =
            |device: DeviceInfo, dtype: Dtype| of(&device, dtype.into()).code == key.code;
        assert!(!same_code(h200(), Dtype::F64));
        let wide = Types { factors: Dtype::Bf16, results: Dtype::F32 };
        assert_ne!(of(&h200(), wide).code, of(&h200(), Dtype::Bf16.into()).code);
        assert_ne!(Key::of(&h200(), f32, Layouts::NT).code, key.code);
        assert!(
            !same_code(DeviceInfo { compute_capability: Some((8, 0)), ..h200() }, Dtype::F32),
            "a GPU that runs the PTX of another architecture"
        );
        let renamed = DeviceInfo { name: "NVIDIA H100".into(), ..h200() };
        assert_ne!(of(&renamed, f32), key);
        let part = DeviceInfo { multiprocessors: 66, ..h200() };
        assert_ne!(of(&part, f32), key, "a part of a GPU has its name");
        let updated = DeviceInfo { driver_version: Some((13, 1)), ..h200() };
        assert_ne!(of(&updated, f32), key);
    }

    #[test]
    fn drivers_differ_by_both_versions() {
        assert_eq!(driver(Some((13, 0)), None), "CUDA 13.0");
        assert_eq!(driver(Some((13, 0)), Some("580.159.04\n")), "CUDA 13.0, 580.159.04");
    }
}
