//! All contenders on one size.

use crate::vendor::{Plan, Vendor};
use regemm::measure::{OperandSet, Rotation, Samples, alternate};
use regemm::verify::{Expectation, Problem};
use regemm::{Device, Element, Gemm, KernelChoice, KernelInfo, Stream};
use regemm_report::ladder::{Entry, Round, VENDOR};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// One size, and how it is measured.
pub struct Contest<'a> {
    pub device: &'a Device,
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
    fn enqueue<T: Element>(&self, stream: &Stream, set: &mut OperandSet<T>) -> Outcome<()> {
        match self {
            Contender::Kernel(kernel) => {
                let gemm = Gemm::new(&set.a, &set.b).kernel(KernelChoice::Info(kernel));
                gemm.enqueue(stream, &mut set.d)?;
            }
            Contender::Vendor { plan, algorithm } => {
                // SAFETY: packed matrices of the plan's shape, which outlive the measurement.
                unsafe { plan.enqueue(*algorithm, stream, &set.a, &set.b, &mut set.d)? };
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
        let mut operands = Rotation::<T>::new(self.device, shape, self.seed)?;

        let vendor = Vendor::load(&stream);
        let plan = match &vendor {
            Ok(vendor) => vendor.plan::<T>(&stream, shape).map(|plan| (vendor.version(), plan)),
            Err(why) => Err(why.clone()),
        };
        let (plan, without_vendor) = match plan {
            Ok(plan) => (Some(plan), None),
            Err(why) => (None, Some(why)),
        };

        let kernels = regemm::kernels::kernels_for(T::DTYPE, regemm::Layouts::NN);
        let mut contenders: Vec<Contender<'_>> = kernels.map(Contender::Kernel).collect();
        if let Some((_, plan)) = &plan {
            let algorithm = self.fastest_algorithm(&stream, plan, &mut operands)?;
            contenders.push(Contender::Vendor { plan, algorithm });
        }

        let errors = self.verify(&stream, &contenders, operands.set(0))?;
        let samples = alternate::<Box<dyn std::error::Error>>(
            &stream,
            contenders.len(),
            self.rounds,
            |contender, round| contenders[contender].enqueue(&stream, operands.set(round)),
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
            vendor: plan.as_ref().map(|(version, plan)| {
                format!("cuBLASLt {version}, best of {} algorithms", plan.algorithms())
            }),
            without_vendor,
        })
    }

    fn fastest_algorithm<T: Element>(
        &self,
        stream: &Stream,
        plan: &Plan<'_>,
        operands: &mut Rotation<T>,
    ) -> Outcome<usize> {
        let samples: Vec<Samples> = alternate::<Box<dyn std::error::Error>>(
            stream,
            plan.algorithms(),
            ROUNDS_TO_CHOOSE,
            |algorithm, round| {
                Contender::Vendor { plan, algorithm }.enqueue(stream, operands.set(round))
            },
        )?;
        let fastest = samples.iter().enumerate().min_by_key(|(_, samples)| samples.median());
        Ok(fastest.map_or(0, |(algorithm, _)| algorithm))
    }

    /// The relative error in norm of every contender, on the same operands. D is poisoned before each.
    fn verify<T: Element>(
        &self,
        stream: &Stream,
        contenders: &[Contender<'_>],
        set: &mut OperandSet<T>,
    ) -> Outcome<Vec<f64>> {
        let (a, b) = (set.a.to_array()?, set.b.to_array()?);
        let expectation = Expectation::new(Problem::product(a.view(), b.view()), self.seed)?;
        let poison =
            vec![T::narrow(regemm::Accumulator::constant(f64::NAN)); self.size * self.size];
        contenders
            .iter()
            .map(|contender| {
                set.d.write_raw(&poison)?;
                contender.enqueue(stream, set)?;
                stream.synchronize()?;
                let verification = expectation.check(&set.d.to_array()?.view())?;
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
