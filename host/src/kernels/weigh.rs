//! What [`Precision::Auto`](crate::Precision::Auto) weighs before anything is known of the data.

use super::launch::MAX_PRODUCTS;
use super::repack::stored;
use super::{Problem, halves, precise};
use crate::device::info::{DeviceInfo, DeviceKind};
use crate::precision::Precision;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::prepare::split::LEAST_DEPTH;
use std::fmt;

/// Multiply-adds that an H200 would do by halves, some 100e12 a second in place of 27e12, in the time that they save
/// while an element is split, which moves 12 bytes at 3.5e12 bytes a second; and in the 6 us of two more launches.
/// Measured: 42e12 at 1024, 103e12 at 4096 and 110e12 at 8192, with the splitting, and level with f32 at 512.
const MULTIPLY_ADDS_OF_A_SPLIT: u64 = 128;
const MULTIPLY_ADDS_OF_LAUNCHES: u64 = 230_000_000;

/// The two kernels that a product of [`Precision::Auto`](crate::Precision::Auto) launches, of which one computes it.
#[derive(Clone, Copy, Debug)]
pub struct Either {
    /// By halves, where no line is marked.
    pub split: &'static KernelInfo,
    /// Exactly, where one is.
    pub exact: &'static KernelInfo,
}

/// Why a product is computed exactly whatever its data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgainstHalves {
    /// So few products are summed that the bound of f32 is the narrower one.
    Shallow,
    /// It takes longer to split the factors than halves save.
    TooSmall,
    /// The device has no kernel for halves of such a problem.
    NoKernel,
    /// There are more products than one launch can have.
    TooManyProducts,
}

/// The kernels between which the GPU decides by the data, or what decides it before.
///
/// On the simulator, which has no times, small products are not ruled out, nor where they may be of `any_size`.
///
/// # Errors
/// What speaks against halves.
pub fn weigh(
    problem: &Problem,
    device: &DeviceInfo,
    any_size: bool,
) -> Result<Either, AgainstHalves> {
    if problem.k < LEAST_DEPTH {
        return Err(AgainstHalves::Shallow);
    }
    if problem.batch > MAX_PRODUCTS {
        return Err(AgainstHalves::TooManyProducts);
    }
    let chosen = |kernel: crate::Result<_>| kernel.map_err(|_| AgainstHalves::NoKernel);
    let split = chosen(precise::choose(Precision::Split, problem, device, None))?;
    let exact = chosen(precise::choose_if_marked(problem, device))?;
    let has_times = device.kind != DeviceKind::Sim;
    if has_times && !any_size && !pays(problem) {
        return Err(AgainstHalves::TooSmall);
    }
    Ok(Either { split, exact })
}

/// Whether halves save more time than it takes to make them.
fn pays(problem: &Problem) -> bool {
    let Problem { m, n, k, batch, .. } = *problem;
    let elements = |(rows, cols): (u32, u32)| u64::from(rows) * u64::from(cols);
    let to_split = stored(problem)
        .into_iter()
        .zip(halves::to_split(problem))
        .map(|(shape, count)| elements(shape).saturating_mul(count.into()))
        .fold(0, u64::saturating_add);
    let work = elements((m, n)).saturating_mul(k.into()).saturating_mul(batch.into());
    let cost = to_split.saturating_mul(MULTIPLY_ADDS_OF_A_SPLIT);
    work >= cost.saturating_add(MULTIPLY_ADDS_OF_LAUNCHES)
}

impl fmt::Display for Either {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Either { split, exact } = self;
        write!(
            f,
            "{} unless halves lose too much of a row of A or a column of B: then {}",
            split.name, exact.name
        )
    }
}

impl fmt::Display for AgainstHalves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgainstHalves::Shallow => {
                write!(f, "exact, as sums of fewer than {LEAST_DEPTH} products are closer in f32")
            }
            AgainstHalves::TooSmall => {
                f.write_str("exact, as splitting the factors would take longer than it saves")
            }
            AgainstHalves::NoKernel => {
                f.write_str("exact, as this device has no kernel for halves of such matrices")
            }
            AgainstHalves::TooManyProducts => {
                f.write_str("exact, as there are more products than one launch can have")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::device::info::tests::h200;
    use regemm_kernels::element::Dtype;
    use regemm_kernels::layout::Layouts;

    fn problem(m: u32, n: u32, k: u32) -> Problem {
        Problem::new(Dtype::F32, m, n, k)
    }

    fn against(problem: Problem, device: &DeviceInfo) -> Option<AgainstHalves> {
        weigh(&problem, device, false).err()
    }

    #[test]
    fn kernels_are_those_for_the_layouts() {
        for layouts in Layouts::ALL {
            let either =
                weigh(&Problem { layouts, ..problem(2048, 2048, 2048) }, &h200(), false).unwrap();
            assert!(either.split.takes_halves() && !either.exact.takes_halves());
            assert_eq!((either.split.layouts, either.exact.layouts), (layouts, layouts));
        }
    }

    #[test]
    fn shallow_products_are_exact_everywhere() {
        for device in [h200(), Device::sim().info().clone()] {
            let shallow = problem(8192, 8192, LEAST_DEPTH - 1);
            assert_eq!(against(shallow, &device), Some(AgainstHalves::Shallow));
            assert_eq!(against(Problem { k: LEAST_DEPTH, ..shallow }, &device), None);
        }
    }

    #[test]
    fn small_and_skinny_products_do_not_pay() {
        let gpu = h200();
        assert_eq!(against(problem(512, 512, 512), &gpu), Some(AgainstHalves::TooSmall));
        assert_eq!(against(problem(1024, 1024, 1024), &gpu), None);
        // Few rows, and K deep beside both: the vendor's f32 is two to five times as fast as halves there.
        for (m, n, k) in [
            (16, 8192, 8192),
            (16, 4096, 4096),
            (64, 4096, 4096),
            (128, 128, 65536),
            (256, 256, 16384),
        ] {
            let found = against(problem(m, n, k), &gpu);
            assert_eq!(found, Some(AgainstHalves::TooSmall), "{m} x {n} x {k}");
        }
        assert_eq!(against(problem(512, 512, 4096), &gpu), None);
        let batch = Problem { batch: 64, matrices: [64; 2], ..problem(256, 256, 256) };
        assert_eq!(against(batch, &gpu), Some(AgainstHalves::TooSmall));
        let shared = Problem { matrices: [64, 1], ..batch };
        assert_eq!(against(shared, &gpu), None, "B is split once for all");
        let kept = Problem { kept: [true; 2], ..batch };
        assert_eq!(against(kept, &gpu), None, "nothing is split");
        assert_eq!(
            against(problem(16, 16, LEAST_DEPTH), Device::sim().info()),
            None,
            "there are no times"
        );
    }

    #[test]
    fn other_devices_and_endless_batches_are_exact() {
        let gpu = |capability| DeviceInfo { compute_capability: Some(capability), ..h200() };
        assert_eq!(against(problem(4096, 4096, 4096), &gpu((8, 0))), None);
        let turing = against(problem(4096, 4096, 4096), &gpu((7, 5)));
        assert_eq!(turing, Some(AgainstHalves::NoKernel));
        let endless = Problem { batch: MAX_PRODUCTS + 1, ..problem(256, 256, 256) };
        assert_eq!(against(endless, &h200()), Some(AgainstHalves::TooManyProducts));
    }
}
