//! Tests of the public models, one module per subject, in one binary that is linked once.

mod analysis_arguments;
mod analysis_models;
mod analysis_tables;
