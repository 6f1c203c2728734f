//! [`Few`] and [`OneOrMany`]: lists that are mostly short, and then lie in their place.
//!
//! A node has three of them, and millions of nodes are made and ended: each step of these is an instruction or two where
//! the list is short. All that a slice can do they do by it.

#[cfg(test)]
mod tests;

use std::ops::{Deref, DerefMut};

/// What may stand where there is no member. It is a constant, so that a list is made in its place: see Note [Made in
/// place].
pub(crate) trait Vacant {
    /// It holds nothing, and need not end.
    const VACANT: Self;
}

impl<T> Vacant for Option<T> {
    const VACANT: Self = None;
}

/// A list of mostly no more than `N` members.
#[derive(Clone, Debug)]
pub(crate) struct Few<T, const N: usize> {
    /// How many of `first` are members; [`MORE`] where all are in `more`.
    len: usize,
    first: [T; N],
    more: Vec<T>,
}

const MORE: usize = usize::MAX;

impl<T: Vacant, const N: usize> Few<T, N> {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self { len: 0, first: [const { T::VACANT }; N], more: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        match self.first.get_mut(self.len) {
            Some(place) => {
                // What was there is vacant.
                std::mem::forget(std::mem::replace(place, value));
                self.len += 1;
            }
            None => self.push_to_more(value),
        }
    }

    #[cold]
    fn push_to_more(&mut self, value: T) {
        if self.len != MORE {
            self.more.extend(self.first.iter_mut().map(|member| std::mem::replace(member, T::VACANT)));
            self.len = MORE;
        }
        self.more.push(value);
    }
}

impl<T: Vacant, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.first.get(..self.len).unwrap_or(&self.more)
    }
}

impl<T, const N: usize> DerefMut for Few<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.first.get_mut(..self.len).unwrap_or(&mut self.more)
    }
}

impl<T: Vacant, const N: usize> Extend<T> for Few<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, members: I) {
        members.into_iter().for_each(|member| self.push(member));
    }
}

impl<T: Vacant, const N: usize> FromIterator<T> for Few<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Self {
        let mut list = Self::new();
        list.extend(members);
        list
    }
}

/// A list of mostly one member.
#[derive(Clone, Debug)]
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Box<[T]>),
}

impl<T> Default for OneOrMany<T> {
    #[inline]
    fn default() -> Self {
        Self::Many(Box::default())
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl<T> FromIterator<T> for OneOrMany<T> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Self {
        match <[T; 1]>::try_from(Vec::from_iter(members)) {
            Ok([one]) => Self::One(one),
            Err(many) => Self::Many(many.into()),
        }
    }
}
