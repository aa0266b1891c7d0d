//! Tuning: the choice of a kernel by measured times.
//!
//! [`rank`](crate::kernels::rank) chooses by a rule that was made on one GPU. Here the choice comes from times that
//! were measured on the very GPU, or on another of its architecture: tables that this library brings for known GPUs
//! ([`shipped`]), and a cache in the user's cache folder ([`cache`]) that `regemm tune` fills, or the first use of a
//! shape if that is asked for. Times of shapes that were not measured are predicted from those near them; where nothing
//! is near, the rule decides. Nothing that is wrong with a table or a cache is an error: the log has a warning, and the
//! rule decides.
//!
//! [`Tuning`] says which of this happens; [`Device::set_tuning`](crate::Device::set_tuning) and the environment
//! variable [`TUNING_VARIABLE`] set it.
//!
//! | module | what it holds |
//! |---|---|
//! | `policy` | how kernels are chosen: [`Tuning`] |
//! | `class` | shapes of problems, and classes of shapes that are alike |
//! | `table` | measured times by shape |
//! | `key` | what measured times depend on: GPU, driver, code, element types |
//! | `document` | tables as JSON |
//! | [`cache`] | the file in the user's cache folder |
//! | [`shipped`] | the tables that this library brings |
//! | [`measure`] | measuring all kernels on a shape |
//! | `shapes` | the shapes that are measured unless others are named |
//! | `equations` | small systems of linear equations |
//! | `trend` | a kernel's time as a simple function of the problem, fitted to measured times |
//! | `neighbours` | the measured shapes near a shape |
//! | `kriging` | what is known at those, told of the shape |
//! | `model` | predicted times for shapes that were not measured |
//! | `nearby` | the same of problems of whose matrices only some have aligned rows |
//! | `in_layouts` | what other layouts than row-major change of them |
//! | `memo` | choices that were made before |
//! | `choice` | the choice by predicted times |
//! | [`explain`] | the choice with everything that it was made from |
//! | `tuner` | the tables of one device in memory |

pub mod cache;
mod choice;
mod class;
mod document;
mod equations;
pub mod explain;
mod in_layouts;
mod key;
mod kriging;
pub mod measure;
mod memo;
mod model;
mod nearby;
mod neighbours;
mod policy;
mod shapes;
pub mod shipped;
mod table;
mod trend;
mod tuner;

pub use class::{Shape, ShapeClass};
pub use document::{Damage, encode, merge_shorter};
pub use key::Key;
pub use policy::{InvalidTuning, TUNING_VARIABLE, Tuning};
pub use shapes::default_shapes;
pub use table::{Entry, Source, Table, Time};
pub(crate) use tuner::Tuner;
