//! What viewers see of a cluster: metrics for Prometheus.
//!
//! Everything here is a function of the picture that the leader made (`nacre picture`), and of what daemons of this host
//! tell. There is no input or output here, and no figure that is not told: who gathers is `bin/nacre`, who serves is `httpd`.

#![forbid(unsafe_code)]

pub mod metrics;
pub mod text;
