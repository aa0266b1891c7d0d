//! Occupancy as worked out here against the driver's own answer, on every GPU of the machine.
//!
//! Without a GPU there is nothing to compare with; the last line says so, and with `REGEMM_REQUIRE_GPU=1` that is a
//! failure. Tests are made at run time: `cuda:0::tiled16_f32::blocks`, `cuda:0::limits`.

#[allow(dead_code, reason = "it has nothing for the simulator")]
#[path = "gpu/mod.rs"]
mod gpu;
#[path = "gpu/others.rs"]
mod others;

use libtest_mimic::{Arguments, Trial};
use others::Others;
use regemm::occupancy::{Compiled, Demand, Limits, compiled, occupancy, recorded_with};
use regemm::{Device, KernelInfo, KernelReport, gpus};
use std::fmt::Debug;

fn main() {
    let arguments = Arguments::from_args();
    let gpus = gpu::all();
    let mut trials = Vec::new();
    let mut notes = Vec::new();
    match &gpus {
        Ok(Ok((gpus, others))) => {
            gpus.iter().for_each(|gpu| add_gpu(&mut trials, &mut notes, gpu));
            notes.extend(others.iter().map(|why| format!("occupancy was NOT compared on {why}")));
        }
        Ok(Err(why)) | Err(why) => {
            notes.push(format!("occupancy was compared on NO GPU, because: {why}"))
        }
    }
    others::add_trials(
        &mut trials,
        &[("trials_are_of_kernels_that_can_run", Others::trials_are_of_kernels_that_can_run)],
    );
    trials.push(Trial::test("gpu_is_there_if_required", move || match gpus {
        Err(why) => Err(why.into()),
        Ok(_) => Ok(()),
    }));

    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        notes.iter().for_each(|note| println!("{note}"));
    }
    conclusion.exit();
}

fn add_gpu(trials: &mut Vec<Trial>, notes: &mut Vec<String>, gpu: &Device) {
    let (spec, info) = (gpu.spec(), gpu.info());
    notes.push(format!("occupancy was compared on {} ({spec})", info.name));
    let mut add = |name: String, test: fn(&Device, &'static KernelInfo) -> Outcome, kernel| {
        let gpu = gpu.clone();
        trials.push(Trial::test(format!("{spec}::{name}"), move || Ok(test(&gpu, kernel)?)));
    };
    let (all, left_out) = gpu::kernels(gpu);
    if left_out.count() > 0 {
        let count = left_out.count();
        notes.push(format!(
            "{spec}: {count} kernels were NOT compared, as it cannot run them: {left_out}"
        ));
    }
    add("limits".to_owned(), |gpu, _| limits_are_the_published_ones(gpu), all[0]);
    for &kernel in &all {
        add(format!("{}::blocks", kernel.name), blocks_are_the_drivers, kernel);
    }

    // The driver has an assembler of its own release.
    let assembler = info.driver_version.map(|(major, minor)| format!("ptxas {major}.{minor}."));
    if assembler.is_some_and(|assembler| recorded_with().contains(&assembler)) {
        for &kernel in &all {
            add(format!("{}::record", kernel.name), the_record_is_what_the_driver_compiles, kernel);
        }
    } else {
        let driver = info.driver_version;
        let recorded = recorded_with();
        notes.push(format!(
            "{spec}: registers were NOT compared: recorded with {recorded}, driver {driver:?}"
        ));
    }
    if gpus::find(&info.name).is_ok() {
        add("published".to_owned(), |gpu, _| published_numbers_are_the_drivers(gpu), all[0]);
    } else {
        notes.push(format!("{spec}: {} was compared with NO published numbers", info.name));
    }
}

type Outcome = Result<(), String>;

fn same<T: PartialEq + Debug>(what: &str, ours: T, drivers: T) -> Outcome {
    if ours == drivers {
        Ok(())
    } else {
        Err(format!("{what}: {ours:?}, the driver says {drivers:?}"))
    }
}

fn limits_are_the_published_ones(gpu: &Device) -> Outcome {
    let capability = gpu.info().compute_capability;
    let published = capability.and_then(Limits::of);
    let published = published.ok_or_else(|| format!("no limits are known for {capability:?}"))?;
    same("limits", published, Limits::of_device(gpu.info()))
}

fn report(gpu: &Device, kernel: &KernelInfo) -> Result<KernelReport, String> {
    gpu.kernel_report(kernel).map_err(|error| error.to_string())
}

/// A value that the driver always gives.
fn given<T>(value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| "the driver says nothing".to_owned())
}

/// Registers and shared memory as compiled give the driver's number of resident blocks.
fn blocks_are_the_drivers(gpu: &Device, kernel: &'static KernelInfo) -> Outcome {
    let report = report(gpu, kernel)?;
    let demand = Demand {
        threads: kernel.threads(),
        registers: given(report.registers)?,
        shared_bytes: given(report.static_shared_bytes)? + report.dynamic_shared_bytes,
    };
    let found = occupancy(&Limits::of_device(gpu.info()), &demand);
    let ours = found.as_ref().map_err(|why| format!("{demand:?}: {why}"))?.blocks;
    same(&format!("resident blocks of {demand:?}"), ours, given(report.resident_blocks)?)
}

fn the_record_is_what_the_driver_compiles(gpu: &Device, kernel: &'static KernelInfo) -> Outcome {
    let report = report(gpu, kernel)?;
    let capability = given(gpu.info().compute_capability)?;
    let Compiled { registers, static_shared_bytes, local_bytes, exact, .. } =
        compiled(kernel.entry.name, capability).ok_or("not recorded")?;
    same("declared shared memory", static_shared_bytes, given(report.static_shared_bytes)?)?;
    same("local memory", local_bytes, given(report.local_bytes)?)?;
    // PTX of another compiler may take others.
    if exact { same("registers", registers, given(report.registers)?) } else { Ok(()) }
}

/// Data sheets round, and makers of boards set clocks of their own.
const SLACK: f64 = 0.1;

fn published_numbers_are_the_drivers(gpu: &Device) -> Outcome {
    let drivers = gpu.info();
    let published = gpus::find(&drivers.name).map_err(|error| error.to_string())?.info();
    same("compute capability", published.compute_capability, drivers.compute_capability)?;
    same("multiprocessors", published.multiprocessors, drivers.multiprocessors)?;
    let pairs = [
        ("clock", published.clock_khz.map(u64::from), drivers.clock_khz.map(u64::from)),
        ("bandwidth", published.memory_bandwidth, drivers.memory_bandwidth),
        ("memory", Some(published.memory_bytes), Some(drivers.memory_bytes)),
        ("L2 cache", published.l2_bytes, drivers.l2_bytes),
    ];
    for (what, published, drivers) in pairs {
        let (ours, theirs) = (given(published)?, given(drivers)?);
        let off = (ours as f64 / theirs as f64 - 1.0).abs();
        if off.is_nan() || off > SLACK {
            return Err(format!("{what}: {ours} is published, the driver says {theirs}"));
        }
    }
    Ok(())
}
