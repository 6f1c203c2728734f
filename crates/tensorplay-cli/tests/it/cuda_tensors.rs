//! Tensors of CUDA devices, on the simulated one: made, filled, copied and viewed by the hooks alone.

use aten::{ErrorKind, Tensor};
use c10_core::{Device, ScalarType};

use crate::cuda::cuda;

#[test]
fn cuda_tensors_are_made_filled_copied_and_viewed() {
    let cuda = cuda();
    let allocator = &cuda.allocator;
    let ones = Tensor::ones(&[2, 3], (ScalarType::Float32, Device::cuda(0))).unwrap();
    assert_eq!((ones.device(), ones.dtype()), (Device::cuda(0), ScalarType::Float32));
    assert_eq!(allocator.memory_allocated(0).unwrap(), 512);
    assert_eq!(ones.to_vec::<f32>().unwrap(), [1.0; 6]);

    // A view is filled, and the base has it.
    let column = ones.select(1, 1).unwrap();
    column.fill_scalar_(7.5).unwrap();
    assert_eq!(ones.to_vec::<f32>().unwrap(), [1.0, 7.5, 1.0, 1.0, 7.5, 1.0]);
    assert_eq!(column.item().unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(column.select(0, 1).unwrap().item().unwrap(), 7.5);

    // There and back, with other strides and another dtype.
    let host = Tensor::from_slice(&[1_i32, 2, 3, 4, 5, 6], &[3, 2]).unwrap();
    let there = host.t().unwrap().to(Device::cuda(0)).unwrap();
    ones.copy_(&there).unwrap();
    let back = ones.to(Device::CPU).unwrap();
    assert_eq!(back.to_vec::<f32>().unwrap(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);

    // Operators on them are none of this crate's.
    let refused = ones.sub(&ones).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotImplemented);
    assert!(refused.to_string().contains("aten::sub.Tensor"), "{refused}");
    assert_eq!(ones.sub(&back).unwrap_err().kind(), ErrorKind::NotImplemented);

    drop((ones, column, there));
    cuda.finish();
}
