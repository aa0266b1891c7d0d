//! Records of measurements as tables, pictures and one HTML page.
//!
//! A record is plain data with a JSON form; what draws or prints it reads nothing else, so that a picture can be made
//! again from a file.
//!
//! | module | what it holds |
//! |---|---|
//! | [`provenance`] | where, when and with what something was measured |
//! | [`ladder`] | the kernels beside the vendor's library |
//! | [`versus`] | the library as its user gets it beside the vendor's |
//! | [`accuracy`] | errors by precision, data and depth |
//! | [`sweep`] | one kernel in many configurations |
//! | [`table`] | tables of text cells, for whoever prints them |
//! | [`roofline`] | what a device lets kernels attain |
//! | [`pictures`] | records as SVG and PNG |
//! | [`settings`] | what a benchmark was told |
//! | [`document`] | JSON documents, told apart by what they hold |
//! | [`section`] | what a report shows of each |
//! | [`html`] | a report as one page |

pub mod accuracy;
mod columns;
pub mod document;
mod float;
pub mod html;
pub mod ladder;
pub mod pictures;
pub mod provenance;
pub mod roofline;
pub mod section;
pub mod settings;
pub mod sweep;
pub mod table;
mod times;
pub mod versus;
