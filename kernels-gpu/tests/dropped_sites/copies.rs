//! Running the kernels that are launched before products, to copy factors.

use cuda_std::entry::KernelEntry;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Launch, SimError, Simulator};
use regemm_kernels::params::MatrixRef;
use regemm_kernels::prepare::repack::{self, CopiedFactor, Repack, THREADS, Unit};
use regemm_kernels::table::{REPACKER, TRANSPOSER};

/// A matrix whose rows begin anywhere.
const ROWS: u32 = 70;
const COLS: u32 = 75;

/// Copies a matrix of so many units in a row, and gives the copy.
fn copy(
    simulator: &Simulator,
    entry: &KernelEntry,
    cols: u32,
    units: u64,
    factor: impl Fn(MatrixRef<Unit>, GlobalPtr<Unit>) -> CopiedFactor,
) -> Result<Vec<u8>, SimError> {
    let elements = (0..ROWS * cols).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 16) as Unit);
    let bytes: Vec<u8> = elements.flat_map(Unit::to_ne_bytes).collect();
    let address = simulator.alloc(bytes.len() as u64)?;
    simulator.write(address, &bytes)?;
    let from = MatrixRef { data: GlobalPtr::from_address(address), ld: cols.into() };
    let mut copied = vec![0; units as usize * size_of::<Unit>()];
    let to = simulator.alloc(copied.len() as u64)?;
    let repack = Repack { a: factor(from, GlobalPtr::from_address(to)), b: CopiedFactor::NONE };
    let launch =
        Launch { grid: [repack.blocks(), 1, 1], block: [THREADS, 1, 1], dynamic_shared: 0 };
    // SAFETY: the argument is of the type of the kernel's parameter.
    unsafe { simulator.launch(entry, launch, &[(&raw const repack).cast()])? };
    simulator.read(to, &mut copied)?;
    Ok(copied)
}

pub fn repack(simulator: &Simulator) -> Result<Vec<u8>, SimError> {
    let units = repack::units(ROWS, COLS.into());
    copy(simulator, &REPACKER, COLS, units, |from, to| {
        CopiedFactor::new(from, (ROWS, COLS.into()), (1, 0), to)
    })
}

/// Elements of f32, two units each.
pub fn transpose(simulator: &Simulator) -> Result<Vec<u8>, SimError> {
    let units = repack::units(COLS, 2 * u64::from(ROWS));
    copy(simulator, &TRANSPOSER, 2 * COLS, units, |from, to| {
        CopiedFactor::squares(from, (ROWS, 2 * u64::from(COLS)), (1, 0), to, true)
    })
}
