//! The layout of answers: tables, amounts, JSON and XML, as Ceph's clients and their users' scripts expect them.

pub(crate) mod structured;
pub(crate) mod table;
pub(crate) mod units;

pub(crate) use structured::Format;
pub(crate) use table::{Align, Table};
