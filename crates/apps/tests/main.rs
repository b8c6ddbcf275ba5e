//! Gateway, switch and router, used as programs use them.

#![forbid(unsafe_code)]

mod check;
mod control_socket;
mod directory;
mod examples;
mod flows;
mod gateway;
mod hostile;
mod ipsec;
mod live;
mod nat;
mod route_server;
mod router;
mod switch;
mod tunnel_server;
mod vlb;
