//! The embedded PTX, and which of it a GPU runs.
//!
//! It is embedded packed, and a module is unpacked when its kernel is first used: most programs use few of the
//! hundreds.

use super::info::DeviceInfo;
use crate::error::{Error, Result};
use miniz_oxide::inflate::decompress_to_vec_zlib;
use regemm_kernels::kernel::Needs;

/// One kernel compiled for one architecture. `cuda_builder` writes a list of these for a kernel crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtxModule {
    /// Name of the kernel, which is the only entry of the module.
    pub entry: &'static str,
    /// Architecture that it was compiled for, such as `sm_80` or `sm_90a`.
    pub arch: &'static str,
    /// Version of the PTX ISA that it is written in: major, minor.
    pub isa: (u32, u32),
    /// The PTX in the zlib format (RFC 1950): see [`text`](PtxModule::text).
    pub packed: &'static [u8],
}

/// The kernels of this library.
pub(crate) static MODULES: &[PtxModule] = include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

/// The embedded PTX of this library's kernels: each of [`kernels`](crate::kernels::kernels) for each architecture. For
/// people and tools to look at; a device picks and loads the right one by itself.
pub fn ptx_modules() -> &'static [PtxModule] {
    MODULES
}

/// The best module for a kernel on a device: the newest architecture that the GPU can run, among those whose PTX the
/// driver can read. For architectures that lack what the kernel needs nothing is compiled but the end of its launch.
pub(crate) fn choose<'a>(
    modules: &'a [PtxModule],
    entry: &'static str,
    needs: Needs,
    device: &DeviceInfo,
) -> Result<&'a PtxModule> {
    let capability = device.compute_capability.unwrap_or_default();
    let driver = device.driver_version.unwrap_or_default();
    let all: Vec<_> = modules
        .iter()
        .filter(|module| module.entry == entry)
        .filter_map(|module| Some((Arch::parse(module.arch)?, module)))
        .collect();
    if all.is_empty() {
        return Err(Error::NoPtx { kernel: entry.to_owned() });
    }

    let archs = || {
        let mut archs: Vec<_> = all.iter().map(|(_, module)| module.arch).collect();
        archs.sort_unstable();
        archs.join(", ")
    };
    if let Some(found) = device.compute_capability.filter(|&found| !needs.met_by(found)) {
        let device = device.name.clone();
        return Err(Error::KernelNeeds { kernel: entry, needs, found, device });
    }
    let has_needs = |arch: &Arch| needs.met_by_ptx(arch.capability, arch.specific);
    if !all.iter().any(|(arch, _)| has_needs(arch)) {
        return Err(Error::PtxLacks { kernel: entry.to_owned(), needs, available: archs() });
    }
    let whole = all.iter().filter(|(arch, _)| has_needs(arch));
    let runnable = whole.filter(|(arch, _)| arch.runs_on(capability));
    let readable = runnable.clone().filter(|(_, module)| module.needed_driver() <= driver);
    if let Some((_, module)) = readable.max_by_key(|(arch, _)| *arch) {
        return Ok(module);
    }
    // The module that is least demanding says what would be enough.
    match runnable.min_by_key(|(_, module)| module.needed_driver()) {
        Some((_, module)) => Err(Error::DriverTooOld {
            found: driver,
            needed: module.needed_driver(),
            what: format!("the PTX of {entry} for {}", module.arch),
        }),
        None => Err(Error::GpuTooOld {
            device: device.name.clone(),
            capability,
            kernel: entry.to_owned(),
            available: archs(),
        }),
    }
}

/// An architecture, ordered from old to new; the one with features of its own after the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arch {
    capability: (u32, u32),
    /// `a`: features of exactly this capability, which no other has.
    specific: bool,
}

impl Arch {
    /// Reads `sm_80`, `sm_90a`, `sm_120`: the last digit is the minor number.
    fn parse(text: &str) -> Option<Arch> {
        let text = text.strip_prefix("sm_")?;
        let (number, specific) = match text.strip_suffix('a') {
            Some(number) => (number, true),
            None => (text, false),
        };
        let number: u32 = number.parse().ok()?;
        Some(Arch { capability: (number / 10, number % 10), specific })
    }

    fn runs_on(self, capability: (u32, u32)) -> bool {
        if self.specific { self.capability == capability } else { self.capability <= capability }
    }
}

impl PtxModule {
    /// The PTX, unpacked: some 100 KB, which takes a fraction of a millisecond each time.
    ///
    /// # Errors
    /// [`Error::DamagedPtx`] where `packed` is not the zlib format or not of a text; never for what `cuda_builder`
    /// wrote.
    pub fn text(&self) -> Result<String> {
        let damaged = |why: String| Error::DamagedPtx { kernel: self.entry, arch: self.arch, why };
        let bytes = decompress_to_vec_zlib(self.packed).map_err(|e| damaged(e.to_string()))?;
        String::from_utf8(bytes).map_err(|e| damaged(e.to_string()))
    }

    /// The oldest CUDA version whose driver reads this module.
    fn needed_driver(&self) -> (u32, u32) {
        driver_for_isa(self.isa)
    }
}

/// The CUDA release that introduced a version of the PTX ISA (PTX ISA manual, "Release History").
fn driver_for_isa((major, minor): (u32, u32)) -> (u32, u32) {
    match (major, minor) {
        (..6, _) => (8, 0),
        (6, 0) => (9, 0),
        (6, 1) => (9, 1),
        (6, 2) => (9, 2),
        (6, minor) => (10, minor - 3),
        (7, minor) => (11, minor),
        (8, minor @ ..=5) => (12, minor),
        (8, minor) => (12, minor.saturating_add(1)),
        (major, minor) => (major.saturating_add(4), minor),
    }
}

#[cfg(test)]
mod tests {
    use super::super::info::tests::h200;
    use super::*;
    use miniz_oxide::deflate::compress_to_vec_zlib;

    const fn module(entry: &'static str, arch: &'static str, isa: (u32, u32)) -> PtxModule {
        PtxModule { entry, arch, isa, packed: &[] }
    }

    static MODULES: &[PtxModule] = &[
        module("k", "sm_75", (6, 3)),
        module("k", "sm_90a", (8, 0)),
        module("k", "sm_80", (7, 0)),
        module("hopper", "sm_90a", (8, 0)),
    ];

    fn gpu(capability: (u32, u32), driver: (u32, u32)) -> DeviceInfo {
        DeviceInfo { compute_capability: Some(capability), driver_version: Some(driver), ..h200() }
    }

    fn arch(capability: (u32, u32), driver: (u32, u32)) -> &'static str {
        choose(MODULES, "k", Needs::Nothing, &gpu(capability, driver)).unwrap().arch
    }

    #[test]
    fn the_newest_architecture_that_the_gpu_runs() {
        let driver = (13, 0);
        assert_eq!(arch((7, 5), driver), "sm_75");
        assert_eq!(arch((8, 0), driver), "sm_80");
        assert_eq!(arch((8, 9), driver), "sm_80");
        assert_eq!(arch((9, 0), driver), "sm_90a");
        assert_eq!(arch((10, 0), driver), "sm_80", "sm_90a runs on 9.0 alone");
        assert_eq!(arch((12, 0), driver), "sm_80");
    }

    #[test]
    fn an_older_driver_gets_older_ptx() {
        assert_eq!(arch((9, 0), (11, 8)), "sm_80");
        assert_eq!(arch((9, 0), (10, 2)), "sm_75");
    }

    #[test]
    fn too_old_a_driver_is_told_what_is_enough() {
        let error = choose(MODULES, "k", Needs::Nothing, &gpu((8, 0), (9, 2))).unwrap_err();
        let Error::DriverTooOld { found, needed, .. } = &error else { panic!("{error}") };
        assert_eq!((*found, *needed), ((9, 2), (10, 0)));
        assert!(error.to_string().contains("9.2") && error.to_string().contains("10.0"), "{error}");
    }

    #[test]
    fn too_old_a_gpu_is_told_what_there_is() {
        let error = choose(MODULES, "k", Needs::Nothing, &gpu((7, 0), (13, 0))).unwrap_err();
        assert!(matches!(error, Error::GpuTooOld { capability: (7, 0), .. }), "{error}");
        assert!(error.to_string().contains("sm_75, sm_80, sm_90a"), "{error}");
        let error = choose(MODULES, "hopper", Needs::Nothing, &gpu((8, 0), (13, 0))).unwrap_err();
        assert!(matches!(error, Error::GpuTooOld { .. }), "{error}");
    }

    /// A GPU that has what a kernel needs would get a module without it: one whose launch ends at once.
    #[test]
    fn ptx_that_lacks_what_the_kernel_needs_is_passed_over() {
        let hopper = |driver| choose(MODULES, "k", Needs::WarpgroupProducts, &gpu((9, 0), driver));
        assert_eq!(hopper((13, 0)).unwrap().arch, "sm_90a");
        let error = hopper((11, 8)).unwrap_err();
        assert!(matches!(error, Error::DriverTooOld { needed: (12, 0), .. }), "{error}");
        let ampere =
            |capability| choose(MODULES, "k", Needs::TensorCores, &gpu(capability, (13, 0)));
        assert_eq!(ampere((8, 9)).unwrap().arch, "sm_80");
        let plain = &[module("k", "sm_75", (6, 3)), module("k", "sm_90", (8, 0))];
        let error = choose(plain, "k", Needs::WarpgroupProducts, &h200()).unwrap_err();
        assert!(matches!(error, Error::PtxLacks { .. }), "{error}");
        assert!(error.to_string().contains("compiled for sm_75, sm_90:"), "{error}");
        let error = choose(&plain[..1], "k", Needs::TensorCores, &h200()).unwrap_err();
        assert!(matches!(error, Error::PtxLacks { .. }), "{error}");
    }

    /// And not that there was no PTX for it, of which there may be some for what came before it.
    #[test]
    fn a_gpu_without_what_the_kernel_needs_is_told_so() {
        for capability in [(7, 5), (8, 9), (12, 0)] {
            let gpu = gpu(capability, (13, 0));
            let error = choose(MODULES, "k", Needs::WarpgroupProducts, &gpu).unwrap_err();
            assert!(matches!(error, Error::KernelNeeds { .. }), "{error}");
        }
    }

    #[test]
    fn a_kernel_without_ptx() {
        let error = choose(MODULES, "other", Needs::Nothing, &h200()).unwrap_err();
        assert!(matches!(&error, Error::NoPtx { kernel } if kernel == "other"), "{error}");
    }

    /// The module `k` with these bytes.
    fn packed(bytes: Vec<u8>) -> PtxModule {
        PtxModule { packed: bytes.leak(), ..module("k", "sm_80", (7, 1)) }
    }

    #[test]
    fn a_text_comes_out_as_it_was_packed() {
        let text = ".version 7.1\n.target sm_80\n".repeat(1000);
        let module = packed(compress_to_vec_zlib(text.as_bytes(), 6));
        assert!(module.packed.len() < text.len() / 10);
        assert_eq!(module.text().unwrap(), text);
    }

    #[test]
    fn damage_is_found_and_told() {
        let good = compress_to_vec_zlib(b".version 7.1\n.target sm_80\n.visible .entry k(", 6);
        let cut_off = good[..good.len() - 5].to_vec();
        let mut changed = good.clone();
        *changed.last_mut().unwrap() ^= 1;
        let no_text = compress_to_vec_zlib(&[0xff, 0xfe], 6);
        for bytes in [Vec::new(), b".version 7.1".to_vec(), cut_off, changed, no_text] {
            let error = packed(bytes.clone()).text().unwrap_err();
            assert!(
                matches!(&error, Error::DamagedPtx { kernel: "k", arch: "sm_80", .. }),
                "{bytes:?}: {error}"
            );
            assert!(error.to_string().contains("k for sm_80"), "{error}");
        }
    }

    #[test]
    fn cuda_versions_of_ptx_versions() {
        let pairs = [
            ((6, 3), (10, 0)),
            ((6, 5), (10, 2)),
            ((7, 0), (11, 0)),
            ((7, 8), (11, 8)),
            ((8, 0), (12, 0)),
            ((8, 5), (12, 5)),
            ((8, 6), (12, 7)),
            ((8, 8), (12, 9)),
            ((9, 0), (13, 0)),
        ];
        for (isa, driver) in pairs {
            assert_eq!(driver_for_isa(isa), driver);
        }
    }
}
