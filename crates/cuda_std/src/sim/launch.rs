//! The shape of a launch, what a launch must satisfy, and how it begins.

use super::block::Job;
use super::counters::Counters;
use super::fault::SimError;
use super::limits::{
    MAX_BLOCK, MAX_BLOCK_THREADS, MAX_CLUSTER, MAX_GRID, MAX_PARAMETER_BYTES, MAX_SHARED,
};
use super::observation::Observer;
use super::{Simulator, grid, panics, worker};
use crate::entry::KernelEntry;
use std::ffi::c_void;
use std::sync::Arc;

/// Shape of a launch, as for `cuLaunchKernel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Launch {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared: u32,
}

/// [`Simulator::launch`], with somebody who is told what threads do, or nobody.
///
/// # Safety
/// As there.
pub(super) unsafe fn run(
    simulator: &Simulator,
    kernel: &KernelEntry,
    launch: Launch,
    arguments: &[*const c_void],
    observer: Option<&Arc<Observer>>,
) -> Result<Counters, SimError> {
    validate(kernel, &launch, arguments)?;
    if worker::in_kernel() {
        let message = format!("{}: a kernel cannot launch another one", kernel.name);
        return Err(SimError::InvalidLaunch(message));
    }
    panics::install_hook();
    let job = Job {
        entry: kernel,
        arguments,
        block_dim: launch.block,
        grid_dim: launch.grid,
        dynamic_shared: launch.dynamic_shared,
        most_steps: simulator.most_steps,
        watch: simulator.watch.as_ref(),
        observer,
    };
    // SAFETY: as promised by the caller.
    unsafe { grid::run_grid(&job, &simulator.memory.snapshot()) }
}

/// Checks a launch against the limits of the device and of the kernel.
fn validate(
    kernel: &KernelEntry,
    launch: &Launch,
    arguments: &[*const c_void],
) -> Result<(), SimError> {
    let error =
        |message: String| Err(SimError::InvalidLaunch(format!("{}: {message}", kernel.name)));
    for (name, dim, most) in [("grid", launch.grid, MAX_GRID), ("block", launch.block, MAX_BLOCK)] {
        for (axis, (size, most)) in ["x", "y", "z"].into_iter().zip(dim.into_iter().zip(most)) {
            if !(1..=most).contains(&size) {
                return error(format!(
                    "the {name} is {size} along {axis}, and must be 1 to {most}"
                ));
            }
        }
    }

    let cluster = kernel.cluster;
    if !(1..=MAX_CLUSTER).contains(&cluster) || !launch.grid[0].is_multiple_of(cluster) {
        return error(format!(
            "a grid of {} blocks along x in clusters of {cluster}: it must be a multiple of that, which may be 1 to {MAX_CLUSTER}",
            launch.grid[0]
        ));
    }

    let threads = launch.block.iter().map(|&n| n as u64).product::<u64>();
    if threads > MAX_BLOCK_THREADS as u64 {
        return error(format!(
            "a block of {threads} threads, and there may be {MAX_BLOCK_THREADS}"
        ));
    }
    if let Some(most) = kernel.max_threads.filter(|&most| threads > most as u64) {
        return error(format!(
            "a block of {threads} threads, and the kernel was compiled for {most} at most"
        ));
    }
    if launch.dynamic_shared > MAX_SHARED {
        return error(format!(
            "{} bytes of dynamic shared memory, and a block may have {MAX_SHARED}",
            launch.dynamic_shared
        ));
    }

    if arguments.len() != kernel.parameters.len() {
        return error(format!(
            "{} arguments, and the kernel has {} parameters",
            arguments.len(),
            kernel.parameters.len()
        ));
    }
    let bytes = kernel.parameters.iter().map(|parameter| parameter.size).sum::<usize>();
    if bytes > MAX_PARAMETER_BYTES {
        return error(format!(
            "{bytes} bytes of parameters, and a kernel may have {MAX_PARAMETER_BYTES}"
        ));
    }
    for (index, (argument, parameter)) in arguments.iter().zip(kernel.parameters).enumerate() {
        if argument.is_null() || !argument.addr().is_multiple_of(parameter.align) {
            return error(format!(
                "argument {index} points to {argument:p}, and must point to a value aligned to {} bytes",
                parameter.align
            ));
        }
    }
    Ok(())
}
