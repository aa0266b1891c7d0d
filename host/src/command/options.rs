//! Option values that several subcommands take.

use super::eprintln_quietly;
use super::exit::Failure;
use super::numbers::{self, LARGEST};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use regemm::kernels::{self, Types};
use regemm::{Activation, Device, DeviceSpec, Dtype, Error, KernelInfo, Layouts, Precision};
use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

/// `--device`
#[derive(clap::Args)]
pub struct DeviceOption {
    /// Where to compute: `auto` (the first GPU, else the simulator), `cuda` (the first GPU), `cuda:N` or `sim`
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceSpec,
}

/// Multiply-adds that take the simulator some seconds.
const LONG_ON_SIMULATOR: f64 = 1e8;

impl DeviceOption {
    /// Says why the simulator computes and not a GPU, where nobody asked for it and it takes a while.
    pub fn announce_simulator(&self, device: &Device, multiply_adds: f64) {
        if self.device == DeviceSpec::Auto && device.is_sim() && multiply_adds >= LONG_ON_SIMULATOR
        {
            eprintln_quietly(format_args!(
                "regemm: {}; the simulator computes instead, which is slow: {:.0} million multiply-adds",
                why_no_gpu(),
                multiply_adds / 1e6
            ));
        }
    }
}

/// Says that counting takes a while, where it does: that is the simulator's work on every machine.
pub fn announce_counting(multiply_adds: f64) {
    if multiply_adds >= LONG_ON_SIMULATOR {
        eprintln_quietly(format_args!(
            "regemm: the simulator counts, which is slow: {:.0} million multiply-adds; --formulas does without",
            multiply_adds / 1e6
        ));
    }
}

/// Each value once, in the order in which they are named first.
pub fn distinct<T: PartialEq>(named: impl IntoIterator<Item = T>) -> Vec<T> {
    distinct_by(named, T::eq)
}

fn distinct_by<T>(named: impl IntoIterator<Item = T>, same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in named {
        if !distinct.iter().any(|known| same(known, &value)) {
            distinct.push(value);
        }
    }
    distinct
}

/// Each kernel once, in the order in which they are named first: one may have several names.
pub fn distinct_kernels(
    named: impl IntoIterator<Item = &'static KernelInfo>,
) -> Vec<&'static KernelInfo> {
    distinct_by(named, |one, other| one.name == other.name)
}

/// Why `auto` takes the simulator.
pub fn why_no_gpu() -> String {
    match Device::cuda_devices() {
        Err(Error::NoDriver { why }) => format!("no NVIDIA driver: {why}"),
        _ => "the driver finds no GPU".to_owned(),
    }
}

/// Rows, columns and depth of a product, none of them zero or more than a kernel takes. Reads `N` for square matrices,
/// or `MxNxK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

impl Size {
    /// The product of two `n` x `n` matrices.
    pub fn square(n: u32) -> Self {
        Size { m: n, n, k: n }
    }

    /// Rows, columns and depth of arrays on the host.
    pub fn on_host(self) -> (usize, usize, usize) {
        (self.m as usize, self.n as usize, self.k as usize)
    }

    /// Floating-point operations of the product, a multiply-add being two.
    pub fn operations(self) -> f64 {
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let extent = |number| u32::try_from(numbers::extent(number).ok()?.get()).ok();
        let numbers: Option<Vec<u32>> = text.split('x').map(extent).collect();
        match numbers.as_deref() {
            Some(&[n]) => Ok(Size::square(n)),
            Some(&[m, n, k]) => Ok(Size { m, n, k }),
            _ => Err(format!(
                "a size is N or MxNxK with numbers from 1 to {LARGEST}, such as 512 or 100x200x300"
            )),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.m, self.n, self.k)
    }
}

/// Reads a precision by name.
pub fn precision() -> impl TypedValueParser<Value = Precision> {
    PossibleValuesParser::new(Precision::ALL.map(Precision::name))
        .map(|name| by_name(&Precision::ALL, Precision::name, &name))
}

/// Reads by name a precision that products of f32 can be computed in.
pub fn precision_of_f32() -> impl TypedValueParser<Value = Precision> {
    let of_f32 = |precision: &Precision| precision.is_for(Dtype::F32.into());
    PossibleValuesParser::new(Precision::ALL.into_iter().filter(of_f32).map(Precision::name))
        .map(|name| by_name(&Precision::ALL, Precision::name, &name))
}

/// Reads by name a precision whose kernels are known by name: all but `auto`, which takes those of two others.
pub fn precision_with_kernels() -> impl TypedValueParser<Value = Precision> {
    let named = Precision::ALL.into_iter().filter(|precision| *precision != Precision::Auto);
    PossibleValuesParser::new(named.map(Precision::name))
        .map(|name| by_name(&Precision::ALL, Precision::name, &name))
}

/// Reads an activation by name.
pub fn activation() -> impl TypedValueParser<Value = Activation> {
    let names = Activation::ALL.map(Activation::name);
    PossibleValuesParser::new(names).map(|name| by_name(&Activation::ALL, Activation::name, &name))
}

/// Reads the element types of a product by name.
pub fn types() -> impl TypedValueParser<Value = Types> {
    let names = Types::ALL.map(Types::name);
    PossibleValuesParser::new(names).map(|name| by_name(&Types::ALL, Types::name, &name))
}

/// Reads the element types of the one kind of product that a run is about.
pub fn types_of_run() -> impl TypedValueParser<Value = Types> {
    One(types())
}

/// Reads the layouts that a run is about.
pub fn layouts_of_run() -> impl TypedValueParser<Value = Layouts> {
    One(layouts())
}

/// Reads one value, and says so to whoever gives a list, which other subcommands take.
#[derive(Clone)]
struct One<P>(P);

impl<P: TypedValueParser> TypedValueParser for One<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        let text = value.to_string_lossy();
        if !text.contains(',') {
            return self.0.parse_ref(command, option, value);
        }
        let option = option.map(ToString::to_string).unwrap_or_default();
        let why = format!("invalid value '{text}' for '{option}': it takes one, not a list\n");
        Err(clap::Error::raw(ErrorKind::ValueValidation, why).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

/// Reads layouts by name.
pub fn layouts() -> impl TypedValueParser<Value = Layouts> {
    let names = Layouts::ALL.map(Layouts::name);
    PossibleValuesParser::new(names).map(|name| by_name(&Layouts::ALL, Layouts::name, &name))
}

/// Whether a name is that of a rung, which in a list of kernels stands for all of its kernels. A kernel that is called
/// as its rung is named with its element types there (`stream_k_f32`).
pub fn is_rung(name: &str) -> bool {
    kernels::kernels().iter().any(|kernel| kernel.rung.name() == name)
}

/// Whether a list names a kernel itself, and not just its rung.
pub fn is_named(kernel: &KernelInfo, names: &[String]) -> bool {
    let own = [kernel.name, kernels::base_name(kernel), kernels::family_name(kernel)];
    names.iter().any(|name| !is_rung(name) && own.contains(&name.as_str()))
}

/// The kernels of a rung of these element types for factors in these layouts; none where the name is another one.
fn of_rung(name: &str, types: Types, layouts: Layouts) -> Vec<&'static KernelInfo> {
    kernels::kernels_for(types, layouts).filter(|kernel| kernel.rung.name() == name).collect()
}

/// The kernels that a name stands for: all of a rung, or one.
fn named(name: &str, types: Types, layouts: Layouts) -> Result<Vec<&'static KernelInfo>, Error> {
    let kernels = of_rung(name, types, layouts);
    if !kernels.is_empty() {
        return Ok(kernels);
    }
    kernels::find_in(name, types, layouts).map(|kernel| vec![kernel]).map_err(|error| match error {
        Error::UnknownKernel { .. } if is_rung(name) => {
            let has_some = |of: &Types| !of_rung(name, *of, layouts).is_empty();
            let found = Types::ALL.into_iter().filter(has_some).collect();
            Error::KernelWithoutDtype { name: name.to_owned(), expected: types, found }
        }
        other => other,
    })
}

/// The kernels of these element types with these names, in this order; where no names are given all of them for
/// row-major factors.
pub fn kernels(
    types: impl Into<Types>,
    names: &[String],
) -> Result<Vec<&'static KernelInfo>, Error> {
    let types = types.into();
    if names.is_empty() {
        return kernels_in(Layouts::NN, types, names);
    }
    let named: Result<Vec<_>, _> =
        names.iter().map(|name| named(name, types, Layouts::NN)).collect();
    named.map(|named| distinct_kernels(named.into_iter().flatten()))
}

/// The kernels of these element types for factors in these layouts, and with these names if some are given; names
/// without layouts mean these.
pub fn kernels_in(
    layouts: Layouts,
    types: impl Into<Types>,
    names: &[String],
) -> Result<Vec<&'static KernelInfo>, Error> {
    let types = types.into();
    if names.is_empty() {
        return Ok(kernels::kernels_for(types, layouts).collect());
    }
    let named = |name: &String| {
        let kernels = named(name, types, layouts)?;
        kernels.iter().try_for_each(|kernel| kernels::check_layouts(kernel, layouts))?;
        Ok(kernels)
    };
    let named: Result<Vec<_>, _> = names.iter().map(named).collect();
    named.map(|named| distinct_kernels(named.into_iter().flatten()))
}

/// The failure of a command that shows kernels of precision exact alone, and takes no other.
pub fn of_exact(error: Error, subcommand: &str) -> Failure {
    match error {
        Error::KernelOfPrecision { kernel, precision } => Failure::Usage(format!(
            "kernel {kernel} computes in precision {precision}, which `regemm {subcommand}` does not show: \
             `regemm accuracy --precisions {precision}` and `regemm mul --precision {precision}` do"
        )),
        other => other.into(),
    }
}

/// The value of this name. The parser lets no other through, so the first stands for what cannot happen.
fn by_name<T: Copy>(all: &[T], name_of: fn(T) -> &'static str, name: &str) -> T {
    all.iter().copied().find(|&value| name_of(value) == name).unwrap_or(all[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found() {
        for activation in Activation::ALL {
            assert_eq!(by_name(&Activation::ALL, Activation::name, activation.name()), activation);
        }
        for dtype in Dtype::ALL {
            assert_eq!(by_name(&Dtype::ALL, Dtype::name, dtype.name()), dtype);
        }
        for types in Types::ALL {
            assert_eq!(by_name(&Types::ALL, Types::name, types.name()), types);
        }
    }

    #[test]
    fn sizes_are_read_in_both_forms() {
        assert_eq!("512".parse(), Ok(Size::square(512)));
        assert_eq!("1x20x300".parse(), Ok(Size { m: 1, n: 20, k: 300 }));
        for wrong in
            ["", "0", "1x2", "1x2x3x4", "1x0x3", "-1", "axb", "2147483648", "1x1x3000000000"]
        {
            assert!(
                wrong.parse::<Size>().is_err_and(|why| why.contains("from 1 to 2147483647")),
                "{wrong}"
            );
        }
        assert_eq!("2147483647".parse(), Ok(Size::square(i32::MAX as u32)));
    }
}
