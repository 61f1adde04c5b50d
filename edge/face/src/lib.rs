//! What viewers see of a cluster: metrics for Prometheus, a page, and lists for a terminal.
//!
//! Everything here is a function of the picture that the leader made (`nacre picture`), and of what daemons of this host
//! tell; and, in `login`, of what people who come to the page show. There is no input or output here, and no figure that is not told: who gathers is `bin/nacre`, who serves is `httpd`.

#![forbid(unsafe_code)]

pub mod login;
pub mod metrics;
pub mod page;
pub mod text;
pub mod top;
mod values;
