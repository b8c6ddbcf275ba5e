//! What is written for particular processors. Each kernel has a portable twin that it equals bit for bit.

pub(super) mod stream;
