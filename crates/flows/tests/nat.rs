//! The NAT: behaviour clause by clause, against a slow twin, and after a restart.

mod behaviour;
mod hostile;
mod packets;
mod survival;
mod twin;
