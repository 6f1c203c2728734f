//! One operator, from its method to its elements.

use aten::Tensor;
use aten::dispatch::{Dispatcher, Value};

#[test]
fn functional_in_place_out_and_boxed() {
    let a = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let b = Tensor::from_slice(&[10_i64, 20], &[2]).unwrap();
    assert_eq!(a.add(&b).unwrap().to_vec::<f32>().unwrap(), [11.0, 22.0, 13.0, 24.0]);
    a.add_(&b).unwrap();
    assert_eq!(a.to_vec::<f32>().unwrap(), [11.0, 22.0, 13.0, 24.0]);
    assert_eq!(a.version(), 1);
    let add = Dispatcher::global().find("aten::add.Tensor").unwrap();
    let mut stack = vec![a.into(), b.into(), Value::from(2_i64)];
    add.call_boxed(&mut stack).unwrap();
    let [Value::Tensor(sum)] = &stack[..] else { panic!("one tensor") };
    assert_eq!(sum.to_vec::<f32>().unwrap(), [31.0, 62.0, 33.0, 64.0]);
    let error = sum.add(&Tensor::from_elements(&[1.0, 2.0, 3.0]).unwrap()).unwrap_err();
    assert_eq!(error.operator(), Some("aten::add.Tensor"));
}
