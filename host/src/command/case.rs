//! One random problem of `regemm verify`, and what the kernels make of it.
//!
//! A case follows from its seed and number, the element types to choose from and the largest size.

use super::exit::Failure;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};
use regemm::kernels::{Types, base_name, family_name, kernels_of};
use regemm::verify::{
    Addend, BatchCase, Case, Comparison, Elements, Uploaded, check_room, compare, rng,
};
use regemm::{
    Activation, BiasAxis, Device, Element, Error, KernelInfo, Layouts, Precision, Yields,
};
use std::fmt;

/// A random case of a run.
#[derive(Clone, Debug)]
pub struct Draw {
    /// The seed of the whole run.
    pub seed: u64,
    /// Its number in the run.
    pub index: u64,
    /// Element types of the matrices.
    pub types: Types,
    case: Case,
}

/// What a kernel made of a case.
pub struct Outcome {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// The comparison with the reference; none where the kernel did not finish.
    pub comparison: Option<Comparison>,
    /// What is wrong, if anything.
    pub fault: Option<String>,
}

/// Tile sizes of kernels: sizes next to them meet the edges of tiles.
const EDGES: [usize; 5] = [8, 16, 32, 64, 128];

/// Bytes for an element of C and D on the host: as they are drawn, uploaded and read, its reference, bound and sums.
const BYTES_OF_RESULT: usize = 64;

/// The widest gap beside a row.
const WIDEST_GAP: usize = 9;

/// The share of cases that are batches, and the most products of one.
const BATCHES: f64 = 0.25;
const LARGEST_BATCH: usize = 4;

impl Draw {
    /// Draws a case. What is drawn does not depend on the precision, and of its types alone the same is drawn again.
    pub fn new(
        seed: u64,
        index: u64,
        types: &[Types],
        precision: Precision,
        max_size: usize,
    ) -> Option<Draw> {
        let rng = &mut rng(seed, 2 * index);
        let types = one_of(types, rng)?;
        let [m, n, k] = std::array::from_fn(|_| draw_size(rng, max_size));
        let weighted = [
            Elements::Normal,
            Elements::Normal,
            Elements::Uniform,
            Elements::Integers,
            Elements::WithNonFinite,
        ];
        let elements = *weighted.choose(rng)?;
        let exact = elements == Elements::Integers;
        let factors: &[f64] = if exact {
            &[1.0, 1.0, 0.0, -1.0, 2.0]
        } else {
            &[1.0, 1.0, 0.0, -1.0, 0.5, -1.75, 1e-3]
        };
        let activations: &[Activation] =
            if exact { &[Activation::None, Activation::Relu] } else { &Activation::ALL };
        let case = Case {
            m,
            n,
            k,
            alpha: *factors.choose(rng)?,
            beta: *factors.choose(rng)?,
            addend: *[Addend::None, Addend::Matrix, Addend::Same].choose(rng)?,
            bias: *[BiasAxis::None, BiasAxis::Column, BiasAxis::Row].choose(rng)?,
            activation: *activations.choose(rng)?,
            slope: *[0.01, 0.25, -0.5, 2.0].choose(rng)?,
            elements,
            gaps: std::array::from_fn(|_| draw_gap(rng)),
            layouts: *Layouts::ALL.choose(rng)?,
            batch: rng.random_bool(BATCHES).then(|| BatchCase {
                count: rng.random_range(0..=LARGEST_BATCH),
                shared: rng.random(),
            }),
            precision,
            slices: None,
        };
        Some(Draw { seed, index, types, case })
    }

    /// The kernel that runs the case for one that was asked for: where that is for row-major factors, its twin for the
    /// layouts of the case if there is one, else itself.
    pub fn kernel(&self, asked: &'static KernelInfo) -> &'static KernelInfo {
        let free = base_name(asked) == family_name(asked);
        let is_twin = |kernel: &&KernelInfo| {
            kernel.layouts == self.case.layouts
                && Types::of(kernel) == Types::of(asked)
                && family_name(kernel) == family_name(asked)
        };
        let twin = kernels_of(self.case.precision).iter().find(is_twin);
        twin.filter(|_| free).unwrap_or(asked)
    }

    /// Bytes on the host of the operands, and of the reference in double precision.
    fn bytes<T>(&self) -> Option<usize> {
        let Case { m, n, k, .. } = self.case;
        let area =
            |rows: usize, cols: usize| (rows + 2 * WIDEST_GAP).checked_mul(cols + 2 * WIDEST_GAP);
        // Each factor is held as drawn, as uploaded, widened, and as its magnitudes.
        let factors = area(m, k)?.checked_add(area(k, n)?)?.checked_mul(2 * size_of::<T>() + 16)?;
        let results = area(m, n)?.checked_mul(BYTES_OF_RESULT)?;
        factors.checked_add(results)?.checked_mul(self.case.count().max(1))
    }

    /// Runs kernels of the case's element types on it, each in its own layouts.
    ///
    /// # Errors
    /// A failure of the device, [`Error::OutOfHostMemory`]. What the simulator finds wrong with a kernel is an outcome.
    pub fn run<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
        &self,
        device: &Device,
        kernels: &[&'static KernelInfo],
    ) -> Result<Vec<Outcome>, Failure> {
        check_room(self.bytes::<T>())?;
        let operands = self.case.operands_of::<T, D>(&mut rng(self.seed, 2 * self.index + 1));
        let expected =
            self.case.reference(&operands).map_err(|error| Failure::Usage(error.to_string()))?;
        let judge = |uploaded: &Uploaded<'_, T, D>, kernel| match uploaded.run(kernel) {
            Ok(result) => {
                let comparison = compare(&result.d.view(), &expected);
                let fault = match (&comparison.worst, result.stray) {
                    (_, Some(stray)) => Some(stray.to_string()),
                    (Some(worst), None) if comparison.mismatches > 0 => {
                        Some(format!("{} elements are wrong, worst {worst}", comparison.mismatches))
                    }
                    _ if !comparison.pass() => {
                        Some("no element can be told right from wrong".into())
                    }
                    _ => None,
                };
                Ok(Outcome { kernel, comparison: Some(comparison), fault })
            }
            Err(error @ Error::Simulator(_)) => {
                Ok(Outcome { kernel, comparison: None, fault: Some(error.to_string()) })
            }
            Err(error) => Err(error),
        };
        let mut outcomes = Vec::new();
        // Kernels that take A and B as they lie in memory for one of them.
        for layouts in Layouts::ALL {
            let mut kernels = kernels.iter().filter(|kernel| kernel.layouts == layouts).peekable();
            if kernels.peek().is_some() {
                let case = Case { layouts, ..self.case };
                let uploaded = case.upload(device, &operands)?;
                for kernel in kernels {
                    outcomes.push(judge(&uploaded, *kernel)?);
                }
            }
        }
        Ok(outcomes)
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.types, self.case)
    }
}

/// One of these types by one number, however many they are: all that is drawn after it stays the same. To choose from a
/// list takes a second number now and then, of a longer one more often.
fn one_of(types: &[Types], rng: &mut impl Rng) -> Option<Types> {
    let place = (u64::from(rng.random::<u32>()) * types.len() as u64) >> u32::BITS;
    types.get(place as usize).copied()
}

/// 0 and 1 sometimes, often the neighbourhood of a tile's size, else anything up to `max`.
fn draw_size(rng: &mut ChaCha8Rng, max: usize) -> usize {
    let size = match rng.random_range(0..100) {
        0..3 => 0,
        3..10 => 1,
        10..40 => {
            let edge = EDGES.choose(rng).copied().unwrap_or(1);
            edge * rng.random_range(1..=2) + rng.random_range(0..3) - 1
        }
        _ => rng.random_range(0..=max),
    };
    size.min(max)
}

/// Elements before and after each row; none of either half of the time, so that aligned rows occur.
fn draw_gap(rng: &mut ChaCha8Rng) -> (usize, usize) {
    if rng.random_bool(0.5) {
        (0, 0)
    } else {
        (rng.random_range(0..=WIDEST_GAP), rng.random_range(0..=WIDEST_GAP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rand_core::TryRng;
    use std::convert::Infallible;

    /// Gives one number again and again, and counts how often.
    struct Counting {
        number: u32,
        drawn: usize,
    }

    impl TryRng for Counting {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            self.drawn += 1;
            Ok(self.number)
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            Ok(u64::from(self.try_next_u32()?) << u32::BITS | u64::from(self.try_next_u32()?))
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
            for chunk in bytes.chunks_mut(size_of::<u32>()) {
                chunk.copy_from_slice(&self.try_next_u32()?.to_le_bytes()[..chunk.len()]);
            }
            Ok(())
        }
    }

    #[test]
    fn types_take_one_number_however_many_they_are() {
        let count = Types::ALL.len();
        // By the last number of the first type a list is chosen from once more.
        let last_of_first = u32::MAX / count as u32;
        for (number, place) in [(0, 0), (last_of_first, 0), (u32::MAX, count - 1)] {
            for (types, chosen) in [(&Types::ALL[..], place), (&Types::ALL[..1], 0)] {
                let mut rng = Counting { number, drawn: 0 };
                assert_eq!(one_of(types, &mut rng), Some(types[chosen]), "{number}");
                assert_eq!(rng.drawn, 1, "{number} of {}", types.len());
            }
        }
    }

    #[test]
    fn of_its_own_types_alone_a_case_is_drawn_again() {
        for index in 0..50 {
            let draw = |types: &[Types]| Draw::new(3, index, types, Precision::Exact, 100).unwrap();
            let case = draw(&Types::ALL);
            assert_eq!(draw(&[case.types]).to_string(), case.to_string());
        }
    }
}
