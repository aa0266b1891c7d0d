//! All contenders on one size.

use crate::common::{Failure, Outcome, tell};
use crate::library::{Addresses, Product, Types};
use crate::lt::{Plan, Vendor};
use crate::sampling::{fastest_algorithm, pilot};
use regemm::measure::{OperandSet, Rotation, Samples, Sampling, alternate};
use regemm::ndarray::Array2;
use regemm::verify::{Expectation, Problem};
use regemm::{Device, Dtype, Element, Gemm, KernelChoice, KernelInfo, Stream};
use regemm_report::ladder::{Entry, Round, VENDOR};

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
    fn name(&self) -> &'static str {
        match self {
            Contender::Kernel(kernel) => kernel.name,
            Contender::Vendor { .. } => VENDOR,
        }
    }

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

/// What there is to measure: contenders and their relative errors in norm.
type Admitted<'v> = Vec<(Contender<'v>, f64)>;

impl Contest<'_> {
    /// Verifies and measures every kernel of the element type, for row-major factors, and the vendor's library. Kernels
    /// that fail or have wrong results have no times; they are given by name, with what is wrong.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn run<T: Element>(&self) -> Outcome<(Round, Vec<String>)> {
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

        let (admitted, faults) = self.admit(&stream, contenders, &mut operands)?;
        let samples = self.measure(&stream, &admitted, &mut operands)?;
        let entries = admitted.iter().zip(samples).map(|((contender, error), samples)| {
            entry(contender.name().to_owned(), self.size, &samples, *error)
        });
        let round = Round {
            size: self.size,
            shape: None,
            entries: entries.collect(),
            vendor: plan.as_ref().map(|(version, plan, _)| {
                format!("cuBLASLt {version}, best of {} algorithms", plan.algorithms())
            }),
            without_vendor,
        };
        Ok((round, faults))
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
        fastest_algorithm(stream, plan.algorithms(), |algorithm| {
            let contender = Contender::Vendor { plan, algorithm };
            contender.enqueue(stream, operands.next_set()?)
        })
    }

    /// The contenders that may be measured, with their errors on the same operands, and what is wrong with other
    /// kernels. D is poisoned before each.
    fn admit<'v, T: Element>(
        &self,
        stream: &Stream,
        contenders: Vec<Contender<'v>>,
        operands: &mut Rotation<T>,
    ) -> Outcome<(Admitted<'v>, Vec<String>)> {
        let set = operands.first_set()?;
        let (a, b) = (set.a.to_array()?, set.b.to_array()?);
        let expectation = Expectation::new(Problem::product(a.view(), b.view()), self.seed)?;
        let nan = T::narrow(regemm::Accumulator::constant(f64::NAN));
        let poison = Array2::from_elem((self.size, self.size), nan);
        let (mut admitted, mut faults) = (Vec::new(), Vec::new());
        for contender in contenders {
            let name = contender.name();
            operands.first_set()?.d.copy_from(&poison.view())?;
            let outcome = contender.enqueue(stream, operands.first_set()?);
            // A kernel that fails breaks the device for everyone after it.
            stream.synchronize()?;
            if let Err(why) = outcome {
                let what = format!("{name} is left out at {}: {why}", self.size);
                tell(&what);
                // What the vendor's library cannot do is no failure of ours.
                if let Contender::Kernel(_) = contender {
                    faults.push(what);
                }
                continue;
            }
            let result = operands.first_set()?.d.view().to_array()?;
            let verification = expectation.check(&result.view())?;
            // The vendor's library is not ours to judge: its error is reported whatever it is.
            if let (Contender::Kernel(_), false) = (&contender, verification.pass()) {
                let what = format!("{name} is wrong at {}: {verification:?}", self.size);
                tell(&what);
                faults.push(what);
                continue;
            }
            admitted.push((contender, verification.comparison.relative_norm_error));
        }
        Ok((admitted, faults))
    }

    fn measure<T: Element>(
        &self,
        stream: &Stream,
        admitted: &Admitted<'_>,
        operands: &mut Rotation<T>,
    ) -> Outcome<Vec<Samples>> {
        if admitted.is_empty() {
            return Ok(Vec::new());
        }
        let mut enqueue = |contender: usize| -> Outcome<()> {
            admitted[contender].0.enqueue(stream, operands.next_set()?)
        };
        // By the fastest, and the same for all, whose times are compared.
        let products = pilot(stream, admitted.len(), &mut enqueue)?.products;
        let of_each = vec![products; admitted.len()];
        alternate::<Failure>(stream, &of_each, Sampling::rounds(self.rounds), enqueue)
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
