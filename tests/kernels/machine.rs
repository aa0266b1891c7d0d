//! The devices that tests run on.

use crate::gpu::{self, LeftOut};
use regemm::{Device, DeviceSpec, KernelInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A device under its name on the command line.
#[derive(Clone)]
pub struct Machine {
    pub name: String,
    pub device: Device,
    tests: Arc<AtomicUsize>,
    left_to_twins: Arc<AtomicUsize>,
    /// All that it can run, and what is said of the others.
    kernels: Arc<(Vec<&'static KernelInfo>, LeftOut)>,
}

impl Machine {
    pub fn new(device: Device) -> Self {
        Machine {
            name: device.spec().to_string(),
            kernels: Arc::new(gpu::kernels(&device)),
            device,
            tests: Arc::default(),
            left_to_twins: Arc::default(),
        }
    }

    /// The kernels that can run here.
    pub fn kernels(&self) -> impl Iterator<Item = &'static KernelInfo> {
        self.kernels.0.iter().copied()
    }

    /// What is said of the kernels that cannot.
    pub fn left_out(&self) -> &LeftOut {
        &self.kernels.1
    }

    /// Counts a test that runs here.
    pub fn count_test(&self) {
        self.tests.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is the simulator.
    pub fn is_simulator(&self) -> bool {
        self.device.spec() == DeviceSpec::Sim
    }

    /// Counts a test of a kernel of bf16 that its twin of f16 runs alone.
    pub fn count_left_to_twin(&self) {
        self.left_to_twins.fetch_add(1, Ordering::Relaxed);
    }

    fn tests(&self) -> usize {
        self.tests.load(Ordering::Relaxed)
    }
}

/// What there is to run on.
pub struct Machines {
    simulator: Machine,
    /// The GPU, or why there is none.
    gpu: Result<Machine, String>,
    /// Why that is a failure, if it is.
    failure: Option<String>,
}

/// The simulator, and the first GPU if there is one.
pub fn all() -> Machines {
    let simulator = Machine::new(Device::sim());
    match gpu::first() {
        Ok(gpu) => Machines { simulator, gpu: gpu.map(Machine::new), failure: None },
        Err(why) => Machines { simulator, gpu: Err(why.clone()), failure: Some(why) },
    }
}

impl Machines {
    pub fn simulator(&self) -> &Machine {
        &self.simulator
    }

    pub fn available(&self) -> impl Iterator<Item = &Machine> {
        std::iter::once(&self.simulator).chain(self.gpu.as_ref().ok())
    }

    /// An error where `REGEMM_REQUIRE_GPU=1` asks for a GPU and there is none, or where there is one that cannot be
    /// opened.
    pub fn gpu_requirement(&self) -> Result<(), String> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Which tests ran where.
    pub fn summary(&self) -> String {
        let on_simulator = format!(
            "{} tests of kernels ran on the simulator ({} left to twins that are the same code)",
            self.simulator.tests(),
            self.simulator.left_to_twins.load(Ordering::Relaxed)
        );
        match &self.gpu {
            Ok(gpu) => {
                let (name, tests) = (&gpu.device.info().name, gpu.tests());
                let on_gpu = format!("{on_simulator} and {tests} on {name} ({})", gpu.name);
                let left_out = gpu.left_out();
                match left_out.count() {
                    0 => on_gpu,
                    some => format!("{on_gpu}, which cannot run {some} of the kernels: {left_out}"),
                }
            }
            Err(why) => format!("{on_simulator} and NONE on a GPU, because: {why}"),
        }
    }
}
