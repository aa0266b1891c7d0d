//! The power of the device while something is measured, and what its clock is set to, from NVIDIA's management library.
//!
//! The library, NVML, comes with the driver and is loaded when the benchmark starts; without it everything but these
//! is measured. Readings are taken by a thread that sleeps between them, so that the thread that measures is
//! left alone.

use libloading::Library;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml};
use regemm::DeviceSpec;
use regemm_report::versus::Conditions;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// `NVML_FI_DEV_POWER_INSTANT` of `nvml.h`: the power now, in milliwatts. `nvmlDeviceGetPowerUsage` gives the mean of
/// the last second from the Ampere architecture on.
const POWER_NOW: FieldId = FieldId(186);

/// Bytes of a bus address with its NUL, as in `0000:18:00.0`; the driver writes no more than it is told.
const BUS_ID_BYTES: usize = 32;

/// Reads clock and power of one GPU.
pub struct Meter {
    device: Device<'static>,
    version: String,
}

/// One reading.
#[derive(Clone, Copy, Debug)]
struct Reading {
    sm_mhz: u32,
    watts: Option<f64>,
}

impl Meter {
    /// For a GPU of the CUDA driver.
    ///
    /// # Errors
    /// Why there is no library, or why it does not know the GPU, in words.
    pub fn new(spec: DeviceSpec) -> Result<Meter, String> {
        let DeviceSpec::Cuda(ordinal) = spec else { return Err("this is no GPU".to_owned()) };
        // Open to the end of the process, like the driver.
        let nvml: &'static Nvml =
            Box::leak(Box::new(Nvml::init().map_err(|error| error.to_string())?));
        let bus_id = bus_id(ordinal)?;
        let device = match (nvml.device_by_pci_bus_id(bus_id.as_str()), nvml.device_count()) {
            (Ok(device), _) => device,
            // In a container the bus may have other numbers; one of one needs none.
            (Err(_), Ok(1)) => nvml.device_by_index(0).map_err(|error| error.to_string())?,
            (Err(error), _) => return Err(format!("{bus_id}: {error}")),
        };
        let version = nvml.sys_nvml_version().unwrap_or_else(|_| "of unknown version".to_owned());
        let meter = Meter { device, version };
        meter.read().map(|_| meter)
    }

    /// What the library calls itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The power now in watts, if the device tells it.
    pub fn watts(&self) -> Option<f64> {
        self.read().ok()?.watts
    }

    /// Does something, and reads clock and power meanwhile: at once, and then again and again after a pause.
    fn during<R>(&self, pause: Duration, act: impl FnOnce() -> R) -> (R, Option<Conditions>) {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut readings = Vec::new();
                while !is_over.load(Ordering::Acquire) {
                    readings.extend(self.read().ok());
                    thread::park_timeout(pause);
                }
                readings
            });
            let outcome = act();
            is_over.store(true, Ordering::Release);
            reader.thread().unpark();
            (outcome, mean(&reader.join().unwrap_or_default()))
        })
    }

    fn read(&self) -> Result<Reading, String> {
        let device = &self.device;
        let sm_mhz = device.clock_info(Clock::SM).map_err(|error| error.to_string())?;
        let now = device.field_values_for(&[POWER_NOW]).ok().and_then(|mut values| {
            match values.pop()?.ok()?.value.ok()? {
                SampleValue::U32(milliwatts) => Some(milliwatts),
                _ => None,
            }
        });
        let milliwatts = now.or_else(|| device.power_usage().ok());
        Ok(Reading { sm_mhz, watts: milliwatts.map(|value| f64::from(value) * 1e-3) })
    }
}

/// [`Meter::during`], if there is a meter.
pub fn during<R>(
    meter: Option<&Meter>,
    pause: Duration,
    act: impl FnOnce() -> R,
) -> (R, Option<Conditions>) {
    match meter {
        Some(meter) => meter.during(pause, act),
        None => (act(), None),
    }
}

/// Means; none of nothing.
fn mean(readings: &[Reading]) -> Option<Conditions> {
    let count = readings.len();
    let clocks: f64 = readings.iter().map(|reading| f64::from(reading.sm_mhz)).sum();
    let watts: Option<f64> = readings.iter().map(|reading| reading.watts).sum();
    (count > 0).then(|| Conditions {
        sm_mhz: clocks / count as f64,
        watts: watts.map(|sum| sum / count as f64),
        readings: count,
    })
}

/// Where a GPU of the CUDA driver is on the bus: the two libraries number devices differently.
fn bus_id(ordinal: usize) -> Result<String, String> {
    type DeviceGet = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
    type DeviceGetPciBusId = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
    let words = |error: libloading::Error| error.to_string();
    let ordinal = c_int::try_from(ordinal).map_err(|error| error.to_string())?;
    let mut text = [0 as c_char; BUS_ID_BYTES];
    // SAFETY: the driver is initialised, since a device is open; the signatures are those of `cuda.h`, and the pointers
    // are to locals of the stated sizes.
    let code = unsafe {
        let driver = Library::new(cuda_driver::library::LIBRARY).map_err(words)?;
        let get = driver.get::<DeviceGet>(b"cuDeviceGet\0").map_err(words)?;
        let get_bus_id =
            driver.get::<DeviceGetPciBusId>(b"cuDeviceGetPCIBusId\0").map_err(words)?;
        let mut device = 0;
        match get(&mut device, ordinal) {
            0 => get_bus_id(text.as_mut_ptr(), BUS_ID_BYTES as c_int, device),
            code => code,
        }
    };
    if code != 0 {
        return Err(format!("the driver does not tell the GPU's place on the bus: error {code}"));
    }
    text[BUS_ID_BYTES - 1] = 0;
    // SAFETY: the text ends in a NUL, at the latest in its last byte.
    Ok(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
}
