//! Matrix products on raw strided memory: what operators of tensors stand on.
//!
//! From the outside in: [`matrices`] says where the elements are, [`gemm`](mod@gemm) cuts a product into tiles
//! and shares them among threads, and a microkernel computes each tile in registers.

pub(crate) mod accumulate;
pub(crate) mod gemm;
pub(crate) mod matrices;
pub(crate) mod microkernel;
pub(crate) mod product;
pub(crate) mod pack;
pub(crate) mod simd;
