//! The fuzz target `manifest` of `pleach::testing::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| pleach::testing::fuzz::run("manifest", input));
