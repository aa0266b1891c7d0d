//! The GPU that tests run on, if there is one.
//!
//! Without one the simulator is all there is, and the tests say so; with `REGEMM_REQUIRE_GPU=1` that is a failure.

use regemm::{Device, DeviceSpec, Error};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Whether `REGEMM_REQUIRE_GPU=1` asks for a GPU.
pub fn is_required() -> bool {
    std::env::var("REGEMM_REQUIRE_GPU").is_ok_and(|value| value == "1")
}

/// The first GPU, or why there is none.
///
/// # Errors
/// What must not be passed over: there has to be one, or it is there and cannot be opened.
#[allow(dead_code, reason = "not all tests use it")]
pub fn first() -> Result<Result<Device, String>, String> {
    judge(Device::open(DeviceSpec::Cuda(0)))
}

/// All GPUs, or why there is none.
///
/// # Errors
/// As for [`first`].
#[allow(dead_code, reason = "not all tests use it")]
pub fn all() -> Result<Result<Vec<Device>, String>, String> {
    judge(Device::cuda_devices().and_then(|count| match count {
        0 => Err(Error::NoSuchDevice { ordinal: 0, count }),
        _ => (0..count).map(Device::cuda).collect(),
    }))
}

/// Whether tests go on without a GPU, and why there is none.
fn judge<T>(opened: regemm::Result<T>) -> Result<Result<T, String>, String> {
    match opened {
        Ok(found) => Ok(Ok(found)),
        Err(why) if is_required() => Err(format!("REGEMM_REQUIRE_GPU=1, but: {why}")),
        Err(why @ (Error::NoDriver { .. } | Error::NoSuchDevice { .. })) => {
            Ok(Err(why.to_string()))
        }
        Err(why) => Err(why.to_string()),
    }
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
