//! regemm
