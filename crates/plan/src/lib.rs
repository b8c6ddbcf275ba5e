//! Plans of clusters: how many servers, links and cables a router of ordinary servers needs, and what they cost.
//!
//! | module | what it holds |
//! |---|---|
//! | [`rate`] | rates and network cards, as texts such as `10G` and `2x10G` |
//! | [`router`] | the inputs of a plan, the plan, and why there is none |
//! | [`topology`] | full mesh and k-ary n-fly: servers, links, lanes, path lengths |
//! | [`figure3`] | the configurations of Figure 3 of the `RouteBricks` paper, and the cluster of switches it compares |
//! | [`flows`] | cores for a tracker of flows: the core formula of DHash |
//! | [`args`] | the command `scalebricks plan` |
//! | [`report`] | plans as text |
//!
//! Everything but [`args`] is a pure function of its inputs. The rules are those of `RouteBricks` (SOSP 2009, sections 3
//! and 3.3); `docs/router.md` explains where and why this planner departs from them.

#![forbid(unsafe_code)]

pub mod args;
pub mod figure3;
pub mod flows;
pub mod rate;
pub mod report;
pub mod router;
pub mod topology;
