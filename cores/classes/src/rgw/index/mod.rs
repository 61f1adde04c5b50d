//! The index of a bucket: which keys and versions it has, in the omap of one object for each shard.
//!
//! | key in the omap | value | what it is |
//! |---|---|---|
//! | name of the object | [`DirEntry`] | an object of a bucket without versions; or a mark that its versions are elsewhere |
//! | name, 0 `v`, epoch written so that later ones sort first, 0 `i`, instance | [`DirEntry`] | a version, where a listing finds it |
//! | 0x80 `0_`, id | [`LogEntry`] | log of changes, for other zones |
//! | 0x80 `1000_`, name, 0 `i`, instance | [`DirEntry`] | the same version, where an operation finds it |
//! | 0x80 `1000_`, name, 0 `i`, 0 `d` | [`DirEntry`] | a delete marker without an instance: the object without one may be there, too |
//! | 0x80 `1001_`, name | [`OlhEntry`] | head of a key with versions |
//!
//! No UTF-8 text begins with 0x80, so names stand before and behind those sections. The omap's header has the sums
//! over all entries; `Shard` (in `header.rs`) is its only owner.
//!
//! A method reads the state before the call, so what it writes it does not see. Errors and their order are those of
//! Ceph 16.2.15; `tools/conformance/foreign/rgw_index.py` compares both, and its recording is a test.
//!
//! Three faults of Ceph 16 are not repeated. An operation that is cancelled, or older than what is known, leaves the
//! version that its entry tells of: Ceph sets it, and so forgets what is newer. Packed numbers are written so that
//! 65,536 reads as itself. And a raw listing that is to go on behind a name behind the sections goes on there: Ceph
//! begins with the versions again.

mod entries;
mod header;
mod keys;
mod list;
mod log;
mod object;
mod olh;
mod parts;
mod raw;
mod reshard;
mod suggest;
#[cfg(test)]
mod tests;
mod transaction;
mod versions;

use crate::{Method, RD, WR};

#[cfg(doc)]
use messages::class::rgw::index::{DirEntry, LogEntry, OlhEntry};

pub(crate) const METHODS: &[Method] = &[
    Method { name: "bucket_init_index", flags: RD | WR, run: header::init_index },
    Method { name: "bucket_set_tag_timeout", flags: RD | WR, run: header::set_tag_timeout },
    Method { name: "bucket_update_stats", flags: RD | WR, run: header::update_stats },
    Method { name: "bucket_list", flags: RD, run: list::list },
    Method { name: "bucket_check_index", flags: RD, run: raw::check_index },
    Method { name: "bucket_rebuild_index", flags: RD | WR, run: raw::rebuild_index },
    Method { name: "bucket_prepare_op", flags: RD | WR, run: transaction::prepare },
    Method { name: "bucket_complete_op", flags: RD | WR, run: transaction::complete },
    Method { name: "bucket_link_olh", flags: RD | WR, run: versions::link },
    Method { name: "bucket_unlink_instance", flags: RD | WR, run: versions::unlink },
    Method { name: "bucket_read_olh_log", flags: RD, run: olh::read_log },
    Method { name: "bucket_trim_olh_log", flags: RD | WR, run: olh::trim_log },
    Method { name: "bucket_clear_olh", flags: RD | WR, run: olh::clear },
    Method { name: "dir_suggest_changes", flags: RD | WR, run: suggest::suggest_changes },
    Method { name: "obj_remove", flags: RD | WR, run: object::remove },
    Method { name: "obj_store_pg_ver", flags: WR, run: object::store_pg_ver },
    Method { name: "obj_check_attrs_prefix", flags: RD, run: object::check_attrs_prefix },
    Method { name: "obj_check_mtime", flags: RD, run: object::check_mtime },
    Method { name: "bi_get", flags: RD, run: raw::get },
    Method { name: "bi_put", flags: RD | WR, run: raw::put },
    Method { name: "bi_list", flags: RD, run: raw::list },
    Method { name: "bi_log_list", flags: RD, run: log::list },
    Method { name: "bi_log_trim", flags: RD | WR, run: log::trim },
    Method { name: "bi_log_resync", flags: RD | WR, run: log::resync },
    Method { name: "bi_log_stop", flags: RD | WR, run: log::stop },
    Method { name: "set_bucket_resharding", flags: RD | WR, run: reshard::set },
    Method { name: "clear_bucket_resharding", flags: RD | WR, run: reshard::clear },
    Method { name: "guard_bucket_resharding", flags: RD, run: reshard::guard },
    Method { name: "get_bucket_resharding", flags: RD, run: reshard::get },
    Method { name: "mp_upload_part_info_update", flags: RD | WR, run: parts::update },
];
