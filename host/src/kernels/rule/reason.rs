//! The parts of the rule in words.

use std::fmt;

/// The part of the rule that put a kernel in its place: see [`rank`](super::rank).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// There is little to reuse, so shared memory does not pay.
    LittleToReuse,
    /// It has enough tiles for the device.
    FillsDevice,
    /// The same on a device without asynchronous copies, where the rungs that live on them come last.
    FillsDeviceWithoutAsyncCopies,
    /// It takes tensor cores, with which few multiprocessors are faster than all are without.
    FasterOnTensorCores,
    /// It has no tiles: nothing that was loaded is used again.
    NoReuse,
    /// D has few tiles, so the kernel with the smallest is best.
    FewTiles,
    /// D has too few tiles for the device, or too few rows or columns for tiles, so that several blocks share one.
    SharesTiles,
    /// Its blocks would share no tile.
    NothingToShare,
    /// It needs asynchronous copies, which the device does not have.
    NoAsyncCopies,
    /// It needs tensor cores for f64, and the device's are no faster than what else it has.
    SlowTensorCores,
    /// Factors would have to be repacked for it, which takes longer than it gains.
    RepackCosts,
    /// Its producers take longer to start than the product takes.
    StartsSlowly,
    /// Its tiles are of a shape for other products, or for which only measurements can tell.
    OtherShapes,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Rule::LittleToReuse => "D is tiny or the product shallow, so there is little to reuse",
            Rule::FillsDevice => "the highest rung whose tiles keep the device busy",
            Rule::FillsDeviceWithoutAsyncCopies => {
                "the highest rung without cp.async that keeps the device busy"
            }
            Rule::FasterOnTensorCores => {
                "the highest rung: a few tiles on tensor cores are faster than many without"
            }
            Rule::NoReuse => "no kernel that can run here has tiles for this D",
            Rule::FewTiles => "D has few tiles: the smallest leave the fewest multiprocessors idle",
            Rule::SharesTiles => {
                "D is small or narrow and K deep, so that several blocks share a tile"
            }
            Rule::NothingToShare => "its blocks would share no tile",
            Rule::NoAsyncCopies => "this device has no asynchronous copies",
            Rule::SlowTensorCores => "this device has no fast tensor cores for f64",
            Rule::RepackCosts => "factors would be repacked for longer than it gains",
            Rule::StartsSlowly => "it takes longer to start than the product would",
            Rule::OtherShapes => {
                "its tiles are for other products, or for those where it was measured"
            }
        })
    }
}

impl Rule {
    /// The same of a kernel that was not chosen: what made the chosen one the best is not true of it.
    pub fn of_another(self) -> impl fmt::Display {
        struct OfAnother(Rule);

        impl fmt::Display for OfAnother {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    Rule::FillsDevice | Rule::FillsDeviceWithoutAsyncCopies => {
                        f.pad("its tiles keep the device busy")
                    }
                    Rule::NoReuse => f.pad("it loads both factors anew for every multiply-add"),
                    Rule::FasterOnTensorCores => f.pad("a few tiles on tensor cores are fast"),
                    Rule::FewTiles => f.pad("it has too few tiles for the device"),
                    Rule::SharesTiles => f.pad("several of its blocks share a tile"),
                    rule => rule.fmt(f),
                }
            }
        }

        OfAnother(self)
    }
}
