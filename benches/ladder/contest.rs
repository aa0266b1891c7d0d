//! All contenders on one size.

use crate::library::{Addresses, Product, Types};
use crate::lt::{Plan, Vendor};
use regemm::measure::{OperandSet, Rotation, Samples, Sampling, alternate};
use regemm::ndarray::Array2;
use regemm::verify::{Expectation, Problem};
use regemm::{Device, Dtype, Element, Gemm, KernelChoice, KernelInfo, Stream};
use regemm_report::ladder::{Entry, Round, VENDOR};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// One size, and how it is measured.
pub struct Contest<'a> {
    pub device: &'a Device,
    /// For row-major factors.
    pub kernels: &'a [&'static KernelInfo],
    pub size: usize,
    pub rounds: usize,
    pub seed: u64,
}

/// Who computes the product.
enum Contender<'v> {
    Kernel(&'static KernelInfo),
    Vendor { plan: &'v Plan<'v>, algorithm: usize },
}

impl Contender<'_> {
    fn enqueue<T: Element>(&self, stream: &Stream, set: OperandSet<'_, T>) -> Outcome<()> {
        match self {
            Contender::Kernel(kernel) => {
                let gemm = Gemm::new(set.a, set.b).kernel(KernelChoice::Info(kernel));
                gemm.enqueue(stream, set.d)?;
            }
            Contender::Vendor { plan, algorithm } => {
                let (a, b, d) = (set.a.address(), set.b.address(), set.d.address());
                // SAFETY: packed matrices of the plan's shape, which outlive the measurement.
                unsafe { plan.enqueue(*algorithm, stream, Addresses { a, b, c: None, d })? };
            }
        }
        Ok(())
    }
}

/// Samples with which the vendor's algorithms are compared among each other.
const ROUNDS_TO_CHOOSE: usize = 5;

impl Contest<'_> {
    /// Verifies and measures every kernel of the element type, for row-major factors, and the vendor's library.
    pub fn run<T: Element>(&self) -> Outcome<Round> {
        let stream = self.device.stream()?;
        let shape = (self.size, self.size, self.size);
        let mut operands = Rotation::<T>::of_product(self.device, shape, self.seed)?;

        let vendor = Vendor::load(&stream);
        let plan = match &vendor {
            Ok(vendor) => vendor
                .plan(&stream, &self.product(T::DTYPE), None)
                .map(|plan| (vendor.version(), plan)),
            Err(why) => Err(why.clone()),
        };
        let (plan, without_vendor) = match plan {
            Ok(plan) => (Some(plan), None),
            Err(why) => (None, Some(why)),
        };

        let mut contenders: Vec<Contender<'_>> =
            self.kernels.iter().copied().map(Contender::Kernel).collect();
        let (plan, without_vendor) = match plan {
            Some((version, plan)) => match self.fastest_algorithm(&stream, &plan, &mut operands)? {
                Some(algorithm) => (Some((version, plan, algorithm)), None),
                None => (None, Some("none of cuBLASLt's algorithms works here".to_owned())),
            },
            None => (None, without_vendor),
        };
        if let Some((_, plan, algorithm)) = &plan {
            contenders.push(Contender::Vendor { plan, algorithm: *algorithm });
        }

        let errors = self.verify(&stream, &contenders, &mut operands)?;
        let samples = alternate::<Box<dyn std::error::Error>>(
            &stream,
            &vec![1; contenders.len()],
            Sampling::rounds(self.rounds),
            |contender| contenders[contender].enqueue(&stream, operands.next_set()?),
        )?;

        let entries =
            contenders.iter().zip(samples).zip(errors).map(|((contender, samples), error)| {
                let name = match contender {
                    Contender::Kernel(kernel) => kernel.name.to_owned(),
                    Contender::Vendor { .. } => VENDOR.to_owned(),
                };
                entry(name, self.size, &samples, error)
            });
        Ok(Round {
            size: self.size,
            shape: None,
            entries: entries.collect(),
            vendor: plan.as_ref().map(|(version, plan, _)| {
                format!("cuBLASLt {version}, best of {} algorithms", plan.algorithms())
            }),
            without_vendor,
        })
    }

    fn product(&self, dtype: Dtype) -> Product {
        let size = self.size;
        Product::of(Types::all(dtype), (size, size, size))
    }

    /// Of the vendor's algorithms that work; `None` if none does.
    fn fastest_algorithm<T: Element>(
        &self,
        stream: &Stream,
        plan: &Plan<'_>,
        operands: &mut Rotation<T>,
    ) -> Outcome<Option<usize>> {
        let mut working = Vec::new();
        for algorithm in 0..plan.algorithms() {
            let contender = Contender::Vendor { plan, algorithm };
            if contender.enqueue(stream, operands.next_set()?).is_ok() {
                working.push(algorithm);
            }
        }
        stream.synchronize()?;
        let samples: Vec<Samples> = alternate::<Box<dyn std::error::Error>>(
            stream,
            &vec![1; working.len()],
            Sampling::rounds(ROUNDS_TO_CHOOSE),
            |index| {
                let contender = Contender::Vendor { plan, algorithm: working[index] };
                contender.enqueue(stream, operands.next_set()?)
            },
        )?;
        let fastest = samples.iter().enumerate().min_by_key(|(_, samples)| samples.median());
        Ok(fastest.map(|(index, _)| working[index]))
    }

    /// The relative error in norm of every contender, on the same operands. D is poisoned before each.
    fn verify<T: Element>(
        &self,
        stream: &Stream,
        contenders: &[Contender<'_>],
        operands: &mut Rotation<T>,
    ) -> Outcome<Vec<f64>> {
        let set = operands.first_set()?;
        let (a, b) = (set.a.to_array()?, set.b.to_array()?);
        let expectation = Expectation::new(Problem::product(a.view(), b.view()), self.seed)?;
        let nan = T::narrow(regemm::Accumulator::constant(f64::NAN));
        let poison = Array2::from_elem((self.size, self.size), nan);
        contenders
            .iter()
            .map(|contender| {
                operands.first_set()?.d.copy_from(&poison.view())?;
                contender.enqueue(stream, operands.first_set()?)?;
                stream.synchronize()?;
                let result = operands.first_set()?.d.view().to_array()?;
                let verification = expectation.check(&result.view())?;
                // The vendor's library is not ours to judge: its error is reported whatever it is.
                if let (Contender::Kernel(kernel), false) = (contender, verification.pass()) {
                    return Err(format!("{} is wrong: {verification:?}", kernel.name).into());
                }
                Ok(verification.comparison.relative_norm_error)
            })
            .collect()
    }
}

fn entry(name: String, size: usize, samples: &Samples, relative_error: f64) -> Entry {
    let seconds = samples.median().as_secs_f64();
    Entry {
        name,
        milliseconds: seconds * 1e3,
        tflops: 2.0 * (size as f64).powi(3) / seconds / 1e12,
        spread: samples.spread(),
        samples: samples.count(),
        relative_error,
    }
}
