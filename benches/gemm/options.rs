//! The command line, and what does not fit together in it.

use crate::common::{Recording, parse_dtype};
use clap::{Args, Parser};
use regemm::kernels::{self, Types};
use regemm::{Dtype, KernelInfo, Layouts, Precision};
use regemm_report::versus::Group;
use std::path::PathBuf;

/// Measures the library beside cuBLASLt and cuBLAS on a GPU
#[derive(Parser)]
pub struct Arguments {
    #[command(flatten)]
    pub what: Measuring,

    /// Given to the processes that this one starts: see first.rs
    #[arg(long, hide = true)]
    pub first_result: Option<u64>,

    /// Print what these records come to, side by side, instead of measuring
    #[arg(
        long,
        value_delimiter = ',',
        conflicts_with_all = ["from", "record", "commit", "seed"]
    )]
    pub summary: Vec<PathBuf>,

    #[command(flatten)]
    pub recording: Recording,
}

/// What is measured: nothing that a record which is there already could be asked for.
#[derive(Args)]
#[group(multiple = true, conflicts_with_all = ["from", "summary"])]
pub struct Measuring {
    /// Groups of cases: squares, between, odd, rectangles, layers, tokens, layouts, batched, addend, epilogue
    #[arg(long, value_delimiter = ',', default_values_t = Group::ALL, value_parser = parse_group)]
    pub cases: Vec<Group>,

    /// Sizes of the squares, the layouts, those with an addend and the epilogue, instead of the usual ones
    #[arg(long, value_delimiter = ',', value_parser = parse_size)]
    pub sizes: Vec<usize>,

    /// Rows, columns and depth of the rectangles, the layers and those of tokens, such as 16x4096x14336, instead of the
    /// usual ones
    #[arg(long, value_delimiter = ',', value_parser = parse_shape)]
    pub shapes: Vec<[usize; 3]>,

    /// Element type: f32, f64, f16 or bf16
    #[arg(long, default_value = "f32", value_parser = parse_dtype)]
    pub dtype: Dtype,

    /// Element type of the results, f32, where factors are of f16 or bf16; that of the factors unless given
    #[arg(long, value_parser = parse_dtype)]
    pub results: Option<Dtype>,

    /// What f32 is computed in: exact, split, tf32, fast or auto; with --results f32 exact or promoted
    #[arg(long, default_value = "exact", value_parser = parse_precision)]
    pub precision: Precision,

    /// Kernels to measure beside the automatic choice, where that has an epilogue with one and without;
    /// with --precision split also those for halves
    #[arg(long = "kernel", value_delimiter = ',')]
    pub kernels: Vec<String>,

    /// Samples of each contender; by the time that they take unless given
    #[arg(long)]
    pub rounds: Option<usize>,

    /// Leave out what a call costs the host and the way to a first result
    #[arg(long)]
    pub skip_host: bool,

    /// Leave out what large squares do in short bursts
    #[arg(long)]
    pub skip_bursts: bool,

    /// Leave out what large squares, and those with an epilogue, do in long turns
    #[arg(long)]
    pub skip_turns: bool,
}

/// The groups whose sizes, and those whose shapes, can be given.
const OF_SIZES: [Group; 4] = [Group::Squares, Group::Layouts, Group::Addend, Group::Epilogue];
const OF_SHAPES: [Group; 3] = [Group::Rectangles, Group::Layers, Group::Tokens];

impl Measuring {
    /// The element types of the products.
    pub fn types(&self) -> Types {
        Types { factors: self.dtype, results: self.results.unwrap_or(self.dtype) }
    }

    /// What is multiplied, and how.
    pub fn described(&self) -> String {
        let Measuring { dtype, precision, .. } = self;
        let results = self.results.filter(|results| results != dtype);
        let results = results.map(|results| format!("results {results}"));
        let precision = Some(precision).filter(|precision| **precision != Precision::Exact);
        let precision = precision.map(|precision| format!("precision {precision}"));
        let details: Vec<String> = results.into_iter().chain(precision).collect();
        match &details[..] {
            [] => dtype.to_string(),
            details => format!("{dtype} ({})", details.join(", ")),
        }
    }

    /// Whether all that is asked for can be measured on some GPU. That it cannot is better known before than after all
    /// the measuring of the rest.
    ///
    /// # Errors
    /// What does not fit together, in words.
    pub fn check(&self) -> Result<(), String> {
        let (types, precision) = (self.types(), self.precision);
        if !precision.is_for(types) {
            let what = self.described();
            return Err(format!("there are no products of {what}: see --precision in --help"));
        }
        for (option, is_given, groups) in [
            ("--sizes", !self.sizes.is_empty(), &OF_SIZES[..]),
            ("--shapes", !self.shapes.is_empty(), &OF_SHAPES[..]),
        ] {
            if is_given && !self.cases.iter().any(|group| groups.contains(group)) {
                let names: Vec<&str> = groups.iter().map(|group| group.name()).collect();
                let names = names.join(", ");
                return Err(format!("{option} is for {names}, of which --cases names none"));
            }
        }
        self.kernels.iter().try_for_each(|name| check_kernel(name, types, precision))
    }
}

/// Whether there is a kernel of this name that computes products of these types, exactly or in this precision.
fn check_kernel(name: &str, types: Types, precision: Precision) -> Result<(), String> {
    let in_some = |layouts| kernels::find_in(name, types, layouts).is_ok();
    let layouts = [Layouts::NN, Layouts::NT, Layouts::TN, Layouts::TT];
    let is_it = |kernel: &KernelInfo| {
        let short = [kernels::base_name(kernel), kernels::family_name(kernel)];
        kernel.name == name || short.contains(&name)
    };
    let of_precision = || kernels::kernels_of(precision).iter().any(is_it);
    let is_own = !matches!(precision, Precision::Exact | Precision::Promoted);
    if layouts.into_iter().any(in_some) || is_own && of_precision() {
        return Ok(());
    }
    let Err(why) = kernels::find_in(name, types, Layouts::NN) else { return Ok(()) };
    Err(why.to_string())
}

fn parse_group(name: &str) -> Result<Group, String> {
    let known = Group::ALL.into_iter().find(|group| group.name() == name);
    known.ok_or_else(|| format!("expected one of {}", Group::ALL.map(Group::name).join(", ")))
}

fn parse_size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| *size > 0);
    size.ok_or_else(|| "expected a number of at least 1".to_owned())
}

fn parse_shape(text: &str) -> Result<[usize; 3], String> {
    let sides: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
    let sides = sides.ok().and_then(|sides| <[usize; 3]>::try_from(sides).ok());
    sides.filter(|sides| !sides.contains(&0)).ok_or_else(|| "expected MxNxK".to_owned())
}

fn parse_precision(name: &str) -> Result<Precision, String> {
    let known = Precision::ALL.into_iter().find(|precision| precision.name() == name);
    known.ok_or_else(|| {
        format!("expected one of {}", Precision::ALL.map(Precision::name).join(", "))
    })
}
