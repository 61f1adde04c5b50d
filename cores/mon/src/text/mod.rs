//! How answers look: tables, amounts, JSON and XML, laid out as Ceph's clients and their users' scripts expect.

pub(crate) mod structured;
pub(crate) mod table;
pub(crate) mod units;

pub(crate) use structured::Format;
pub(crate) use table::{Align, Table};
