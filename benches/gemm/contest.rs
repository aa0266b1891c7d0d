//! All contenders on one case.

use crate::blas::Blas;
use crate::burst;
use crate::check::{Expected, Judgement};
use crate::common::Failure;
use crate::library::{Addresses, Math, Product, Types};
use crate::lt::{Plan, Vendor};
use crate::meter::{self, Meter};
use crate::product;
use crate::sampling::{Pilot, fastest_algorithm, pilot, within};
use crate::turn;
use regemm::measure::{OperandSet, Rotation, Samples, Sampling, alternate};
use regemm::ndarray::Array2;
use regemm::verify::{Distribution, random_vector, rng};
use regemm::{
    Accumulator, Device, Dtype, Element, KernelChoice, Layouts, Precision, Stream, Vector, Yields,
    kernels,
};
use regemm_report::versus::{
    Burst, CUBLAS, CUBLAS_LT, Case, Conditions, Entry, Group, LT_WITH_EPILOGUE, Measured, REGEMM,
    Turn, Unsupported, WITH_EPILOGUE, kernel_with_epilogue,
};
use std::time::Duration;

/// Samples are taken for about this long, in seconds, unless their number is given; but at least and at most so many.
const CASE_SECONDS: f64 = 1.5;
const ROUNDS: (f64, f64) = (10.0, 200.0);

/// Between two readings of clock and power while samples are taken.
const READING_PAUSE: Duration = Duration::from_millis(20);

/// The least size of squares that bring the device to the limit of its power, and are measured in bursts and in turns
/// too: smaller ones leave the clock where it is.
pub const LEAST_AT_THE_LIMIT: usize = 2048;

/// The stream of generators from which the bias is drawn.
const BIAS_STREAM: u64 = 1;

/// The vendor's libraries, or why they are not there.
pub struct Libraries {
    pub lt: Result<Vendor, String>,
    pub blas: Result<Blas, String>,
}

/// How cases are measured, with factors of `T` and results of `D`.
pub struct Contest<'a, T, D> {
    pub device: &'a Device,
    pub stream: &'a Stream,
    pub libraries: &'a Libraries,
    /// Kernels to measure beside the automatic choice.
    pub kernels: &'a [String],
    /// What the automatic choice computes in.
    pub precision: Precision,
    /// Samples of each contender; by the time that they take unless given.
    pub rounds: Option<usize>,
    /// Whether large squares are measured in short bursts too.
    pub bursts: bool,
    /// Whether large squares and those with an epilogue are measured in long turns too.
    pub turns: bool,
    /// Where clock and power are read, if they can be.
    pub meter: Option<&'a Meter>,
    pub seed: u64,
    pub operands: Rotation<T, D>,
}

/// Who computes the case.
enum Contender<'a, D> {
    Regemm { name: String, kernel: KernelChoice, precision: Precision, bias: Option<&'a Vector<D>> },
    Lt { name: &'static str, plan: &'a Plan<'a>, algorithm: usize },
    Blas { blas: &'a Blas, product: Product },
}

impl<D: Element> Contender<'_, D> {
    fn name(&self) -> &str {
        match self {
            Contender::Regemm { name, .. } => name,
            Contender::Lt { name, .. } => name,
            Contender::Blas { .. } => CUBLAS,
        }
    }

    /// Whether what it computes has a bias and GELU.
    fn has_epilogue(&self) -> bool {
        match self {
            Contender::Regemm { bias, .. } => bias.is_some(),
            Contender::Lt { name, .. } => *name == LT_WITH_EPILOGUE,
            Contender::Blas { .. } => false,
        }
    }

    /// Puts the case on the stream. The name of the kernel, if it is one of this library.
    fn enqueue<T: Element<Acc = D::Acc> + Yields<D>>(
        &self,
        case: &Case,
        stream: &Stream,
        set: OperandSet<'_, T, D>,
    ) -> Result<Option<&'static str>, Failure> {
        let addresses = Addresses {
            a: set.a.address(),
            b: set.b.address(),
            c: case.has_addend().then(|| set.c.address()),
            d: set.d.address(),
        };
        match self {
            Contender::Regemm { kernel, precision, bias, .. } => {
                let report =
                    product::enqueue(case, (kernel.clone(), *precision), *bias, stream, set)?;
                return Ok(Some(report.kernel.name));
            }
            // SAFETY: the matrices are packed and of the case's shape, for which the plan was made; their memory
            // outlives the measurement.
            Contender::Lt { plan, algorithm, .. } => unsafe {
                plan.enqueue(*algorithm, stream, addresses)?;
            },
            // SAFETY: as above.
            Contender::Blas { blas, product } => unsafe {
                blas.enqueue(stream, product, addresses)?;
            },
        }
        Ok(None)
    }
}

/// What alternating without a pause gives.
struct Sustained {
    /// Of each contender.
    samples: Vec<Samples>,
    /// Products in a sample.
    products: usize,
    conditions: Option<Conditions>,
}

/// What a contender does in short bursts and in long turns, where that is measured.
type OtherRegimes = (Option<Burst>, Option<Turn>);

/// A contender that is right, or of the vendor.
struct Admitted<'a, D> {
    contender: Contender<'a, D>,
    kernel: Option<&'static str>,
    relative_error: f64,
}

impl<T: Element + Yields<D>, D: Element<Acc = T::Acc>> Contest<'_, T, D> {
    /// Verifies and measures all contenders on a case.
    ///
    /// # Errors
    /// A failure of the device. What one contender cannot do, or does wrong, is in the record.
    pub fn run(&mut self, case: &Case) -> Result<Measured, Failure> {
        self.operands.fit(product::layout(case))?;
        let types = Types { factors: T::DTYPE, results: D::DTYPE };
        let factors = Product {
            a_transposed: case.layouts.a_transposed(),
            b_transposed: case.layouts.b_transposed(),
            batch: case.batch,
            math: math_beside::<T>(self.precision),
            ..Product::of(types, (case.m, case.n, case.k))
        };
        let info = self.device.info();
        let bytes = case.bytes(size_of::<T>(), size_of::<D>());
        let memory_bound = match (info.memory_bandwidth, info.peak_flops(T::DTYPE)) {
            (Some(bandwidth), Some(peak)) => bytes as f64 / bandwidth as f64 > case.flops() / peak,
            _ => false,
        };
        let mut measured = Measured {
            case: *case,
            bytes,
            memory_bound,
            conditions: None,
            entries: vec![],
            unsupported: vec![],
        };
        let mut refuse = |name: &str, why: String, wrong: bool| {
            measured.unsupported.push(Unsupported { name: name.to_owned(), why, wrong });
        };

        let with_epilogue = case.group == Group::Epilogue;
        let bias: Vec<D> =
            random_vector(&mut rng(self.seed, BIAS_STREAM), case.n, Distribution::Normal);
        let bias_on_device = self.device.vector(&bias)?;
        let mut contenders: Vec<Contender<'_, D>> = Vec::new();
        let mut add = |name: &str, kernel, precision, bias| {
            contenders.push(Contender::Regemm { name: name.to_owned(), kernel, precision, bias });
        };
        add(REGEMM, KernelChoice::Auto, self.precision, None);
        for kernel in self.kernels {
            // Of a precision alone are those that the table of all others does not have, and those that promote are of
            // that table.
            let is_exact = self.precision != Precision::Promoted
                && kernels::find_in(kernel, T::DTYPE, Layouts::NN).is_ok();
            let precision = if is_exact { Precision::Exact } else { self.precision };
            let named = || KernelChoice::Named(kernel.clone());
            add(kernel, named(), precision, None);
            if with_epilogue {
                add(&kernel_with_epilogue(kernel), named(), precision, Some(&bias_on_device));
            }
        }
        if with_epilogue {
            add(WITH_EPILOGUE, KernelChoice::Auto, self.precision, Some(&bias_on_device));
        }
        let mut plans = Vec::new();
        if let Ok(lt) = &self.libraries.lt {
            let with_bias = with_epilogue.then_some((LT_WITH_EPILOGUE, Some(&bias_on_device)));
            for (name, bias) in [Some((CUBLAS_LT, None)), with_bias].into_iter().flatten() {
                match lt.plan(self.stream, &factors, bias.map(Vector::address)) {
                    Ok(plan) => plans.push((name, plan)),
                    Err(why) => refuse(name, why, false),
                }
            }
        }
        for (name, plan) in &plans {
            match self.fastest_algorithm(case, plan)? {
                Some(algorithm) => contenders.push(Contender::Lt { name, plan, algorithm }),
                None => refuse(name, "all its algorithms fail".to_owned(), false),
            }
        }
        let blas_computes = !with_epilogue && !case.has_addend();
        if let (Ok(blas), true) = (&self.libraries.blas, blas_computes) {
            contenders.push(Contender::Blas { blas, product: factors });
        }

        let admitted = self.admit(case, contenders, &bias, &mut refuse)?;
        let Sustained { samples, products, conditions } = self.measure(case, &admitted)?;
        measured.conditions = conditions;
        let regimes = self.other_regimes(case, &admitted, &samples)?;
        measured.entries = admitted
            .iter()
            .zip(samples)
            .zip(regimes)
            .map(|((admitted, samples), regimes)| {
                entry(case, admitted, &samples, products, regimes)
            })
            .collect();
        Ok(measured)
    }

    /// The contenders that may be measured: those of this library that are right, and the vendor's with the errors they
    /// make. D is poisoned before each.
    fn admit<'c>(
        &mut self,
        case: &Case,
        contenders: Vec<Contender<'c, D>>,
        bias: &[D],
        refuse: &mut impl FnMut(&str, String, bool),
    ) -> Result<Vec<Admitted<'c, D>>, Failure> {
        let set = self.operands.first_set()?;
        let (a, b, c) = (set.a.to_array()?, set.b.to_array()?, set.c.to_array()?);
        let operands = (&a, &b, case.has_addend().then_some(&c));
        let plain = Expected::new(case, self.precision, operands, None, self.seed)?;
        let with_bias = match case.group {
            Group::Epilogue => {
                Some(Expected::new(case, self.precision, operands, Some(bias), self.seed)?)
            }
            _ => None,
        };
        let nan = D::narrow(D::Acc::constant(f64::NAN));
        let poison = Array2::from_elem((case.batch * case.m, case.n), nan);
        let mut admitted = Vec::new();
        for contender in contenders {
            self.operands.first_set()?.d.copy_from(&poison.view())?;
            let outcome = contender.enqueue(case, self.stream, self.operands.first_set()?);
            // A kernel that fails breaks the device for everyone after it.
            self.stream.synchronize()?;
            let kernel = match outcome {
                Ok(kernel) => kernel,
                Err(why) => {
                    refuse(contender.name(), why.to_string(), false);
                    continue;
                }
            };
            let expected = match &with_bias {
                Some(with_bias) if contender.has_epilogue() => with_bias,
                _ => &plain,
            };
            let d = self.operands.first_set()?.d.view().to_array()?;
            let Judgement { wrong, relative_error } = expected.check(&d)?;
            match (&contender, wrong) {
                // The vendor's library is not ours to judge: its error is reported whatever it is.
                (Contender::Regemm { name, .. }, Some(wrong)) => {
                    let kernel = kernel.unwrap_or_default();
                    refuse(name, format!("wrong result of {kernel}: {wrong}"), true);
                }
                _ => admitted.push(Admitted { contender, kernel, relative_error }),
            }
        }
        Ok(admitted)
    }

    fn measure(&mut self, case: &Case, admitted: &[Admitted<'_, D>]) -> Result<Sustained, Failure> {
        if admitted.is_empty() {
            return Ok(Sustained { samples: Vec::new(), products: 1, conditions: None });
        }
        let (stream, operands) = (self.stream, &mut self.operands);
        let mut enqueue = |contender: usize| -> Result<(), Failure> {
            admitted[contender].contender.enqueue(case, stream, operands.next_set()?).map(drop)
        };
        let Pilot { products, round } = pilot(stream, admitted.len(), &mut enqueue)?;
        let rounds = self.rounds.unwrap_or_else(|| within(CASE_SECONDS / round, ROUNDS));
        let sampling = Sampling { warm_up: 2, rounds };
        // The same for all, whose times are compared.
        let of_each = vec![products; admitted.len()];
        let measure = || alternate::<Failure>(stream, &of_each, sampling, &mut enqueue);
        let (samples, conditions) = meter::during(self.meter, READING_PAUSE, measure);
        Ok(Sustained { samples: samples?, products, conditions })
    }

    /// What the contenders do in short bursts and in long turns, as far as that is measured of this case.
    fn other_regimes(
        &mut self,
        case: &Case,
        admitted: &[Admitted<'_, D>],
        sustained: &[Samples],
    ) -> Result<Vec<OtherRegimes>, Failure> {
        let seconds = sustained.iter().map(|samples| samples.median().as_secs_f64());
        let seconds: Vec<f64> = seconds.collect();
        let longest = seconds.iter().copied().fold(0.0, f64::max);
        let (stream, operands) = (self.stream, &mut self.operands);
        let mut enqueue = |contender: usize| -> Result<(), Failure> {
            admitted[contender].contender.enqueue(case, stream, operands.next_set()?).map(drop)
        };
        // Turns first: the device is hot now, and rests before bursts.
        let mut turns = vec![None; admitted.len()];
        if self.turns && turn::is_measured(case, longest) {
            turns = turn::measure(case, stream, self.meter, &seconds, &mut enqueue)?;
        }
        let mut bursts = vec![None; admitted.len()];
        let is_square = case.group == Group::Squares;
        let products = burst::products(case, longest);
        if let Some(products) = products.filter(|_| self.bursts && is_square) {
            let of_all = (admitted.len(), products);
            bursts = burst::measure(case, stream, self.meter, of_all, &mut enqueue)?;
        }
        Ok(bursts.into_iter().zip(turns).collect())
    }

    /// The fastest algorithm on this case; `None` if none works.
    fn fastest_algorithm(
        &mut self,
        case: &Case,
        plan: &Plan<'_>,
    ) -> Result<Option<usize>, Failure> {
        let (stream, operands) = (self.stream, &mut self.operands);
        fastest_algorithm(stream, plan.algorithms(), |algorithm| {
            let contender: Contender<'_, D> = Contender::Lt { name: CUBLAS_LT, plan, algorithm };
            contender.enqueue(case, stream, operands.next_set()?).map(drop)
        })
    }
}

/// What the vendor's libraries multiply in beside a precision of this library: TF32 where factors of f32 are rounded to
/// 11 bits here as well.
pub fn math_beside<T: Element>(precision: Precision) -> Math {
    match (T::DTYPE, precision) {
        (Dtype::F32, Precision::Tf32 | Precision::Fast) => Math::Tf32,
        _ => Math::AsTheyAre,
    }
}

fn entry<D: Element>(
    case: &Case,
    admitted: &Admitted<'_, D>,
    samples: &Samples,
    products: usize,
    (burst, turn): OtherRegimes,
) -> Entry {
    let seconds = samples.median().as_secs_f64();
    Entry {
        name: admitted.contender.name().to_owned(),
        kernel: admitted.kernel.map(str::to_owned),
        microseconds: seconds * 1e6,
        tflops: case.flops() / seconds / 1e12,
        spread: samples.spread(),
        samples: samples.count(),
        products,
        late: samples.late(),
        sm_mhz: samples.sm_mhz(),
        relative_error: admitted.relative_error,
        burst,
        turn,
    }
}
