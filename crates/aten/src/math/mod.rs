//! Functions of one element, written so that loops over them vectorise.
