//! Is a product right? Reference values with an error bound for every element, and the comparison against them.
//!
//! | file | what it gives |
//! |---|---|
//! | `bound` | how far a correct result may be from the exact one: the only place that knows |
//! | `problem` | what is computed, with its operands in host memory |
//! | `reference` | the exact result in double precision, with the bound of each element |
//! | `sums` | products of matrices for the reference |
//! | `host_product` | and for who compares with the processor |
//! | `element_rule` | one element's way through the device's computation |
//! | `compare` | the one comparison that every check uses |
//! | `freivalds` | a randomised check of products that are too large for a reference |
//! | `check` | chooses between the two by the size of the product |
//! | `accuracy` | by how much a product is off, in two numbers |
//! | `inputs` | seeded random matrices |
//! | `room` | whether the host has room for operands and reference |
//! | `case` | one product, or batch of them, with everything that can vary about it |
//! | `uploaded` | a case on a device, and its run |
//! | `canary` | patterns around and inside outputs that show stray and missing writes |
//!
//! "Right" is not a hand-picked tolerance: the bound follows from the number of roundings that the device performs, so
//! a result computed in less precision than promised fails.

mod accuracy;
mod bound;
mod canary;
mod case;
mod check;
mod compare;
mod element_rule;
mod freivalds;
mod host_product;
mod inputs;
mod problem;
mod reference;
mod room;
mod sums;
mod uploaded;

pub use accuracy::{Errors, ExactProduct};
pub use bound::{Format, gamma};
pub use canary::{Canaries, CanaryFault};
pub use case::{Addend, BatchCase, Case, Elements, Operands};
pub use check::{Expectation, Method, Verification, check_batch};
pub(crate) use compare::relative_difference;
pub use compare::{Comparison, Mismatch, compare};
pub use freivalds::{Freivalds, FreivaldsResult, VECTORS};
pub use host_product::{host_cores, host_product};
pub use inputs::{Distribution, exact_integer_limit, random_matrix, random_vector, rng};
pub use problem::{Problem, ShapeError};
pub use reference::{Reference, exact_reference, reference};
pub use room::{check_room, check_room_to_verify};
pub use uploaded::{Outcome, Uploaded};
