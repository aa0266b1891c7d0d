//! The GPU that tests run on, if there is one.
//!
//! Without one the simulator is all there is, and the tests say so; with `REGEMM_REQUIRE_GPU=1` that is a failure.

use regemm::kernels::{Problem, Types};
use regemm::{Device, DeviceSpec, Error, KernelInfo};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// What there is of GPUs, or why there is nothing; an error where that must not be passed over.
pub type Found<T> = Result<Result<T, String>, String>;

/// Whether `REGEMM_REQUIRE_GPU=1` asks for a GPU.
pub fn is_required() -> bool {
    std::env::var("REGEMM_REQUIRE_GPU").is_ok_and(|value| value == "1")
}

/// The first GPU, or why there is none: one that is older than all PTX is none.
///
/// # Errors
/// What must not be passed over: there has to be one, or it is there and cannot be opened.
#[allow(dead_code, reason = "not all tests use it")]
pub fn first() -> Found<Device> {
    judge(open(0))
}

/// All GPUs that can be opened and are no older than the PTX, with the reasons of the others; or why there is none.
///
/// # Errors
/// As for [`first`].
#[allow(dead_code, reason = "not all tests use it")]
pub fn all() -> Found<(Vec<Device>, Vec<String>)> {
    let first = match first()? {
        Ok(first) => first,
        Err(why) => return Ok(Err(why)),
    };
    let count = Device::cuda_devices().map_err(|why| why.to_string())?;
    let (mut gpus, mut others) = (vec![first], Vec::new());
    for ordinal in 1..count {
        match open(ordinal) {
            Ok(gpu) => gpus.push(gpu),
            Err(why) => others.push(format!("cuda:{ordinal}: {why}")),
        }
    }
    Ok(Ok((gpus, others)))
}

/// Opens a GPU; one for which there is no PTX of the plainest kernel is an error.
fn open(ordinal: usize) -> regemm::Result<Device> {
    let gpu = Device::open(DeviceSpec::Cuda(ordinal))?;
    let plainest = &regemm::kernels::kernels()[0];
    match gpu.refusal(plainest)? {
        None => Ok(gpu),
        Some(why) => Err(why),
    }
}

/// Whether tests go on without a GPU, and why there is none.
fn judge<T>(opened: regemm::Result<T>) -> Found<T> {
    match opened {
        Ok(found) => Ok(Ok(found)),
        Err(
            why @ (Error::NoDriver { .. }
            | Error::NoSuchDevice { .. }
            | Error::GpuTooOld { .. }
            | Error::DriverTooOld { .. }),
        ) => none(why.to_string()),
        Err(why) => Err(why.to_string()),
    }
}

/// There is a GPU, and it will not do: the same as none.
///
/// # Errors
/// Where there has to be one.
#[allow(dead_code, reason = "not all tests use it")]
pub fn none<T>(why: String) -> Found<T> {
    if is_required() { Err(format!("REGEMM_REQUIRE_GPU=1, but: {why}")) } else { Ok(Err(why)) }
}

/// Why a GPU cannot run a kernel, as far as can be said before it is compiled.
#[allow(dead_code, reason = "not all tests use it")]
pub fn refusal(gpu: &Device, kernel: &'static KernelInfo) -> Option<Error> {
    let types = Types::of(kernel);
    let problem = Problem::packed(types, (1, 1, 1), kernel.layouts);
    regemm::kernels::supports(kernel, &problem, gpu.info()).err()
}

/// How many kernels a GPU cannot run, for each reason.
#[derive(Clone, Debug, Default)]
pub struct LeftOut(BTreeMap<String, usize>);

impl LeftOut {
    /// How many they are.
    #[allow(dead_code, reason = "not all tests use it")]
    pub fn count(&self) -> usize {
        self.0.values().sum()
    }
}

/// The reasons, with the number of kernels before each.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (reason, count)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{count} {reason}")?;
        }
        Ok(())
    }
}

/// The kernels that a GPU can run, as far as can be said before they are compiled, and what is said of the others.
#[allow(dead_code, reason = "not all tests use it")]
pub fn kernels(gpu: &Device) -> (Vec<&'static KernelInfo>, LeftOut) {
    let (mut kernels, mut left_out) = (Vec::new(), LeftOut::default());
    for kernel in regemm::kernels::kernels() {
        let reason = match refusal(gpu, kernel) {
            None => {
                kernels.push(kernel);
                continue;
            }
            Some(Error::KernelNeeds { needs, .. }) => format!("need {needs}"),
            Some(Error::KernelDoesNotFit { resource, available, .. }) => {
                format!("need more than {available} {resource}")
            }
            Some(other) => format!("are refused: {other}"),
        };
        *left_out.0.entry(reason).or_default() += 1;
    }
    (kernels, left_out)
}

/// The simulator, and the first GPU if it has a compute capability that will do. Says once on which `what` is tested,
/// past the harness, which keeps what tests print to itself.
///
/// # Panics
/// Where a GPU is required and there is none, or where it cannot be opened.
#[allow(dead_code, reason = "not all tests use it")]
pub fn with_simulator(what: &str, will_do: impl Fn((u32, u32)) -> bool) -> Vec<Device> {
    let gpu = first().unwrap_or_else(|why| panic!("{why}"));
    let gpu = gpu.and_then(|gpu| match gpu.info().compute_capability {
        Some(capability) if will_do(capability) => Ok(gpu),
        _ => Err(format!("{} does not have what it takes", gpu.info().name)),
    });
    let place = match &gpu {
        Ok(gpu) => format!("on the simulator and on {}", gpu.info().name),
        Err(why) => format!("on the simulator alone: {why}"),
    };
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(what.to_owned()) {
        let _ = writeln!(std::io::stderr(), "{what}: {place}");
    }
    [Some(Device::sim()), gpu.ok()].into_iter().flatten().collect()
}
