//! [`Few`] and [`OneOrMany`]: lists that are mostly short, and then lie in their place.
//!
//! A node has three of them, and millions of nodes are made and ended: each step of these is an instruction or two where
//! the list is short. All that a slice can do they do by it.

#[cfg(test)]
mod tests;

use std::ops::{Deref, DerefMut};

/// A list of mostly no more than `N` members, the default of which holds nothing.
#[derive(Clone, Debug)]
pub(crate) struct Few<T, const N: usize> {
    /// How many of `first` are members; [`MORE`] where all are in `more`.
    len: usize,
    first: [T; N],
    more: Vec<T>,
}

const MORE: usize = usize::MAX;

impl<T: Default, const N: usize> Few<T, N> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { len: 0, first: std::array::from_fn(|_| T::default()), more: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        match self.first.get_mut(self.len) {
            Some(place) => {
                // What was there is nobody's member, and need not end.
                std::mem::forget(std::mem::replace(place, value));
                self.len += 1;
            }
            None => self.push_to_more(value),
        }
    }

    #[cold]
    fn push_to_more(&mut self, value: T) {
        if self.len != MORE {
            self.more.extend(self.first.iter_mut().map(std::mem::take));
            self.len = MORE;
        }
        self.more.push(value);
    }
}

impl<T: Default, const N: usize> Default for Few<T, N> {
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

impl<T: Default, const N: usize> Extend<T> for Few<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, members: I) {
        members.into_iter().for_each(|member| self.push(member));
    }
}

impl<T: Default, const N: usize> FromIterator<T> for Few<T, N> {
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
