//! Cases for the structure of a plan.
