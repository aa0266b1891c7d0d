//! The simulator as a device.

use super::info::{DeviceInfo, DeviceKind};
use super::report::KernelReport;
use super::workspace::{Grown, Held, Memory, Purpose, WORD_BYTES, WorkspaceSize};
use super::{Device, DeviceSpec, Inner, Launch, Machine, Rows, Step};
use crate::error::{Error, Result};
use crate::tuning::Tuner;
use cuda_std::bulk_copy::TensorMap;
use cuda_std::sim::{self, Counters, SimError, Simulator, limits};
use cuda_std::tensor_map::TiledTensor;
use regemm_kernels::kernel::KernelInfo;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

/// Multiprocessors of a simulator unless another number is asked for: the same wherever it runs, so that the same
/// kernels are chosen, and the same is counted.
const MULTIPROCESSORS: NonZeroU32 = NonZeroU32::new(2).unwrap();

/// Simulators.
impl Device {
    /// A new simulator with its own memory and two multiprocessors.
    pub fn sim() -> Device {
        Device::of_simulator(Simulator::new(), MULTIPROCESSORS)
    }

    /// A new simulator with this many bytes of memory and two multiprocessors.
    pub fn sim_with_memory(bytes: u64) -> Device {
        Device::of_simulator(Simulator::with_memory(bytes), MULTIPROCESSORS)
    }

    /// A new simulator with this many multiprocessors, to which work is dealt out as to those of a GPU: so a kernel of
    /// f32 gives the bits that it gives there, also where [`Gemm::slices`](crate::Gemm::slices) is not set. It runs no
    /// faster with more of them: how many blocks run at a time is up to the CPU.
    pub fn sim_with_multiprocessors(multiprocessors: NonZeroU32) -> Device {
        Device::of_simulator(Simulator::new(), multiprocessors)
    }

    /// A new simulator that says that it has an L2 cache of so many bytes.
    #[cfg(test)]
    pub(crate) fn sim_with_l2(bytes: u64) -> Device {
        let simulator = Simulator::new();
        let info = info(simulator.memory_usage().0, MULTIPROCESSORS.get());
        Device::with_info(simulator, DeviceInfo { l2_bytes: Some(bytes), ..info })
    }

    fn of_simulator(simulator: Simulator, multiprocessors: NonZeroU32) -> Device {
        let info = info(simulator.memory_usage().0, multiprocessors.get());
        Device::with_info(simulator, info)
    }

    fn with_info(simulator: Simulator, info: DeviceInfo) -> Device {
        let machine = Machine::Sim(SimDevice::new(simulator));
        Device::of(Inner { info, machine, tuner: Arc::new(Tuner::new()) })
    }
}

/// A simulated GPU.
pub(crate) struct SimDevice {
    simulator: Simulator,
    /// Memory for unfinished sums. It goes with the simulator.
    workspace: Mutex<Grown>,
}

impl SimDevice {
    fn new(simulator: Simulator) -> SimDevice {
        SimDevice { simulator, workspace: Mutex::default() }
    }

    /// Memory filled with 0xFF bytes.
    pub fn alloc(&self, bytes: u64) -> Result<u64> {
        self.simulator.alloc(bytes).map_err(error)
    }

    /// The address came from `alloc` and is freed once, so there is nothing to report.
    pub fn free(&self, address: u64) {
        let freed = self.simulator.free(address);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }

    pub fn read_rows(&self, from: Rows, to: &mut [u8]) -> Result<()> {
        for (address, row) in addresses(from).zip(to.chunks_exact_mut(from.row_bytes as usize)) {
            self.simulator.read(address, row).map_err(error)?;
        }
        Ok(())
    }

    pub fn write_rows(&self, from: &[u8], to: Rows) -> Result<()> {
        for (address, row) in addresses(to).zip(from.chunks_exact(to.row_bytes as usize)) {
            self.simulator.write(address, row).map_err(error)?;
        }
        Ok(())
    }

    pub fn zero(&self, address: u64, bytes: u64) -> Result<()> {
        self.simulator.fill(address, bytes, 0).map_err(error)
    }

    pub fn move_rows(&self, [from, to]: [Rows; 2]) -> Result<()> {
        let mut row = vec![0; from.row_bytes as usize];
        addresses(from)
            .zip(addresses(to))
            .try_for_each(|(from, to)| {
                self.simulator.read(from, &mut row)?;
                self.simulator.write(to, &row)
            })
            .map_err(error)
    }

    /// The memory for unfinished sums, of at least this size.
    pub fn hold_workspace(&self, size: WorkspaceSize) -> Result<Held<'_>> {
        Held::own(&self.workspace, size, self)
    }

    /// The map of a tensor.
    pub fn tensor_map(&self, tensor: &TiledTensor) -> Result<TensorMap> {
        self.simulator.tensor_map(tensor).map_err(Error::TensorMap)
    }

    /// Runs kernels to their end.
    ///
    /// # Safety
    /// As for [`Device::launch`](super::Device::launch).
    pub unsafe fn launch(&self, launch: &Launch<'_>) -> Result<Counters> {
        let mut counters = Counters::default();
        launch.begun.set(true);
        for step @ Step { code, grid, .. } in launch.steps {
            let shape = sim::Launch {
                grid: *grid,
                block: [code.threads, 1, 1],
                dynamic_shared: code.shared_bytes,
            };
            // SAFETY: as promised by the caller.
            let counted = unsafe { self.simulator.launch(code.entry, shape, step.taken()) };
            counters += counted.map_err(error)?;
        }
        Ok(counters)
    }
}

impl Memory for SimDevice {
    fn settle(&self, _purpose: Purpose) -> Result<()> {
        Ok(())
    }

    fn alloc(&self, bytes: u64) -> Result<u64> {
        SimDevice::alloc(self, bytes)
    }

    fn free(&self, address: u64) {
        SimDevice::free(self, address);
    }

    fn is_captured(&self) -> Result<bool> {
        Ok(false)
    }

    fn keep(&self, _address: u64) {}

    fn zero(&self, address: u64, words: u64) -> Result<()> {
        SimDevice::zero(self, address, words * WORD_BYTES)
    }
}

/// The address of each row.
fn addresses(rows: Rows) -> impl Iterator<Item = u64> {
    (0..rows.rows).map(move |row| rows.address + row * rows.pitch)
}

fn error(error: SimError) -> Error {
    match error {
        SimError::OutOfMemory { requested, available } => {
            Error::OutOfMemory { device: DeviceSpec::Sim, requested, free: available }
        }
        other => Error::Simulator(other),
    }
}

/// The simulator's limits; those that it does not have itself are of compute capability 9.0 (CUDA C++ Programming
/// Guide, "Technical Specifications per Compute Capability").
fn info(memory_bytes: u64, multiprocessors: u32) -> DeviceInfo {
    DeviceInfo {
        name: "SIMT simulator".to_owned(),
        kind: DeviceKind::Sim,
        compute_capability: None,
        multiprocessors,
        clock_khz: None,
        memory_bytes,
        memory_bandwidth: None,
        l2_bytes: None,
        max_threads_per_block: limits::MAX_BLOCK_THREADS,
        max_threads_per_multiprocessor: 2048,
        max_blocks_per_multiprocessor: 32,
        registers_per_multiprocessor: 64 << 10,
        shared_bytes_per_block: limits::MAX_SHARED,
        shared_bytes_per_multiprocessor: 228 << 10,
        driver_version: None,
    }
}

/// What is known of a kernel without a compiler.
pub(crate) fn report(kernel: &KernelInfo) -> KernelReport {
    KernelReport {
        registers: None,
        static_shared_bytes: None,
        dynamic_shared_bytes: kernel.shared_bytes,
        local_bytes: None,
        max_threads: kernel.entry.max_threads,
        resident_blocks: None,
        arch: None,
    }
}
