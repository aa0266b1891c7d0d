//! The devices that tests run on.

use regemm::{Device, DeviceSpec};

/// A device under its name on the command line.
#[derive(Clone)]
pub struct Machine {
    pub name: String,
    pub device: Device,
}

/// What there is to run on.
pub struct Machines {
    simulator: Machine,
    /// The GPU, or why there is none.
    gpu: Result<Machine, String>,
}

/// The simulator, and the first GPU if there is one.
pub fn all() -> Machines {
    let machine = |device: Device| Machine { name: device.spec().to_string(), device };
    Machines {
        simulator: machine(Device::sim()),
        gpu: Device::open(DeviceSpec::Cuda(0)).map(machine).map_err(|error| error.to_string()),
    }
}

impl Machines {
    pub fn available(&self) -> impl Iterator<Item = &Machine> {
        std::iter::once(&self.simulator).chain(self.gpu.as_ref().ok())
    }

    /// An error where `REGEMM_REQUIRE_GPU=1` asks for a GPU and there is none.
    pub fn gpu_requirement(&self) -> Result<(), String> {
        let required = std::env::var("REGEMM_REQUIRE_GPU").is_ok_and(|value| value == "1");
        match &self.gpu {
            Err(why) if required => Err(format!("REGEMM_REQUIRE_GPU=1, but: {why}")),
            _ => Ok(()),
        }
    }

    /// Where the tests of the kernels ran.
    pub fn summary(&self, kernels: usize) -> String {
        match &self.gpu {
            Ok(gpu) => format!(
                "{kernels} kernels were tested on the simulator and on {} ({})",
                gpu.device.info().name,
                gpu.name
            ),
            Err(why) => format!(
                "{kernels} kernels were tested on the simulator and NOT on a GPU, because {why}"
            ),
        }
    }
}
