//! Code that the tests of several tables share.

pub(crate) mod readers;
