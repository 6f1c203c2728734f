//! [`Few`] and [`OneOrMany`]: lists that are mostly short, and then lie in their place.
//!
//! A node has three of them, and millions of nodes are made and ended: each step of these is an instruction or two where
//! the list is short. All that a slice can do they do by it.

#[cfg(test)]
mod tests;

use std::ops::{Deref, DerefMut};

/// A list of mostly no more than two members.
///
/// An empty one is a mark alone, so that it is made in its place and ends at once; what ends is what is there. The mark
/// has a place of its own, since it is also how many members there are.
#[derive(Clone, Debug, Default)]
#[repr(u8)]
pub(crate) enum Few<T> {
    #[default]
    None,
    One([T; 1]),
    Two([T; 2]),
    More(Vec<T>),
}

impl<T> Few<T> {
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) {
        match self {
            // There is nothing to end.
            Self::None => std::mem::forget(std::mem::replace(self, Self::One([value]))),
            _ => self.push_another(value),
        }
    }

    #[inline(never)]
    fn push_another(&mut self, value: T) {
        *self = match std::mem::take(self) {
            Self::None => Self::One([value]),
            Self::One([first]) => Self::Two([first, value]),
            Self::Two([first, second]) => Self::More(vec![first, second, value]),
            Self::More(mut members) => {
                members.push(value);
                Self::More(members)
            }
        };
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(members) => members,
            Self::Two(members) => members,
            Self::More(members) => members,
        }
    }
}

impl<T> DerefMut for Few<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::None => &mut [],
            Self::One(members) => members,
            Self::Two(members) => members,
            Self::More(members) => members,
        }
    }
}

impl<T> Extend<T> for Few<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, members: I) {
        members.into_iter().for_each(|member| self.push(member));
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Self {
        let mut list = Self::None;
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
