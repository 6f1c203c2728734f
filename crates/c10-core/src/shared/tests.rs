use std::process::{Command, Stdio, exit};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, thread};

use super::{MOST, SOLE, STRONG, Shared, WeakShared};

/// Counts how many have ended.
struct Counted<'a>(&'a AtomicUsize, [u64; 20]);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_value_ends_with_the_last_strong_handle() {
    let ended = AtomicUsize::new(0);
    let one = Shared::new(|| Counted(&ended, [7; 20]));
    let weak = Shared::downgrade(&one);
    let other = one.clone();
    assert_eq!((Shared::strong_count(&one), Shared::weak_count(&one)), (2, 1));
    drop(one);
    assert_eq!(weak.upgrade().map(|value| value.1), Some([7; 20]));
    assert_eq!(ended.load(Ordering::Relaxed), 0);
    drop(other);
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    assert!(weak.upgrade().is_none() && weak.clone().upgrade().is_none());
    assert_eq!(weak.strong_count(), 0);
}

#[test]
fn only_the_sole_handle_lends_the_value() {
    let mut one = Shared::new(|| 1);
    assert_eq!(Shared::get_mut(&mut one).map(|value| std::mem::replace(value, 2)), Some(1));
    let weak = Shared::downgrade(&one);
    assert_eq!(Shared::get_mut(&mut one), None);
    drop(weak);
    let other = one.clone();
    assert_eq!(Shared::get_mut(&mut one), None);
    assert!(Shared::ptr_eq(&one, &other));
    drop(other);
    assert_eq!(Shared::get_mut(&mut one), Some(&mut 2));
}

#[test]
fn blocks_are_given_out_again() {
    let address = |value: &Shared<[u64; 9]>| std::ptr::from_ref(&**value).addr();
    let first = Shared::new(|| [1; 9]);
    let place = address(&first);
    drop(first);
    let second = Shared::new(|| [2; 9]);
    assert_eq!((address(&second), *second), (place, [2; 9]));
    // More than are kept, and too large a value to be kept.
    let many: Vec<_> = (0..1100).map(|i| Shared::new(|| [i; 9])).collect();
    assert!(many.iter().enumerate().all(|(i, value)| **value == [i as u64; 9]));
    drop(many);
    assert_eq!(*Shared::new(|| [3_u64; 100]), [3; 100]);
}

#[test]
fn a_value_may_hold_a_weak_handle_on_itself() {
    struct Knot(std::sync::Mutex<Option<WeakShared<Knot>>>);
    let knot = Shared::new(|| Knot(None.into()));
    *knot.0.lock().unwrap() = Some(Shared::downgrade(&knot));
    assert_eq!(Shared::weak_count(&knot), 1);
    drop(knot);
}

#[test]
fn threads_share_and_end_values() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 200;
    let (ended, upgraded) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for _ in 0..ROUNDS {
        let value = Shared::new(|| Counted(&ended, [1; 20]));
        let weak = Shared::downgrade(&value);
        let barrier = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let (mut own, weak, barrier, upgraded) = (value.clone(), weak.clone(), &barrier, &upgraded);
                scope.spawn(move || {
                    barrier.wait();
                    assert!(Shared::get_mut(&mut own).is_none());
                    drop(own);
                    upgraded.fetch_add(usize::from(weak.upgrade().is_some()), Ordering::Relaxed);
                    drop(weak);
                });
            }
            drop(value);
            drop(weak);
        });
    }
    assert_eq!(ended.load(Ordering::Relaxed), ROUNDS);
    assert!(upgraded.load(Ordering::Relaxed) <= ROUNDS * THREADS);
}

#[test]
fn a_handle_may_forget_the_type_of_its_value() {
    let ended = Box::leak(Box::new(AtomicUsize::new(0)));
    let one = Shared::new(|| Counted(ended, [7; 20]));
    let place = std::ptr::from_ref(&*one).addr();
    let (weak, any) = (Shared::downgrade(&one), one.into_any());
    assert!(any.downcast::<[u64; 20]>().is_none());
    assert_eq!(Shared::strong_count(&any), 1);
    let again = any.downcast::<Counted<'static>>().unwrap();
    assert_eq!((std::ptr::from_ref(&*again).addr(), again.1), (place, [7; 20]));
    drop(again);
    drop(any.clone());
    assert_eq!((ended.load(Ordering::Relaxed), weak.strong_count()), (0, 1));
    // The value ends with a handle that does not know its type, its block with the weak one.
    drop(any);
    assert_eq!((ended.load(Ordering::Relaxed), weak.upgrade().is_none()), (1, true));
    drop(weak);
    drop(Shared::new(|| Counted(ended, [8; 20])).into_any());
    assert_eq!(ended.load(Ordering::Relaxed), 2);
}

/// Two threads have counted a handle too many each, and a third one drops its own before they have ended the process.
#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn too_many_handles_are_not_taken_for_none() {
    const NAME: &str = "shared::tests::too_many_handles_are_not_taken_for_none";
    const IS_CHILD: &str = "C10_CORE_TOO_MANY_HANDLES";
    if env::var_os(IS_CHILD).is_some() {
        let one = Shared::new(|| 1);
        one.counts().store(SOLE + (MOST + 2) * STRONG, Ordering::Relaxed);
        drop(one);
        exit(0);
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args([NAME, "--exact"]).env(IS_CHILD, "").stdout(Stdio::null()).stderr(Stdio::null());
    assert!(!child.status().unwrap().success(), "the process goes on");
}
