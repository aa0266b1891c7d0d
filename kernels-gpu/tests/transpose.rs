//! Copies of factors with rows and columns exchanged, on the simulator: all of what they hold, what they leave alone,
//! and what is read.

use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, FaultKind, Launch, SimError, Simulator};
use regemm_kernels::params::MatrixRef;
use regemm_kernels::prepare::repack::{CopiedFactor, Repack, THREADS, Unit, blocks_of_squares, ld};
use regemm_kernels::table::TRANSPOSER;

/// What is in memory where nothing is written.
const CANARY: u32 = 0xDEAD_BEEF;

/// Elements of four bytes: `start` behind a multiple of 16 bytes, `gap` from the end of a row to the next, and `behind`
/// from the end of a matrix, with a gap, to the next.
#[derive(Clone, Copy, Debug)]
struct Factor {
    rows: u32,
    cols: u32,
    is_transposed: bool,
    count: u32,
    start: u32,
    gap: u32,
    behind: u32,
}

/// One matrix at the beginning of memory.
const fn packed(rows: u32, cols: u32) -> Factor {
    Factor { rows, cols, is_transposed: true, count: 1, start: 0, gap: 0, behind: 0 }
}

/// A factor in the memory of a simulator.
struct Uploaded {
    factor: Factor,
    from: GlobalPtr<u32>,
    to: GlobalPtr<u32>,
}

impl Factor {
    fn ld(&self) -> u32 {
        self.cols + self.gap
    }

    fn stride(&self) -> u32 {
        self.rows * self.ld() + self.behind
    }

    /// An element that tells where it is from.
    fn element(&self, matrix: u32, row: u32, col: u32) -> u32 {
        ((matrix * self.rows + row) * self.cols + col).wrapping_mul(0x9e37_79b9) | 1
    }

    /// Rows and columns of a copy.
    fn copied(&self) -> (u32, u32) {
        if self.is_transposed { (self.cols, self.rows) } else { (self.rows, self.cols) }
    }

    /// Elements from one row of a copy to the next.
    fn copied_ld(&self) -> u32 {
        (ld(2 * u64::from(self.copied().1)) / 2) as u32
    }

    /// The memory ends where the last matrix does, and that of the copies with them.
    fn upload(self, simulator: &Simulator) -> Uploaded {
        let mut elements = vec![CANARY; self.start as usize];
        for matrix in 0..self.count {
            for row in 0..self.rows {
                let place = self.start + matrix * self.stride() + row * self.ld();
                elements.resize(place as usize, CANARY);
                elements.extend((0..self.cols).map(|col| self.element(matrix, row, col)));
            }
        }
        let from = write(simulator, &elements).add(self.start.into());
        let copies = self.count * self.copied().0 * self.copied_ld();
        let to = write(simulator, &vec![CANARY; copies as usize]);
        Uploaded { factor: self, from, to }
    }
}

fn write(simulator: &Simulator, elements: &[u32]) -> GlobalPtr<u32> {
    let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_ne_bytes()).collect();
    let address = simulator.alloc(bytes.len().max(1) as u64).unwrap();
    simulator.write(address, &bytes).unwrap();
    GlobalPtr::from_address(address)
}

impl Uploaded {
    fn copied(&self) -> CopiedFactor {
        self.copied_to(self.factor.rows, self.to)
    }

    fn copied_to(&self, rows: u32, to: GlobalPtr<u32>) -> CopiedFactor {
        let Factor { cols, count, is_transposed, .. } = self.factor;
        let from =
            MatrixRef { data: self.from.cast::<Unit>(), ld: 2 * u64::from(self.factor.ld()) };
        let (shape, stride) = ((rows, 2 * u64::from(cols)), 2 * u64::from(self.factor.stride()));
        CopiedFactor::squares(from, shape, (count, stride), to.cast(), is_transposed)
    }

    /// Panics unless the copies hold the elements, zeros up to a whole vector, and behind them what was there.
    fn check(&self, simulator: &Simulator) {
        let factor = self.factor;
        let ((rows, cols), ld) = (factor.copied(), factor.copied_ld());
        let mut bytes = vec![0; (factor.count * rows * ld * 4) as usize];
        simulator.read(self.to.address(), &mut bytes).unwrap();
        let (found, _) = bytes.as_chunks::<4>();
        for (index, found) in found.iter().enumerate() {
            let (row, col) = (index as u32 / ld, index as u32 % ld);
            let (matrix, row) = (row / rows, row % rows);
            let expected = match (row, col) {
                (row, col) if col < cols && factor.is_transposed => {
                    factor.element(matrix, col, row)
                }
                (row, col) if col < cols => factor.element(matrix, row, col),
                (_, col) if col < cols.next_multiple_of(4) => 0,
                _ => CANARY,
            };
            assert_eq!(u32::from_ne_bytes(*found), expected, "{factor:?}: ({row}, {col})");
        }
    }
}

fn launch(simulator: &Simulator, repack: Repack) -> Result<Counters, SimError> {
    let grid = [repack.blocks(), 1, 1];
    let shape = Launch { grid, block: [THREADS, 1, 1], dynamic_shared: 0 };
    // SAFETY: the one argument points to a value of the kernel's parameter type.
    unsafe { simulator.launch(&TRANSPOSER, shape, &[(&raw const repack).cast()]) }
}

/// Copies both factors and checks the copies.
fn run(a: Option<Factor>, b: Option<Factor>) -> Counters {
    let simulator = Simulator::new();
    let [a, b] = [a, b].map(|factor| factor.map(|factor| factor.upload(&simulator)));
    let copied =
        |factor: &Option<Uploaded>| factor.as_ref().map_or(CopiedFactor::NONE, Uploaded::copied);
    let counters = launch(&simulator, Repack { a: copied(&a), b: copied(&b) });
    let counters = counters.unwrap_or_else(|error| panic!("{error}"));
    a.iter().chain(&b).for_each(|factor| factor.check(&simulator));
    counters
}

#[test]
fn any_shape_from_any_place() {
    let sizes = [1, 2, 3, 4, 5, 31, 63, 64, 65, 130];
    for rows in sizes {
        for cols in sizes {
            for (start, gap) in [(0, 0), (0, 3), (1, 0), (2, 6), (3, 1), (0, 8)] {
                let factor = Factor { start, gap, ..packed(rows, cols) };
                run(Some(factor), Some(Factor { rows: cols + 1, cols: rows + 2, ..factor }));
            }
        }
    }
}

#[test]
fn one_factor_may_stay_as_it_lies() {
    for (start, gap) in [(0, 0), (1, 0), (3, 2)] {
        let factor = Factor { start, gap, ..packed(67, 131) };
        let as_it_lies = Factor { is_transposed: false, ..factor };
        run(Some(factor), Some(as_it_lies));
        run(Some(as_it_lies), Some(factor));
        run(None, Some(as_it_lies));
    }
}

#[test]
fn matrices_of_a_batch_follow_one_another() {
    for (count, behind) in [(2, 0), (3, 1), (5, 8)] {
        let a = Factor { count, behind, gap: 1, start: 2, ..packed(65, 31) };
        run(Some(a), Some(Factor { count: 1, ..a }));
        run(Some(Factor { is_transposed: false, ..a }), Some(a));
    }
}

/// Each element is loaded and stored once, where rows are aligned in whole sectors.
#[test]
fn all_is_loaded_and_stored_once() {
    let factor = packed(128, 192);
    let bytes = 128 * 192 * 4;
    let counted = run(Some(factor), None);
    assert_eq!((counted.global_load_bytes, counted.global_store_bytes), (bytes, bytes));
    assert_eq!(counted.global_load_sectors, bytes / 32);
    assert_eq!(counted.global_store_sectors, bytes / 32);
    assert_eq!(u64::from(blocks_of_squares(128, 2 * 192) as u32), 2 * 3);
    // Nothing but elements is read, wherever they lie.
    let shifted = run(Some(Factor { start: 1, gap: 2, ..packed(33, 67) }), None);
    assert_eq!(shifted.global_load_bytes, 33 * 67 * 4);
}

#[test]
fn launches_that_are_not_of_these_factors_are_caught() {
    let fault = |rows: u32, elements_further: u64| {
        let simulator = Simulator::new();
        let factor = Factor { start: 1, ..packed(40, 77) }.upload(&simulator);
        let copied = factor.copied_to(rows, factor.to.add(elements_further));
        match launch(&simulator, Repack { a: copied, b: CopiedFactor::NONE }) {
            Err(SimError::Fault(fault)) => fault.kind,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fault(41, 0), FaultKind::OutOfBounds, "more rows");
    assert_eq!(fault(40, 32), FaultKind::OutOfBounds, "less room");
    assert_eq!(fault(40, 1), FaultKind::Misaligned);
}
