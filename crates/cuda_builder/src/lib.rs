//! Compiles a kernel crate to PTX from a build script, with rustc's own `nvptx64-nvidia-cuda` target: no CUDA toolkit,
//! no libNVVM, no nightly toolchain.
//!
//! ```no_run
//! # fn main() -> Result<(), cuda_builder::Error> {
//! // build.rs of a crate whose folder `kernels` holds the kernel crate
//! let modules = cuda_builder::CudaBuilder::new("kernels").arch("sm_80").build()?;
//! modules.write_index(format!("{}/ptx.rs", std::env::var("OUT_DIR").unwrap()))
//! # }
//! ```
//!
//! A kernel crate is a library crate, `no_std` on the device, whose kernels are marked `#[cuda_std::kernel]`. It may be
//! a member of the workspace that the host belongs to, and the host may depend on it as well.
//!
//! What a build does, a module each:
//!
//! | module | step |
//! |---|---|
//! | [`toolchain`] | finds a compiler that has the source of the standard library |
//! | `kept` | looks for PTX of the same source, of this build or another in the same target folder |
//! | `record` | says whether it still is what the compiler would make |
//! | `compile` | runs its cargo on the kernel crate, once an architecture |
//! | `environment` | keeps from that cargo what is meant for the outer one |
//! | `messages` | reads what cargo and rustc tell: warnings, and what was read |
//! | `units` | joins the texts that come of that, since rustc compiles parts of a crate at the same time |
//! | `directives` | moves launch bounds from `#[kernel(..)]` to the entries |
//! | `split` | makes one PTX module of each entry and what it reaches |
//! | `modules` | writes the modules, packed as well, and the index that embeds them |
//!
//! # Compilers
//!
//! Needed is rustc 1.95 or newer. Tested are 1.95.0 and 1.96.0 (both LLVM 22). Newer compilers are accepted: if one
//! changes what is unstable here (`-Zbuild-std`, the feature `abi_ptx`), its own message says so.

pub mod toolchain;

mod compile;
mod directives;
mod environment;
mod error;
mod items;
mod kept;
mod lock;
mod messages;
mod modules;
mod parallel;
mod record;
mod split;
mod units;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::compile::KernelCrate;
use crate::kept::Kept;
use crate::record::hash;
use crate::toolchain::{Search, TOOLCHAIN_VARIABLE, Toolchain};

pub use crate::error::Error;
pub use crate::modules::{PtxModule, PtxModules};

/// How many of the compiler's warnings about a kernel crate are passed on.
const MOST_WARNINGS: usize = 20;

/// What to do where `cargo vendor` has copied a package that has its kernels in one of its own.
const WITHOUT_VENDORING: &str = ". `cargo vendor` has copied this package, and leaves out packages in its folder: \
     depend on a checkout by `path` instead, such as a submodule";

/// A kernel crate to compile, and how.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    kernel_crate: KernelCrate,
    archs: Vec<String>,
    out_dir: Option<PathBuf>,
    copy_to: Option<PathBuf>,
    toolchain: Option<Toolchain>,
}

impl CudaBuilder {
    /// A builder for the crate in a folder; a relative path starts at the package of the build script.
    pub fn new(kernel_crate: impl AsRef<Path>) -> Self {
        CudaBuilder {
            kernel_crate: KernelCrate {
                folder: from_manifest(kernel_crate.as_ref()),
                features: Vec::new(),
                default_features: true,
                llvm_args: Vec::new(),
            },
            archs: Vec::new(),
            out_dir: None,
            copy_to: None,
            toolchain: None,
        }
    }

    /// Adds an architecture to compile for, as rustc's `-C target-cpu` names it: `sm_75`, `sm_80`, `sm_90a`.
    ///
    /// Kernels can tell architectures apart with `cfg(target_feature = "sm_80")`.
    pub fn arch(mut self, arch: impl Into<String>) -> Self {
        self.archs.push(arch.into());
        self
    }

    /// Adds several architectures.
    pub fn archs<A: Into<String>>(mut self, archs: impl IntoIterator<Item = A>) -> Self {
        self.archs.extend(archs.into_iter().map(Into::into));
        self
    }

    /// Enables cargo features of the kernel crate.
    pub fn features<F: Into<String>>(mut self, features: impl IntoIterator<Item = F>) -> Self {
        self.kernel_crate.features.extend(features.into_iter().map(Into::into));
        self
    }

    /// Whether the kernel crate's default features are enabled; they are unless this says no.
    pub fn default_features(mut self, enabled: bool) -> Self {
        self.kernel_crate.default_features = enabled;
        self
    }

    /// Passes arguments to LLVM when it makes PTX, such as `-unroll-threshold=1000`.
    pub fn llvm_args<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.kernel_crate.llvm_args.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Where modules go, instead of `OUT_DIR`. Kept between builds. Several builds may have the same: see
    /// [`build`](Self::build).
    ///
    /// What else is kept goes to a folder `cuda_builder` of the target folder that this one lies in, for all builds
    /// there together, or to one in this folder where there is none.
    pub fn out_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.out_dir = Some(from_manifest(folder.as_ref()));
        self
    }

    /// Also copies the modules to `<folder>/<arch>/<entry>.ptx`, for people and tools to look at. Other `.ptx` files in
    /// those folders are removed.
    pub fn copy_to(mut self, folder: impl AsRef<Path>) -> Self {
        self.copy_to = Some(from_manifest(folder.as_ref()));
        self
    }

    /// Uses this toolchain instead of [searching](Search) for one.
    pub fn toolchain(mut self, toolchain: Toolchain) -> Self {
        self.toolchain = Some(toolchain);
        self
    }

    /// Compiles the crate for every architecture and writes one PTX file a kernel to
    /// `<out_dir>/ptx/<crate>/<arch>/<entry>.ptx`, and beside it the same packed: see [`PtxModule::packed`].
    ///
    /// `<crate>` is another for each kernel crate and each way to compile it (features, arguments, toolchain). So
    /// builds with the same `out_dir` leave each other's modules as they are; each has an index of its own.
    ///
    /// Prints the lines by which cargo runs the build script again when a source file of the kernel crate or of its
    /// path dependencies has changed, or an environment variable that it reads (`env!`, or a build script's
    /// `cargo:rerun-if-env-changed`), and only then; and the compiler's warnings about these files. If a build script
    /// of these packages says not what it reads (`cargo:rerun-if-..`), any file of its package counts as a source, as
    /// for cargo.
    ///
    /// # Errors
    /// See [`Error`]. The message of [`Error::Compile`] is the compiler's own.
    pub fn build(self) -> Result<PtxModules, Error> {
        Ok(build_all([self])?.pop().expect("one for each builder"))
    }

    /// What to compile with and where to, besides.
    fn prepare(self) -> Result<Prepared, Error> {
        if self.archs.is_empty() {
            return Err(Error::Configuration("no architecture to compile for: call `arch`".into()));
        }
        // A program that is started in a folder that is not there is said not to be there itself.
        let manifest = self.kernel_crate.folder.join("Cargo.toml");
        if !manifest.is_file() {
            let hint = if is_vendored(&manifest) { WITHOUT_VENDORING } else { "" };
            return Err(Error::Configuration(format!(
                "there is no kernel crate: {} does not exist{hint}",
                manifest.display()
            )));
        }
        let out_dir = self.out_dir.clone().or_else(|| std::env::var_os("OUT_DIR").map(Into::into));
        let out_dir = out_dir.ok_or_else(|| {
            Error::Configuration("OUT_DIR is not set: outside a build script call `out_dir`".into())
        })?;
        let toolchain = match self.toolchain.clone() {
            Some(toolchain) => toolchain,
            None => Search::from_environment().find()?,
        };
        // With a name that it does not know rustc makes PTX for which no GPU is, and only warns. Where it tells no
        // names it has more to say.
        let known = toolchain.archs();
        if let Some(arch) =
            self.archs.iter().find(|arch| !known.is_empty() && !known.contains(arch))
        {
            return Err(Error::Configuration(format!(
                "`{arch}` is no architecture that rustc {} compiles for: it knows {}",
                toolchain.release,
                known.join(", ")
            )));
        }
        Ok(Prepared { builder: self, toolchain, out_dir })
    }
}

/// Builds several kernel crates as [`CudaBuilder::build`] does each, and gives their modules in the same order.
///
/// One after the other, each would end with its slowest architecture, while other processors wait.
///
/// # Errors
/// See [`Error`].
pub fn build_all(
    builders: impl IntoIterator<Item = CudaBuilder>,
) -> Result<Vec<PtxModules>, Error> {
    println!("cargo:rerun-if-env-changed={TOOLCHAIN_VARIABLE}");
    let crates = builders.into_iter().map(CudaBuilder::prepare).collect::<Result<Vec<_>, _>>()?;
    let compiled = compile_all(&crates);
    crates.iter().zip(compiled).map(|(of, compiled)| of.write(&compiled?)).collect()
}

/// Compiles each crate for all its architectures, as many at a time as cargo runs jobs.
fn compile_all(crates: &[Prepared]) -> Vec<Result<Vec<Kept>, Error>> {
    // The last architecture of a crate comes first: they are listed from old to new, and what is only for new ones
    // takes longest.
    let todo: Vec<_> = crates
        .iter()
        .flat_map(|of| of.builder.archs.iter().rev().map(move |arch| (of, arch)))
        .collect();
    let mut results = parallel::map(&todo, |(of, arch)| of.compile(arch)).into_iter();
    let mut of_crate = |of: &Prepared| {
        let mut kept: Vec<_> = results.by_ref().take(of.builder.archs.len()).collect();
        kept.reverse();
        kept.into_iter().collect()
    };
    crates.iter().map(&mut of_crate).collect()
}

/// A builder that lacks nothing.
struct Prepared {
    builder: CudaBuilder,
    toolchain: Toolchain,
    out_dir: PathBuf,
}

impl Prepared {
    /// Compiles for one architecture. Each has a target folder of its own: in a common one cargo would make them wait
    /// for each other.
    fn compile(&self, arch: &str) -> Result<Kept, Error> {
        let target_dir = kept::folder(&self.out_dir).join(arch);
        kept::ptx(&self.toolchain, &self.builder.kernel_crate, arch, &target_dir)
    }

    /// The folder for modules of this crate that are compiled so. Those of others, which may have kernels of the same
    /// names, do not meet them.
    fn modules_dir(&self) -> PathBuf {
        let kernel_crate = &self.builder.kernel_crate;
        let name = kernel_crate.folder.file_name().unwrap_or_default().to_string_lossy();
        let way = hash(&(kernel_crate, &self.toolchain));
        self.out_dir.join("ptx").join(format!("{name}-{way:016x}"))
    }

    /// Writes the modules, of PTX in the order of architectures.
    fn write(&self, compiled: &[Kept]) -> Result<PtxModules, Error> {
        let origins = || compiled.iter().map(|kept| &kept.origin);
        let files: BTreeSet<_> = origins().flat_map(|origin| &origin.files).collect();
        for path in files {
            println!("cargo:rerun-if-changed={}", path.display());
        }
        let variables: BTreeSet<_> = origins().flat_map(|origin| &origin.variables).collect();
        for name in variables {
            println!("cargo:rerun-if-env-changed={name}");
        }
        // Most are the same for all architectures.
        let warnings: BTreeSet<_> = origins().flat_map(|origin| &origin.warnings).collect();
        for warning in warnings.iter().take(MOST_WARNINGS) {
            println!("cargo:warning={warning}");
        }
        if let Some(more) = warnings.len().checked_sub(MOST_WARNINGS).filter(|&more| more > 0) {
            println!(
                "cargo:warning=and {more} more in {}",
                self.builder.kernel_crate.folder.display()
            );
        }
        let mut modules = PtxModules::made_by(&self.toolchain.release);
        for (arch, Kept { ptx, .. }) in self.builder.archs.iter().zip(compiled) {
            let split = split::split(&directives::apply(ptx)?)?;
            if split.is_empty() {
                let kernel_crate = self.builder.kernel_crate.folder.clone();
                return Err(Error::NoEntries { kernel_crate });
            }
            modules.add(arch, &self.modules_dir().join(arch), &split)?;
            if let Some(folder) = &self.builder.copy_to {
                modules::write_modules(&folder.join(arch), &split, &[modules::PLAIN])?;
            }
        }
        Ok(modules)
    }
}

/// Whether a path lies in a package that `cargo vendor` has copied.
fn is_vendored(path: &Path) -> bool {
    path.ancestors().any(|folder| folder.join(".cargo-checksum.json").is_file())
}

/// An absolute path; a relative one starts at the package of the build script.
fn from_manifest(path: &Path) -> PathBuf {
    let base = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    std::path::absolute(base.join(path)).unwrap_or_else(|_| path.to_path_buf())
}
