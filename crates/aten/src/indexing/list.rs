//! [`IndexList`]: what may stand between the brackets as a whole.

use super::item::IndexItem;

/// One item, a tuple of up to eight, or a slice or list of them.
pub trait IndexList {
    /// The items, first to last.
    fn into_items(self) -> Vec<IndexItem>;
}

impl<T: Into<IndexItem>> IndexList for T {
    fn into_items(self) -> Vec<IndexItem> {
        vec![self.into()]
    }
}

impl IndexList for &[IndexItem] {
    fn into_items(self) -> Vec<IndexItem> {
        self.to_vec()
    }
}

impl IndexList for Vec<IndexItem> {
    fn into_items(self) -> Vec<IndexItem> {
        self
    }
}

impl IndexList for () {
    fn into_items(self) -> Vec<IndexItem> {
        Vec::new()
    }
}

macro_rules! tuples {
    ($($($T:ident $t:ident),+;)*) => {$(
        impl<$($T: Into<IndexItem>),+> IndexList for ($($T,)+) {
            fn into_items(self) -> Vec<IndexItem> {
                let ($($t,)+) = self;
                vec![$($t.into()),+]
            }
        }
    )*};
}
tuples! {
    A a;
    A a, B b;
    A a, B b, C c;
    A a, B b, C c, D d;
    A a, B b, C c, D d, E e;
    A a, B b, C c, D d, E e, F f;
    A a, B b, C c, D d, E e, F f, G g;
    A a, B b, C c, D d, E e, F f, G g, H h;
}
