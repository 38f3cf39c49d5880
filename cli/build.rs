//! Passes the order of functions to the linker, if `ZOOLET_FUNCTION_ORDER` is 1. `packaging/build` sets that.

use std::env;

const VARIABLE: &str = "ZOOLET_FUNCTION_ORDER";
const SCRIPT: &str = "order.ld";
/// The list has the names that the compiler gives to functions for this target.
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    println!("cargo:rerun-if-changed={SCRIPT}");
    let is_wanted = env::var(VARIABLE).is_ok_and(|value| value == "1");
    if is_wanted && env::var("TARGET").is_ok_and(|target| target == TARGET) {
        let directory = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts");
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{directory}/{SCRIPT}");
    }
}
