//! Capabilities.
