//! The tests of the models from outside, one module a subject, in one binary: it is linked once.

mod analysis_arguments;
mod analysis_models;
mod analysis_tables;
