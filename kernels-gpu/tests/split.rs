//! Factors of f32 in two halves, on the simulator: what the halves hold, what is known of the lines, and what is left
//! alone.

use cuda_std::entry::KernelEntry;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, Launch, Simulator};
use half::f16;
use regemm_kernels::params::MatrixRef;
use regemm_kernels::prepare::split::{self, LOW_FACTOR, Line, Split, SplitFactor, THREADS};
use regemm_kernels::table::{ROUNDER, SPLITTER};

/// What is in memory where nothing is written: an exponent that no line has, and a half that no test expects.
const CANARY: u16 = 0x7EAD;

/// Matrices of one factor, and where their elements lie: `start` behind a multiple of 16 bytes, `gap` from the end of a
/// row to the next, and `behind` from the end of a matrix, with a gap, to the next.
#[derive(Clone, Copy)]
struct Factor {
    rows: u32,
    cols: u32,
    across: bool,
    count: u32,
    start: u32,
    gap: u32,
    behind: u32,
    /// Element `(row, col)` of a matrix.
    element: fn(u32, u32, u32) -> f32,
}

fn packed(rows: u32, cols: u32, across: bool) -> Factor {
    Factor { rows, cols, across, count: 1, start: 0, gap: 0, behind: 0, element: mixed }
}

/// Numbers of both signs and 24 bits; from one line to the next, whichever way these run, magnitudes differ much.
fn mixed(matrix: u32, row: u32, col: u32) -> f32 {
    let bits = (matrix * 7919 + row * 104_729 + col).wrapping_mul(0x9e37_79b9);
    let fraction = f32::from_bits(0x3f80_0000 | bits >> 9);
    let sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
    sign * fraction * 2f32.powi((bits >> 3) as i32 % 12)
}

/// What a launch left of one factor.
struct Outcome {
    factor: Factor,
    halves: Vec<f16>,
    lines: Vec<Line>,
    /// The mark of each matrix.
    marks: Vec<u32>,
}

struct Uploaded {
    factor: Factor,
    from: MatrixRef<f32>,
    to: u64,
    lines: u64,
    marks: u64,
}

impl Factor {
    fn ld(&self) -> u32 {
        self.cols + self.gap
    }

    fn stride(&self) -> u32 {
        self.rows * self.ld() + self.behind
    }

    fn lines(&self) -> u32 {
        split::lines((self.rows, self.cols), self.across)
    }

    fn elements(&self) -> usize {
        self.count as usize * split::elements(self.rows, self.cols) as usize
    }

    /// The memory ends where the last matrix does, so that nothing behind it can be read.
    fn upload(self, simulator: &Simulator) -> Uploaded {
        let Factor { rows, cols, count, start, .. } = self;
        let mut elements = vec![f32::NAN; start as usize];
        for matrix in 0..count {
            for row in 0..rows {
                elements
                    .resize((start + matrix * self.stride() + row * self.ld()) as usize, f32::NAN);
                elements.extend((0..cols).map(|col| (self.element)(matrix, row, col)));
            }
        }
        let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let address = write(simulator, &bytes);
        let canaries = |count: usize| write(simulator, &CANARY.to_ne_bytes().repeat(count));
        let data = GlobalPtr::from_address(address).add(start.into());
        let from = MatrixRef { data, ld: self.ld().into() };
        let (to, lines) = (canaries(self.elements()), canaries((count * self.lines()) as usize));
        let marks = write(simulator, &vec![0; count as usize * size_of::<u32>()]);
        Uploaded { factor: self, from, to, lines, marks }
    }
}

fn write(simulator: &Simulator, bytes: &[u8]) -> u64 {
    let address = simulator.alloc(bytes.len().max(1) as u64).unwrap();
    simulator.write(address, bytes).unwrap();
    address
}

impl Uploaded {
    fn to_split(&self) -> SplitFactor {
        let Factor { rows, cols, across, count, .. } = self.factor;
        let (to, lines) = (GlobalPtr::from_address(self.to), GlobalPtr::from_address(self.lines));
        let matrices = (count, self.factor.stride().into());
        let to_split = SplitFactor::new(self.from, (rows, cols), across, matrices, to, lines);
        to_split.with_marks(GlobalPtr::from_address(self.marks))
    }

    fn outcome(&self, simulator: &Simulator) -> Outcome {
        let words = |address, count: usize| -> Vec<u16> {
            let mut bytes = vec![0; count * size_of::<u16>()];
            simulator.read(address, &mut bytes).unwrap();
            bytes.as_chunks().0.iter().map(|&word| u16::from_ne_bytes(word)).collect()
        };
        let halves = words(self.to, self.factor.elements());
        let lines = words(self.lines, (self.factor.count * self.factor.lines()) as usize);
        let mut marks = vec![0; self.factor.count as usize * size_of::<u32>()];
        simulator.read(self.marks, &mut marks).unwrap();
        Outcome {
            marks: marks.as_chunks().0.iter().map(|&word| u32::from_ne_bytes(word)).collect(),
            factor: self.factor,
            halves: halves.into_iter().map(f16::from_bits).collect(),
            lines: lines.into_iter().map(|bits| Line::from_bits(bits as i16)).collect(),
        }
    }
}

impl Outcome {
    fn half(&self, matrix: u32, low: bool, row: u32, col: u32) -> f16 {
        let plane = (matrix * split::HALVES + u32::from(low)) * self.factor.rows + row;
        self.halves[plane as usize * split::ld(self.factor.cols) as usize + col as usize]
    }

    fn line(&self, matrix: u32, row: u32, col: u32) -> Line {
        let line = if self.factor.across { col } else { row };
        self.lines[(matrix * self.factor.lines() + line) as usize]
    }

    /// What the halves hold of an element.
    fn value(&self, matrix: u32, row: u32, col: u32) -> f64 {
        let [high, low] = [false, true].map(|low| self.half(matrix, low, row, col).to_f64());
        (high + low / f64::from(LOW_FACTOR)) / 2f64.powi(self.line(matrix, row, col).exponent())
    }

    /// Panics unless the halves hold 22 bits of each element, lines are scaled to below 2^15, and what lies behind rows
    /// is zero up to a whole chunk, and what it was from there.
    fn check(&self) {
        let Factor { rows, cols, across, count, element, .. } = self.factor;
        for matrix in 0..count {
            let mut largest = vec![0.0_f64; self.factor.lines() as usize];
            for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
                let (x, found) =
                    (f64::from(element(matrix, row, col)), self.value(matrix, row, col));
                let lost = (x - found).abs();
                assert!(lost <= x.abs() * 2f64.powi(-22), "({row}, {col}): {found} is not {x}");
                let largest = &mut largest[if across { col } else { row } as usize];
                *largest = largest.max(self.half(matrix, false, row, col).to_f64().abs());
            }
            assert!(largest.iter().all(|largest| (16384.0..=32768.0).contains(largest)));
            for row in 0..rows {
                for col in cols..split::ld(cols) as u32 {
                    let expected = if col < cols.next_multiple_of(8) { 0 } else { CANARY };
                    for low in [false, true] {
                        assert_eq!(self.half(matrix, low, row, col).to_bits(), expected);
                    }
                }
            }
        }
        assert!(self.lines.iter().all(|line| !line.is_marked()));
        assert!(self.marks.iter().all(|&mark| mark == 0));
    }
}

/// Splits both factors.
fn run(a: Option<Factor>, b: Option<Factor>) -> (Vec<Outcome>, Counters) {
    run_by(&SPLITTER, a, b)
}

/// Launches the one or the other for both factors.
fn run_by(entry: &KernelEntry, a: Option<Factor>, b: Option<Factor>) -> (Vec<Outcome>, Counters) {
    let simulator = Simulator::new();
    let [a, b] = [a, b].map(|factor| factor.map(|factor| factor.upload(&simulator)));
    let to_split =
        |factor: &Option<Uploaded>| factor.as_ref().map_or(SplitFactor::NONE, Uploaded::to_split);
    let split = Split::new(to_split(&a), to_split(&b));
    let shape = Launch { grid: [split.blocks(), 1, 1], block: [THREADS, 1, 1], dynamic_shared: 0 };
    // SAFETY: the one argument points to a value of the kernel's parameter type.
    let counters = unsafe { simulator.launch(entry, shape, &[(&raw const split).cast()]) };
    let outcomes = a.iter().chain(&b).map(|factor| factor.outcome(&simulator)).collect();
    (outcomes, counters.unwrap_or_else(|error| panic!("{error}")))
}

fn check(a: Factor, b: Factor) -> Counters {
    let (outcomes, counters) = run(Some(a), Some(b));
    outcomes.iter().for_each(Outcome::check);
    counters
}

/// High halves alone, where both factors have room for both.
fn round(a: Factor, b: Factor) -> (Vec<Outcome>, Counters) {
    run_by(&ROUNDER, Some(a), Some(b))
}

#[test]
fn rows_of_any_length_from_any_place() {
    for (start, gap) in [(0, 0), (0, 4), (1, 0), (2, 3), (3, 1)] {
        for (rows, cols) in [(1, 1), (3, 2), (17, 63), (33, 64), (5, 65), (2, 513), (130, 7)] {
            let factor = Factor { start, gap, ..packed(rows, cols, false) };
            check(factor, Factor { across: true, ..factor });
        }
    }
}

#[test]
fn lines_longer_than_a_block_loads_at_once() {
    check(packed(2, 2100, false), packed(700, 33, true));
    check(packed(257, 3, true), Factor { start: 1, ..packed(3, 1027, false) });
}

#[test]
fn matrices_of_a_batch_follow_one_another() {
    let batch = Factor { count: 3, behind: 5, gap: 1, ..packed(34, 35, false) };
    check(batch, Factor { across: true, ..batch });
    check(Factor { count: 1, ..batch }, Factor { across: true, count: 2, ..batch });
}

#[test]
fn one_factor_alone() {
    let (outcomes, _) = run(None, Some(packed(20, 40, true)));
    outcomes.iter().for_each(Outcome::check);
    assert_eq!(outcomes.len(), 1);
    assert_eq!(Split::new(SplitFactor::NONE, SplitFactor::NONE).blocks(), 0);
}

/// Every element is loaded by whole vectors or sectors, and each half stored once. What a thread has loaded last it
/// does not load again.
#[test]
fn all_is_loaded_as_often_as_it_must_be_and_stored_once() {
    for (rows, cols, across, again) in
        [(64, 1024, false, 0), (4, 8192, false, 4096), (64, 1024, true, 0), (1024, 16, true, 512)]
    {
        let elements = |depth: u32| u64::from(if across { depth * cols } else { depth * rows });
        let loaded = u64::from(rows * cols) + elements(again);
        let (_, counters) = run(Some(packed(rows, cols, across)), None);
        assert_eq!(counters.global_load_bytes, 4 * loaded, "{rows} x {cols}");
        assert_eq!(counters.global_load_sectors, 4 * loaded / 32, "{rows} x {cols}");
        let lines = u64::from(if across { cols } else { rows });
        assert_eq!(counters.global_store_bytes, u64::from(4 * rows * cols) + 2 * lines);
        assert_eq!(counters.shared_store_conflicts + counters.shared_load_conflicts, 0);
    }
}

/// Where there is to be one half it is the nearest f16, those of a matrix follow those of the one before, and no more
/// is stored.
#[test]
fn high_halves_alone_are_stored() {
    let along = Factor { count: 2, behind: 3, gap: 1, ..packed(18, 70, false) };
    let across = Factor { across: true, ..along };
    let (outcomes, counters) = round(along, across);
    for outcome in &outcomes {
        let Factor { rows, cols, count, element, .. } = outcome.factor;
        let of_matrix = split::elements_of_half(rows, cols) as usize;
        for matrix in 0..count {
            for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
                let line = outcome.line(matrix, row, col);
                let scaled = f64::from(element(matrix, row, col)) * 2f64.powi(line.exponent());
                let at = row as usize * split::ld(cols) as usize + col as usize;
                let found = outcome.halves[matrix as usize * of_matrix + at];
                assert_eq!(found, f16::from_f64(scaled), "{matrix}: ({row}, {col})");
                assert!(!line.is_marked());
            }
        }
        let behind = &outcome.halves[count as usize * of_matrix..];
        assert!(behind.iter().all(|half| half.to_bits() == CANARY));
    }
    // Rows are stored in whole chunks.
    let halves = 2 * (18 * 72 + 18 * 72) * size_of::<f16>() as u64;
    assert_eq!(counters.global_store_bytes, halves + 2 * (18 + 70) * size_of::<i16>() as u64);
}

/// The largest and the smallest numbers of f32 are scaled as all others; zeros stay what they are.
#[test]
fn magnitudes_from_end_to_end() {
    fn element(_: u32, row: u32, col: u32) -> f32 {
        match row {
            0 => f32::MAX * if col == 0 { 1.0 } else { 0.99 },
            1 => 1e-30 / (1 + col) as f32,
            2 => f32::from_bits(1 + col),
            _ => 0.0,
        }
    }
    let (outcomes, _) = run(Some(Factor { element, ..packed(4, 40, false) }), None);
    for (row, col) in (0..4).flat_map(|row| (0..40).map(move |col| (row, col))) {
        let (x, found) = (f64::from(element(0, row, col)), outcomes[0].value(0, row, col));
        assert!((x - found).abs() <= x * 2f64.powi(-22), "({row}, {col}): {found:e} is not {x:e}");
    }
    let exponents: Vec<_> = outcomes[0].lines.iter().map(|line| line.exponent()).collect();
    assert_eq!(exponents, [14 - 127, 14 + 100, 14 + 144, 0]);
}

/// A line is marked where halves cannot stand for it, and no other is.
#[test]
fn lines_that_halves_cannot_stand_for_are_marked() {
    fn element(_: u32, row: u32, col: u32) -> f32 {
        match (row, col) {
            (1, 700) => f32::NAN,
            (2, 0) => f32::INFINITY,
            (3, 33) => 1.23e-11,
            (4, 34) => 0.0,
            (5, 35) => 2f32.powi(-35),
            _ => 1.3,
        }
    }
    fn transposed(matrix: u32, row: u32, col: u32) -> f32 {
        element(matrix, col, row)
    }
    let along = Factor { element, ..packed(7, 800, false) };
    let across = Factor { element: transposed, ..packed(800, 7, true) };
    let (outcomes, _) = run(Some(along), Some(across));
    for outcome in outcomes {
        let marked: Vec<_> = outcome.lines.iter().map(|line| line.is_marked()).collect();
        assert_eq!(marked, [false, true, true, true, false, false, false]);
        // What is finite in a marked line is scaled all the same.
        assert!(outcome.lines[..6].iter().all(|line| line.exponent() == 14));
    }
}

/// A matrix is marked with any of its lines, and no other of a batch.
#[test]
fn a_matrix_is_marked_with_one_of_its_lines() {
    fn element(matrix: u32, row: u32, col: u32) -> f32 {
        match (matrix, row, col) {
            (1, 39, 69) => f32::NAN,
            (3, 0, 0) => f32::NEG_INFINITY,
            _ => 1.3,
        }
    }
    let along = Factor { element, count: 4, behind: 3, ..packed(40, 70, false) };
    let (outcomes, _) = run(Some(along), Some(Factor { across: true, ..along }));
    assert!(outcomes.iter().all(|outcome| outcome.marks == [0, 1, 0, 1]));
}

/// Half a bit of f16 below what is left of the smallest element that a line may hold: more of a deep product's.
#[test]
fn the_deeper_a_product_the_farther_apart_elements_may_lie() {
    fn element(_: u32, _: u32, col: u32) -> f32 {
        match col {
            0 => 1.0,
            // Loses 2^-51, which is 2^-19 of it.
            1 => 2f32.powi(-32) + 2f32.powi(-51),
            _ => 0.0,
        }
    }
    for (depth, marked) in [(64, true), (127, true), (128, false), (700, false)] {
        let (outcomes, _) = run(Some(Factor { element, ..packed(1, depth, false) }), None);
        assert_eq!(outcomes[0].lines[0].is_marked(), marked, "{depth}");
    }
    assert_eq!(split::tolerance(1), 2f32.powi(-22));
    assert_eq!(split::tolerance(4096), 2f32.powi(-14));
    assert_eq!(split::tolerance(1 << 30), 2f32.powi(-12));
}

#[test]
fn a_line_of_subnormal_numbers_is_marked() {
    fn element(_: u32, row: u32, col: u32) -> f32 {
        match (row, col) {
            (1, _) => f32::from_bits(1 + col),
            // One that is normal is enough.
            (2, 0) => f32::MIN_POSITIVE,
            (2, _) => f32::from_bits(1 + col),
            _ => 0.0,
        }
    }
    fn transposed(matrix: u32, row: u32, col: u32) -> f32 {
        element(matrix, col, row)
    }
    let along = Factor { element, ..packed(3, 40, false) };
    let (outcomes, _) =
        run(Some(along), Some(Factor { element: transposed, ..packed(40, 3, true) }));
    for outcome in outcomes {
        let marked: Vec<_> = outcome.lines.iter().map(|line| line.is_marked()).collect();
        assert_eq!(marked, [false, true, false]);
    }
}
