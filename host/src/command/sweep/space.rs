//! The configurations and their kernels, as far as this build has them.

use crate::command::exit::Failure;
use built::Candidate;
use regemm::{CustomKernel, Device, Error, KernelReport, Linear};
use regemm_report::sweep::Entry;

/// The kernel of a configuration.
pub type Kernel = CustomKernel<f32, Linear<f32>>;

/// A configuration with its kernel, and what is known of both before anything is measured.
pub struct Subject {
    /// Without results.
    pub entry: Entry,
    candidate: Candidate,
}

/// What a device makes of a kernel.
pub enum Fit {
    /// It can run it.
    Runs(KernelReport),
    /// It cannot, and why.
    CannotRun(String),
}

/// All configurations, in the order of the space, for a subcommand.
///
/// # Errors
/// This build has none: how to get them.
pub fn subjects(command: &str) -> Result<Vec<Subject>, Failure> {
    let subject = |candidate| Subject { entry: built::entry(&candidate), candidate };
    Ok(built::candidates(command)?.into_iter().map(subject).collect())
}

impl Subject {
    /// The kernel; none where no GPU can run the configuration.
    pub fn kernel(&self) -> Option<&Kernel> {
        built::kernel(&self.candidate)
    }

    /// What a device makes of it. On a GPU this compiles the kernel.
    ///
    /// # Errors
    /// A failure of the device that has nothing to do with this kernel.
    pub fn fit(&self, device: &Device) -> Result<Fit, Error> {
        match (built::unfit(&self.candidate, device)?, self.kernel()) {
            (None, Some(kernel)) => kernel.report(device).map(Fit::Runs),
            (why, _) => Ok(Fit::CannotRun(why.unwrap_or_default())),
        }
    }

    /// Takes down what a device made of it.
    pub fn take_down(&mut self, fit: Fit) {
        match fit {
            Fit::Runs(report) => {
                self.entry.registers = report.registers;
                self.entry.local_bytes = report.local_bytes;
                self.entry.resident_blocks = report.resident_blocks;
                self.entry.shared_bytes =
                    report.dynamic_shared_bytes + report.static_shared_bytes.unwrap_or(0);
            }
            Fit::CannotRun(why) => self.entry.cannot_run = Some(why),
        }
    }
}

#[cfg(feature = "sweep")]
mod built {
    use super::super::bench::is_misfit;
    use super::Kernel;
    use crate::command::exit::Failure;
    use regemm::sweep::CannotRun;
    use regemm::{Device, Error};
    use regemm_report::sweep::{Config, Entry};

    pub use regemm::sweep::Candidate;

    pub fn candidates(_command: &str) -> Result<Vec<Candidate>, Failure> {
        Ok(regemm::sweep::candidates())
    }

    pub fn entry(candidate: &Candidate) -> Entry {
        let configuration = &candidate.configuration;
        let tile = configuration.tile;
        Entry {
            kernel: configuration.kernel_name(),
            config: Config {
                bm: tile.bm,
                bn: tile.bn,
                bk: tile.bk,
                tm: tile.tm,
                tn: tile.tn,
                order: configuration.order.name().to_owned(),
                staging: configuration.staging.name().to_owned(),
            },
            shared_bytes: configuration.shared_bytes(),
            threads: tile.threads(),
            ..Entry::default()
        }
    }

    pub fn kernel(candidate: &Candidate) -> Option<&Kernel> {
        candidate.kernel.as_ref().ok()
    }

    pub fn unfit(candidate: &Candidate, device: &Device) -> Result<Option<String>, Error> {
        match regemm::sweep::unfit(candidate, device) {
            Some(CannotRun::Refused(error)) if !is_misfit(&error) => Err(error),
            why => Ok(why.map(|why| why.to_string())),
        }
    }
}

#[cfg(not(feature = "sweep"))]
mod built {
    use super::Kernel;
    use crate::command::exit::Failure;
    use regemm::{Device, Error};
    use regemm_report::sweep::Entry;

    /// There are none.
    pub enum Candidate {}

    pub fn candidates(command: &str) -> Result<Vec<Candidate>, Failure> {
        Err(Failure::Usage(format!(
            "this build is without the kernels of the sweep, which take minutes to compile; build it with them: \
             cargo run --release --features sweep -- {command}"
        )))
    }

    pub fn entry(candidate: &Candidate) -> Entry {
        match *candidate {}
    }

    pub fn kernel(candidate: &Candidate) -> Option<&Kernel> {
        match *candidate {}
    }

    pub fn unfit(candidate: &Candidate, _: &Device) -> Result<Option<String>, Error> {
        match *candidate {}
    }
}
