//! Every size has one class, and classes are as close as they say.

use super::{CLASSES, SizeClass};

#[test]
fn classes_are_ordered_tight_and_fixed_points() {
    let mut sizes: Vec<usize> = (1..5000).collect();
    for bit in 12..isize::BITS - 1 {
        let power = 1_usize << bit;
        sizes.extend([power - 1, power, power + 1, power + power / 8, power + power / 8 + 1]);
    }
    sizes.push(isize::MAX as usize);
    let mut before = SizeClass { index: 0, capacity: 64 };
    for bytes in sizes {
        let class = SizeClass::of(bytes).unwrap();
        assert!(class.index < CLASSES, "{bytes}: {class:?}");
        assert!(class.capacity >= bytes && class.capacity.is_multiple_of(64), "{bytes}: {class:?}");
        assert!(bytes <= 512 || (class.capacity - bytes) < bytes / 8 + 1, "{bytes}: {class:?}");
        assert!(class.index >= before.index, "{bytes}");
        assert_eq!(class.index == before.index, class.capacity == before.capacity, "{bytes}");
        if class.capacity <= isize::MAX as usize {
            assert_eq!(SizeClass::of(class.capacity), Some(class));
        }
        before = class;
    }
    assert_eq!(SizeClass::of(isize::MAX as usize + 1), None);
    assert_eq!(SizeClass::of(usize::MAX), None);
}
