//! Kernels that a device cannot run, and why.

use super::options::is_named;
use super::output::bytes;
use regemm::kernels::{self, Problem};
use regemm::{Device, Error, KernelInfo, Resource};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A kernel, and why it cannot run.
pub type LeftOut = (&'static KernelInfo, Error);

/// The kernels that a device can run, and the others. Those that were named one by one count as if it could: who names
/// one wants that one, or the reason why it cannot run.
///
/// # Errors
/// What is not about a kernel.
pub fn fitting(
    device: &Device,
    kernels: impl IntoIterator<Item = &'static KernelInfo>,
    names: &[String],
) -> Result<(Vec<&'static KernelInfo>, Vec<LeftOut>), Error> {
    let (mut fitting, mut left_out) = (Vec::new(), Vec::new());
    for kernel in kernels {
        if is_named(kernel, names) {
            fitting.push(kernel);
            continue;
        }
        match device.refusal(kernel)? {
            None => fitting.push(kernel),
            Some(why) => left_out.push((kernel, why)),
        }
    }
    Ok((fitting, left_out))
}

/// Why a device cannot run a kernel on any product, by what it has, without asking the driver to compile it.
pub fn unsupported(kernel: &'static KernelInfo, device: &Device) -> Option<Error> {
    let problem = Problem::packed(kernel.dtype, (1, 1, 1), kernel.layouts);
    let problem = Problem { target: kernel.target, ..problem };
    kernels::supports(kernel, &problem, device.info()).err()
}

/// A line for each reason: all kernels that need the same have one.
pub fn reasons<'e>(why: impl IntoIterator<Item = &'e Error>) -> Vec<String> {
    let (mut kernels, mut others) = (BTreeMap::<String, usize>::new(), Vec::new());
    for why in why {
        let needs = match why {
            Error::KernelNeeds { needs, found: (major, minor), device, .. } => {
                format!("{needs}, and {device} has compute capability {major}.{minor}")
            }
            Error::DriverTooOld { needed, found, .. } => format!(
                "a driver for CUDA {}.{}, and this one supports {}.{}",
                needed.0, needed.1, found.0, found.1
            ),
            Error::KernelDoesNotFit {
                resource: Resource::SharedMemory, available, device, ..
            } => format!(
                "more shared memory a block than the {} that {device} has",
                bytes(*available)
            ),
            Error::GpuTooOld { device, capability: (major, minor), available, .. } => {
                format!("one of {available}, and {device} has compute capability {major}.{minor}")
            }
            other => {
                others.push(other.to_string());
                continue;
            }
        };
        *kernels.entry(needs).or_default() += 1;
    }
    let line = |(needs, count): (String, usize)| match count {
        1 => format!("1 kernel cannot run: it needs {needs}"),
        count => format!("{count} kernels cannot run: they need {needs}"),
    };
    kernels.into_iter().map(line).chain(others).collect()
}

/// The failure of a command that has no kernel left to run, if so: the reason of the first.
pub fn none_left(fitting: &[&KernelInfo], left_out: &[LeftOut]) -> Option<Error> {
    let (_, why) = left_out.first()?;
    fitting.is_empty().then(|| why.clone())
}

/// The same as JSON.
pub fn json(left_out: &[LeftOut]) -> Value {
    let one = |(kernel, why): &LeftOut| json!({ "kernel": kernel.name, "why": why.to_string() });
    left_out.iter().map(one).collect()
}
