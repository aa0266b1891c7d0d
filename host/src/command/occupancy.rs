//! `regemm occupancy`: how many blocks of a kernel a multiprocessor holds, and what limits them.

use super::exit::Failure;
use super::occupancy_text::{block_text, kernels_table, limits_text};
use super::options::{self, DeviceOption};
use super::output::{Output, count};
use super::progress;
use regemm::gpus::{self, Gpu};
use regemm::kernels::{self, Types};
use regemm::occupancy::{
    CannotLaunch, Demand, Limits, Occupancy, RegisterSteps, compiled, occupancy, recorded_with,
    register_steps,
};
use regemm::{Device, DeviceInfo, Error, KernelInfo, Layouts, Resource};
use serde_json::{Value, json};
use std::slice;

/// Show how many blocks and warps of each kernel a multiprocessor holds, what limits them, and what a register more or
/// fewer would do
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    #[command(flatten)]
    device: DeviceOption,
    /// A known GPU by its published limits instead, such as h200, a100-40gb, rtx4090 or t4
    #[arg(long, value_name = "ID", conflicts_with = "device")]
    gpu: Option<String>,
    /// Element types of the kernels, one kind in a run: `bf16_f32` has results of f32
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = options::types_of_run())]
    dtype: Types,
    /// Only these kernels, comma-separated, in this order. The name of a rung, such as tiled, stands for all of its
    /// kernels; pipelined_f32 is the one that is called so
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    kernels: Vec<String>,
    #[command(flatten)]
    block: BlockOptions,
    #[command(flatten)]
    machine: MachineOptions,
}

/// A block of no particular kernel.
#[derive(clap::Args)]
#[command(next_help_heading = "A block instead of kernels")]
struct BlockOptions {
    /// Threads of a block
    #[arg(long, value_name = "N", conflicts_with_all = ["kernels", "dtype"])]
    threads: Option<u32>,
    /// Registers of a thread; left out of account if not given
    #[arg(
        long,
        value_name = "N",
        requires = "threads",
        default_value_t = 0,
        hide_default_value = true
    )]
    registers: u32,
    /// Shared memory of a block: bytes, or with KiB (also written KB or K)
    #[arg(long, value_name = "BYTES", requires = "threads", value_parser = bytes,
          default_value = "0", hide_default_value = true)]
    shared: u32,
}

/// Changes to the limits.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits of the multiprocessor, to describe another one")]
struct MachineOptions {
    /// Most resident threads
    #[arg(long, value_name = "N", requires = "threads")]
    max_threads: Option<u32>,
    /// Most resident blocks
    #[arg(long, value_name = "N", requires = "threads")]
    max_blocks: Option<u32>,
    /// Registers
    #[arg(long, value_name = "N", requires = "threads")]
    register_file: Option<u32>,
    /// Shared memory: bytes, or with KiB (also written KB or K)
    #[arg(long, value_name = "BYTES", requires = "threads", value_parser = bytes)]
    shared_memory: Option<u32>,
    /// Give out single registers and bytes and reserve nothing, as textbooks reckon
    #[arg(long, requires = "threads")]
    no_granularity: bool,
}

const HELP: &str = "\
On a GPU, registers and shared memory are as its driver compiled the kernels, and its own answer stands in the last \
column; the exit code is 1 where ours differs. With --gpu, and where there is no GPU (then --gpu h200), limits are the \
published ones and registers those that were recorded when the kernels were compiled.

Threads, registers, shared memory or block slots limit. A warp gets a multiple of 256 registers; a block gets a multiple \
of 128 bytes of shared memory, of which 1 KiB is reserved (compute capability 7.5: of 256 bytes, nothing reserved).

Examples:
  regemm occupancy
  regemm occupancy --gpu rtx4090 --dtype f64 --kernels tiled16,microkernel
  regemm occupancy --gpu t4 --threads 256 --registers 64 --shared 16KiB --json

16,384 registers for 1,536 threads are 10 for each; with 11 a whole block of 512 threads is lost:
  regemm occupancy --threads 512 --registers 10 --max-threads 1536 --register-file 16384 --no-granularity

Blocks of 16 x 16 threads with two tiles of floats, in 16 KiB of shared memory with 8 block slots: 6 blocks, as \
threads limit; with --shared 5KiB three:
  regemm occupancy --threads 256 --shared 2KiB --max-threads 1536 --max-blocks 8 --shared-memory 16KiB --no-granularity";

/// Reads a number of bytes.
fn bytes(text: &str) -> Result<u32, String> {
    const KIB: u32 = 1 << 10;
    let kib = ["KiB", "KB", "K"].iter().find_map(|unit| text.strip_suffix(unit));
    let number = kib.unwrap_or(text).trim().parse::<u32>().ok();
    let unit = if kib.is_some() { KIB } else { 1 };
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| "a size is a number of bytes or of KiB, such as 4096 or 4KiB".to_owned())
}

/// Whose multiprocessor it is.
pub enum Machine {
    Device(Device),
    Published(&'static Gpu),
}

impl Machine {
    /// The GPU that is meant; without one that which is taken for it.
    fn find(arguments: &Arguments) -> Result<Machine, Error> {
        const WITHOUT_GPU: &str = "h200";
        if let Some(id) = &arguments.gpu {
            return Ok(Machine::Published(gpus::find(id)?));
        }
        let device = Device::open(arguments.device.device)?;
        if device.is_sim() {
            Ok(Machine::Published(gpus::find(WITHOUT_GPU)?))
        } else {
            Ok(Machine::Device(device))
        }
    }

    fn limits(&self) -> Limits {
        match self {
            Machine::Device(device) => Limits::of_device(device.info()),
            Machine::Published(gpu) => gpu.limits(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Machine::Device(device) => &device.info().name,
            Machine::Published(gpu) => gpu.name,
        }
    }

    fn capability(&self) -> Option<(u32, u32)> {
        match self {
            Machine::Device(device) => device.info().compute_capability,
            Machine::Published(gpu) => Some(gpu.capability),
        }
    }

    /// Why a kernel is not for this architecture, if it is not.
    fn lacks(&self, kernel: &KernelInfo) -> Option<CannotLaunch> {
        lacks(self.capability(), kernel)
    }

    /// What a kernel takes, and how many of its blocks the driver says are resident.
    fn takes(&self, kernel: &'static KernelInfo) -> Result<Taken, Failure> {
        let threads = kernel.threads();
        if let Some(lacks) = self.lacks(kernel) {
            let (registers, shared_bytes) = (0, kernel.shared_bytes);
            let demand = Demand { threads, registers, shared_bytes };
            let taken = Taken { demand, local_bytes: None, driver: None, exact: true, lacks: None };
            return Ok(Taken { lacks: Some(lacks), ..taken });
        }
        match self {
            Machine::Device(device) => {
                let report = match device.kernel_report(kernel) {
                    // It cannot even be loaded: how many registers it would take nobody knows, and its shared memory
                    // says the rest.
                    Err(Error::KernelDoesNotFit { resource: Resource::SharedMemory, .. }) => {
                        let (registers, shared_bytes) = (0, kernel.shared_bytes);
                        let demand = Demand { threads, registers, shared_bytes };
                        let (local_bytes, driver, exact, lacks) = (None, None, true, None);
                        return Ok(Taken { demand, local_bytes, driver, exact, lacks });
                    }
                    report => report?,
                };
                let declared = report.static_shared_bytes.unwrap_or_default();
                let shared_bytes = declared + report.dynamic_shared_bytes;
                let registers = report.registers.unwrap_or_default();
                Ok(Taken {
                    demand: Demand { threads, registers, shared_bytes },
                    local_bytes: report.local_bytes,
                    driver: report.resident_blocks,
                    exact: true,
                    lacks: None,
                })
            }
            Machine::Published(gpu) => {
                let recorded = compiled(kernel.entry.name, gpu.capability).ok_or_else(|| {
                    let (major, minor) = gpu.capability;
                    Failure::Usage(format!(
                        "the registers of {} on compute capability {major}.{minor} are not recorded",
                        kernel.name
                    ))
                })?;
                let shared_bytes = recorded.static_shared_bytes + kernel.shared_bytes;
                let registers = recorded.registers;
                Ok(Taken {
                    demand: Demand { threads, registers, shared_bytes },
                    local_bytes: Some(recorded.local_bytes),
                    driver: None,
                    exact: recorded.exact,
                    lacks: None,
                })
            }
        }
    }
}

/// Why a kernel is not for GPUs of this compute capability, if it is not.
fn lacks(capability: Option<(u32, u32)>, kernel: &KernelInfo) -> Option<CannotLaunch> {
    let is_there = capability.is_none_or(|found| kernel.needs.met_by(found));
    (!is_there).then(|| CannotLaunch::Lacks { needs: kernel.needs.name() })
}

/// Why a GPU cannot launch a kernel, if its limits and the registers that were recorded say so.
pub fn cannot_launch(gpu: &DeviceInfo, kernel: &KernelInfo) -> Option<CannotLaunch> {
    let recorded = |capability| compiled(kernel.entry.name, capability);
    let (registers, declared) = (gpu.compute_capability.and_then(recorded))
        .map_or((0, 0), |recorded| (recorded.registers, recorded.static_shared_bytes));
    let shared_bytes = declared + kernel.shared_bytes;
    let demand = Demand { threads: kernel.threads(), registers, shared_bytes };
    lacks(gpu.compute_capability, kernel)
        .or_else(|| occupancy(&Limits::of_device(gpu), &demand).err())
}

struct Taken {
    demand: Demand,
    local_bytes: Option<u32>,
    driver: Option<u32>,
    exact: bool,
    /// Why it cannot be launched whatever it takes.
    lacks: Option<CannotLaunch>,
}

/// A block and how many of it are resident.
pub struct Entry {
    /// The kernel's name; none for a block of no kernel.
    pub kernel: Option<&'static str>,
    pub demand: Demand,
    /// Bytes of local memory of a thread, where it is known.
    pub local_bytes: Option<u32>,
    pub occupancy: Result<Occupancy, CannotLaunch>,
    pub steps: RegisterSteps,
    /// The driver's own answer.
    pub driver: Option<u32>,
}

impl Entry {
    fn new(limits: &Limits, demand: Demand) -> Entry {
        Entry {
            kernel: None,
            demand,
            local_bytes: None,
            occupancy: occupancy(limits, &demand),
            steps: register_steps(limits, &demand),
            driver: None,
        }
    }

    /// The same block where it cannot be launched, however many registers it has.
    fn lacking(self, lacks: CannotLaunch) -> Entry {
        let (one_fewer, fewer_blocks_from, more_blocks_up_to) = (None, None, None);
        let one_more = Err(lacks);
        let steps = RegisterSteps { one_more, one_fewer, fewer_blocks_from, more_blocks_up_to };
        Entry { occupancy: Err(lacks), steps, ..self }
    }

    /// Resident blocks; none where the launch fails.
    pub fn blocks(&self) -> u32 {
        self.occupancy.as_ref().map_or(0, |occupancy| occupancy.blocks)
    }

    /// Registers of a thread; none of a kernel that was not compiled.
    pub fn registers(&self) -> Option<u32> {
        let registers = self.demand.registers;
        (self.kernel.is_none() || registers > 0).then_some(registers)
    }

    fn json(&self) -> Value {
        let steps = &self.steps;
        json!({
            "kernel": self.kernel,
            "threads": self.demand.threads,
            "registers": self.registers(),
            "shared_bytes": self.demand.shared_bytes,
            "local_bytes": self.local_bytes,
            "occupancy": outcome_json(&self.occupancy),
            "one_more_register": outcome_json(&steps.one_more),
            "one_fewer_register": steps.one_fewer.as_ref().map(outcome_json),
            "fewer_blocks_from_registers": steps.fewer_blocks_from,
            "more_blocks_up_to_registers": steps.more_blocks_up_to,
            "driver_blocks": self.driver,
        })
    }
}

fn outcome_json(outcome: &Result<Occupancy, CannotLaunch>) -> Value {
    match outcome {
        Ok(occupancy) => {
            let mut object = json!(occupancy);
            object["share"] = occupancy.share().into();
            object
        }
        Err(why) => json!({ "blocks": 0, "cannot_launch": why.to_string() }),
    }
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let machine = Machine::find(arguments)?;
    match arguments.block.threads {
        Some(threads) => one_block(arguments, &machine, threads, output),
        None => all_kernels(arguments, &machine, output),
    }
}

fn one_block(
    arguments: &Arguments,
    machine: &Machine,
    threads: u32,
    output: &mut Output,
) -> Result<(), Failure> {
    let changes = &arguments.machine;
    let unchanged = machine.limits();
    let mut limits = unchanged;
    if changes.no_granularity {
        limits = limits.without_granularity();
    }
    limits.threads = changes.max_threads.unwrap_or(limits.threads);
    limits.blocks = changes.max_blocks.unwrap_or(limits.blocks);
    limits.registers = changes.register_file.unwrap_or(limits.registers);
    if let Some(bytes) = changes.shared_memory {
        limits.shared_bytes = bytes;
        limits.shared_bytes_per_block = bytes.saturating_sub(limits.shared_reserved);
    }
    let BlockOptions { registers, shared, .. } = arguments.block;
    let entry = Entry::new(&limits, Demand { threads, registers, shared_bytes: shared });
    output.document(&document(machine, &limits, json!({ "block": entry.json() })))?;
    if limits != unchanged {
        output.text("With other limits than those of")?;
    }
    output.text(limits_text(machine.name(), machine.capability(), &limits))?;
    output.text(block_text(&limits, &entry))
}

/// The kernels of these element types and of any precision with these names, in this order; where no names are given
/// all of them for row-major factors.
fn kernels(types: Types, names: &[String]) -> Result<Vec<&'static KernelInfo>, Error> {
    let of_types = kernels::of_all_precisions().filter(|kernel| Types::of(kernel) == types);
    if names.is_empty() {
        return Ok(of_types.filter(|kernel| kernel.layouts == Layouts::NN).collect());
    }
    let mut named = Vec::new();
    for name in names {
        let in_full = format!("{name}_{types}");
        let is_named = |kernel: &&KernelInfo| kernel.name == *name || kernel.name == in_full;
        // Those of precisions besides exact belong to no rung of the ladder.
        match of_types.clone().find(is_named) {
            Some(kernel) if !options::is_rung(name) => named.push(kernel),
            _ => named.extend(options::kernels(types, slice::from_ref(name))?),
        }
    }
    Ok(options::distinct_kernels(named))
}

fn all_kernels(
    arguments: &Arguments,
    machine: &Machine,
    output: &mut Output,
) -> Result<(), Failure> {
    let kernels = kernels(arguments.dtype, &arguments.kernels)?;
    let limits = machine.limits();
    let spinner = progress::spinner("compiling kernels");
    let mut exact = true;
    let mut entries = Vec::new();
    for kernel in kernels {
        let taken = machine.takes(kernel)?;
        exact &= taken.exact;
        let of_demand = Entry::new(&limits, taken.demand);
        let of_demand = match taken.lacks {
            Some(lacks) => of_demand.lacking(lacks),
            None => of_demand,
        };
        entries.push(Entry {
            kernel: Some(kernel.name),
            local_bytes: taken.local_bytes,
            driver: taken.driver,
            ..of_demand
        });
    }
    spinner.finish_and_clear();

    let recorded = matches!(machine, Machine::Published(_));
    let rows: Vec<_> = entries.iter().map(Entry::json).collect();
    let part = json!({
        "dtype": arguments.dtype.name(),
        "recorded_with": recorded.then(recorded_with),
        "exact": exact,
        "kernels": rows,
    });
    output.document(&document(machine, &limits, part))?;
    output.text(limits_text(machine.name(), machine.capability(), &limits))?;
    let other_compiler = if exact { "" } else { ", which did not make the PTX of this build" };
    output.text(match recorded {
        true => format!("Registers as recorded with {}{other_compiler}", recorded_with()),
        false => "Registers as the driver compiled the kernels".to_owned(),
    })?;
    output.text(kernels_table(&entries))?;
    agree(&entries)
}

fn document(machine: &Machine, limits: &Limits, part: Value) -> Value {
    let mut object = json!({
        "command": "occupancy",
        "gpu": machine.name(),
        "compute_capability": machine.capability(),
        "limits": limits,
    });
    if let (Value::Object(object), Value::Object(part)) = (&mut object, part) {
        object.extend(part);
    }
    object
}

/// Fails where the driver's answer is not ours.
fn agree(entries: &[Entry]) -> Result<(), Failure> {
    let differ: Vec<_> = entries
        .iter()
        .filter_map(|entry| {
            let driver = entry.driver.filter(|&driver| driver != entry.blocks())?;
            let (name, ours) = (entry.kernel.unwrap_or_default(), count(entry.blocks().into()));
            Some(format!("{name}: {ours} resident blocks, but the driver says {driver}"))
        })
        .collect();
    if differ.is_empty() { Ok(()) } else { Err(Failure::Verification(differ.join("; "))) }
}
