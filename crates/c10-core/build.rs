//! Nothing to build: `links = "c10-core"` needs a build script, and keeps two copies of the process-wide
//! registries out of one program.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
