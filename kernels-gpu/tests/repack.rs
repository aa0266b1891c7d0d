//! The copies of factors in aligned rows, on the simulator: all of what they hold, what they leave alone, and what is
//! read.

use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, FaultKind, Launch, SimError, Simulator};
use regemm_kernels::params::MatrixRef;
use regemm_kernels::prepare::repack::{self, CopiedFactor, Repack, THREADS, Unit};
use regemm_kernels::table::REPACKER;

/// What is in memory where nothing is written.
const CANARY: Unit = 0xDEAD;

/// Matrices of one factor, and where their units lie: `start` behind a multiple of 16 bytes, `gap` from the end of a
/// row to the next, and `behind` from the end of a matrix, with a gap, to the next.
#[derive(Clone, Copy, Debug)]
struct Factor {
    rows: u32,
    cols: u32,
    count: u32,
    start: u32,
    gap: u32,
    behind: u32,
}

/// One matrix at the beginning of memory.
const fn packed(rows: u32, cols: u32) -> Factor {
    Factor { rows, cols, count: 1, start: 0, gap: 0, behind: 0 }
}

/// A factor in the memory of a simulator.
struct Uploaded {
    factor: Factor,
    from: MatrixRef<Unit>,
    to: GlobalPtr<Unit>,
}

impl Factor {
    fn ld(&self) -> u32 {
        self.cols + self.gap
    }

    fn stride(&self) -> u32 {
        self.rows * self.ld() + self.behind
    }

    /// A unit that tells where it is from.
    fn unit(&self, matrix: u32, row: u32, col: u32) -> Unit {
        let index = (matrix * self.rows + row) * self.cols + col;
        (index.wrapping_mul(0x9e37_79b9) >> 16) as Unit | 1
    }

    /// Units of all copies.
    fn copied(&self) -> usize {
        self.count as usize * repack::units(self.rows, self.cols.into()) as usize
    }

    /// The memory ends where the last matrix does.
    fn upload(self, simulator: &Simulator) -> Uploaded {
        let Factor { rows, cols, count, start, .. } = self;
        let mut units = vec![CANARY; start as usize];
        for matrix in 0..count {
            for row in 0..rows {
                let place = start + matrix * self.stride() + row * self.ld();
                units.resize(place as usize, CANARY);
                units.extend((0..cols).map(|col| self.unit(matrix, row, col)));
            }
        }
        let data = write(simulator, &units).add(start.into());
        let to = write(simulator, &vec![CANARY; self.copied()]);
        Uploaded { factor: self, from: MatrixRef { data, ld: self.ld().into() }, to }
    }
}

fn write(simulator: &Simulator, units: &[Unit]) -> GlobalPtr<Unit> {
    let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_ne_bytes()).collect();
    let address = simulator.alloc(bytes.len().max(1) as u64).unwrap();
    simulator.write(address, &bytes).unwrap();
    GlobalPtr::from_address(address)
}

impl Uploaded {
    fn copied(&self) -> CopiedFactor {
        let Factor { rows, cols, count, .. } = self.factor;
        let (shape, matrices) = ((rows, cols.into()), (count, self.factor.stride().into()));
        CopiedFactor::new(self.from, shape, matrices, self.to)
    }

    /// Panics unless the copies hold the units, zeros up to a whole vector, and behind them what was there.
    fn check(&self, simulator: &Simulator) {
        let Factor { rows, cols, count, .. } = self.factor;
        let mut bytes = vec![0; self.factor.copied() * size_of::<Unit>()];
        simulator.read(self.to.address(), &mut bytes).unwrap();
        let (found, _) = bytes.as_chunks::<2>();
        let ld = repack::ld(cols.into()) as u32;
        let expected = (0..count * rows).flat_map(|row| {
            (0..ld).map(move |col| match col {
                col if col < cols => self.factor.unit(row / rows, row % rows, col),
                col if col < cols.next_multiple_of(8) => 0,
                _ => CANARY,
            })
        });
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            let (row, col) = (index as u32 / ld, index as u32 % ld);
            let found = Unit::from_ne_bytes(*found);
            assert_eq!(found, expected, "{:?}: row {row}, column {col}", self.factor);
        }
    }
}

fn launch(simulator: &Simulator, repack: Repack, blocks: u32) -> Result<Counters, SimError> {
    let shape = Launch { grid: [blocks, 1, 1], block: [THREADS, 1, 1], dynamic_shared: 0 };
    // SAFETY: the one argument points to a value of the kernel's parameter type.
    unsafe { simulator.launch(&REPACKER, shape, &[(&raw const repack).cast()]) }
}

/// Copies both factors and checks the copies.
fn run(a: Option<Factor>, b: Option<Factor>) -> Counters {
    let simulator = Simulator::new();
    let upload = |factor: Option<Factor>| factor.map(|factor| factor.upload(&simulator));
    let (a, b) = (upload(a), upload(b));
    let copied =
        |factor: &Option<Uploaded>| factor.as_ref().map_or(CopiedFactor::NONE, Uploaded::copied);
    let repack = Repack { a: copied(&a), b: copied(&b) };
    let counters = launch(&simulator, repack, repack.blocks());
    let counters = counters.unwrap_or_else(|error| panic!("{error}"));
    a.iter().chain(&b).for_each(|factor| factor.check(&simulator));
    counters
}

#[test]
fn rows_of_any_length_from_any_place() {
    for start in 0..8 {
        for gap in [0, 1, 2, 5, 8] {
            for cols in (1..=33).chain([63, 64, 65, 127]) {
                let factor = Factor { start, gap, ..packed(5, cols) };
                // Wider by one as the other factor, so that it begins in the midst of things.
                run(Some(factor), Some(Factor { cols: cols + 1, start: 7 - start, ..factor }));
            }
        }
    }
}

#[test]
fn more_vectors_than_a_block_has() {
    for (rows, cols) in
        [(3000, 1), (700, 9), (131, 255), (33, 1021), (7, 4099), (2, 8191), (1, 20_001)]
    {
        for (start, gap) in [(0, 0), (3, 0), (1, 2), (0, 7)] {
            run(None, Some(Factor { start, gap, ..packed(rows, cols) }));
        }
    }
}

#[test]
fn matrices_of_a_batch_follow_one_another() {
    for (count, behind) in [(2, 0), (3, 1), (7, 8), (4, 13)] {
        let a = Factor { count, behind, gap: 1, start: 2, ..packed(65, 131) };
        run(Some(a), Some(Factor { count: 1, ..a }));
        run(Some(Factor { rows: 1, cols: 3, gap: 0, ..a }), Some(a));
    }
}

#[test]
fn one_factor_or_the_other_or_none() {
    let factor = Factor { start: 1, ..packed(40, 77) };
    run(Some(factor), None);
    run(None, Some(factor));
    let nothing = Repack { a: CopiedFactor::NONE, b: CopiedFactor::NONE };
    assert_eq!(nothing.blocks(), 0);
}

/// Each vector is stored once and loaded as the two that it lies in, or as one where rows are aligned.
#[test]
fn all_is_stored_once_and_loaded_in_wide_pieces() {
    let stored = 64 * 1024 * size_of::<Unit>() as u64;
    let aligned = run(Some(packed(64, 1024)), None);
    assert_eq!((aligned.global_store_bytes, aligned.global_load_bytes), (stored, stored));
    // As many warps as there are vectors for, and a request of each is 16 sectors.
    assert_eq!(
        (aligned.global_store_sectors, aligned.global_load_sectors),
        (stored / 32, stored / 32)
    );
    let shifted = run(Some(Factor { start: 1, ..packed(64, 1024) }), None);
    assert_eq!(shifted.global_store_bytes, stored);
    // The first and the last are loaded by units.
    assert_eq!(shifted.global_load_bytes, 2 * stored - 2 * 16);
}

/// What lies before, between and behind the rows is not read.
#[test]
fn only_elements_of_the_factor_are_read() {
    let loaded = |factor| run(Some(factor), None).global_load_bytes;
    for start in 0..8 {
        assert_eq!(loaded(Factor { start, ..packed(1, 1) }), 2);
        assert_eq!(loaded(Factor { start, gap: 8, ..packed(4, 3) }), 4 * 3 * 2);
    }
    // The units 1 to 24: the first eight begin before and the last eight end behind what whole vectors hold of them,
    // which is 8 to 23 and has those between.
    assert_eq!(loaded(Factor { start: 1, ..packed(1, 24) }), 16 + 32 + 16);
    // The same in each row, where there are gaps between them.
    assert_eq!(loaded(Factor { start: 1, gap: 8, ..packed(3, 24) }), 3 * (16 + 32 + 16));
    // Without gaps only those at both ends.
    assert_eq!(loaded(Factor { start: 1, ..packed(3, 24) }), 16 + 7 * 32 + 16);
}

#[test]
fn launches_that_are_not_of_these_factors_are_caught() {
    let fault = |change: &dyn Fn(&Uploaded) -> (Repack, u32)| {
        let simulator = Simulator::new();
        let factor = Factor { start: 1, ..packed(40, 77) }.upload(&simulator);
        let (repack, blocks) = change(&factor);
        match launch(&simulator, repack, blocks) {
            Err(SimError::Fault(fault)) => fault.kind,
            other => panic!("{other:?}"),
        }
    };
    let alone = |a| Repack { a, b: CopiedFactor::NONE };
    let to = |factor: &Uploaded, units| factor.to.add(units);
    let more_rows = fault(&|factor| {
        let copied = CopiedFactor::new(factor.from, (41, 77), (1, 0), to(factor, 0));
        (alone(copied), blocks_of(copied))
    });
    assert_eq!(more_rows, FaultKind::OutOfBounds);
    let longer_rows = fault(&|factor| {
        let from = MatrixRef { ld: 78, ..factor.from };
        let copied = CopiedFactor::new(from, (40, 77), (1, 0), to(factor, 0));
        (alone(copied), blocks_of(copied))
    });
    assert_eq!(longer_rows, FaultKind::OutOfBounds);
    let no_room = fault(&|factor| {
        let copied = CopiedFactor::new(factor.from, (40, 77), (1, 0), to(factor, 64));
        (alone(copied), blocks_of(copied))
    });
    assert_eq!(no_room, FaultKind::OutOfBounds);
    let unaligned = fault(&|factor| {
        let copied = CopiedFactor::new(factor.from, (40, 77), (1, 0), to(factor, 4));
        (alone(copied), blocks_of(copied))
    });
    assert_eq!(unaligned, FaultKind::Misaligned);
}

fn blocks_of(copied: CopiedFactor) -> u32 {
    Repack { a: copied, b: CopiedFactor::NONE }.blocks()
}
