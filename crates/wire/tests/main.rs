//! Headers against other implementations, and hostile packets.

#![forbid(unsafe_code)]

mod checksum;
mod etherparse;
mod fragment;
mod gtpu;
mod hostile;
mod icmp;
mod nd;
